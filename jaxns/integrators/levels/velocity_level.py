"""The inclusion with constant Delassus matrix that impacts and time stepping pose on velocity level.

At a fixed configuration, with the velocity affine in the percussions,

    u⁺ = u_free + M⁻¹W P,        y = G P + c,   G = WᵀM⁻¹W,

    bilateral rows: y = (ġ⁺, γ⁺) = 0,
    contacts:       y_N = ξ_N = ġ_N⁺ + e_N ġ_N⁻ ∈ N_{R−}(−P_N) where closed, P_N = 0 where open,
                    y_F = ξ_F = γ_F⁺ + e_F γ_F⁻ ∈ N_{C_F(P_N)}(−P_F).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from ...laws.table import LawTable
from ...model.system import Rows, System
from ...solve import dense
from ...solve.inclusion import Problem, Scaling
from ..base import Configuration, DirectDirections, Directions, velocity_unit
from .large import SparseDirections, Structure, newton_form

AnyDirections = Directions | DirectDirections | SparseDirections


class Impact(NamedTuple):
    """What an integrator says of its inclusion."""

    u_free: Array  # (nu,) velocity at P = 0
    before: Array  # (n,) the terms (0, 0, e_N ġ_N⁻, e_F γ_F⁻) of ξ
    mu: Array  # (n_F,), or what else the laws want
    closed: Array  # (n_N,) bool
    P_guess: Array  # (n,)
    tol: Array
    given: Array | None = None  # (n,) bool: rows whose y is `before` alone, whatever the percussions


class _Matrices(NamedTuple):
    """The inclusion with its Delassus matrix, for the iteration."""

    scaling: Scaling
    G: Array  # (n, n)
    c: Array  # (n,)
    M_inv_W: Array  # (nu, n)
    impact: Impact

    def velocity(self, P: Array) -> Array:
        return self.impact.u_free + dense.matmul(self.M_inv_W, P)

    def rows(self, P: Array) -> Array:
        return dense.matmul(self.G, P) + self.c


class _Direct(NamedTuple):
    """The inclusion without matrices, for derivatives."""

    scaling: Scaling
    directions: DirectDirections | SparseDirections
    impact: Impact

    def velocity(self, P: Array) -> Array:
        return self.impact.u_free + self.directions.kick(P)

    def rows(self, P: Array) -> Array:
        return self.rows_at(self.velocity(P))

    def rows_at(self, u: Array) -> Array:
        system, t, q, _ = self.directions.configuration
        return _rows_at(system, t, q, u, self.impact)


def _rows_at(system: System, t: Array, q: Array, u: Array, impact: Impact) -> Array:
    y = system.velocities(t, q, u) + impact.before
    return y if impact.given is None else jnp.where(impact.given, impact.before, y)


def problem(
    laws: LawTable,
    configuration: Callable[[Any], Configuration],
    impact: Callable[[Any, AnyDirections], Impact],
    structure: Structure | None = None,
) -> Problem:
    """The inclusion at configuration(theta) with the data impact(theta, directions); its outputs are (u⁺, P).

    With the structure of a large system its matrices are sparse.
    """

    def prepare(theta: Any) -> _Matrices:
        system, t, q, _ = configuration(theta)
        d = Directions.at(configuration(theta))
        i = impact(theta, d)
        c = _rows_at(system, t, q, i.u_free, i)
        G = dense.matmul(d.W.T, d.M_inv_W)
        if i.given is not None:
            G = jnp.where(i.given[:, None], 0.0, G)
        return _Matrices(_scaling(laws.prox_parameters(d.G_diagonal(), i.mu), c, i), G, c, d.M_inv_W, i)

    def direct(theta: Any) -> _Direct:
        d = DirectDirections.at(configuration(theta))
        i = impact(theta, d)
        return _Direct(_scaling(i.before, i.before, i), d, i)

    def with_structure(theta: Any) -> _Direct:
        system, t, q, _ = configuration(theta)
        d = SparseDirections.at(structure, configuration(theta))  # type: ignore[arg-type]
        i = impact(theta, d)
        c = _rows_at(system, t, q, i.u_free, i)
        return _Direct(_scaling(laws.prox_parameters(d.G_diagonal(), i.mu), c, i), d, i)

    if structure is None:
        return Problem(laws, prepare, direct, _guess, _equations, _outputs, _jacobian, nonlinear=False)
    form = newton_form(
        structure, laws, lambda data: data.directions, lambda P, data: data.velocity(P), lambda u, data: data.rows_at(u)
    )
    return Problem(laws, with_structure, with_structure, _guess, _equations, _outputs, sparse=form, nonlinear=False)


def rows(system: System, t: Array, dt: Array, q: Array, u: Array) -> Array:
    """The rows as a function of velocities, for the structure of a large system."""
    return system.velocities(t, q, u)


def _scaling(r: Array, c: Array, impact: Impact) -> Scaling:
    unit = jnp.broadcast_to(velocity_unit(c), c.shape)
    return Scaling(r, impact.mu, impact.closed, unit[:0], unit, impact.tol)


def restitution(system: System, rows: Rows, velocities: Array) -> tuple[Array, Array]:
    """The terms (0, 0, e_N ġ_N⁻, e_F γ_F⁻) of ξ from the pre-impact rows (ġ, γ, ġ_N, γ_F), and mu (n_F,)."""
    return restitution_factors(system, rows, velocities.dtype) * velocities, friction(system, rows, velocities.dtype)


def restitution_factors(system: System, rows: Rows, dtype: Any) -> Array:
    """(0, 0, e_N, e_F), one for each row (n,)."""
    e_N, e_F, _ = system.coefficients(rows, dtype)
    return jnp.concatenate([jnp.zeros((rows.n_bilateral,), dtype), e_N, e_F])


def friction(system: System, rows: Rows, dtype: Any) -> Array:
    """mu (n_F,)."""
    return system.coefficients(rows, dtype)[2]


def _guess(data: _Matrices) -> tuple[Array, Array]:
    return data.impact.P_guess[:0], data.impact.P_guess


def _equations(z: Array, P: Array, data: _Matrices | _Direct) -> tuple[Array, Array]:
    return z, data.rows(P)


def _jacobian(z: Array, P: Array, data: _Matrices) -> Array:
    return data.G


def _outputs(z: Array, P: Array, data: _Matrices | _Direct) -> tuple[Array, Array]:
    return data.velocity(P), P
