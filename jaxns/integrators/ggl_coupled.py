"""The one inclusion of `GGLUnified`: percussions and corrections of positions in one implicit step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..solve.lanes import total
from .base import Configuration, Theta, velocity_unit
from .ggl_contacts import linear_rows
from .levels import velocity_level
from .levels.position_level import correction_velocity, covelocity, position_rows
from .levels.statement import AnyDirections, Here, Matrices, Statement
from .moreau import midpoint

Level = Literal["ggl", "index3", "index2", "index1"]


class _Fixed(NamedTuple):
    before: Array  # the terms (0, 0, e_N ġ_N,n, e_F γ_F,n) of ξ
    velocities: Array  # rows (ġ, γ, ġ_N, γ_F) at (t_n, q_n, u_n)


@dataclass(frozen=True)
class Coupled(Statement):
    """The one solve of `GGLUnified`. z holds the mean velocity (q⁺ − q_n)/Δt, and u⁺ where h depends on it.

    The second level has the rows (g, g_N)/Δt and the percussions ψ = Ψ/Δt, those of contacts as κ_N/Δt.
    """

    bilateral: Level
    implicit_u: bool
    linearised: bool

    @property
    def corrected(self) -> bool:
        """Whether there is Ψ_N."""
        return "N" in self.layout.levels[1]

    @property
    def n_g(self) -> int:
        """Constraints with a Ψ."""
        return self.layout.rows.n_g if "g" in self.layout.levels[1] else 0

    def place(self, theta: Theta) -> Configuration:
        return midpoint(theta)

    def fixed(self, theta: Theta, d: AnyDirections) -> _Fixed:
        velocities = theta.system.velocities(theta.t, theta.q, theta.u)
        return _Fixed(velocity_level.restitution(theta.system, self.layout.rows, velocities)[0], velocities)

    def diagonals(self, d: Matrices) -> tuple[Array, ...]:
        G = d.G_diagonal()
        return G, self.layout.of(self.layout.levels[1], total(d.W * d.W) if self.linearised else G)

    def units(self, theta: Theta, fixed: _Fixed) -> tuple[Array, ...]:
        velocity = jnp.broadcast_to(velocity_unit(fixed.velocities), fixed.velocities.shape)
        if self.bilateral == "index3":
            velocity = velocity.at[: self.layout.rows.n_g].set(0.5 * theta.dt)
        return velocity, self.layout.by_kind(self.layout.levels[1], theta.dt, theta.dt)

    def closed(self, theta: Theta) -> Array:
        flags = theta.more
        if not self.corrected:
            return flags
        # On position level the law itself tells open from closed, if it is that of the gaps themselves.
        return self.layout.closed(flags, flags if self.linearised else jnp.ones_like(flags))

    def guess(self, here: Here) -> tuple[Array, Array]:
        system, t, _, q, u, P, *_ = here.theta
        kappa = self.layout.of(self.layout.levels[1], P).at[: self.n_g].set(0.0)
        return jnp.concatenate([system.q_dot(t, q, u)] + [u] * self.implicit_u), self.layout.join(P, self.share * kappa)

    @property
    def share(self) -> float:
        """Share of P_N in κ_N, which obeys the law of the gaps."""
        return 0.0 if self.linearised else 0.5

    def psi(self, P: Array, kappa: Array) -> Array:
        """ψ of (g, g_N), from the percussions of both levels."""
        psi = kappa - self.share * self.layout.of(self.layout.levels[1], P).at[: self.n_g].set(0.0)
        return psi if self.corrected else jnp.concatenate([psi, jnp.zeros((self.layout.rows.n_N,), P.dtype)])

    def state(self, z: Array, P: Array, here: Here) -> tuple[Array, Array, Array]:
        """q⁺, u⁺ and the defects of the smooth equations."""
        system, t, dt, q, u, *_ = here.theta
        t_half, mean, u_z = t + 0.5 * dt, z[: q.shape[0]], z[q.shape[0] :]
        q_half = q + 0.5 * dt * mean
        percussion, kappa = self.layout.split(P)
        _, pull = jax.vjp(lambda u: system.velocities(t_half, q_half, u), u)
        impulse = dt * system.h(t_half, q_half, 0.5 * (u + u_z) if self.implicit_u else u) + pull(percussion)[0]
        u_end = u + here.directions.accelerate(impulse)
        S = [u_z - u_end] if self.implicit_u else []
        u_end = u_z if self.implicit_u else u_end
        rate = system.q_dot(t_half, q_half, 0.5 * (u + u_end))
        if kappa.shape[0]:
            middle = Configuration(system, t_half, q_half, u)
            correction = covelocity(middle, self.n_g, self.psi(percussion, kappa))
            if not self.linearised:
                correction = here.directions.accelerate(correction)
            rate = rate + correction_velocity(middle, correction)
        return q + dt * mean, u_end, jnp.concatenate([mean - rate, *S])

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, _, u, *_ = here.theta
        q_end, u_end, S = self.state(z, P, here)
        rows = linear_rows(here.theta, z, u_end, self.n_g) if self.linearised else self.exact_rows(q_end, u_end, here)
        velocity, position = rows[0] + here.fixed.before, rows[1]
        constraints = slice(0, self.layout.rows.n_g)
        if self.bilateral == "index3":
            velocity = velocity.at[constraints].set(2.0 / dt * system.g(t + dt, q_end))
        if self.bilateral == "index1":
            end = (t + dt, q_end, u_end)
            rates = (jnp.ones_like(dt), system.q_dot(*end), (u_end - u) / dt)
            velocity = velocity.at[constraints].set(dt * jax.jvp(system.g_dot, end, rates)[1])
        return S, self.layout.join(velocity, position if self.corrected else position[: self.n_g])

    def exact_rows(self, q_end: Array, u_end: Array, here: Here) -> tuple[Array, Array]:
        """(ġ, γ, ġ_N, γ_F) and (g, g_N)/Δt at the end of the step."""
        system, t, dt, *_ = here.theta
        return system.velocities(t + dt, q_end, u_end), position_rows(system, t + dt, q_end, self.n_g) / dt

    def outputs(self, z: Array, P: Array, here: Here) -> tuple[Array, Array, Array]:
        q_end, u_end, _ = self.state(z, P, here)
        return q_end, u_end, self.layout.split(P)[0]
