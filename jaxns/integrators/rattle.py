"""Nonsmooth RATTLE."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import implicit
from ..solve.inclusion import Problem, Scaling
from ..trace.vectorise import materialise
from .base import (
    Configuration,
    DirectDirections,
    Directions,
    Solve,
    Step,
    Theta,
    check_solver,
    law_table,
    velocity_unit,
)
from .guesses import Memory
from .levels import large, velocity_level
from .levels.position_level import by_kind, kinematic_rows
from .levels.reduced import Restitution, check_restitution, solve_impact


@dataclass(frozen=True)
class Rattle:
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
    - solver: how inclusions are solved: "newton", or another method of `jaxns.solve_contacts`, to compare
    - restitution: "newton"; or "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.0)
    >>> q0, u0 = jnp.array([0.0, 0.12, 0.0]), jnp.array([1.0, -0.5, 0.0])
    >>> traj = ns.simulate(ball.system, ns.Rattle(), q0, u0, dt=0.01, t1=0.1)
    >>> abs(float(traj.u[-1, 1])) < 1e-9, abs(float(traj.q[-1, 1]) - 0.1) < 1e-9  # it slides, on the floor
    (True, True)
    """

    tol: float | None = None
    solver: str = "newton"
    restitution: Restitution = "newton"

    def __post_init__(self) -> None:
        check_solver(self)
        check_restitution(self)

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        n = law_table(system.rows(t, q, u)).size
        return Memory.start(n, n, u.dtype)

    def step(
        self,
        system: System,
        t: Array,
        q: Array,
        u: Array,
        dt: Array,
        memory: Memory,
        tol: Array,
        solve: Solve = implicit.solve,
    ) -> Step:
        rows = system.rows(t, q, u)
        laws = law_table(rows)
        stage_1 = _stage_1(rows, laws, system, t, q, u)
        P1_guess = memory.first_guess()
        first, stats_1 = solve(stage_1.solved_by(self.solver), Theta(system, t, dt, q, u, P1_guess, tol))
        proportional = 2.0 * first.P
        P_guess = memory.whole_guess(P1_guess, first.P, proportional)
        structure = large.structure(system, laws, velocity_level.rows, t, q, u)
        theta_2 = _Theta2(system, t + dt, dt, first, P_guess, tol)
        u_end, P, stats_2, reduced = solve_impact(self, laws, _end, partial(_impact, rows), theta_2, structure, solve)
        memory = memory.after(laws, (first.P, P1_guess), (P, P_guess), proportional)
        return Step(first.q, u_end, P, memory, (stats_1, stats_2), reduced=reduced)


class _Data1(NamedTuple):
    scaling: Scaling
    theta: Theta
    directions: velocity_level.AnyDirections  # at (t_n, q_n)
    u_free: Array  # u_n, plus Δt/2 M⁻¹h where h does not depend on u
    velocities: Array  # rows (ġ, γ, ġ_N, γ_F) at (t_n, q_n, u_n)


class _Outputs1(NamedTuple):
    q: Array
    u: Array
    P: Array
    closed: Array  # (n_N,) bool
    velocities: Array


def _stage_1(rows: Rows, laws: LawTable, system: System, t: Array, q: Array, u: Array) -> Problem:
    """Stage 1 with the smooth unknowns z that cannot be eliminated.

    z holds the mean velocity (q⁺ − q_n)/Δt where kinematics make q⁺ implicit, and u_½ where h depends on u.
    """
    implicit_q = system.kinematics is not None
    implicit_u = system.velocity_dependent_force(t, q, u)
    n_z = implicit_q * q.shape[0] + implicit_u * u.shape[0]
    structure = None if n_z else large.structure(system, laws, _rows_1, t, q, u)

    def data(theta: Theta, d: velocity_level.AnyDirections, r: Array) -> _Data1:
        system, t, dt, q, u, _, tol = theta
        velocities = system.velocities(t, q, u)
        unit = velocity_unit(velocities)
        unit_y = by_kind(rows, laws, dt, unit)
        unit_S = jnp.broadcast_to(velocity_unit(u), (n_z,))
        _, _, mu = system.coefficients(rows, u.dtype)
        closed = jnp.ones((rows.n_N,), bool)  # on position level the law itself tells open from closed
        u_free = u if implicit_u else u + 0.5 * dt * d.accelerate(system.h(t, q, u))
        return _Data1(Scaling(r, mu, closed, unit_S, unit_y, tol), theta, d, u_free, velocities)

    def prepare(theta: Theta) -> _Data1:
        here = Configuration(theta.system, theta.t, theta.q, theta.u)
        d = Directions.at(here) if structure is None else large.SparseDirections.at(structure, here)
        mu = theta.system.coefficients(rows, theta.u.dtype)[2]
        return data(theta, d, laws.prox_parameters(d.G_diagonal(), mu))

    def direct(theta: Theta) -> _Data1:
        d = DirectDirections.at(Configuration(theta.system, theta.t, theta.q, theta.u))
        return data(theta, d, theta.P_guess)

    def state(z: Array, P: Array, data: _Data1) -> tuple[Array, Array, Array]:
        """q⁺, u_½ and the defect of the smooth equations."""
        system, t, dt, q, u, _, _ = data.theta
        u_half = materialise(data.u_free + data.directions.kick(P))
        S = []
        if implicit_u:
            u_z = z[-u.shape[0] :]
            S.append(u_z - u_half - 0.5 * dt * data.directions.accelerate(system.h(t, q, u_z)))
            u_half = u_z
        if not implicit_q:
            return q + dt * u_half, u_half, jnp.concatenate([z[:0], *S])
        mean_velocity = z[: q.shape[0]]
        q_end = q + dt * mean_velocity
        ends = system.q_dot(t, q, u_half) + system.q_dot(t + dt, q_end, u_half)
        return q_end, u_half, jnp.concatenate([mean_velocity - 0.5 * ends, *S])

    def equations(z: Array, P: Array, data: _Data1) -> tuple[Array, Array]:
        system, t, dt, *_ = data.theta
        q_end, u_half, S = state(z, P, data)
        return S, kinematic_rows(system, t + dt, dt, q_end, u_half)

    def jacobian(z: Array, P: Array, data: _Data1) -> Array:
        """∂y/∂P of the explicit case, by pushing the columns of M⁻¹W through the rows."""
        system, t, dt, q, *_ = data.theta
        u_half = materialise(data.u_free + data.directions.kick(P))
        _, push = jax.linearize(lambda u: _rows_1(system, t, dt, q, u), u_half)
        return jax.vmap(push, in_axes=1, out_axes=1)(data.directions.M_inv_W)  # type: ignore[union-attr]

    def guess(data: _Data1) -> tuple[Array, Array]:
        system, t, _, q, u, P, _ = data.theta
        z = [system.q_dot(t, q, u)] * implicit_q + [data.u_free + data.directions.kick(P)] * implicit_u
        return jnp.concatenate([P[:0], *z]), P

    def outputs(z: Array, P: Array, data: _Data1) -> _Outputs1:
        system, t, dt, *_ = data.theta
        q_end, u_half, _ = state(z, P, data)
        _, r_N, _ = laws.split(data.scaling.r)
        _, P_N, _ = laws.split(P)
        closed = r_N * system.g_N(t + dt, q_end) / dt - P_N <= 0.0
        return _Outputs1(q_end, u_half, P, closed, data.velocities)

    if structure is None:
        return Problem(laws, prepare, direct, guess, equations, outputs, None if n_z else jacobian)

    def velocity(P: Array, data: _Data1) -> Array:
        return data.u_free + data.directions.kick(P)

    def rows_at(u: Array, data: _Data1) -> Array:
        return _rows_1(data.theta.system, data.theta.t, data.theta.dt, data.theta.q, u)

    form = large.newton_form(structure, laws, lambda data: data.directions, velocity, rows_at)
    return Problem(laws, prepare, prepare, guess, equations, outputs, sparse=form)


def _rows_1(system: System, t: Array, dt: Array, q: Array, u: Array) -> Array:
    """The rows of stage 1 as a function of u_½, where q⁺ = q + Δt u_½."""
    return kinematic_rows(system, t + dt, dt, q + dt * u, u)


class _Theta2(NamedTuple):
    system: System
    t: Array  # t_{n+1}
    dt: Array
    first: _Outputs1
    P_guess: Array
    tol: Array


def _end(theta: _Theta2) -> Configuration:
    return Configuration(theta.system, theta.t, theta.first.q, theta.first.u)


def _impact(rows: Rows, theta: _Theta2, d: velocity_level.AnyDirections) -> velocity_level.Impact:
    """Stage 2 as an inclusion for the whole percussion P = P1 + P2."""
    system, t, dt, first, P_guess, tol = theta
    u_free = first.u + 0.5 * dt * d.accelerate(system.h(t, first.q, first.u)) - d.kick(first.P)
    before, mu = velocity_level.restitution(system, rows, first.velocities)
    return velocity_level.Impact(materialise(u_free), before, mu, first.closed, P_guess, tol)
