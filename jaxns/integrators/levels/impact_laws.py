"""Impacts on velocity level, by one of three laws.

"newton": ξ = γ⁺ + e γ⁻ ∈ N_C(−P), one inclusion. It can ask wedged bodies to rebound from all walls at once, by
percussions that hold each other in balance, and it can raise the energy (docs/laws.md).

"reduce": where Newton's law has no solution, the impact takes place with s e_N and s e_F in place of e_N and e_F, for the
largest s in [0, 1] with which it has one, found by bisection. All other impacts keep their law.

"poisson": percussions are given back, not velocities. It has no such impacts, and never raises the energy (`poisson`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name

from ...laws.table import LawTable
from ...solve import implicit, inclusion
from ...solve.lanes import anywhere
from ...solve.status import Status
from ..base import Configuration, Solve
from . import poisson, velocity_level
from .large import Structure

Restitution = Literal["newton", "reduce", "poisson"]
HALVINGS = 10  # of the interval in which s lies


def check_restitution(integrator: Any) -> None:
    """Raise on a restitution that does not exist, or that the solver does not know."""
    name, given = type(integrator).__name__, integrator.restitution
    if given not in get_args(Restitution):
        raise ValueError(f"{name}: restitution must be one of {get_args(Restitution)}, got {given!r}.")
    method = inclusion.Solver.of(integrator.solver, f"{name}: solver").method
    if given == "poisson" and method not in poisson.METHODS:
        raise ValueError(f'{name}: restitution="poisson" needs a solver of {poisson.METHODS}, got {method!r}.')


class ImpactEnd(NamedTuple):
    """An impact that is solved."""

    u: Array
    P: Array
    stats: inclusion.Stats
    reduced: Array | None  # () 1 where restitution was reduced, else 0; None for the other laws


class _Weakened(NamedTuple):
    """What an impact depends on, with s times its restitution; where nobody wants it, any percussion will do."""

    theta: Any
    factor: Array
    wanted: Array


def solve_impact(
    integrator: Any,
    laws: LawTable,
    configuration: Callable[[Any], Configuration],
    meets: Callable[[Any, velocity_level.AnyDirections], velocity_level.Impact],
    theta: Any,
    structure: Structure | None = None,
    solve: Solve = implicit.solve,
) -> ImpactEnd:
    """Solve `velocity_level.problem` by the solver and the law of the integrator.

    `meets` is an impact without a law: its `before` are the rows (ġ, γ, ġ_N, γ_F) before it.
    """

    def newton(theta: Any, d: velocity_level.AnyDirections) -> velocity_level.Impact:
        impact = meets(theta, d)
        system, *state = configuration(theta)
        e = velocity_level.restitution_factors(system, system.rows(*state), impact.before.dtype)
        return impact._replace(before=e * impact.before)

    def posed(laws: LawTable, configuration: Any, impact: Any) -> inclusion.Problem:
        return velocity_level.problem(laws, configuration, impact, structure).solved_by(integrator.solver)

    if integrator.restitution == "newton":
        (u, P), stats = solve(posed(laws, configuration, newton), theta)
        return ImpactEnd(u, P, stats, None)
    if integrator.restitution == "poisson":
        u, P, stats = poisson.solve_impact(laws, configuration, meets, theta, posed, solve)
        return ImpactEnd(u, P, stats, None)

    def weakened(weak: _Weakened, d: velocity_level.AnyDirections) -> velocity_level.Impact:
        full = newton(weak.theta, d)
        factor = weak.factor.astype(full.before.dtype)
        return full._replace(before=factor * full.before, tol=jnp.where(weak.wanted, full.tol, jnp.inf))

    problem = posed(laws, lambda weak: configuration(weak.theta), weakened)
    one = jnp.ones(())
    (u, P), stats = implicit.solve(problem, _Weakened(theta, one, jnp.asarray(True)))
    full = ImpactEnd(u, P, stats, jnp.asarray(0))
    infeasible = stats.status == Status.INFEASIBLE

    def with_less() -> ImpactEnd:
        factor = _largest_factor(problem, lax.stop_gradient(theta), one, infeasible)
        (u, P), stats = implicit.solve(problem, _Weakened(theta, factor, infeasible))
        solved = infeasible & (stats.status == Status.OK)
        stats = stats._replace(iterations=stats.iterations + full.stats.iterations)
        less = ImpactEnd(u, P, stats, jnp.asarray(1))
        return jax.tree.map(partial(jnp.where, solved), less, full)

    return lax.cond(anywhere(infeasible), with_less, lambda: full)


def _largest_factor(problem: inclusion.Problem, theta: Any, one: Array, wanted: Array) -> Array:
    """The largest s with which the impact has a solution, from below, or 0. It carries no derivative."""

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        status = inclusion.solve(problem, _Weakened(theta, middle, wanted)).stats.status
        solved = status == Status.OK
        return jnp.where(solved, middle, low), jnp.where(solved, high, middle)

    # Named, so that a reverse pass does not repeat the search.
    return checkpoint_name(lax.fori_loop(0, HALVINGS, halve, (0.0 * one, one))[0], implicit.ROOT)
