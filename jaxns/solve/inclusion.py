"""Smooth equations coupled with normal cone inclusions: the problem that every integrator poses, and its solution.

A problem has smooth unknowns z (m,) and percussions P (n,). Its equations give

    S(z, P) = 0                              (m,)   smooth part, e.g. an implicit half-step velocity
    y(z, P)  with  y_i ∈ N_{C_i}(−P_i)       (n,)   bilateral rows: C = R, so y = 0

and the laws turn the inclusions into the equation `P + prox_C(r y − P) = 0`.

Scaling. With r_k ≈ 1/G_kk from the Delassus diagonal, the symmetric scaling P̂ = P/√r, ŷ = √r y makes all rows
dimensionless against each other, gives the scaled Delassus matrix a unit diagonal, and reduces the equation to
`P̂ + prox(ŷ − P̂) = 0`: no user tunes an r, and a vanishing pivot can be told from a small one.

Solution. Newton's method with full steps from the guess (`newton`), in all lanes at once; then, in the lanes that are left,
one by one, so that nobody waits for them, the smoothed path of the linearised inclusion (`path`), again and again
(`linearised`). The status is decided by the natural residual alone, never by the size of an increment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend import core

from . import dense, linearised, newton, projected, sparse
from .lanes import Lift, on_lanes
from .linearised import Laws, Result
from .sparse import CoupledForm, SparseForm
from .status import Status

METHODS = ("newton", "path", "natural_newton", "projected_newton", *projected.METHODS, "lemke")
WITH_ALPHA = ("natural_newton", "projected_newton", *projected.METHODS)


@dataclass(frozen=True)
class Solver:
    """A method of `jaxns.solve_contacts` with what the papers let one choose, for comparisons.

    Wherever a method has a name, as in `solver="natural_newton"`, a `Solver` may stand. The solution is the same, and the
    way to it another one.

    - method: "natural_newton", which solves P + prox(r ξ − P) = 0, or one of the sweeps
    - alpha: r = α / max_k G_kk over the rows of one convex set: that of a normal force is its one row, that of a friction
      force has d (Möller 2011, eqs. 2.63, 2.68 and 2.73). By default 1 for "natural_newton"; sweeps take steps from sums of
      rows, which converge more often
    - cone: "natural_newton" with De Saxcé's one cone for normal and friction force, (ξ_N + μ‖ξ_F‖, ξ_F) ∈ N_K(−P), in the
      place of one set for each (Möller 2011, eq. 3.110); for Coulomb friction alone

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> G, c = jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([-1.0, -1.0])
    >>> for alpha in (0.5, 1.0):
    ...     print(ns.solve_contacts(G, c, 0.0, d=0, method=ns.Solver("projected_jacobi", alpha)).iterations)
    18
    35
    """

    method: str = "newton"
    alpha: float | None = None
    cone: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"Solver: method must be one of {', '.join(METHODS)}; got {self.method!r}.")
        if self.alpha is not None and not (self.method in WITH_ALPHA and self.alpha > 0.0):
            known = ", ".join(WITH_ALPHA)
            raise ValueError(f"Solver: an alpha > 0 is for {known} alone; got {self.alpha!r} for {self.method!r}.")
        if self.cone and self.method != "natural_newton":
            raise ValueError(f"Solver: cone=True is for 'natural_newton' alone; got it for {self.method!r}.")

    @staticmethod
    def of(solver: str | Solver, owner: str) -> Solver:
        """A solver, or the one with that name; an error speaks of its owner."""
        if isinstance(solver, Solver):
            return solver
        if solver not in METHODS:
            raise ValueError(f"{owner} must be one of {', '.join(METHODS)}; got {solver!r}.")
        return Solver(solver)


class Scaling(NamedTuple):
    """What the solver must know of a problem besides its equations."""

    r: Array  # (n,) prox parameters, one value for all rows of a contact's friction
    mu: Array  # (n_F,) friction coefficients, one for each friction row
    closed: Array  # (n_N,) bool: contacts whose law acts; the others have P = 0
    unit_S: Array  # (m,) factors that turn rows of S into the units of the tolerance
    unit_y: Array  # (n,) the same for y
    tol: Array  # () tolerance on the residual in those units


class Stats(NamedTuple):
    """How a solve ended."""

    status: Array  # () int, a `Status`
    iterations: Array  # () int, Newton iterations
    residual: Array  # () largest residual in the units of the tolerance
    row: Array  # () int, the row of y with that residual, −1 for a smooth equation


def worse(first: Stats, second: Stats) -> Stats:
    """The worse of two solves, with the iterations of both."""
    bad = second.status > first.status
    return Stats(
        jnp.where(bad, second.status, first.status),
        first.iterations + second.iterations,
        jnp.maximum(first.residual, second.residual),
        jnp.where(bad, second.row, first.row),
    )


@dataclass(frozen=True)
class Problem:
    """One inclusion problem as pure functions.

    - prepare(theta) -> data: everything that does not change during the iteration; `data.scaling` is a `Scaling`
    - direct(theta) -> data: the same for a single evaluation, written so that its derivatives are cheap (no force
      directions as matrices); its `scaling.r` is a placeholder
    - guess(data) -> (z, P)
    - equations(z, P, data) -> (S, y)
    - outputs(z, P, data) -> any pytree: what the caller wants from the solution
    - jacobian(z, P, data) -> (m+n, m+n) of (S, y) with respect to (z, P); by default from `jax.jacfwd`
    - sparse: Newton's method with a sparse matrix in place of `jacobian`, for large problems
    - solver: how the inclusion is solved. "newton" is semismooth Newton on the normal map, "natural_newton" on the natural
      residual itself, as in the papers, without any safeguard. All others linearise the equations, eliminate the
      smooth unknowns and bilateral percussions, and treat the linear inclusion of the contacts by sweeps (`projected`) or
      pivots (`pivoting`), again and again; they count sweeps or pivots as iterations
    """

    laws: Laws
    prepare: Callable[[Any], Any]
    direct: Callable[[Any], Any]
    guess: Callable[[Any], tuple[Array, Array]]
    equations: Callable[[Array, Array, Any], tuple[Array, Array]]
    outputs: Callable[[Array, Array, Any], Any]
    jacobian: Callable[[Array, Array, Any], Array] | None = None
    solver: Solver = Solver()
    max_sweeps: int = 20_000  # of all methods but "newton"
    sparse: SparseForm | CoupledForm | None = None
    n_z: int = 0  # smooth unknowns
    nonlinear: bool = True  # whether its path depends on where it is linearised

    @property
    def unknowns(self) -> int:
        return self.n_z + self.laws.size

    def solved_by(self, solver: str | Solver) -> Problem:
        """The same problem for another method."""
        return replace(self, solver=Solver.of(solver, "solver"))

    @property
    def method(self) -> str:
        return self.solver.method

    def linearisation(self, z: Array, P: Array, data: Any) -> Array:
        """∂(S, y)/∂(z, P)."""
        if self.jacobian is not None:
            return self.jacobian(z, P, data)
        m = z.shape[0]
        x = jnp.concatenate([z, P])
        return jax.jacfwd(lambda x: jnp.concatenate(self.equations(x[:m], x[m:], data)))(x)

    def residual(self, x: Array, r: Array, data: Any) -> Array:
        """The equation whose root x = (z, P̂) is sought, without lanes."""
        s = data.scaling
        root_r = jnp.sqrt(r)
        m = x.shape[0] - r.shape[0]
        S, y = self.equations(x[:m], root_r * x[m:], data)
        return jnp.concatenate([S, self.laws.residual(root_r * y, x[m:], self.laws.scale_mu(s.mu, r), s.closed)])

    def newton_entries(self, z: Array, zeta: Array, rho: Array, data: Any) -> Array:
        """The entries of Newton's matrix, in (z, ζ), of a coupled form."""
        s, m = data.scaling, z.shape[0]
        root_r, mu = jnp.sqrt(s.r), self.laws.scale_mu(s.mu, s.r)

        def F(x: Array) -> Array:
            P = self.laws.percussions(x[m:], mu, s.closed)
            S, y = self.equations(x[:m], root_r * P, data)
            return jnp.concatenate([S, root_r * y - (1.0 - rho) * P + x[m:]])

        push = jax.linearize(F, jnp.concatenate([z, zeta]))[1]
        return self.sparse.pattern.jacobian(push, z.dtype)  # type: ignore[union-attr]

    def sparse_jacobian(self, x: Array, data: Any) -> Array:
        """The entries of the sparse form at x = (z, P̂)."""
        s = data.scaling
        if isinstance(self.sparse, CoupledForm):
            push = jax.linearize(lambda x: self.residual(x, s.r, data), x)[1]
            return self.sparse.pattern.jacobian(push, x.dtype)
        root_r = jnp.sqrt(s.r)
        _, y = self.equations(x[:0], root_r * x, data)
        mu = self.laws.scale_mu(s.mu, s.r)
        return self.sparse.entries(x, x - root_r * y, s.r, mu, jnp.zeros((), x.dtype), data)  # type: ignore[union-attr]

    def solution(self, x: Array, r: Array, data: Any) -> Any:
        """The outputs at x = (z, P̂)."""
        m = x.shape[0] - r.shape[0]
        data = data._replace(scaling=data.scaling._replace(r=r))
        return self.outputs(x[:m], jnp.sqrt(r) * x[m:], data)

    def linear_solve(self, J: Array, b: Array) -> Array:
        """x with J x = b for what `jacobian` returned."""
        if self.sparse is None:
            return dense.solve(J, b)
        plan, transposed = self.sparse.plans
        full = jnp.concatenate([jnp.zeros((self.sparse.velocities,), b.dtype), b])
        return sparse.solve(plan, transposed, J, full)[self.sparse.velocities :]


class Root(NamedTuple):
    """A solution in scaled variables."""

    x: Array  # (m+n,) z and P̂
    r: Array  # (n,)


class Solved(NamedTuple):
    """What a solve returns."""

    outputs: Any
    root: Root
    stats: Stats


def solve(problem: Problem, theta: Any) -> Solved:
    """Solve the problem.

    Under `jax.vmap` the lanes become the last axis of every array of the iteration, which keeps its inner loops
    contiguous, and lanes that are done stay as they are while the others go on.
    """
    leaves, structure = jax.tree.flatten(theta)
    traced = _traced if _hashable(problem) else _traced.__wrapped__
    trace, result = traced(problem, structure, tuple((jnp.shape(v), jnp.result_type(v)) for v in leaves))
    return jax.tree.unflatten(result, core.jaxpr_as_fun(trace)(*leaves))


def _hashable(problem: Problem) -> bool:
    try:
        hash(problem)
    except TypeError:  # its functions hold arrays
        return False
    return True


@lru_cache(maxsize=8)
def _traced(problem: Problem, structure: Any, shapes: tuple[Any, ...]) -> tuple[Any, Any]:
    """The trace of a solve, which a step and its derivatives share."""

    def on_all(lift: Lift, theta: Any) -> Solved:
        data, x, stats = _solve(problem, lift, lift.arguments(problem.prepare)(theta))
        return Solved(lift.values(problem.solution, 3)(x, data.scaling.r, data), Root(x, data.scaling.r), stats)

    def result(theta: Any) -> Solved:
        data = problem.prepare(theta)
        z, P = problem.guess(data)
        number = jnp.asarray(0)
        stats = Stats(number, number, data.scaling.tol, number)
        return Solved(problem.outputs(z, P, data), Root(jnp.concatenate([z, P]), data.scaling.r), stats)

    theta = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*s) for s in shapes])
    promised = jax.eval_shape(result, theta)
    solve = partial(on_lanes, on_all, rows=problem.unknowns, result=promised)
    return jax.make_jaxpr(solve)(theta), jax.tree.structure(promised)


def jacobian(problem: Problem, root: Root, theta: Any) -> Array:
    """The generalized Jacobian of the residual at a root: (m+n, m+n), or the entries of a sparse form."""

    def evaluate(lift: Lift, root: Root, theta: Any) -> Array:
        x, data = lift.arguments(lambda root, theta: (root.x, problem.prepare(theta)))(root, theta)
        if problem.sparse is not None:
            return lift.values(problem.sparse_jacobian, 2)(x, data)
        K = linearised.matrix(problem, lift, data, x)
        law = linearised.natural_law(problem.solved_by("newton"), data.scaling)
        return linearised.natural_jacobian(K, x, linearised.evaluation(problem, lift, data)(x).y, law)

    return on_lanes(evaluate, root, theta, rows=problem.unknowns)


def _solve(problem: Problem, lift: Lift, data: Any) -> tuple[Any, Array, Stats]:
    s: Scaling = data.scaling
    if s.unit_S.shape[0] + s.unit_y.shape[0] == 0:
        zero = jnp.zeros_like(s.tol)
        return data, s.unit_y, _stats(Result(s.unit_y, zero, zero.astype(int), zero.astype(int) - 1, zero > 0.0), s.tol)
    result = newton.solve(problem, lift, data)
    return data, result.x, _stats(result, s.tol)


def _stats(result: Result, tol: Array) -> Stats:
    """How a solve ended, from its largest residual over the tolerance."""
    error = result.error
    failed = jnp.where(result.ray, Status.INFEASIBLE, Status.NOT_CONVERGED)
    failed = jnp.where(jnp.isfinite(error), failed, Status.NONFINITE)
    status = jnp.where(error <= 1.0, Status.OK, failed)
    residual = jnp.where(jnp.isfinite(tol), error * tol, 0.0)
    return Stats(status, result.iterations, residual, jnp.maximum(result.row, -1))
