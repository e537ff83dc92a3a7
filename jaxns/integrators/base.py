"""What every integrator shares: the step contract, tolerances, and the mechanics at one configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from ..laws.friction import Coulomb
from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import dense, inclusion
from ..solve.lanes import total
from ..trace.vectorise import materialise


class Step(NamedTuple):
    """Result of one time step."""

    q: Array  # (nq,)
    u: Array  # (nu,)
    P: Array  # (n,) percussion increments, rows (g, γ, N, F)
    memory: Any  # what the next step wants to know of this one
    solves: tuple[inclusion.Stats, ...]  # one for each solve of the step
    extra: Any = None  # what else an integrator tells of the step
    reduced: Array | None = None  # () how many impacts had their restitution reduced, where that is asked for
    captured: Array | None = None  # () how many impacts were not located, where that is asked for


class Theta(NamedTuple):
    """What a step from t_n to t_{n+1} depends on."""

    system: System
    t: Array
    dt: Array
    q: Array
    u: Array
    P_guess: Array
    tol: Array
    more: Any = None  # what a scheme's own inclusion depends on beside that


Solve = Callable[[inclusion.Problem, Any], tuple[Any, inclusion.Stats]]  # like `implicit.solve`


class Integrator(Protocol):
    """A fixed-step integrator: frozen, hashable, and pure.

    `start` makes the memory of the first step; `step` advances from t to t + dt. What a memory holds for the sake of
    guesses must pass through `lax.stop_gradient`. A step reports through the stats of its solves and never raises. `tol`
    is a traced scalar: infinite for a trajectory that has already failed, so that it costs no iterations.

    A `step` with one more argument `solve: Solve` leaves to its caller how inclusions are solved: `Located` can divide it.
    """

    @property
    def tol(self) -> float | None: ...

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Any: ...

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Any, tol: Array) -> Step: ...


def follows_speeds(integrator: Integrator) -> bool:
    """Whether an integrator evaluates `BySpeed` coefficients itself; others get the values at the beginning of a step."""
    return getattr(integrator, "follows_speeds", False)


def remembers_motion(integrator: Integrator) -> bool:
    """Whether a memory holds values with a derivative, and not just guesses."""
    return getattr(integrator, "remembers_motion", False)


def tolerance(tol: float | None, dtype: Any) -> float:
    """The solver tolerance for a dtype; raises when the dtype cannot reach the one asked for."""
    eps = float(jnp.finfo(dtype).eps)
    if tol is None:
        return 1e-10 if eps < 1e-15 else 100.0 * eps
    if tol < 16.0 * eps:
        advice = "" if eps < 1e-15 else " Enable float64 (JAX_ENABLE_X64=1) or raise the tolerance."
        raise ValueError(f"tol={tol:g} cannot be reached in {jnp.dtype(dtype).name} (precision {eps:.1g}).{advice}")
    return tol


def check_solver(integrator: Any) -> None:
    """Raise on a solver that does not exist."""
    inclusion.Solver.of(integrator.solver, f"{type(integrator).__name__}: solver")


def law_table(rows: Rows) -> LawTable:
    """The force laws of a system's rows; a group without a law of its own has Coulomb's."""
    return LawTable(rows.n_bilateral, tuple((n, d, law or Coulomb()) for n, d, law in rows.groups))


class Configuration(NamedTuple):
    """A system at one time and position; u only fixes shapes."""

    system: System
    t: Array
    q: Array
    u: Array


def inverse_mass(system: System, t: Array, q: Array) -> Array:
    """M⁻¹ (nu, nu), or its diagonal (nu,) where the mass matrix is diagonal whatever its arguments are."""
    M = system.M(t, q)
    return 1.0 / jnp.diagonal(M) if system.diagonal_mass(t, q) else dense.inverse(M)


def apply_inverse(M_inv: Array, x: Array) -> Array:
    """M⁻¹ x for x (nu,) or (nu, k), from what `inverse_mass` returned."""
    if M_inv.ndim == 2:
        return dense.matmul(M_inv, x)
    return M_inv * x if x.ndim == 1 else M_inv[:, None] * x


class Directions(NamedTuple):
    """Inertia and force directions at one configuration, as matrices: for many applications."""

    W: Array  # (nu, n)
    M_inv: Array  # of `inverse_mass`
    M_inv_W: Array  # (nu, n)

    @classmethod
    def at(cls, configuration: Configuration) -> Directions:
        system, t, q, u = configuration
        W = materialise(system.W(t, q, u))
        M_inv = inverse_mass(system, t, q)
        return cls(W, M_inv, materialise(apply_inverse(M_inv, W)))

    def accelerate(self, force: Array) -> Array:
        """M⁻¹ f (nu,)."""
        return apply_inverse(self.M_inv, force)

    def kick(self, P: Array) -> Array:
        """M⁻¹W P (nu,)."""
        return dense.matmul(self.M_inv_W, P)

    def G_diagonal(self) -> Array:
        """Diagonal of the Delassus matrix WᵀM⁻¹W (n,)."""
        return total(self.W * self.M_inv_W)


class DirectDirections(NamedTuple):
    """The same without the matrices: for one application, and for cheap derivatives of it."""

    configuration: Configuration
    M_inv: Array  # of `inverse_mass`

    @classmethod
    def at(cls, configuration: Configuration) -> DirectDirections:
        return cls(configuration, inverse_mass(configuration.system, configuration.t, configuration.q))

    def accelerate(self, force: Array) -> Array:
        return apply_inverse(self.M_inv, force)

    def kick(self, P: Array) -> Array:
        system, t, q, u = self.configuration
        _, pull = jax.vjp(lambda u: system.velocities(t, q, u), u)
        return self.accelerate(pull(P)[0])


def velocity_unit(velocities: Array) -> Array:
    """Factor that makes velocity residuals relative to the size of the velocities, absolute below 1 m/s."""
    return 1.0 / jnp.maximum(1.0, jnp.max(jnp.abs(velocities), initial=0.0))
