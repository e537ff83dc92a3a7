"""How sure a fit of many records is: covariances of shared parameters with own ones marginalised, and checks of residuals.

With J̃ = J_s − J_o T what is left of the shared columns where own parameters follow, curvatures h = w ρ''/2 and scores
s_i = J̃ᵢᵀψᵢ of each record,

    plain:     σ² B⁻¹,  B = Σ_i J̃ᵢᵀ h J̃ᵢ                     samples are independent, the model is right
    sandwich:  (N−1)/N Σ_i δᵢ δᵢᵀ,  δᵢ = (B − Bᵢ)⁻¹ sᵢ         records are independent, whatever happens within them

The second is the linearised jackknife (CR3 of the literature on clustered errors): leave out a record and see how far the
fit moves.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import arrow
from .data import Samples
from .descent import State

Floats = NDArray[Any]
UNSEEN = 1e-12  # eigenvalues of the scaled B below this fraction of the largest count as zero
FEW = 10  # records from which on the sandwich is what is stated


class Covariances(NamedTuple):
    """In z of the shared parameters; infinite where the data do not determine them."""

    plain: Floats  # (m, m)
    sandwich: Floats  # (m, m)
    unseen: Floats  # (u, m) directions that no record sees, in units of the columns' lengths
    deviations: Floats  # (N, m) how far the fit moves when a record is left out
    left: Floats  # (m,) Newton's step that the descent has left undone


def covariances(state: State) -> Covariances:
    """From residuals and Jacobian at the solution."""
    k, m = state.own.shape[1], state.shared.size
    fine = ~state.failed
    w, r = state.weights[fine], state.residuals[fine]
    J = np.where(w[..., None] > 0.0, state.values.J[fine], 0.0) * np.sqrt(w)[..., None]
    counts = w > 0.0
    h = np.where(counts, state.loss_of.curvature(r), 0.0)
    psi = state.loss_of.weight(r) * r
    left = arrow.marginal(J[..., :k], J[..., k:], h)
    B_i = np.einsum("nam,na,nab->nmb", left, h, left)
    B = B_i.sum(axis=0)
    scale = np.sqrt(np.where(np.diag(B) > 0.0, np.diag(B), 1.0))
    inverse, unseen = _inverse(B / scale[:, None] / scale)
    inverse = inverse / scale[:, None] / scale
    spare = int(counts.sum()) - k * int(fine.sum()) - m
    share = float(h.sum()) / max(int(counts.sum()), 1)  # mean ψ'
    variance = float(np.sum(psi**2)) / spare / share if spare > 0 else np.inf
    N = int(fine.sum())
    scores = np.einsum("nam,na->nm", left, psi)
    deviations = np.zeros((len(fine), m))
    with np.errstate(invalid="ignore"):
        plain = variance * inverse if np.isfinite(variance) else np.full((m, m), np.inf)
        step = -inverse @ scores.sum(axis=0)
    sandwich = np.full((m, m), np.inf)
    if m < N and spare > 0:
        moved = np.stack([_solve(B - B_i[i], scores[i], scale) for i in range(N)])
        deviations[fine] = moved
        moved = moved - moved.mean(axis=0)
        sandwich = (N - 1) / N * moved.T @ moved
    return Covariances(plain, sandwich, unseen, deviations, step)


def _inverse(B: Floats) -> tuple[Floats, Floats]:
    """B⁻¹ with unseen directions left out, and these."""
    if not np.all(np.isfinite(B)) or not B.size:
        return np.full_like(B, np.inf), np.zeros((0, len(B)))
    values, vectors = np.linalg.eigh(B)
    seen = values > UNSEEN * max(values[-1], 1e-300)
    return (vectors[:, seen] / values[seen]) @ vectors[:, seen].T, vectors[:, ~seen].T


def _solve(B: Floats, b: Floats, scale: Floats) -> Floats:
    return _inverse(B / scale[:, None] / scale)[0] @ (b / scale) / scale


def quantile(level: float, freedom: float) -> float:
    """Two-sided quantile of Student's distribution, by Cornish and Fisher's expansion.

    >>> round(quantile(0.95, 10.0), 2), round(quantile(0.95, 1e9), 2)
    (2.23, 1.96)
    """
    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    n = max(freedom, 1.0)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / n + second / n**2 + third / n**3


class Column(NamedTuple):
    """One column of the records: what is left of it, and what neighbouring rows say about its noise."""

    name: str
    rms: float  # of the residuals
    typical: float  # 1.4826 times the median of |r|
    noise: float  # from third differences along the rows; NaN if there are too few
    correlation: float  # of neighbouring residuals
    rows: int  # pairs of neighbours


def columns_of(samples: Samples, residuals: Floats) -> list[Column]:
    """Each column of the residuals (N, n), in the unit of the data."""
    found = []
    for number, name in enumerate(samples.columns):
        mine = np.flatnonzero(samples.column == number)
        mine = mine[np.argsort(samples.row[mine])]
        r = np.where(samples.exists[:, mine], residuals[:, mine], np.nan)
        if not np.any(np.isfinite(r)):
            continue
        third = np.diff(r, n=3, axis=1)
        noise = math.nan
        if np.isfinite(third).sum() > 20:  # errors of a model are smooth but at impacts, which a median does not see
            noise = 1.4826 * float(np.nanmedian(np.abs(third))) / math.sqrt(20.0)
        a, b = r[:, :-1], r[:, 1:]
        pairs = np.isfinite(a) & np.isfinite(b)
        # Clipped, so that a few huge residuals do not decide.
        typical = 1.4826 * float(np.nanmedian(np.abs(r))) or float(np.sqrt(np.nanmean(r**2)))
        x, y = (np.clip(side[pairs], -3.0 * typical, 3.0 * typical) for side in (a, b))
        size = math.sqrt(float(x @ x) * float(y @ y))
        correlation = float(x @ y) / size if size > 0.0 else 0.0
        found.append(Column(name, float(np.sqrt(np.nanmean(r**2))), typical, noise, correlation, int(pairs.sum())))
    return found


def doubts(columns: list[Column]) -> list[str]:
    """What the residuals say against the model, in words."""
    texts = []
    coloured = [c for c in columns if c.correlation > 0.3 and c.correlation * math.sqrt(c.rows) > 5.0]
    if coloured:
        named = ", ".join(f"{c.name} ({c.correlation:.2f})" for c in coloured)
        texts.append(
            f"residuals are far from white: neighbouring rows correlate in {named}. Rows are not independent samples; the "
            "plain covariance is too small, the sandwich takes records as independent instead"
        )
    missed = [c for c in columns if c.noise > 0.0 and c.typical > 3.0 * c.noise and c in coloured]
    if missed:
        named = ", ".join(f"{c.name}: {c.typical:.3g} where neighbours scatter by {c.noise:.3g}" for c in missed)
        texts.append(
            f"the model misses the records by more than their noise ({named}). Parameters are those that serve this model "
            "best, and intervals do not contain the error of the model"
        )
    return texts
