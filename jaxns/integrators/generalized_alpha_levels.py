"""The three inclusions of generalized-α: positions, velocities, and what these leave to the accelerations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..model.system import Rows
from .base import Configuration, Theta, apply_inverse, inverse_mass, law_table, velocity_unit
from .generalized_alpha_means import Coefficients, Past
from .levels import velocity_level
from .levels.acceleration_level import Instant, unit_slips
from .levels.layout import POSITION
from .levels.position_level import position_rows
from .levels.statement import AnyDirections, Here, Statement


@dataclass(frozen=True)
class Position(Statement):
    """q⁺ and κ̂. z holds the mean velocity (q⁺ − q_n)/Δt and, where h depends on it, the velocity of a step with the forces
    of the last one. Percussions are κ̂/Δt, rows (g, g_N)/Δt."""

    coefficients: Coefficients
    constant_mass: bool
    implicit_u: bool

    def units(self, theta: Theta, fixed: None) -> tuple[Array, ...]:
        return (jnp.broadcast_to(theta.dt, (self.layout.laws.size,)),)

    def guess(self, here: Here) -> tuple[Array, Array]:
        system, t, dt, q, u, kappa, _, past = here.theta
        z = [system.q_dot(t, q, u + 0.5 * dt * past.a)] + [u + dt * past.a] * self.implicit_u
        return jnp.concatenate(z), kappa

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, q, u, _, _, past = here.theta
        c, layout = self.coefficients, self.layout
        mean, u_end = z[: q.shape[0]], z[q.shape[0] :] if self.implicit_u else u
        t_end, q_end = t + dt, q + dt * mean
        M_inv = here.directions.M_inv if self.constant_mass else inverse_mass(system, t_end, q_end)
        _, pull = jax.vjp(lambda u: system.velocities(t_end, q_end, u), u)
        u_dot = apply_inverse(M_inv, system.h(t_end, q_end, u_end) + pull(past.force)[0])
        _, a, _, force_mean = past.after(c, u_dot, past.force)
        kappa = P - dt * layout.of(POSITION, c.for_position(past.force_mean, force_mean))
        u_mean = u + dt * c.for_position(past.a, a) + apply_inverse(M_inv, pull(layout.place(POSITION, kappa))[0])
        S = [mean - 0.5 * (system.q_dot(t, q, u_mean) + system.q_dot(t_end, q_end, u_mean))]
        if self.implicit_u:
            S.append(u_end - u - dt * c.for_velocity(past.a, a))
        return jnp.concatenate(S), position_rows(system, t_end, q_end, layout.rows.n_g) / dt

    def outputs(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        return here.theta.q + here.theta.dt * z[: here.theta.q.shape[0]], P


class End(NamedTuple):
    """The end of a step, as far as position level knows it."""

    past: Past
    q: Array
    closed: Array  # (n_N,) bool


@dataclass(frozen=True)
class Velocity(Statement):
    """u⁺ and P at the positions q⁺. z holds u⁺ where h depends on it."""

    coefficients: Coefficients
    implicit_u: bool

    def place(self, theta: Theta) -> Configuration:
        return Configuration(theta.system, theta.t + theta.dt, theta.more.q, theta.u)

    def fixed(self, theta: Theta, d: AnyDirections) -> tuple[Array, Array]:
        """The rows (ġ, γ, ġ_N, γ_F) at the beginning of the step, and the terms (0, 0, e_N ġ_N,n, e_F γ_F,n) of ξ."""
        velocities = theta.system.velocities(theta.t, theta.q, theta.u)
        return velocities, velocity_level.restitution(theta.system, self.layout.rows, velocities)[0]

    def units(self, theta: Theta, fixed: tuple[Array, Array]) -> tuple[Array, ...]:
        return (jnp.broadcast_to(velocity_unit(fixed[0]), fixed[0].shape),)

    def closed(self, theta: Theta) -> Array:
        return theta.more.closed

    def guess(self, here: Here) -> tuple[Array, Array]:
        _, _, dt, _, u, P, _, end = here.theta
        return (u + dt * end.past.a)[: self.implicit_u * u.shape[0]], P

    def velocity(self, z: Array, P: Array, here: Here) -> Array:
        """The velocity after the percussions P."""
        system, t, dt, _, u, _, _, (past, q_end, _) = here.theta
        c, d = self.coefficients, here.directions
        h = system.h(t + dt, q_end, z if self.implicit_u else u)
        # With the forces of the last step: whatever they are, P makes up for them.
        _, a, _, force_mean = past.after(c, d.accelerate(h) + d.kick(past.force), past.force)
        kick = d.kick(P - dt * c.for_velocity(past.force_mean, force_mean))
        return u + dt * c.for_velocity(past.a, a) + kick

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, q, _ = self.place(here.theta)
        u = self.velocity(z, P, here)
        S = z - u if self.implicit_u else z
        return S, system.velocities(t, q, z if self.implicit_u else u) + here.fixed[1]

    def outputs(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        return self.velocity(z, P, here), P


def left_to_accelerations(rows: Rows, theta: Theta, u_end: Array, P: Array) -> Instant:
    """What velocity level leaves to the accelerations: which contacts stay closed, and which of them slide."""
    system, t, dt, q, u, _, tol, (_, q_end, closed) = theta
    laws = law_table(rows)
    velocities = system.velocities(t, q, u)
    xi = system.velocities(t + dt, q_end, u_end) + velocity_level.restitution(system, rows, velocities)[0]
    _, xi_N, xi_F = laws.split(velocity_unit(velocities) * xi)
    direction, speed = unit_slips(laws, xi_F)
    staying = closed & ((laws.split(P)[1] > 0.0) | (xi_N <= tol))
    return Instant(system, t + dt, q_end, u_end, staying, speed > 2.0 * tol, direction, dt, tol)
