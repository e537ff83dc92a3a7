"""What a step with located impacts is made of: steps of a scheme with some contacts only, and impacts between them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from ...laws.table import LawTable
from ...model.system import Rows, System
from ...solve import implicit, inclusion
from ..base import Configuration, Step, law_table
from ..levels import large, velocity_level


class Theta(NamedTuple):
    """What a step depends on."""

    system: System
    t: Array
    dt: Array
    q: Array
    u: Array
    memory: Any  # of the scheme
    closed: Array  # (n_N,) bool: contacts that the last step kept closed
    tol: Array


class Place(NamedTuple):
    """Where a motion has come to."""

    t: Array
    q: Array
    u: Array


class Acting(NamedTuple):
    """Which contacts act in a part of a step."""

    may: Array  # (n_N,) bool: obey the law of the scheme
    must: Array  # (n_N,) bool: are closed, whatever the scheme thinks of their gaps


class Roots(NamedTuple):
    """Solutions of the inclusions of a part."""

    step: tuple[inclusion.Root, ...]
    impact: inclusion.Root


class _Masked(NamedTuple):
    theta: Any
    acting: Acting


class _AtImpact(NamedTuple):
    system: System
    place: Place
    touches: Array
    tol: Array


@dataclass(frozen=True)
class Parts:
    """The parts of a divided step."""

    scheme: Any  # an integrator whose `step` takes `solve`
    rows: Rows

    @property
    def laws(self) -> LawTable:
        return law_table(self.rows)

    def by_contact(self, velocities: Array) -> Array:
        """(ġ_N, γ_F) of each contact (n_N, 1 + d)."""
        _, normal, friction = self.laws.split(velocities)
        return jnp.concatenate([normal[:, None], self.laws.contact_matrix(friction)], axis=1)

    def step(
        self,
        theta: Theta,
        start: Place,
        h: Array,
        acting: Acting,
        tol: Array,
        roots: tuple[inclusion.Root, ...] | None = None,
        twice: bool = False,
    ) -> tuple[Step, tuple[inclusion.Root, ...]]:
        """A step of the scheme over h, and the roots of its inclusions.

        From known roots, where they are given, with its first derivative, or with two.

        Only a contact that approaches has a restitution: one that has just rebounded, and is pressed down again before
        the end of the step, comes to rest.
        """
        found: list[inclusion.Root] = []

        def solve(problem: inclusion.Problem, theta: Any) -> tuple[Any, inclusion.Stats]:
            masked, parameters = _masked(problem), _Masked(theta, acting)
            if roots is not None:
                root = roots[len(found)]
                found.append(root)
                zero = jnp.asarray(0)
                known = implicit.known if twice else implicit.known_once
                return known(masked, root, parameters), inclusion.Stats(zero, zero, 0.0 * start.t, zero - 1)
            solved = inclusion.solve(masked, parameters)
            found.append(solved.root)
            return solved.outputs, solved.stats

        approaching = theta.system.g_N_dot(*start) < 0.0
        here = theta.system.at_speeds(*start)
        system = _with_restitution(here, self.rows, approaching, start.u.dtype)
        step = self.scheme.step(system, *start, h, theta.memory, tol, solve=solve)
        return step, tuple(found)

    def impact(self, system: System, place: Place, touches: Array, tol: Array) -> inclusion.Solved:
        """u⁺ and P of the impact at (t, q, u⁻)."""
        return inclusion.solve(self._impact(system, place), _AtImpact(system, place, touches, tol))

    def known_impact(
        self, system: System, place: Place, touches: Array, tol: Array, root: inclusion.Root, twice: bool
    ) -> tuple[Array, Array]:
        """The same from its root, differentiable once or twice."""
        known = implicit.known if twice else implicit.known_once
        return known(self._impact(system, place), root, _AtImpact(system, place, touches, tol))

    def _impact(self, system: System, place: Place) -> inclusion.Problem:
        structure = large.structure(system, self.laws, velocity_level.rows, *place)

        def impact(theta: _AtImpact, d: velocity_level.AnyDirections) -> velocity_level.Impact:
            velocities = theta.system.velocities(*theta.place)
            before, mu = velocity_level.restitution(theta.system.at_speeds(*theta.place), self.rows, velocities)
            none = jnp.zeros_like(before)
            return velocity_level.Impact(theta.place.u, before, mu, theta.touches, none, theta.tol)

        problem = velocity_level.problem(
            self.laws, lambda theta: Configuration(theta.system, *theta.place), impact, structure
        )
        return problem.solved_by(self.scheme.solver)


def _masked(problem: inclusion.Problem) -> inclusion.Problem:
    """The same problem for the acting contacts."""

    def with_mask(evaluate: Callable[[Any], Any]) -> Callable[[_Masked], Any]:
        def masked(theta: _Masked) -> Any:
            data = evaluate(theta.theta)
            scaling: inclusion.Scaling = data.scaling
            may, must = theta.acting
            stages = scaling.closed.shape[0] // may.shape[0]
            closed = scaling.closed & jnp.tile(may, stages) | jnp.tile(must, stages)
            return data._replace(scaling=scaling._replace(closed=closed))

        return masked

    return replace(problem, prepare=with_mask(problem.prepare), direct=with_mask(problem.direct))


def _with_restitution(system: System, rows: Rows, where: Array, dtype: Any) -> System:
    """The system with e_N = 0 in all other contacts."""
    contacts, first = [], 0
    for old, (n, _, _) in zip(system.contacts, rows.groups, strict=True):
        new = copy.copy(old)
        e_N = old.coefficient("e_N", system.params, n, dtype)
        new.e_N = jnp.where(where[first : first + n], e_N, jnp.zeros_like(e_N))
        contacts.append(new)
        first += n
    return System.tree_unflatten(system.tree_flatten()[1], (system.params, tuple(contacts)))
