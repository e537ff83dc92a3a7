"""Least squares with an arrow-shaped normal matrix: shared parameters s, and own ones o_i of each record i.

    Σ_i |r_i + J_o,i δo_i + J_s,i δs|² + Σ_i λ_i |D_o,i (δo_i + T_i δs)|² + λ |D_s δs|²  →  min,  T_i = J_o,i⁺ J_s,i

−T δs is how own parameters follow shared ones, so that the prediction changes least. Only what they move beyond it is
damped: own parameters that damping stops from following would hold the shared ones, too, with all of J_s. D_o are the
lengths of the columns of J_o, and D_s those of J̃ = J_s − J_o T, what is left of J_s: own parameters absorb most of it, and
damping in its whole length would stop all steps along the valley that remains. As J_oᵀJ̃ = 0, the problem falls apart: δs
is that of J̃ alone, and what own parameters move beyond following is what they would move if δs were zero.

Each record is squeezed into the triangle R of (J_o, J_s, r) = QR, which knows all of its squares, and one more QR
eliminates δo_i. What is left of all records is one small problem in δs: linear cost in the number of records, and no JᵀJ,
whose condition is that of J squared. Numpy's LAPACK on the host; nothing of it is compiled by XLA.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
FOLLOW = 1e-10  # damping of δo where own parameters follow, so that directions that no sample sees stay


class Step(NamedTuple):
    shared: Floats  # δs (m,)
    follow: Floats  # −T δs (N, k)
    own: Floats  # δo (N, k)
    predicted: Floats  # (N,) the squares that the linear model promises


def triangles(J: Floats, r: Floats) -> Floats:
    """R (N, p, p) of (J_o, J_s, r) with p = k + m + 1, from J (N, n, k + m) and r (N, n).

    >>> J, r = np.array([[[1.0], [1.0]]]), np.array([[1.0, 3.0]])
    >>> R = triangles(J, r)
    >>> bool(np.allclose(R[0].T @ R[0], [[2.0, 4.0], [4.0, 10.0]]))
    True
    """
    whole = np.concatenate([J, r[..., None]], axis=2)
    missing = whole.shape[2] - whole.shape[1]
    if missing > 0:
        whole = np.pad(whole, ((0, 0), (0, missing), (0, 0)))
    return np.asarray(np.linalg.qr(whole, mode="r"))


def sizes(columns: Floats) -> Floats:
    """Marquardt's scales: lengths of the columns of (…, n, k), with a floor where one vanishes."""
    length = np.linalg.norm(columns, axis=-2)
    floor = 1e-8 * np.max(length, axis=0 if length.ndim > 1 else None, initial=0.0)
    return np.asarray(np.maximum(length, floor + float(np.finfo(columns.dtype).tiny) ** 0.5))


def eliminate_own(R: Floats, k: int, damping: Floats) -> tuple[Floats, Floats]:
    """The rows that give δo from δs (N, k, p), and the squares that are left for δs (N, m + 1, m + 1)."""
    p = R.shape[2]
    extra = np.zeros((len(R), k, p))
    extra[:, np.arange(k), np.arange(k)] = np.sqrt(damping)[:, None] * sizes(R[:, :, :k])
    damped = np.asarray(np.linalg.qr(np.concatenate([R, extra], axis=1), mode="r"))
    return damped[:, :k], damped[:, k:, k:]


def step(R: Floats, k: int, damping_own: Floats, damping: float, free: bool = True) -> Step:
    """The damped step; with `free` False shared parameters stay."""
    m = R.shape[2] - k - 1
    rows, rest = eliminate_own(R, k, np.full(len(R), FOLLOW))
    shared = np.zeros(m)
    if free and m:
        squeezed = np.asarray(np.linalg.qr(rest.reshape(-1, m + 1), mode="r"))
        D = sizes(squeezed[:, :m])
        A = np.concatenate([squeezed[:, :m], np.sqrt(damping) * np.diag(D)])
        b = np.concatenate([squeezed[:, m], np.zeros(m)])
        shared = -np.linalg.lstsq(A / D, b, rcond=None)[0] / D
    follow = _own_from(rows, k, rows[:, :, k:-1] @ shared)
    damped, _ = eliminate_own(R, k, damping_own)
    own = follow + _own_from(damped, k, damped[:, :, -1])
    whole = np.concatenate([own, np.broadcast_to(shared, (len(R), m)), np.ones((len(R), 1))], axis=1)
    return Step(shared, follow, own, np.sum(np.einsum("nij,nj->ni", R, whole) ** 2, axis=1))


def _own_from(rows: Floats, k: int, right: Floats) -> Floats:
    """δo (N, k) from the rows of `eliminate_own` and what stands beside them (N, k)."""
    return -np.linalg.solve(rows[:, :, :k], right[..., None])[..., 0] if k else np.zeros((len(rows), 0))


def marginal(J_own: Floats, J_shared: Floats, curvature: Floats) -> Floats:
    """J_s − J_o T (N, n, m): what is left of J_s where own parameters follow, in the metric of `curvature` (N, n)."""
    if not J_own.shape[2]:
        return J_shared
    root = np.sqrt(curvature)[..., None]
    length = np.linalg.norm(root * J_own, axis=1, keepdims=True)
    length = np.where(length > 0.0, length, 1.0)
    T = np.linalg.pinv(root * J_own / length, rcond=1e-10) @ (root * J_shared)
    return J_shared - (J_own / length) @ T
