"""Inertia terms of the energy-consistent integrators, beside M (u^E − u)."""

from __future__ import annotations

import jax
from jax import Array

from ...model.system import System
from .discrete_derivative import discrete_gradient


def gyro(system: System, t: Array, q: Array, u: Array) -> Array:
    """H(u, q) = ∂π/∂q − (∂π/∂q)ᵀ with π = B(q)⁻ᵀ M u."""
    rates = jax.jacfwd(lambda q: system.momenta(t, q, u))(q)
    return rates - rates.T


def inertia_forces(system: System, t: Array, dt: Array, q: Array, u: Array, q_E: Array, u_E: Array) -> Array:
    """G(u, q)(q^E − q) + Δt DT(u^E; q, q^E)ᵀ."""
    momentum = jax.jacfwd(lambda q: system.M(t, q) @ u)(q)  # ∂M_ik/∂q_j u_k
    gyro = (momentum - momentum.T) @ (q_E - q)
    return gyro + dt * discrete_gradient(lambda q: system.kinetic_energy(t, q, u_E), q, q_E)
