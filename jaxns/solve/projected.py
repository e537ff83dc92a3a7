"""Projected iterations for linear inclusions: Jacobi, recovered Jacobi, and Gauss–Seidel sweeps.

For contact rows y = y₀ + G (P − P₀) with y_i ∈ N_{C_i}(−P_i), each sweep projects every contact once,

    P_i ← −prox_{C_i}(ρ_i y_i − P_i),

with y from the beginning of the sweep (Jacobi; Möller 2011, eq. 2.45), or with the contacts already done (Gauss–Seidel;
2.67). Steps are ρ_i = 1/Σ_j |G_ij|, or the thesis's α/max_k G_kk over the rows of C_i (2.63, 2.68) if an α is given; where
no projection acts, a recovered method takes steps with the G_kk of each row (2.62). All arrays are (rows, *lanes). The
stopping rule is the natural residual, never the size of an increment.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array, lax

from . import dense
from .lanes import largest

METHODS = ("projected_jacobi", "recovered_jacobi", "projected_gauss_seidel", "recovered_gauss_seidel")


class Laws(Protocol):
    """What a sweep must know of the laws: rows are [bilateral, normals, friction]."""

    @property
    def n_bilateral(self) -> int: ...
    @property
    def n_N(self) -> int: ...
    def blocks(self) -> list[tuple[slice, slice, int, Any]]: ...
    def residual(self, y: Array, P: Array, mu: Array, closed: Array) -> Array: ...


class Contacts(NamedTuple):
    """A linear inclusion of contact rows, in scaled variables."""

    G: Array  # (n, n, *lanes)
    y: Array  # (n, *lanes) at P
    P: Array  # (n, *lanes)
    mu: Array  # (n_F, *lanes)
    closed: Array  # (n_N, *lanes)
    unit: Array  # (n, *lanes) factors that turn residuals into the units of the tolerance
    tol: Array  # (*lanes)


class _Sweep(NamedTuple):
    P: Array
    error: Array  # (*lanes) natural residual over the tolerance
    sweeps: Array  # (*lanes)


def solve(
    laws: Laws, contacts: Contacts, method: str, max_sweeps: int, alpha: float | None = None
) -> tuple[Array, Array]:
    """Percussions P (n, *lanes) after the sweeps, and how many each lane took."""
    c = contacts

    def rows(P: Array) -> Array:
        return c.y + dense.matmul_lanes(c.G, (P - c.P)[:, None])[:, 0]

    def law(y: Array, P: Array) -> Array:
        """P + prox(y − P) of the contact rows."""
        zeros = jnp.zeros((laws.n_bilateral, *y.shape[1:]), y.dtype)
        full = laws.residual(jnp.concatenate([zeros, y]), jnp.concatenate([zeros, P]), c.mu, c.closed)
        return full[laws.n_bilateral :]

    def error(P: Array) -> Array:
        return largest(law(rows(P), P) * c.unit) / c.tol

    own = _steps(c.G, alpha)
    shared = _over_contact(laws, own, jnp.min)  # its set keeps its shape

    def jacobi(P: Array) -> Array:
        y = rows(P)
        change = law(shared * y, P)
        if recovered:
            free = _over_contact(laws, _unprojected(change, shared * y, P), jnp.all)
            change = jnp.where(free, own * y, change)
        return P - change

    def gauss_seidel(P: Array) -> Array:
        return _gauss_seidel(laws, c, P, recovered, alpha)

    recovered = method.startswith("recovered")
    sweep = gauss_seidel if method.endswith("gauss_seidel") else jacobi

    def body(s: _Sweep) -> _Sweep:
        on = (s.error > 1.0) & (s.sweeps < max_sweeps)
        P = jnp.where(on, sweep(s.P), s.P)
        return _Sweep(P, error(P), s.sweeps + on)

    start = _Sweep(c.P, error(c.P), jnp.zeros(c.tol.shape, int))
    end = lax.while_loop(lambda s: jnp.any((s.error > 1.0) & (s.sweeps < max_sweeps)), body, start)
    return end.P, end.sweeps


def _steps(G: Array, alpha: float | None) -> Array:
    """The step ρ of each row of G (n, n, *lanes)."""
    size = jnp.sum(jnp.abs(G), axis=1) if alpha is None else jnp.moveaxis(jnp.diagonal(G), -1, 0) / alpha
    return 1.0 / jnp.where(size > 0.0, size, 1.0)


def _gauss_seidel(laws: Laws, c: Contacts, P: Array, recovered: bool, alpha: float | None) -> Array:
    """One sweep, contact by contact: its normal percussion, then its friction with the new normal percussion."""
    for contacts, rows, d, law in laws.blocks():

        def update(
            k: Array, P: Array, contacts: slice = contacts, rows: slice = rows, d: int = d, law: Any = law
        ) -> Array:
            i = contacts.start + k
            y_N = _row(c.y, i) + jnp.sum(_row(c.G, i) * (P - c.P), axis=0)
            G_N = _row(_row(c.G, i), i)
            P_N = _row(P, i) - (alpha or 1.0) * y_N / jnp.where(G_N > 0.0, G_N, 1.0)
            P_N = jnp.where(_row(c.closed, i), jnp.maximum(P_N, 0.0), 0.0)
            P = lax.dynamic_update_index_in_dim(P, P_N, i, 0)
            if d == 0:
                return P
            begin = laws.n_N + rows.start + k * d
            G_F, P_F = (lax.dynamic_slice_in_dim(x, begin, d, 0) for x in (c.G, P))
            y_F = lax.dynamic_slice_in_dim(c.y, begin, d, 0) + jnp.sum(G_F * (P - c.P)[None], axis=1)
            block = lax.dynamic_slice_in_dim(G_F, begin, d, 1)
            own = _steps(block, alpha)
            step = jnp.min(own, axis=0) * y_F
            mu = lax.dynamic_slice_in_dim(c.mu, rows.start + k * d, d, 0)
            change = law.residual(step, P_F, mu, P_N)
            if recovered:
                change = jnp.where(jnp.all(_unprojected(change, step, P_F), axis=0), own * y_F, change)
            return lax.dynamic_update_slice_in_dim(P, P_F - change, begin, 0)

        P = lax.fori_loop(0, contacts.stop - contacts.start, update, P)
    return P


def _row(x: Array, index: Array) -> Array:
    return lax.dynamic_index_in_dim(x, index, 0, keepdims=False)


def _unprojected(change: Array, step: Array, P: Array) -> Array:
    """Where no projection acts. The rows are equations there, and each can take its own step (recovery; 2.63)."""
    return jnp.abs(change - step) <= 1e-13 * (jnp.abs(step) + jnp.abs(P))


def _over_contact(laws: Laws, values: Array, reduce: Any) -> Array:
    """Values (n, *lanes) in which the friction rows of each contact hold what `reduce` makes of them."""
    normals, friction = values[: laws.n_N], values[laws.n_N :]
    parts = [normals]
    for _, rows, d, _ in laws.blocks():
        if d:
            block = friction[rows].reshape(-1, d, *values.shape[1:])
            parts.append(
                jnp.broadcast_to(reduce(block, axis=1, keepdims=True), block.shape).reshape(friction[rows].shape)
            )
    return jnp.concatenate(parts)
