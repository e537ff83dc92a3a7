"""Steps of two solves: positions with percussions of a first part, then velocities with those of the whole step.

The second solve is the same for all such schemes, with P the whole percussion of the step, all rows at (t_{n+1}, q⁺), and
u_free the velocity without P:

    M (u⁺ − u_free) = W P
    ġ⁺ = 0,  γ⁺ = 0
    closed (r g_N − P_N ≤ 0 at the end of the first solve):  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   open: P_N = 0
    ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

from jax import Array

from ...model.system import Rows, System
from ...solve import implicit
from ...solve.inclusion import Solver
from ...trace.vectorise import materialise
from ..base import Configuration, Solve, Step, Theta, check_solver, law_table
from . import large, velocity_level
from .guesses import Memory
from .impact_laws import Restitution, check_restitution, solve_impact
from .layout import Layout
from .statement import AnyDirections, Here, Statement


class First(NamedTuple):
    """Outputs of the first solve."""

    q: Array  # (nq,) q⁺
    u: Array  # (nu,) the velocity that the first solve ends with
    P: Array  # (n,) percussions of the first part
    unknown: Array  # percussions as the first solve has them
    closed: Array  # (n_N,) bool
    velocities: Array  # (n,) rows (ġ, γ, ġ_N, γ_F) at (t_n, q_n, u_n)
    impulse: Any = None  # (nu,) all that has changed the momentum so far, where the scheme needs it


class Second(NamedTuple):
    """What the second solve depends on."""

    step: Theta
    first: First


def closed_at_end(layout: Layout, q_end: Array, P: Array, here: Here) -> Array:
    """(n_N,) bool: r g_N(q⁺) − P_N ≤ 0, for the last stage. In exact arithmetic these are the contacts with g_N ≤ 0."""
    system, t, dt, *_ = here.theta
    n_N = layout.rows.n_N
    r_N, P_N = (layout.laws.split(rows)[1][layout.laws.n_N - n_N :] for rows in (here.scaling.r, P))
    return r_N * system.g_N(t + dt, q_end) / dt - P_N <= 0.0


class TwoSolves(ABC):
    """What such schemes share."""

    solver: str | Solver
    restitution: Restitution

    def __post_init__(self) -> None:
        check_solver(self)
        check_restitution(self)

    @abstractmethod
    def first_solve(self, system: System, t: Array, q: Array, u: Array) -> Statement:
        """The first solve, with outputs `First`."""

    @abstractmethod
    def free_velocity(self, second: Second, d: AnyDirections) -> Array:
        """u_free, from inertia and force directions at (t_{n+1}, q⁺)."""

    @property
    @abstractmethod
    def share(self) -> float:
        """Share of the first percussions in those of a step without impact."""

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        n = law_table(system.rows(t, q, u)).size
        return Memory.start(self.first_solve(system, t, q, u).layout.laws.size, n, u.dtype)

    def step(
        self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Memory, tol: Array,
        solve: Solve = implicit.solve,
    ) -> Step:  # fmt: skip
        statement = self.first_solve(system, t, q, u)
        guess = memory.first_guess()
        theta = Theta(system, t, dt, q, u, guess, tol)
        first, stats_1 = statement.solved(self.solver, theta, solve)
        proportional = first.P / self.share
        P_guess = memory.whole_guess(guess, first.unknown, proportional)
        rows = statement.layout.rows
        laws = law_table(rows)
        structure = large.structure(system, laws, velocity_level.rows, t, q, u)
        second = Second(theta._replace(P_guess=P_guess), first)
        u_end, P, stats_2, reduced = solve_impact(
            self, laws, _end, partial(_impact, self, rows), second, structure, solve
        )
        memory = memory.after(laws, (first.unknown, guess), (P, P_guess), proportional)
        return Step(first.q, u_end, P, memory, (stats_1, stats_2), reduced=reduced)


def _end(second: Second) -> Configuration:
    step, first = second
    return Configuration(step.system, step.t + step.dt, first.q, first.u)


def _impact(scheme: TwoSolves, rows: Rows, second: Second, d: AnyDirections) -> velocity_level.Impact:
    step, first = second
    mu = velocity_level.friction(step.system, rows, first.velocities.dtype)
    u_free = materialise(scheme.free_velocity(second, d))
    return velocity_level.Impact(u_free, first.velocities, mu, first.closed, step.P_guess, step.tol)
