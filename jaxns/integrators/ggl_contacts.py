"""Contacts of `GGLUnified`: which of them are active, and their rows as the paper linearises them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from ..model.system import Rows
from ..solve import dense
from .base import Theta
from .levels.position_level import position_rows
from .moreau import midpoint


def predicted(theta: Theta, rows: Rows) -> Array:
    """Contacts that the paper holds active: g_N(q_M) < 0 (11)."""
    system, t_M, q_M, _ = midpoint(theta)
    return system.g_N(t_M, q_M) < 0.0


def active(theta: Theta, rows: Rows) -> Array:
    """Contacts that are closed at the end of a step without contact forces, or at q_n and at the predicted midpoint."""
    system, t_M, q_M, _ = midpoint(theta)
    places = ((theta.t, theta.q), (t_M, q_M), (theta.t + theta.dt, _free_end(theta, rows)))
    before, predicted, end = (system.g_N(t, q) <= theta.tol for t, q in places)
    return end | (before & predicted)


def _free_end(theta: Theta, rows: Rows) -> Array:
    """q⁺ of a step without contact forces. It is linearly implicit, for the sake of stiff forces: an explicit one may end
    behind a wall that the step itself never comes near."""
    system, t_M, q_M, u = midpoint(theta)
    dt, n_b, none = theta.dt, rows.n_bilateral, jnp.zeros_like(u)

    def rate(du: Array) -> Array:
        return system.q_dot(t_M, q_M, u + 0.5 * du)

    def force(du: Array) -> Array:
        return system.h(t_M, q_M + 0.5 * dt * (rate(du) - rate(none)), u + 0.5 * du)

    inertia = system.M(t_M, q_M) - dt * jax.jacfwd(force)(none)
    W = system.W(t_M, q_M, u)[:, :n_b]
    moved = dense.solve(inertia, jnp.concatenate([dt * force(none)[:, None], W], axis=1))
    du = moved[:, 0]
    if n_b:
        excess = system.velocities(t_M, q_M, u + du)[:n_b]
        du = du - dense.matmul(moved[:, 1:], dense.solve(dense.matmul(W.T, moved[:, 1:]), excess))
    return theta.q + dt * rate(du)


def linear_rows(theta: Theta, z: Array, u_end: Array, n_g: int) -> tuple[Array, Array]:
    """(ġ, γ, ġ_N, γ_F) and (g, g_N)/Δt at the end of the step, linearised about (t_½, q_½): (42) and (41)."""
    system, t, dt, q, u, *_ = theta
    mean = z[: q.shape[0]]
    middle = (t + 0.5 * dt, q + 0.5 * dt * mean)
    change = system.velocities(*middle, u_end) - system.velocities(*middle, u)
    rate = jax.jvp(lambda t, q: position_rows(system, t, q, n_g), middle, (jnp.ones_like(dt), mean))[1]
    return system.velocities(t, q, u) + change, position_rows(system, t, q, n_g) / dt + rate
