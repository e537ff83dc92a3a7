"""Nonsmooth RATTLE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import Array

from ..model.system import System
from ..solve.inclusion import Solver
from .base import Theta, velocity_unit
from .levels import large
from .levels.impact_laws import Restitution
from .levels.layout import ALL, Layout
from .levels.position_level import kinematic_rows
from .levels.statement import AnyDirections, Explicit, Here
from .levels.two_solves import First, Second, TwoSolves, closed_at_end


@dataclass(frozen=True)
class Rattle(TwoSolves):
    """Nonsmooth RATTLE: constraints and contacts on position and on velocity level, second order in persistent contact.

    Stage 1, unknowns (q⁺, u_½, P1), with γ and γ_F taken at (t_{n+1}, q⁺, u_½):

        q⁺ = q_n + Δt/2 [q̇(t_n, q_n, u_½) + q̇(t_{n+1}, q⁺, u_½)]
        M_n (u_½ − u_n) = Δt/2 h(t_n, q_n, u_½) + W_n P1
        g(t_{n+1}, q⁺) = 0,  γ = 0
        g_N(t_{n+1}, q⁺) ∈ N_{R−}(−P1_N),  γ_F ∈ N_{C_F(P1_N)}(−P1_F)

    Stage 2, unknowns (u⁺, P2), with P = P1 + P2 and all rows taken at (t_{n+1}, q⁺):

        M_{n+1} (u⁺ − u_½) = Δt/2 h(t_{n+1}, q⁺, u_½) + W_{n+1} P2
        ġ⁺ = 0,  γ⁺ = 0
        closed (r g_N − P1_N ≤ 0):  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   open: P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)

    (Breuling, Capobianco, Eugster, Leine 2024, eqs. 25–36; their (32)–(33) lack the minus sign inside the cone.) What
    is explicit is eliminated: with q̇ = u and forces that do not depend on velocities, Newton's method sees the
    percussions alone. Unit quaternions keep their norm, because the position update is a Cayley transform.

    With velocity-level constraints γ the scheme is first order: γ = 0 holds for u_½ at q⁺, half a step off.

    - tol: tolerance on gaps and constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", another method of `jaxns.solve_contacts`, or a `jaxns.Solver`, to compare
    - restitution: "newton"; "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`; or "poisson", a law that always has a solution and never raises the energy (docs/laws.md)

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.0)
    >>> q0, u0 = jnp.array([0.0, 0.12, 0.0]), jnp.array([1.0, -0.5, 0.0])
    >>> traj = ns.simulate(ball.system, ns.Rattle(), q0, u0, dt=0.01, t1=0.1)
    >>> abs(float(traj.u[-1, 1])) < 1e-9, abs(float(traj.q[-1, 1]) - 0.1) < 1e-9  # it slides, on the floor
    (True, True)
    """

    tol: float | None = None
    solver: str | Solver = "newton"
    restitution: Restitution = "newton"

    share: ClassVar[float] = 0.5

    def first_solve(self, system: System, t: Array, q: Array, u: Array) -> _FirstStage:
        layout = Layout(system.rows(t, q, u))
        implicit_q, implicit_u = system.kinematics is not None, system.velocity_dependent_force(t, q, u)
        rows = None if implicit_q or implicit_u else _rows
        structure = large.structure(system, layout.laws, rows, t, q, u)
        implicit_u |= structure is not None and implicit_q  # sparse in u_½ and percussions
        n_z = implicit_q * q.shape[0] + implicit_u * u.shape[0]
        return _FirstStage(layout, n_z, structure, implicit_q, implicit_u)

    def free_velocity(self, second: Second, d: AnyDirections) -> Array:
        (system, t, dt, *_), first = second
        return first.u + 0.5 * dt * d.accelerate(system.h(t + dt, first.q, first.u)) - d.kick(first.P)


class _Fixed(NamedTuple):
    u_free: Array  # u_n, plus Δt/2 M⁻¹h where h does not depend on u
    velocities: Array  # rows (ġ, γ, ġ_N, γ_F) at (t_n, q_n, u_n)


@dataclass(frozen=True)
class _FirstStage(Explicit):
    """Stage 1. z holds the mean velocity (q⁺ − q_n)/Δt where kinematics make q⁺ implicit, and u_½ where h depends on u."""

    implicit_q: bool
    implicit_u: bool

    def fixed(self, theta: Theta, d: AnyDirections) -> _Fixed:
        system, t, dt, q, u, *_ = theta
        u_free = u if self.implicit_u else u + 0.5 * dt * d.accelerate(system.h(t, q, u))
        return _Fixed(u_free, system.velocities(t, q, u))

    def units(self, theta: Theta, fixed: _Fixed) -> tuple[Array, ...]:
        return (self.layout.by_kind(ALL, theta.dt, velocity_unit(fixed.velocities)),)

    def guess(self, here: Here) -> tuple[Array, Array]:
        system, t, _, q, u, P, *_ = here.theta
        z = [system.q_dot(t, q, u)] * self.implicit_q + [here.fixed.u_free + here.directions.kick(P)] * self.implicit_u
        return jnp.concatenate([P[:0], *z]), P

    def state(self, z: Array, P: Array, here: Here) -> tuple[Array, Array, Array]:
        """q⁺, u_½ and the defects of the smooth equations."""
        system, t, dt, q, u, *_ = here.theta
        u_half, S = self.velocity(P, here), [z[:0]]
        if self.implicit_u:
            u_z = z[-u.shape[0] :]
            S.append(u_z - u_half - 0.5 * dt * here.directions.accelerate(system.h(t, q, u_z)))
            u_half = u_z
        if not self.implicit_q:
            return q + dt * u_half, u_half, jnp.concatenate(S)
        mean = z[: q.shape[0]]
        q_end = q + dt * mean
        ends = system.q_dot(t, q, u_half) + system.q_dot(t + dt, q_end, u_half)
        return q_end, u_half, jnp.concatenate([mean - 0.5 * ends, *S])

    def rows_at(self, u: Array, here: Here) -> Array:
        return _rows(*here.theta[:4], u)

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, *_ = here.theta
        q_end, u_half, S = self.state(z, P, here)
        return S, kinematic_rows(system, t + dt, dt, q_end, u_half)

    def outputs(self, z: Array, P: Array, here: Here) -> First:
        q_end, u_half, _ = self.state(z, P, here)
        closed = closed_at_end(self.layout, q_end, P, here)
        return First(q_end, u_half, P, P, closed, here.fixed.velocities)


def _rows(system: System, t: Array, dt: Array, q: Array, u: Array) -> Array:
    """The rows of stage 1 as a function of u_½, where q⁺ = q + Δt u_½."""
    return kinematic_rows(system, t + dt, dt, q + dt * u, u)
