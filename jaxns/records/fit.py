"""What `identify_records` returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ..analysis.fit_card import card_of_records_fit
from .data import Samples
from .uncertainty import Column, quantile

Floats = NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Records of one part of a split, fitted or left out. Arrays are on the host, with a leading axis of these records."""

    index: NDArray[Any]  # their numbers in the records given
    own: Any  # pytree of own parameters
    prediction: Any  # like the records, without inputs
    residuals: Any  # as the residual function returns them; NaN where there is no sample
    weights: Floats  # (N, n) of the residuals
    flat_residuals: Floats  # (N, n)
    failed: NDArray[np.bool_]  # (N,) no finite prediction
    judged: NDArray[np.bool_]  # (N, n) samples that errors count: of records left out, those that are predicted

    @property
    def rms(self) -> Floats:
        """Weighted root mean square of the residuals of each record (N,); NaN where it failed."""
        w = np.where(self.judged, self.weights, 0.0)
        square = np.sum(w * np.nan_to_num(self.flat_residuals) ** 2, axis=1) / np.maximum(np.sum(w, axis=1), 1e-300)
        return np.where(self.failed, np.nan, np.sqrt(square))


@dataclass(frozen=True, repr=False)
class RecordsFit:
    """What `identify_records` returns; str(fit) is a short report, fit.report("fit.html") a long one.

    `covariance` is that of the shared parameters, in the order of `names`, with the own ones marginalised: the sandwich, if
    there are at least ten records, else the plain one. Both are there.

    >>> from jaxns.records.identify import identify_records
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal((12, 5))
    >>> fit = identify_records(lambda s, o, r: s["a"] * np.arange(5.0), 2.0 * np.arange(5.0) + noise, shared={"a": 1.0})
    >>> low, high = fit.intervals()["a"]
    >>> bool(low < 2.0 < high), fit.covariance.shape, fit.ok
    (True, (1, 1), True)
    """

    shared: Any  # pytree like the guess
    own: Any  # pytree like the guess, with a leading axis of all N records; those of records left out, too
    covariance: Floats  # (m, m)
    covariance_plain: Floats
    covariance_sandwich: Floats
    standard_errors: Any  # pytree like shared
    names: tuple[str, ...]
    bounds: tuple[Floats, Floats]  # (m,) each
    loss: float  # weighted mean loss of the samples
    loss_name: str
    scale: float  # σ of a robust loss, in the unit of the weighted residuals
    history: Floats  # (K,) losses
    converged: bool
    train: Part
    test: Part | None
    columns: tuple[Column, ...]  # what is left of each column
    doubts: tuple[str, ...]  # what the residuals say against the model
    deviations: Floats  # (N, m) how far the shared parameters move without a record, in standard errors
    left: Floats  # (m,) Newton's step that the descent has left undone, in standard errors
    samples: Samples
    records: Any

    @property
    def ok(self) -> bool:
        """Whether the descent stopped by itself and most records could be predicted."""
        return self.converged and float(np.mean(self.train.failed)) <= 0.5

    @property
    def failed(self) -> NDArray[Any]:
        """Numbers of the records that could not be predicted."""
        parts = [self.train] if self.test is None else [self.train, self.test]
        return np.sort(np.concatenate([part.index[part.failed] for part in parts]))

    @property
    def correlation(self) -> Floats:
        """Of the shared parameters (m, m); zero where a standard error is not finite."""
        s = np.sqrt(np.diag(self.covariance))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.nan_to_num(self.covariance / s[:, None] / s, posinf=0.0, neginf=0.0)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Confidence intervals of the shared parameters by name, from `covariance` and Student's distribution."""
        records = int(np.sum(~self.train.failed))
        sandwich = self.covariance is self.covariance_sandwich
        spare = records - len(self.names) if sandwich else int(self.samples.exists.sum())
        reach = quantile(level, spare) * np.sqrt(np.diag(self.covariance))
        values = self.values
        return {n: (float(v - d), float(v + d)) for n, v, d in zip(self.names, values, reach, strict=True)}

    @property
    def values(self) -> Floats:
        """The shared parameters in the order of `names` (m,)."""
        leaves = jax.tree.leaves(self.shared)
        return np.concatenate([np.ravel(leaf) for leaf in leaves]) if leaves else np.zeros(0)

    def report(self, path: str | Path, *, draw: Any = None, title: str = "Identification from records") -> Path:
        """Write one HTML page that needs no network; `draw(shared, own, row) -> ns.Scene` animates records.

        It holds the parameters with intervals, their correlation, what the residuals say, measured against predicted
        columns of the best, median and worst records, and failures by number.
        """
        from .report import page

        target = Path(path)
        target.write_text(page(self, title, draw), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return card_of_records_fit(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        width = max((len(name) for name in self.names), default=0)
        errors = np.sqrt(np.diag(self.covariance))
        lines = [f"{n:{width}s} {v: .6g} ± {e:.2g}" for n, v, e in zip(self.names, self.values, errors, strict=True)]
        state = "converged" if self.converged else "not converged"
        counts = f"{len(self.train.index)} records, {len(self.history)} iterations"
        tail = f"{self.loss_name} loss {self.loss:.4g}, {counts}, {state}"
        if len(self.failed):
            tail += f"; {len(self.failed)} records failed: {', '.join(map(str, self.failed[:5]))}"
        if self.test is not None:
            tail += (
                f"; rms {np.nanmedian(self.train.rms):.3g} fitted, {np.nanmedian(self.test.rms):.3g} left out (medians)"
            )
        return "\n".join([*lines, tail, *(f"doubt: {text}." for text in self.doubts)])
