"""Semismooth Newton for smooth equations coupled with normal cone inclusions.

A problem has smooth unknowns z (m,) and percussions P (n,). Its equations give

    S(z, P) = 0                              (m,)   smooth part, e.g. an implicit half-step velocity
    y(z, P)  with  y_i ∈ N_{C_i}(−P_i)       (n,)   bilateral rows: C = R, so y = 0

and the laws turn the inclusions into the equation `P + prox_C(r y − P) = 0`.

Scaling. With r_k ≈ 1/G_kk from the Delassus diagonal, the symmetric scaling P̂ = P/√r, ŷ = √r y makes all rows
dimensionless against each other, gives the scaled Delassus matrix a unit diagonal, and reduces the equation to
`P̂ + prox(ŷ − P̂) = 0`: no user tunes an r, and a vanishing pivot can be told from a small one.

Safeguards. Newton's method with full steps, from the guess; then from zero percussions and with other multiples of r,
which select other pieces of the laws on the way; then with friction that grows from zero; then projected Jacobi
iterations on the linearised inclusion, and Newton's method from there, with steps halved until the residual falls. The
status is decided by the natural residual alone, never by the size of an increment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from . import dense, linearised, projected, sparse
from .lanes import Lift, largest, norm, on_lanes
from .linearised import Laws
from .status import Status

# r decides which piece of a law Newton's method tries next. Where one choice runs in circles, another usually does not:
# attempts of STEPS iterations each with these multiples of r, all but the first from zero percussions.
ATTEMPTS = (1.0, 10.0, 100.0, 1000.0, 30.0, 1e6)
STEPS = 12
# Then attempts with friction coefficients that grow from zero, so that sliding directions settle before anything sticks.
GROWING = (1.0, 30.0)
GROWING_STEPS = 3 * STEPS
# Then one step by projected Jacobi iterations, and damped steps from there.
GROW_AT = len(ATTEMPTS) * STEPS
PROJECT_AT = GROW_AT + len(GROWING) * GROWING_STEPS
MAX_STEPS = PROJECT_AT + 2 * STEPS
SHORTEST = 1e-3  # a step this short is accepted whatever it does
MAX_SWEEPS = 2000
MAX_LINEARISATIONS = 50  # of the methods that solve each linear inclusion to its end
METHODS = ("newton", "projected_newton", *projected.METHODS, "lemke")


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


class SparseForm(NamedTuple):
    """Newton's method for a large problem without smooth unknowns, with velocities u beside the percussions.

    A matrix in (u, P̂), of which the percussions are the last unknowns and F the last right-hand sides, has the Jacobian
    of the residual as what is left when u is eliminated.
    """

    plans: tuple[sparse.Plan, sparse.Plan]  # for the matrix and for its transpose
    velocities: int
    entries: Callable[[Array, Array, Array, Array, Any], Array]  # (P̂, r, μ̂, multiple of r, data) -> (entries,)


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
    - method: how the inclusion is solved. "newton" is semismooth Newton. All others linearise the equations, eliminate the
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
    method: str = "newton"  # one of METHODS
    max_sweeps: int = 20_000  # of all methods but "newton"
    sparse: SparseForm | None = None

    def solved_by(self, method: str) -> Problem:
        """The same problem for another method."""
        return replace(self, method=method)

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


def outputs(problem: Problem, theta: Any) -> tuple[Any, Stats]:
    """Solve the problem; returns its outputs, and how it went.

    Under `jax.vmap` the lanes become the last axis of every array of the iteration, which keeps its inner loops
    contiguous, and lanes that are done stay as they are while the others go on.
    """

    def solve(lift: Lift, theta: Any) -> tuple[Any, Stats]:
        data, x, stats = _solve(problem, lift, lift.arguments(problem.prepare)(theta))
        return lift.values(problem.solution, 3)(x, data.scaling.r, data), stats

    return on_lanes(solve, theta)


def root(problem: Problem, theta: Any) -> tuple[Root, Stats]:
    """Solve the problem; returns the root itself, and how it went."""

    def solve(lift: Lift, theta: Any) -> tuple[Root, Stats]:
        data, x, stats = _solve(problem, lift, lift.arguments(problem.prepare)(theta))
        return Root(x, data.scaling.r), stats

    return on_lanes(solve, theta)


def jacobian(problem: Problem, root: Root, theta: Any) -> Array:
    """The generalized Jacobian of the residual at a root: (m+n, m+n), or the entries of a sparse form."""

    def evaluate(lift: Lift, root: Root, theta: Any) -> Array:
        x, data = lift.arguments(lambda root, theta: (root.x, problem.prepare(theta)))(root, theta)
        s: Scaling = data.scaling
        if problem.sparse is not None:
            mu = problem.laws.scale_mu(s.mu, s.r)
            return lift.values(problem.sparse.entries, 5)(x, s.r, mu, jnp.ones_like(s.tol), data)
        K = _linearise(problem, lift, data, x)
        m = x.shape[0] - s.r.shape[0]
        _, y = lift.values(problem.equations, 3)(x[:m], jnp.sqrt(s.r) * x[m:], data)
        mu = problem.laws.scale_mu(s.mu, s.r)
        return _residual_jacobian(problem.laws, K, x, jnp.sqrt(s.r) * y, data, jnp.ones_like(s.tol), mu)

    return on_lanes(evaluate, root, theta)


def _solve(problem: Problem, lift: Lift, data: Any) -> tuple[Any, Array, Stats]:
    return (_newton if problem.method == "newton" else _linearised)(problem, lift, data)


class _Iterate(NamedTuple):
    trial: Array  # (m+n, *lanes), the point (z, P̂) to evaluate next
    x: Array  # last accepted point
    norm_F: Array  # (*lanes) its residual
    direction: Array  # from x
    length: Array  # (*lanes) of the step along it
    iterations: Array  # directions computed
    error: Array  # (*lanes) largest residual at the last point evaluated, over the tolerance
    row: Array  # its row


def _newton(problem: Problem, lift: Lift, data: Any) -> tuple[Any, Array, Stats]:
    laws, s = problem.laws, data.scaling
    root_r = jnp.sqrt(s.r)
    mu = laws.scale_mu(s.mu, s.r)
    unit = jnp.concatenate([s.unit_S, s.unit_y / root_r])
    equations = lift.values(problem.equations, 3)
    z, P = lift.values(problem.guess, 1)(data)
    m = z.shape[0]

    x_guess = jnp.concatenate([z, P / root_r])
    x_free = jnp.concatenate([z, jnp.zeros_like(P)])

    def unfinished(it: _Iterate) -> Array:
        return (it.error > 1.0) & (it.iterations < MAX_STEPS)

    def body(it: _Iterate) -> _Iterate:
        """Evaluate the trial point, accept it or halve the step; then, where it is needed, the next direction."""
        i = it.iterations
        rho, growth, restart = _schedule(i, P.dtype)
        mu_i = mu * growth
        S, y = equations(it.trial[:m], root_r * it.trial[m:], data)
        y = root_r * y
        F = jnp.concatenate([S, laws.residual(y, it.trial[m:], mu, s.closed)])
        error = largest(F * unit) / s.tol
        F = jnp.concatenate([S, laws.residual(rho * y, it.trial[m:], mu_i, s.closed)])
        norm_F = norm(F)
        finite = jnp.isfinite(norm_F)
        error = jnp.where(finite, error, jnp.inf)
        go = unfinished(it)
        on = go & (error > 1.0)
        damped = i > PROJECT_AT + 1
        accept = finite & (~damped | (error <= 1.0) | (norm_F < it.norm_F) | (it.length < SHORTEST))
        direction = lax.cond(
            jnp.any(on & accept),
            lambda: _direction(problem, lift, data, it.trial, y, F, rho, mu_i, on & (i == PROJECT_AT + 1)),
            lambda: jnp.zeros_like(F),
        )
        direction = jnp.where(accept, direction, it.direction)
        length = jnp.where(accept, 1.0, 0.5 * it.length)
        x = jnp.where(go & accept, it.trial, it.x)
        trial = jnp.where(restart, x_free, x + length * direction)
        hopeless = (i == 0) & ~finite  # the very first point
        return _Iterate(
            trial=jnp.where(on & ~hopeless, trial, it.trial),
            x=x,
            norm_F=jnp.where(go & accept, norm_F, it.norm_F),
            direction=direction,
            length=length,
            iterations=jnp.where(go & hopeless, MAX_STEPS, i + on),
            error=jnp.where(go, error, it.error),
            row=jnp.where(go, jnp.argmax(jnp.abs(F) * unit, axis=0) - m, it.row),
        )

    one = jnp.ones_like(s.tol)
    count = jnp.zeros(one.shape, int)
    start = _Iterate(x_guess, x_guess, jnp.inf * one, jnp.zeros_like(x_guess), one, count, jnp.inf * one, count)
    if x_guess.shape[0]:
        end = lax.while_loop(lambda it: jnp.any(unfinished(it)), body, start)
    else:
        end = start._replace(error=0.0 * one)
    return data, end.x, _stats(end.error, end.iterations, end.row, s.tol)


def _stats(error: Array, iterations: Array, row: Array, tol: Array) -> Stats:
    """How a solve ended, from its largest residual over the tolerance."""
    failed = jnp.where(jnp.isfinite(error), Status.NOT_CONVERGED, Status.NONFINITE)
    status = jnp.where(error <= 1.0, Status.OK, failed)
    residual = jnp.where(jnp.isfinite(tol), error * tol, 0.0)
    return Stats(status, iterations, residual, jnp.maximum(row, -1))


class _Outer(NamedTuple):
    x: Array  # (m+n, *lanes)
    error: Array  # (*lanes) residual at x over the tolerance
    row: Array
    sweeps: Array
    linearisations: Array


def _linearised(problem: Problem, lift: Lift, data: Any) -> tuple[Any, Array, Stats]:
    """Newton's method on the equations, with each linear inclusion solved by sweeps or pivots.

    The projected Newton iteration (Möller 2011, eq. 2.72) does one projected Jacobi sweep for each linearisation. Where the
    equations are linear, one linearisation is exact, and all of these are the projected or pivoting method itself.
    """
    alternating = problem.method == "projected_newton"
    method = "projected_jacobi" if alternating else problem.method
    per_step, max_steps = (1, problem.max_sweeps) if alternating else (problem.max_sweeps, MAX_LINEARISATIONS)
    laws, s = problem.laws, data.scaling
    root_r = jnp.sqrt(s.r)
    unit = jnp.concatenate([s.unit_S, s.unit_y / root_r])
    mu = laws.scale_mu(s.mu, s.r)
    equations = lift.values(problem.equations, 3)
    z, P = lift.values(problem.guess, 1)(data)
    m = z.shape[0]

    def evaluate(x: Array) -> tuple[Array, Array, Array, Array]:
        """Residual, rows of y, error and its row."""
        S, y = equations(x[:m], root_r * x[m:], data)
        F = jnp.concatenate([S, laws.residual(root_r * y, x[m:], mu, s.closed)])
        error = largest(F * unit) / s.tol
        return (
            F,
            root_r * y,
            jnp.where(jnp.isfinite(norm(F)), error, jnp.inf),
            jnp.argmax(jnp.abs(F) * unit, axis=0) - m,
        )

    def unfinished(it: _Outer) -> Array:
        going = (it.sweeps < problem.max_sweeps) & (it.linearisations < max_steps)
        return (it.error > 1.0) & jnp.isfinite(it.error) & going

    def body(it: _Outer) -> _Outer:
        on = unfinished(it)
        F, y, *_ = evaluate(it.x)
        K = _linearise(problem, lift, data, it.x)
        step, sweeps = linearised.contact_step(laws, K, it.x, F, y, data.scaling, method, per_step)
        x = jnp.where(on, it.x + step, it.x)
        _, _, error, row = evaluate(x)
        return _Outer(
            x,
            jnp.where(on, error, it.error),
            jnp.where(on, row, it.row),
            it.sweeps + on * sweeps,
            it.linearisations + on,
        )

    x = jnp.concatenate([z, P / root_r])
    count = jnp.zeros(s.tol.shape, int)
    if x.shape[0] == 0:
        return data, x, _stats(jnp.zeros_like(s.tol), count, count - 1, s.tol)
    _, _, error, row = evaluate(x)
    end = lax.while_loop(lambda it: jnp.any(unfinished(it)), body, _Outer(x, error, row, count, count))
    return data, end.x, _stats(end.error, end.sweeps, end.row, s.tol)


def _schedule(i: Array, dtype: Any) -> tuple[Array, Array, Array]:
    """Multiple of r, fraction of the friction coefficients, and whether to start anew, for iteration i."""
    growing = (i >= GROW_AT) & (i < PROJECT_AT)
    attempt = jnp.where(growing, (i - GROW_AT) // GROWING_STEPS + len(ATTEMPTS), i // STEPS)
    table = jnp.asarray((*ATTEMPTS, *GROWING, 1.0), dtype)
    rho = table[jnp.where(i >= PROJECT_AT, len(table) - 1, attempt)]
    part = ((i - GROW_AT) % GROWING_STEPS).astype(dtype) / (2 * STEPS)
    growth = jnp.where(growing, jnp.minimum(part, 1.0), 1.0)
    late = (i >= GROW_AT) & (i <= PROJECT_AT) & ((i - GROW_AT) % GROWING_STEPS == 0)
    return rho, growth, late | ((i > 0) & (i < GROW_AT) & (i % STEPS == 0))


def _linearise(problem: Problem, lift: Lift, data: Any, x: Array) -> Array:
    """∂(S, ŷ)/∂(z, P̂)."""
    root_r = jnp.sqrt(data.scaling.r)
    m = x.shape[0] - root_r.shape[0]
    K = lift.values(problem.linearisation, 3)(x[:m], root_r * x[m:], data)
    scale = jnp.concatenate([jnp.ones_like(K[:m, 0]), root_r])
    return scale[:, None] * K * scale[None]


def _residual_jacobian(laws: Laws, K: Array, x: Array, y: Array, data: Any, rho: Array, mu: Array) -> Array:
    """The generalized Jacobian of the residual, from K = ∂(S, ŷ)/∂(z, P̂) and the piece in force of each law."""
    m = x.shape[0] - y.shape[0]
    identity = jnp.eye(K.shape[0], dtype=K.dtype)[m:].reshape(-1, K.shape[0], *(1,) * (K.ndim - 2))
    law = jax.linearize(lambda y, P: laws.residual(rho * y, P, mu, data.scaling.closed), y, x[m:])[1]
    rows = jax.vmap(law, in_axes=1, out_axes=1)(K[m:], jnp.broadcast_to(identity, K[m:].shape))
    return jnp.concatenate([K[:m], rows])


def _direction(
    problem: Problem, lift: Lift, data: Any, x: Array, y: Array, F: Array, rho: Array, mu: Array, projecting: Array
) -> Array:
    """The step of Newton's method from x, or of projected Jacobi iterations in the lanes where these are asked for."""
    laws = problem.laws
    if problem.sparse is not None:
        values = lift.values(problem.sparse.entries, 5)(x, data.scaling.r, mu, rho, data)
        newton = sparse.solve_last(problem.sparse.plans[0], values, -F)
    else:
        K = _linearise(problem, lift, data, x)
        J = _residual_jacobian(laws, K, x, y, data, rho, mu)
        newton = dense.solve_lanes(J, -F[:, None])[:, 0]
    if y.shape[0] == laws.n_bilateral:
        return newton

    def sweep() -> Array:
        matrix = K if problem.sparse is None else _linearise(problem, lift, data, x)
        return linearised.contact_step(laws, matrix, x, F, y, data.scaling, "projected_jacobi", MAX_SWEEPS)[0]

    return lax.cond(
        jnp.any(projecting),
        lambda: jnp.where(projecting, sweep(), newton),
        lambda: newton,
    )
