"""Constraints and contacts on position level, as rows that share the scale of the Delassus matrix WᵀM⁻¹W."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from ...laws.table import LawTable
from ...model.system import Rows, System
from ..base import Configuration


def kinematic_rows(system: System, t: Array, dt: Array, q: Array, u: Array) -> Array:
    """(g/Δt, γ, g_N/Δt, γ_F) at (t, q, u): gaps as velocities."""
    position = 1.0 / dt
    y = [position * system.g(t, q), system.gamma(t, q, u), position * system.g_N(t, q), system.gamma_F(t, q, u)]
    return jnp.concatenate(y)


def by_kind(rows: Rows, laws: LawTable, position: Array, velocity: Array) -> Array:
    """One value for the rows (g, g_N), another for (γ, γ_F)."""
    return jnp.concatenate([
        jnp.broadcast_to(position, (rows.n_g,)),
        jnp.broadcast_to(velocity, (rows.n_gamma,)),
        jnp.broadcast_to(position, (rows.n_N,)),
        jnp.broadcast_to(velocity, (laws.n_F,)),
    ])


def of_position(rows: Rows, values: Array) -> Array:
    """Out of values of the rows (g, γ, N, F), those of (g, N), which exist on position level."""
    return jnp.concatenate([values[: rows.n_g], values[rows.n_bilateral : rows.n_bilateral + rows.n_N]])


def position_laws(laws: LawTable, n_g: int) -> LawTable:
    """The laws of n_g constraints and of all normals on position level; friction has none."""
    return LawTable(n_g, tuple((n, 0, law) for n, _, law in laws.groups))


def covelocity(configuration: Configuration, n_g: int, psi: Array) -> Array:
    """W ψ (nu,) for the directions of g and g_N."""
    system, t, q, u = configuration

    def rates(u: Array) -> Array:
        return jnp.concatenate([system.g_dot(t, q, u)[:n_g], system.g_N_dot(t, q, u)])

    return jax.vjp(rates, u)[1](psi)[0]


def correction_velocity(configuration: Configuration, covelocity: Array) -> Array:
    """B W ψ (nq,)."""
    system, t, q, u = configuration
    return jax.jvp(lambda u: system.q_dot(t, q, u), (u,), (covelocity,))[1]


def position_rows(system: System, t: Array, q: Array, n_g: int) -> Array:
    """(g, g_N) of the first n_g constraints and of all contacts."""
    return jnp.concatenate([system.g(t, q)[:n_g], system.g_N(t, q)])
