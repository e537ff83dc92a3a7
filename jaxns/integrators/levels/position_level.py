"""Constraints and contacts on position level, as rows that share the scale of the Delassus matrix WᵀM⁻¹W."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from ...model.system import System
from ..base import Configuration


def kinematic_rows(system: System, t: Array, dt: Array, q: Array, u: Array) -> Array:
    """(g/Δt, γ, g_N/Δt, γ_F) at (t, q, u): gaps as velocities."""
    position = 1.0 / dt
    y = [position * system.g(t, q), system.gamma(t, q, u), position * system.g_N(t, q), system.gamma_F(t, q, u)]
    return jnp.concatenate(y)


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
