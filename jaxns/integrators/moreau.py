"""Moreau's midpoint rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..model.system import Rows, System
from ..solve import dense, implicit
from ..solve.inclusion import Solver
from .base import Configuration, Solve, Step, Theta, check_solver, law_table
from .levels import large, velocity_level
from .levels.impact_laws import Restitution, check_restitution, solve_impact


@dataclass(frozen=True)
class Moreau:
    """Moreau's midpoint rule: constraints and contacts on velocity level, one linear inclusion per step.

    With t_M = t_n + Δt/2 and the predicted midpoint q_M:

        q_M = q_n + Δt/2 q̇(t_n, q_n, u_n)
        M_M (u⁺ − u_n) = Δt h(t_M, q_M, u_n) + W_M P
        ġ⁺ = 0,  γ⁺ = 0
        g_N(q_M) ≤ 0:  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   otherwise P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)
        q⁺ = q_M + Δt/2 q̇(t_M, q_M, u⁺)

    with all rows taken at (t_M, q_M). With more q than u (quaternions) the last line is the midpoint rule

        q⁺ = q_n + Δt q̇(t_M, (q_n + q⁺)/2, (u_n + u⁺)/2),

    which keeps the length of quaternions. First order. Positions are not corrected, so constraints and gaps drift: that is
    the price of the one cheap solve. (Flores, Leine, Glocker 2010; Möller 2011, §5.1.)

    - tol: tolerance on the rows, relative to their size above 1 m/s; by default from the dtype
    - solver: how inclusions are solved: "newton", another method of `jaxns.solve_contacts`, or a `jaxns.Solver`, to compare
    - restitution: "newton"; "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`; or "poisson", a law that always has a solution and never raises the energy (docs/laws.md)

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.0)
    >>> q0, u0 = jnp.array([0.0, 0.12, 0.0]), jnp.array([1.0, -0.5, 0.0])
    >>> traj = ns.simulate(ball.system, ns.Moreau(), q0, u0, dt=0.01, t1=0.1)
    >>> abs(float(traj.u[-1, 1])) < 1e-9, bool(traj.q[-1, 1] < 0.1)  # it slides, a little below the floor
    (True, True)
    """

    tol: float | None = None
    solver: str | Solver = "newton"
    restitution: Restitution = "newton"
    predicts_contact: ClassVar[bool] = True  # the sign of a predicted gap, not a law, tells which contacts are closed

    def __post_init__(self) -> None:
        check_solver(self)
        check_restitution(self)

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Array:
        return jnp.zeros((law_table(system.rows(t, q, u)).size,), u.dtype)

    def step(
        self,
        system: System,
        t: Array,
        q: Array,
        u: Array,
        dt: Array,
        memory: Array,
        tol: Array,
        solve: Solve = implicit.solve,
    ) -> Step:
        rows = system.rows(t, q, u)
        laws = law_table(rows)
        structure = large.structure(system, laws, velocity_level.rows, t, q, u)
        theta = Theta(system, t, dt, q, u, memory, tol)
        u_end, P, stats, reduced = solve_impact(self, laws, midpoint, partial(_impact, rows), theta, structure, solve)
        q_end = _end_position(system, t, q, u, u_end, dt)
        return Step(q_end, u_end, P, lax.stop_gradient(P), (stats,), reduced=reduced)


def _end_position(system: System, t: Array, q: Array, u: Array, u_end: Array, dt: Array) -> Array:
    t_M = t + 0.5 * dt
    if q.shape != u.shape:
        return on_manifold(lambda q: system.q_dot(t_M, q, 0.5 * (u + u_end)), q, dt)
    q_M = q + 0.5 * dt * system.q_dot(t, q, u)
    return q_M + 0.5 * dt * system.q_dot(t_M, q_M, u_end)


def on_manifold(rate: Callable[[Array], Array], q: Array, dt: Array) -> Array:
    """q⁺ = q + Δt rate((q + q⁺)/2), with the rate linearised at q.

    Kinematics of quaternions are linear in them: the step is a Cayley transform then, and keeps their length.
    """
    A = jnp.eye(q.shape[0], dtype=q.dtype) - 0.5 * dt * jax.jacfwd(rate)(q)
    return q + dense.solve_definite(A, dt * rate(q))


def midpoint(theta: Theta) -> Configuration:
    """(t_M, q_M), predicted from the beginning of the step."""
    system, t, dt, q, u, *_ = theta
    return Configuration(system, t + 0.5 * dt, q + 0.5 * dt * system.q_dot(t, q, u), u)


def _impact(rows: Rows, theta: Theta, d: velocity_level.AnyDirections) -> velocity_level.Impact:
    system, t_M, q_M, u = midpoint(theta)
    u_free = u + theta.dt * d.accelerate(system.h(t_M, q_M, u))
    mu = velocity_level.friction(system, rows, u.dtype)
    before = system.velocities(t_M, q_M, u)
    return velocity_level.Impact(u_free, before, mu, system.g_N(t_M, q_M) <= 0.0, theta.P_guess, theta.tol)
