"""The linearised inclusion: one step of Newton's method on the equations, with the contacts solved by sweeps or pivots."""

from __future__ import annotations

from typing import Any, Protocol

import jax.numpy as jnp
from jax import Array

from . import dense, pivoting, projected


class Laws(projected.Laws, Protocol):
    """Force laws as equations in scaled variables; arrays are (rows, *lanes)."""

    def scale_mu(self, mu: Array, r: Array) -> Array: ...


def contact_step(
    laws: Laws, K: Array, x: Array, F: Array, y: Array, scaling: Any, method: str, max_sweeps: int
) -> tuple[Array, Array]:
    """The step to the solution of the linearised inclusion, by sweeps or pivots, and their number.

    The smooth unknowns and the bilateral percussions (b) are eliminated, so that only contact rows (c) iterate.
    """
    s = scaling
    n_b = laws.n_bilateral
    b = x.shape[0] - y.shape[0] + n_b
    head = jnp.concatenate([F[: b - n_b], y[:n_b]])
    reduced = dense.solve_lanes(K[:b, :b], jnp.concatenate([K[:b, b:], head[:, None]], axis=1))
    condensed = dense.matmul_lanes(K[b:, :b], reduced)
    contacts = projected.Contacts(
        G=K[b:, b:] - condensed[:, :-1],
        y=y[n_b:] - condensed[:, -1],
        P=x[b:],
        mu=laws.scale_mu(s.mu, s.r),
        closed=s.closed,
        unit=(s.unit_y / jnp.sqrt(s.r))[n_b:],
        tol=0.5 * s.tol,  # room for what the linearisation leaves
    )
    if contacts.y.shape[0] == 0:
        P, sweeps = contacts.P, jnp.ones(s.tol.shape, int)
    elif method == "lemke":
        P, sweeps = pivoting.solve(laws, contacts)
    else:
        P, sweeps = projected.solve(laws, contacts, method, max_sweeps)
    dP = P - contacts.P
    return jnp.concatenate([-reduced[:, -1] - dense.matmul_lanes(reduced[:, :-1], dP[:, None])[:, 0], dP]), sweeps
