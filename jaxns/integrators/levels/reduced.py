"""Impacts on velocity level, with a restitution that yields where Newton's law has no solution.

Newton's law ξ = γ⁺ + e γ⁻ can ask wedged bodies to rebound from all walls at once, by percussions that hold each other in
balance. With "reduce" the impact then takes place with s e_N and s e_F in place of e_N and e_F, for the largest s in [0, 1]
with which it has a solution, found by bisection. All other impacts keep their law.
"""

from __future__ import annotations

from collections.abc import Callable
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
from . import velocity_level
from .large import Structure

Restitution = Literal["newton", "reduce"]
HALVINGS = 10  # of the interval in which s lies


def check_restitution(integrator: Any) -> None:
    """Raise on a restitution that does not exist."""
    if integrator.restitution not in get_args(Restitution):
        name, given = type(integrator).__name__, integrator.restitution
        raise ValueError(f"{name}: restitution must be one of {get_args(Restitution)}, got {given!r}.")


class ImpactEnd(NamedTuple):
    """An impact that is solved."""

    u: Array
    P: Array
    stats: inclusion.Stats
    reduced: Array | None  # () 1 where restitution was reduced, else 0; None for Newton's law


class _Weakened(NamedTuple):
    """What an impact depends on, with s times its restitution; where nobody wants it, any percussion will do."""

    theta: Any
    factor: Array
    wanted: Array


def solve_impact(
    integrator: Any,
    laws: LawTable,
    configuration: Callable[[Any], Configuration],
    impact: Callable[[Any, velocity_level.AnyDirections], velocity_level.Impact],
    theta: Any,
    structure: Structure | None = None,
    solve: Solve = implicit.solve,
) -> ImpactEnd:
    """Solve `velocity_level.problem` by the solver and with the restitution of the integrator."""
    if integrator.restitution == "newton":
        problem = velocity_level.problem(laws, configuration, impact, structure).solved_by(integrator.solver)
        (u, P), stats = solve(problem, theta)
        return ImpactEnd(u, P, stats, None)

    def weakened(weak: _Weakened, d: velocity_level.AnyDirections) -> velocity_level.Impact:
        full = impact(weak.theta, d)
        factor = weak.factor.astype(full.before.dtype)
        return full._replace(before=factor * full.before, tol=jnp.where(weak.wanted, full.tol, jnp.inf))

    problem = velocity_level.problem(laws, lambda weak: configuration(weak.theta), weakened, structure)
    problem = problem.solved_by(integrator.solver)
    one = jnp.ones(())
    (u, P), stats = implicit.solve(problem, _Weakened(theta, one, jnp.asarray(True)))
    newton = ImpactEnd(u, P, stats, jnp.asarray(0))
    infeasible = stats.status == Status.INFEASIBLE

    def with_less() -> ImpactEnd:
        factor = _largest_factor(problem, lax.stop_gradient(theta), one, infeasible)
        (u, P), stats = implicit.solve(problem, _Weakened(theta, factor, infeasible))
        solved = infeasible & (stats.status == Status.OK)
        stats = stats._replace(iterations=stats.iterations + newton.stats.iterations)
        less = ImpactEnd(u, P, stats, jnp.asarray(1))
        return jax.tree.map(lambda less, full: jnp.where(solved, less, full), less, newton)

    return lax.cond(anywhere(infeasible), with_less, lambda: newton)


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
