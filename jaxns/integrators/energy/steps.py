"""Energy-consistent integrators: the discrete energy balance holds for every step size.

All of them pose the same impact-free step from (q^B, u^C) to (q^E, u^E), with discrete derivatives D(q^B, q^E) of
potential, constraints and gaps. They differ in the form of the inertia terms, in the levels of the constraints, and in
what they do about impacts. Forces that have no potential are taken at the midpoint, with the mean velocity, or explicitly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
from jax import Array, lax

from ...model.system import Rows, System
from ...solve import implicit
from ...solve.inclusion import Solver
from ..base import Configuration, Solve, Step, Theta, check_solver, law_table
from ..levels import velocity_level
from ..levels.impact_laws import Restitution, check_restitution, solve_impact
from ..levels.statement import AnyDirections
from .form import End, Form, closed
from .impact_free import ImpactFree

Normals = Literal["discrete", "begin"]
Damping = Literal["midpoint", "begin"]


class Memory(NamedTuple):
    P: Array  # percussions of the impact-free step, a guess
    Lambda: Array  # of the impact, a guess


@dataclass(frozen=True)
class Consistent(ABC):
    """What all energy-consistent integrators share."""

    normals: Normals = "discrete"
    damping: Damping = "midpoint"
    tol: float | None = None
    solver: str | Solver = "newton"

    def __post_init__(self) -> None:
        check_solver(self)
        self._check("normals", Normals)
        self._check("damping", Damping)

    def _check(self, name: str, allowed: Any) -> None:
        if getattr(self, name) not in get_args(allowed):
            given = getattr(self, name)
            raise ValueError(f"{type(self).__name__}: {name} must be one of {get_args(allowed)}, got {given!r}.")

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        n = law_table(system.rows(t, q, u)).size
        return Memory(jnp.zeros((n,), u.dtype), jnp.zeros((n,), u.dtype))

    @abstractmethod
    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        """The form of the impact-free step; raises where the scheme does not fit the system."""

    def _impact_free(self, form: Form, theta: Theta, solve: Solve = implicit.solve) -> tuple[End, Any]:
        form = form._replace(explicit_damping=self.damping == "begin")
        return ImpactFree.of(theta, form).solved(self.solver, theta, solve)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Memory, tol: Array) -> Step:
        form = self._form(system, t, q, u)
        end, stats = self._impact_free(form, Theta(system, t, dt, q, u, memory.P, tol))
        return Step(end.q, end.u, end.P, memory._replace(P=lax.stop_gradient(end.P)), (stats,))


@dataclass(frozen=True)
class TwoStep(Consistent):
    """What the schemes share that put an impact before the impact-free step."""

    restitution: Restitution = "newton"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_restitution(self)

    def step(
        self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Memory, tol: Array,
        solve: Solve = implicit.solve,
    ) -> Step:  # fmt: skip
        rows = system.rows(t, q, u)
        theta = Theta(system, t, dt, q, u, memory.Lambda, tol)
        u_C, Lambda, stats_1, reduced = solve_impact(
            self, law_table(rows), _begin, partial(_impact, rows), theta, solve=solve
        )
        form = self._form(system, t, q, u)
        end, stats_2 = self._impact_free(form, theta._replace(u=u_C, P_guess=memory.P), solve)
        memory = Memory(lax.stop_gradient(end.P), lax.stop_gradient(Lambda))
        return Step(end.q, end.u, Lambda + end.P, memory, (stats_1, stats_2), reduced=reduced)


def _begin(theta: Theta) -> Configuration:
    return Configuration(theta.system, theta.t, theta.q, theta.u)


def _impact(rows: Rows, theta: Theta, d: AnyDirections) -> velocity_level.Impact:
    system, t, _, q, u, guess, tol, _ = theta
    mu = velocity_level.friction(system, rows, u.dtype)
    return velocity_level.Impact(u, system.velocities(t, q, u), mu, closed(theta), guess, tol)


def decomposed(integrator: Any, system: System, t: Array, q: Array, u: Array) -> Form:
    """The form of `EnergyDecomposedMass`."""
    name = type(integrator).__name__
    needs_constant_mass(integrator, system, t, q)
    if q.shape != u.shape:
        raise ValueError(
            f"{name} needs as many positions as velocities, got {q.shape[0]} and {u.shape[0]}; use EnergyQuaternion or "
            "EnergyQuaternionTwoStep for quaternions with angular velocities."
        )
    form = Form(True, False, True, integrator.normals == "discrete")
    return form._replace(gyroscopic=True, midpoint=integrator.midpoint)


def needs_constant_mass(integrator: Any, system: System, t: Array, q: Array) -> None:
    if not system.constant_mass(t, q):
        raise ValueError(
            f"{type(integrator).__name__} needs a constant mass matrix; use EnergyCoordinateMass or EnergyTwoStep for M(q)."
        )
