"""Gear, Gupta and Leimkuhler decoupled: a step of Moreau's rule, and then the projection of its positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import implicit
from ..solve.inclusion import Problem, Scaling
from ..solve.lanes import total
from ..trace.vectorise import materialise
from .base import Step, Theta, check_solver, law_table, with_row_of_system
from .levels.position_level import correction_velocity, covelocity, of_position, position_laws, position_rows
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
    - solver: how inclusions are solved: "newton", or another method of `jaxns.solve_contacts`, to compare

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.GGLDecoupled(), ball.q0, ball.u0, dt=0.01, t1=1.0)
    >>> bool(traj.q[:, 1].min() >= 0.1 - 1e-9)
    True
    """

    tol: float | None = None
    solver: str = "newton"

    def __post_init__(self) -> None:
        check_solver(self)

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Array:
        return Moreau().start(system, t, q, u, dt)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Array, tol: Array) -> Step:
        free = Moreau(solver=self.solver).step(system, t, q, u, dt, memory, tol)
        rows = system.rows(t, q, u)
        projection = _projection(rows, position_laws(law_table(rows), rows.n_g))
        theta = _ThetaProjection(Theta(system, t, dt, q, u, memory, tol), free.q, 0.5 * (u + free.u))
        q_end, stats = implicit.solve(projection.solved_by(self.solver), theta)
        stats = with_row_of_system(stats, of_position(rows, jnp.arange(law_table(rows).size)))
        return free._replace(q=q_end, solves=(*free.solves, stats))


class _ThetaProjection(NamedTuple):
    step: Theta
    q_free: Array
    u_mean: Array  # of Moreau's step


class _DataProjection(NamedTuple):
    scaling: Scaling
    theta: _ThetaProjection


def _projection(rows: Rows, laws: LawTable) -> Problem:
    """The projection in velocities ψ = Ψ/Δt and rows (g, g_N)/Δt, which keeps all scales near one."""

    def data(theta: _ThetaProjection, r: Array) -> _DataProjection:
        step = theta.step
        unit = jnp.broadcast_to(step.dt, (laws.size,))
        mu, closed = step.q[:0], jnp.ones((rows.n_N,), bool)
        return _DataProjection(Scaling(r, mu, closed, unit[:0], unit, step.tol), theta)

    def prepare(theta: _ThetaProjection) -> _DataProjection:
        system, t_M, q_M, u = midpoint(theta.step)
        W = materialise(system.W(t_M, q_M, u))
        # The correction moves q along B W, so its Delassus diagonal is that of WᵀW.
        return data(theta, laws.prox_parameters(of_position(rows, total(W * W)), q_M[:0]))

    def direct(theta: _ThetaProjection) -> _DataProjection:
        return data(theta, jnp.ones((laws.size,), theta.q_free.dtype))

    def guess(data: _DataProjection) -> tuple[Array, Array]:
        zero = jnp.zeros((laws.size,), data.theta.q_free.dtype)
        return zero[:0], zero

    def end(psi: Array, data: _DataProjection) -> Array:
        step, here = data.theta.step, midpoint(data.theta.step)
        correction = covelocity(here, rows.n_g, psi)
        if step.q.shape == step.u.shape:
            return data.theta.q_free + step.dt * correction_velocity(here, correction)
        return on_manifold(lambda q: here.system.q_dot(here.t, q, data.theta.u_mean + correction), step.q, step.dt)

    def equations(z: Array, psi: Array, data: _DataProjection) -> tuple[Array, Array]:
        step = data.theta.step
        return z, position_rows(step.system, step.t + step.dt, end(psi, data), rows.n_g) / step.dt

    return Problem(laws, prepare, direct, guess, equations, lambda z, psi, data: end(psi, data))
