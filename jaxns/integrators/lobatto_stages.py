"""The first solve of Lobatto IIIA–IIIB: all stages but the last velocity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..model.system import System
from ..trace.vectorise import materialise
from .base import Theta, velocity_unit
from .levels.layout import ALL
from .levels.position_level import kinematic_rows
from .levels.statement import AnyDirections, Here, Matrices, Statement
from .levels.two_solves import First, closed_at_end
from .lobatto_tableau import Tableau, combine, lobatto
from .lobatto_unknowns import Unknowns


class _Motion(NamedTuple):
    """The stages that belong to given unknowns."""

    Q: Array  # (s, nq)
    V: Array  # (s, nu)
    F: Array  # (s−1, nu)
    S: Array  # defects of the smooth equations


@dataclass(frozen=True)
class Stages(Statement):
    """The first solve. Its percussions are (P^1, …, P^{s−1}); what z holds, `Unknowns` says."""

    s: int
    unknowns: Unknowns

    @property
    def tableau(self) -> Tableau:
        return lobatto(self.s)

    def fixed(self, theta: Theta, d: AnyDirections) -> Array:
        """The rows (ġ, γ, ġ_N, γ_F) at (t_n, q_n, u_n)."""
        return theta.system.velocities(theta.t, theta.q, theta.u)

    def units(self, theta: Theta, fixed: Array) -> tuple[Array, ...]:
        return (self.layout.at_all_stages(self.layout.by_kind(ALL, theta.dt, velocity_unit(fixed))),)

    def diagonals(self, d: Matrices) -> tuple[Array, ...]:
        """Stage i answers to P^{i−1}: positions by Σ_l a_il â_{l,i−1}/b_{i−1}, velocities by â_{i,i−1}/b_{i−1}."""
        D, G = self.tableau.a_hat / self.tableau.b, d.G_diagonal()
        AD = self.tableau.a @ D
        share = [self.layout.by_kind(ALL, AD[i, i - 1], D[i, i - 1]) for i in range(1, self.s)]
        return (self.stacked(share).astype(G.dtype) * G,)

    def stacked(self, of_stages: list[Array]) -> Array:
        """Values of s − 1 stages as those of a level."""
        return of_stages[0] if self.s == 2 else jnp.stack(of_stages)

    def percussions(self, P: Array) -> Array:
        """P^j (s−1, n)."""
        return self.layout.split(P)[0].reshape(self.s - 1, -1)

    def guess(self, here: Here) -> tuple[Array, Array]:
        """Stages with the forces of (t_n, q_n, u_n) and the percussions of the last step."""
        system, t, dt, q, u, P, *_ = here.theta
        d, (_, b, a, a_hat) = here.directions, self.tableau
        free, P_stages = dt * d.accelerate(system.h(t, q, u)), self.percussions(P)
        V = u + combine(
            (a_hat / b)[:, :-1], jnp.stack([float(b[j]) * free + d.kick(P_j) for j, P_j in enumerate(P_stages)])
        )
        mean = combine(a, jax.vmap(partial(system.q_dot, t, q))(V))
        return self.unknowns.join(mean[1 : self.unknowns.n_Q + 1], V[: self.unknowns.n_V]), P

    def motion(self, z: Array, P: Array, here: Here) -> _Motion:
        """The stages that follow from the unknowns, and what the unknowns miss."""
        system, t, dt, q, u, *_ = here.theta
        s, (n_Q, n_V, *_), (c, b, a, a_hat) = self.s, self.unknowns, self.tableau
        T = t + dt * jnp.asarray(c, q.dtype)
        mean_z, V_z = self.unknowns.split(z)
        mean_z = jnp.concatenate([jnp.zeros_like(q)[None], mean_z])  # Q^1 = q_n
        # Where no Q^i is unknown, positions follow from V_z, or forces need none.
        explicit = combine(a, V_z) if n_V == s else jnp.zeros((s, *q.shape), q.dtype)
        Q_forces = q + dt * (mean_z if n_Q else explicit)
        V_forces = V_z if n_V else jnp.broadcast_to(u, (s, *u.shape))
        first = slice(0, s - 1)
        forces = (T[first], Q_forces[first], V_forces[first], jnp.asarray(b[first], q.dtype), self.percussions(P))
        F = materialise(jax.vmap(partial(_impulse, system, dt))(*forces))
        gain = combine((a_hat / b)[:, :-1], F)

        V, S_V = V_z, V_z
        if not self.unknowns.variable_mass:
            V_new = materialise(u + jax.vmap(here.directions.accelerate)(gain))
            V, S_V = jnp.concatenate([V_z, V_new[n_V:]]), V_z - V_new[:n_V]
        rates = V if system.kinematics is None else jax.vmap(system.q_dot)(T, q + dt * mean_z, V)
        mean = combine(a, rates)
        Q = q + dt * jnp.concatenate([mean_z, mean[n_Q + 1 :]])
        if self.unknowns.variable_mass:
            momentum = jax.vmap(lambda t, q, v: system.M(t, q) @ v)(T, Q, V)
            S_V = jax.vmap(here.directions.accelerate)(momentum - gain) - u
        return _Motion(Q, V, F, self.unknowns.join(mean_z[1:] - mean[1 : n_Q + 1], S_V))

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, *_ = here.theta
        motion = self.motion(z, P, here)
        T = t + dt * jnp.asarray(self.tableau.c, dt.dtype)
        y = jax.vmap(lambda t, q, u: kinematic_rows(system, t, dt, q, u))(T[1:], motion.Q[1:], motion.V[1:])
        return motion.S, self.layout.join(y.reshape(-1) if self.s == 2 else y)

    def outputs(self, z: Array, P: Array, here: Here) -> First:
        Q, V, F, _ = self.motion(z, P, here)
        closed = closed_at_end(self.layout, Q[-1], P, here)
        return First(Q[-1], V[-1], jnp.sum(self.percussions(P), axis=0), P, closed, here.fixed, jnp.sum(F, axis=0))


def _impulse(system: System, dt: Array, t: Array, q: Array, u: Array, b: Array, P: Array) -> Array:
    """F^j = b_j Δt (h + Ṁu) + W P^j."""
    _, pull = jax.vjp(lambda u: system.velocities(t, q, u), u)
    return b * dt * system.momentum_rate(t, q, u) + pull(P)[0]
