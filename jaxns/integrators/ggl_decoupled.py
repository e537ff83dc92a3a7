"""Gear, Gupta and Leimkuhler decoupled: a step of Moreau's rule, and then the projection of its positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ..model.system import System
from ..solve.inclusion import Solver
from ..solve.lanes import total
from .base import Configuration, Step, Theta, check_solver
from .levels.impact_laws import Restitution, check_restitution
from .levels.layout import POSITION, Layout
from .levels.position_level import correction_velocity, covelocity, position_rows
from .levels.statement import Here, Matrices, Statement
from .moreau import Moreau, midpoint, on_manifold


@dataclass(frozen=True)
class GGLDecoupled:
    """Moreau's midpoint rule, and then the projection of its positions onto constraints and gaps.

    With (u⁺, P) and the end position q̄ of `Moreau`, q_M its midpoint, and multipliers Ψ:

        q⁺ = q̄ + B W(t_M, q_M) Ψ
        g(t_{n+1}, q⁺) = 0,    g_N(t_{n+1}, q⁺) ∈ N_{R−}(−Ψ_N)

    with B at q_M. With more q than u (quaternions) the midpoint rule of `Moreau` takes the velocity (u_n + u⁺)/2 + WΨ/Δt
    instead, which keeps the length of quaternions.

    (Schoeder, Ulbrich, Schindler 2014, eqs. 29–33.) First order. The correction knows nothing of the velocities, so the
    total energy oscillates where contacts stay closed: `GGLUnified` couples the two. A closed contact sits on a switch, so
    derivatives through it are one-sided.

    - tol: tolerance on gaps and constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", another method of `jaxns.solve_contacts`, or a `jaxns.Solver`, to compare
    - restitution: as in `Moreau`

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.GGLDecoupled(), ball.q0, ball.u0, dt=0.01, t1=1.0)
    >>> bool(traj.q[:, 1].min() >= 0.1 - 1e-9)
    True
    """

    tol: float | None = None
    solver: str | Solver = "newton"
    restitution: Restitution = "newton"

    def __post_init__(self) -> None:
        check_solver(self)
        check_restitution(self)

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Array:
        return Moreau().start(system, t, q, u, dt)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Array, tol: Array) -> Step:
        free = Moreau(solver=self.solver, restitution=self.restitution).step(system, t, q, u, dt, memory, tol)
        projection = _Projection(Layout(system.rows(t, q, u), (POSITION,)), 0, None)
        theta = Theta(system, t, dt, q, u, memory, tol, more=_Free(free.q, 0.5 * (u + free.u)))
        q_end, stats = projection.solved(self.solver, theta)
        return free._replace(q=q_end, solves=(*free.solves, stats))


class _Free(NamedTuple):
    """The end of Moreau's step."""

    q: Array
    u_mean: Array


@dataclass(frozen=True)
class _Projection(Statement):
    """The projection in velocities ψ = Ψ/Δt and rows (g, g_N)/Δt, which keeps all scales near one."""

    def place(self, theta: Theta) -> Configuration:
        return midpoint(theta)

    def units(self, theta: Theta, fixed: None) -> tuple[Array, ...]:
        return (jnp.broadcast_to(theta.dt, (self.layout.laws.size,)),)

    def diagonals(self, d: Matrices) -> tuple[Array, ...]:
        """The correction moves q along B W, so its Delassus diagonal is that of WᵀW."""
        return (self.layout.of(POSITION, total(d.W * d.W)),)

    def guess(self, here: Here) -> tuple[Array, Array]:
        zero = jnp.zeros((self.layout.laws.size,), here.theta.q.dtype)
        return zero[:0], zero

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, *_ = here.theta
        return z, position_rows(system, t + dt, self.outputs(z, P, here), self.layout.rows.n_g) / dt

    def outputs(self, z: Array, P: Array, here: Here) -> Array:
        """q⁺ from the percussions ψ."""
        _, _, dt, q, u, _, _, free = here.theta
        middle = midpoint(here.theta)
        correction = covelocity(middle, self.layout.rows.n_g, P)
        if q.shape == u.shape:
            return free.q + dt * correction_velocity(middle, correction)
        return on_manifold(lambda q: middle.system.q_dot(middle.t, q, free.u_mean + correction), q, dt)
