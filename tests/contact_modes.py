"""Contact problems judged without any solver of jaxns, for tests and benchmarks: residuals, and planar ones by modes."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import linprog

OPEN, STICK, SLIP_FORWARD, SLIP_BACK = range(4)


def natural_residual(G, c, mu, d, P):
    """The largest natural residual of 0 ≤ ξ_N ⊥ P_N ≥ 0 and Coulomb's law, as a velocity, relative to the largest in c."""
    n = len(mu)
    xi = G @ P + c
    diagonal = np.diag(G)
    r_N = 1.0 / np.where(diagonal[:n] > 0.0, diagonal[:n], 1.0)
    residual = [(P[:n] - np.maximum(P[:n] - r_N * xi[:n], 0.0)) / r_N]
    if d:
        largest = diagonal[n:].reshape(n, d).max(axis=1)
        r_F = 1.0 / np.where(largest > 0.0, largest, 1.0)[:, None]
        P_F, xi_F = P[n:].reshape(n, d), xi[n:].reshape(n, d)
        wish = P_F - r_F * xi_F
        length = np.linalg.norm(wish, axis=1, keepdims=True)
        radius = mu[:, None] * np.maximum(P[:n, None], 0.0)
        factor = np.where(length > radius, radius / np.where(length > 0.0, length, 1.0), 1.0)
        residual.append(((P_F - factor * wish) / r_F).ravel())
    size = np.max(np.abs(c))
    return np.max(np.abs(np.concatenate(residual))) / (size if size > 0.0 else 1.0)


def planar_solution(G, c, mu, frictional=None):
    """Percussions (2n,) of a planar problem with friction (rows: n normals, n friction), or None where there are none.

    Each contact is open, sticks, or slips one way or the other. In each of the 4ⁿ combinations the laws are linear
    equations and inequalities: one linear program. So the answer is complete, up to
    the accuracy of linear programs (1e-7 or so). Contacts that are not `frictional`, by default all are, do not slip.
    """
    n = len(mu)
    size = np.max(np.abs(c))
    if size == 0.0:
        return np.zeros(2 * n)
    root = 1.0 / np.sqrt(np.where(np.diag(G) > 0.0, np.diag(G), 1.0))
    scaled, constant = root[:, None] * G * root, root * c
    scale = np.max(np.abs(constant))
    friction = mu * root[:n] / root[n:]
    slips = np.ones(n, bool) if frictional is None else frictional
    for modes in product(*(range(4 if slip else 2) for slip in slips)):
        P = _in_modes(scaled, constant / scale, friction, modes)
        if P is not None:
            return root * P * scale
    return None


def _in_modes(G, c, mu, modes):
    """Rows of A_ub P ≤ b_ub and A_eq P = b_eq in one combination of modes."""
    n = len(modes)
    unit = np.eye(2 * n)
    upper, bound, equal, value = [], [], [], []
    for k, mode in enumerate(modes):
        N, F = k, n + k
        if mode == OPEN:
            equal += [unit[N], unit[F]]
            value += [0.0, 0.0]
            upper.append(-G[N])
            bound.append(c[N])
            continue
        upper.append(-unit[N])
        bound.append(0.0)
        equal.append(G[N])
        value.append(-c[N])
        if mode == STICK:
            equal.append(G[F])
            value.append(-c[F])
            upper += [unit[F] - mu[k] * unit[N], -unit[F] - mu[k] * unit[N]]
            bound += [0.0, 0.0]
        else:
            sign = 1.0 if mode == SLIP_FORWARD else -1.0
            equal.append(unit[F] + sign * mu[k] * unit[N])
            value.append(0.0)
            upper.append(-sign * G[F])
            bound.append(sign * c[F])
    result = linprog(
        np.zeros(2 * n), np.array(upper), bound, np.array(equal), value, bounds=(None, None), method="highs"
    )
    return result.x if result.status == 0 else None
