"""An inclusion as a scheme states it, and what follows from the statement.

A scheme says which rows stand on which levels (`layout`), where inertia and force directions are taken (`place`), what no
unknown changes (`fixed`), how y and the defects S follow from (z, P) (`equations`), in which units they are judged, and
where to begin. What the solver wants beside that follows: matrices for many evaluations and the direct form for one, prox
parameters from the Delassus diagonal, scaling, the Jacobian, and the sparse form of large systems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...solve import implicit, inclusion
from ...solve.inclusion import Problem, Scaling, Solver
from ...trace.vectorise import materialise
from ..base import Configuration, DirectDirections, Directions, Solve, Theta, velocity_unit
from .large import SparseDirections, Structure, coupled_form, newton_form
from .layout import Layout

Matrices = Directions | SparseDirections
AnyDirections = Matrices | DirectDirections


class Here(NamedTuple):
    """What an inclusion knows of its step."""

    scaling: Scaling
    theta: Theta
    directions: Any  # AnyDirections at `place`
    fixed: Any  # what the statement computed once


@dataclass(frozen=True)
class Statement(ABC):
    """One inclusion of a scheme, with n_z smooth unknowns z and the percussions P of its layout."""

    layout: Layout
    n_z: int
    structure: Structure | None  # of a large system, whose matrices are sparse

    needs_matrices: ClassVar[bool] = False  # whether `equations` use the force directions as a matrix

    @abstractmethod
    def units(self, theta: Theta, fixed: Any) -> tuple[Array, ...]:
        """For the rows of each level the factor that makes y one in the units of the tolerance."""

    @abstractmethod
    def guess(self, here: Here) -> tuple[Array, Array]:
        """(z, P) to begin with."""

    @abstractmethod
    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        """The defects S of the smooth equations, and the rows y."""

    @abstractmethod
    def outputs(self, z: Array, P: Array, here: Here) -> Any:
        """What the scheme wants of the solution."""

    def place(self, theta: Theta) -> Configuration:
        """Where inertia and force directions are taken: at the beginning of the step."""
        return Configuration(theta.system, theta.t, theta.q, theta.u)

    def fixed(self, theta: Theta, d: AnyDirections) -> Any:
        """What no unknown changes."""
        return None

    def closed(self, theta: Theta) -> Array:
        """Contacts whose law acts."""
        return self.layout.all_closed

    def diagonals(self, d: Matrices) -> tuple[Array, ...]:
        """∂y_k/∂P_k for the rows of each level: the scale of P_k."""
        G = d.G_diagonal()
        return tuple(self.layout.at_all_stages(self.layout.of(level, G)) for level in self.layout.levels)

    def problem(self, theta: Theta) -> Problem:
        """The statement for the solver."""
        prepare, direct, form = self._prepare, self._direct, None
        if self.structure is not None:
            form = coupled_form(self, theta)
        if form is not None:
            prepare = direct = self._with_structure
        elif self.needs_matrices:
            direct = prepare
        common = (self.layout.laws, prepare, direct, self.guess, self.equations, self.outputs)
        return Problem(*common, sparse=form, n_z=self.n_z)

    def solved(self, solver: str | Solver, theta: Theta, solve: Solve = implicit.solve) -> tuple[Any, inclusion.Stats]:
        """The outputs of the solution, and stats whose row is one of the system."""
        outputs, stats = solve(self.problem(theta).solved_by(solver), theta)
        rows = self.layout.row_of_system()
        if rows.shape[0]:
            stats = stats._replace(row=jnp.where(stats.row < 0, -1, rows[stats.row]))
        return outputs, stats

    def _prepare(self, theta: Theta) -> Here:
        return self._here(theta, Directions.at(self.place(theta)))

    def _with_structure(self, theta: Theta) -> Here:
        assert self.structure is not None
        return self._here(theta, SparseDirections.at(self.structure, self.place(theta)))

    def of_all_unknowns(self, theta: Theta, x: Array) -> Array:
        """(S, y) at (z, P), of which large systems read a pattern."""
        return jnp.concatenate(self.equations(x[: self.n_z], x[self.n_z :], self._with_structure(theta)))

    def _direct(self, theta: Theta) -> Here:
        return self._here(theta, DirectDirections.at(self.place(theta)))

    def _here(self, theta: Theta, d: AnyDirections) -> Here:
        layout, laws, dtype = self.layout, self.layout.laws, theta.u.dtype
        mu = layout.mu(theta.system, dtype)
        if isinstance(d, DirectDirections):
            r = jnp.ones((laws.size,), dtype)  # a single evaluation has that of its root
        else:
            r = laws.prox_parameters(layout.join(*self.diagonals(d)), mu)
        fixed = self.fixed(theta, d)
        unit_S = jnp.broadcast_to(velocity_unit(theta.u), (self.n_z,))
        unit_y = layout.join(*self.units(theta, fixed))
        return Here(Scaling(r, mu, self.closed(theta), unit_S, unit_y, theta.tol), theta, d, fixed)


@dataclass(frozen=True)
class Explicit(Statement):
    """An inclusion that without smooth unknowns has rows y(u) of one velocity u = u_free + M⁻¹W P.

    `fixed` has `u_free`. Where there are smooth unknowns after all, the scheme states its own `equations`, and it is a
    statement like any other.
    """

    @abstractmethod
    def rows_at(self, u: Array, here: Here) -> Array:
        """The rows y as a function of the velocity."""

    def velocity(self, P: Array, here: Here) -> Array:
        """The velocity that belongs to percussions."""
        return materialise(here.fixed.u_free + here.directions.kick(P))

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        return z, self.rows_at(self.velocity(P, here), here)

    def jacobian(self, z: Array, P: Array, here: Here) -> Array:
        """∂y/∂P: the columns of M⁻¹W, pushed through the rows."""
        push = jax.linearize(lambda u: self.rows_at(u, here), self.velocity(P, here))[1]
        return jax.vmap(push, in_axes=1, out_axes=1)(here.directions.M_inv_W)

    def problem(self, theta: Theta) -> Problem:
        if self.n_z:
            return super().problem(theta)
        laws, common = self.layout.laws, (self.guess, self.equations, self.outputs)
        if self.structure is None:
            return Problem(laws, self._prepare, self._direct, *common, jacobian=self.jacobian)
        form = newton_form(self.structure, laws, lambda here: here.directions, self.velocity, self.rows_at)
        return Problem(laws, self._with_structure, self._with_structure, *common, sparse=form)
