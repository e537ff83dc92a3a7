"""Losses ρ(u) of residuals u in units of their scale, with ψ = ρ'/2 and ψ'; all equal u² for small u."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
LossName = Literal["l2", "huber", "cauchy"]
THRESHOLD = {"l2": np.inf, "huber": 1.345, "cauchy": 2.385}  # 95 % efficiency for normal errors


class Loss(NamedTuple):
    """A loss and its scale σ.

    >>> Loss("huber", 1.0).weight(np.array([0.5, 2.69])).tolist()
    [1.0, 0.5]
    """

    name: LossName
    scale: float = 1.0

    @property
    def threshold(self) -> float:
        return THRESHOLD[self.name] * self.scale

    def rho(self, r: Floats) -> Floats:
        """The loss, in the unit of r²."""
        c = self.threshold
        if self.name == "huber":
            return np.where(np.abs(r) <= c, r * r, 2.0 * c * np.abs(r) - c * c)
        if self.name == "cauchy":
            return c * c * np.log1p((r / c) ** 2)
        return r * r

    def weight(self, r: Floats) -> Floats:
        """ψ(r)/r: the weights of the least squares problem that has the same gradient."""
        c = self.threshold
        if self.name == "huber":
            return c / np.maximum(np.abs(r), c)
        if self.name == "cauchy":
            return 1.0 / (1.0 + (r / c) ** 2)
        return np.ones_like(r)

    def curvature(self, r: Floats) -> Floats:
        """ψ'(r), where it is positive."""
        c = self.threshold
        if self.name == "huber":
            return np.where(np.abs(r) <= c, 1.0, 0.0)
        if self.name == "cauchy":
            square = (r / c) ** 2
            return np.maximum((1.0 - square) / (1.0 + square) ** 2, 0.0)
        return np.ones_like(r)


def scale_of(r: Floats, parameters: int) -> float:
    """The scale σ of residuals, of which some are outliers: from the median of |r|, for normal errors.

    - parameters: how many were fitted to these residuals, which makes them smaller

    >>> round(scale_of(np.random.default_rng(0).standard_normal(10000), 0), 2)
    1.0
    """
    if not r.size:
        return 1.0
    spare = max(r.size - parameters, 0.1 * r.size)
    median = 1.4826 * float(np.median(np.abs(r))) * float(np.sqrt(r.size / spare))
    return max(median, 1e-12 * float(np.max(np.abs(r))), float(np.finfo(float).tiny) ** 0.25)
