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

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import dense
from ..solve.inclusion import Problem, Scaling
from .base import Configuration, DirectDirections, Directions, velocity_unit


class Impact(NamedTuple):
    """What an integrator says of its inclusion."""

    u_free: Array  # (nu,) velocity at P = 0
    before: Array  # (n,) the terms (0, 0, e_N ġ_N⁻, e_F γ_F⁻) of ξ
    mu: Array  # (n_F,)
    closed: Array  # (n_N,) bool
    P_guess: Array  # (n,)
    tol: Array


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
    directions: DirectDirections
    impact: Impact

    def velocity(self, P: Array) -> Array:
        return self.impact.u_free + self.directions.kick(P)

    def rows(self, P: Array) -> Array:
        system, t, q, _ = self.directions.configuration
        return system.velocities(t, q, self.velocity(P)) + self.impact.before


def problem(
    laws: LawTable,
    configuration: Callable[[Any], Configuration],
    impact: Callable[[Any, Directions | DirectDirections], Impact],
) -> Problem:
    """The inclusion at configuration(theta) with the data impact(theta, directions); its outputs are (u⁺, P)."""

    def prepare(theta: Any) -> _Matrices:
        system, t, q, _ = configuration(theta)
        d = Directions.at(configuration(theta))
        i = impact(theta, d)
        c = system.velocities(t, q, i.u_free) + i.before
        return _Matrices(
            _scaling(laws.prox_parameters(d.G_diagonal(), i.mu), c, i), dense.matmul(d.W.T, d.M_inv_W), c, d.M_inv_W, i
        )

    def direct(theta: Any) -> _Direct:
        d = DirectDirections.at(configuration(theta))
        i = impact(theta, d)
        return _Direct(_scaling(i.before, i.before, i), d, i)

    return Problem(laws, prepare, direct, _guess, _equations, _outputs, _jacobian)


def _scaling(r: Array, c: Array, impact: Impact) -> Scaling:
    unit = jnp.broadcast_to(velocity_unit(c), c.shape)
    return Scaling(r, impact.mu, impact.closed, unit[:0], unit, impact.tol)


def restitution(system: System, rows: Rows, velocities: Array) -> tuple[Array, Array]:
    """The terms (0, 0, e_N ġ_N⁻, e_F γ_F⁻) of ξ from the pre-impact rows (ġ, γ, ġ_N, γ_F), and mu (n_F,)."""
    e_N, e_F, mu = system.coefficients(rows, velocities.dtype)
    factors = jnp.concatenate([jnp.zeros((rows.n_bilateral,), velocities.dtype), e_N, e_F])
    return factors * velocities, mu


def _guess(data: _Matrices) -> tuple[Array, Array]:
    return data.impact.P_guess[:0], data.impact.P_guess


def _equations(z: Array, P: Array, data: _Matrices | _Direct) -> tuple[Array, Array]:
    return z, data.rows(P)


def _jacobian(z: Array, P: Array, data: _Matrices) -> Array:
    return data.G


def _outputs(z: Array, P: Array, data: _Matrices | _Direct) -> tuple[Array, Array]:
    return data.velocity(P), P
