"""The iteration behind every solve: evaluate, then one more step, of Newton's method or to the end of a linearisation.

Newton's method is semismooth, on the normal map, with full steps from a guess: what nearly every solve needs, and no more.
In scaled variables, with P = p(ζ) the projection of ζ = P − y onto the laws' sets, its equations in (z, ζ) are

    S(z, P) = 0,      F = y(z, P) − P + ζ = 0,      P = p(ζ),

and P never leaves its set. A = ∂p/∂ζ is the piece of the laws in force, one block for each contact, so that the Jacobian is

    [ S_z    S_P A               ]
    [ y_z    (y_P + ρ − 1) A + 1 ],

where bilateral rows have A = 1. The proximal term ρ vanishes with the residual. It is there from the third step on: by then
most solves are done, and those that are not may have redundant contacts with friction, where the Jacobian without it is
singular. The natural residual alone decides whether a solve has converged.

A guess must be better than the tolerance to be a solution: from step to step of a body at rest, guesses at the edge of it
would keep one small velocity, and the drift of positions in time would wedge it in directions that friction holds, where no
percussion brings it back.

Where STEPS steps do not suffice, the problem is linearised at the guess and solved by its smoothed path (`path`), again and
again; lane by lane, so that no other lane waits. All other methods have linearisations only, of all lanes at once.

The path of a linear problem knows all there is to know. That of a nonlinear one depends on where it was linearised: where
it fails, also by running to infinity, Newton's method has other attempts, from percussions of the size of y(P = 0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import dense, linearised, path, sparse
from .lanes import Lift, largest, norm
from .linearised import Evaluation, Result, Step

if TYPE_CHECKING:
    from .inclusion import Problem

STEPS = 8
GUESS = 0.1  # share of the tolerance within which a guess is a solution
PROXIMAL_FROM = 2  # steps without the proximal term: exact where the guess has the right piece of every law
LINEARISATIONS = 50
RESTARTS, LONG = 24, 30  # of a nonlinear problem, and Newton's steps for each


class _Iterate(NamedTuple):
    z: Array  # (m, *lanes)
    zeta: Array  # (n, *lanes)
    P: Array  # (n, *lanes) p(ζ), at first the guess
    # (*lanes) of the loop: −2 another guess, −1 the guess, 0 … Newton's method, STEPS back to the guess, linearisations
    turn: Array
    iterations: Array  # (*lanes)
    error: Array  # (*lanes) natural residual over the tolerance
    row: Array  # (*lanes) its row
    ray: Array  # (*lanes) bool
    attempt: Array  # (*lanes) restarts so far


def solve(problem: Problem, lift: Lift, data: Any) -> Result:
    """Solve in every lane, from the guess, until it is done or out of turns."""
    laws, s = problem.laws, data.scaling
    mu = laws.scale_mu(s.mu, s.r)
    evaluate = linearised.evaluation(problem, lift, data)
    z, P = lift.values(problem.guess, 1)(data)
    m, P = z.shape[0], P / jnp.sqrt(s.r)
    linear_only = problem.method != "newton"
    most = problem.max_sweeps if linear_only else STEPS + 5 * path.MAX_ITERATIONS
    last = STEPS + 1 + (problem.max_sweeps if problem.method == "projected_newton" else LINEARISATIONS)
    restarts = RESTARTS if problem.nonlinear and laws.n_N and not linear_only else 0
    irrational = np.random.default_rng(0).uniform(size=P.shape[0])

    def unfinished(it: _Iterate) -> Array:
        return (it.error > 1.0) & (it.turn < last)

    def elsewhere(y: Array, attempt: Array) -> Array:
        """ζ of another guess: evenly spread over a cube, one point for each attempt (Kronecker's sequence)."""
        steps = jnp.asarray(irrational, y.dtype).reshape(-1, *(1,) * (y.ndim - 1))
        return largest(y) * (2.0 * jnp.mod(attempt * steps, 1.0) - 1.0)

    def body(it: _Iterate) -> _Iterate:
        """Evaluate a point; where it is no solution, the next one."""
        x = jnp.concatenate([it.z, it.P])
        at = evaluate(x)
        go, finite = unfinished(it), jnp.isfinite(at.error)
        on = go & (at.error > jnp.where(it.turn < 1, GUESS, 1.0))
        first, linear = it.turn < 0, (it.turn > STEPS) & (it.attempt == 0)
        back = ~linear & ((it.turn == jnp.where(it.attempt == 0, STEPS, LONG)) | ~finite)
        zeta = jnp.where(first, it.P - at.y, it.zeta)
        if restarts:
            zeta = jnp.where(it.turn < -1, elsewhere(at.y, it.attempt), zeta)
        F = jnp.concatenate([at.F[:m], at.y - it.P + zeta])
        step = lax.cond(
            jnp.any(on & ~first & ~back),
            lambda: _step(problem, lift, data, mu, it._replace(zeta=zeta), F, at, on & finite & linear),
            lambda: _no_step(x),
        )
        zeta = zeta + jnp.where(first, 0.0, step.dx[m:])
        new_z = jnp.where(back, z, it.z + jnp.where(first, 0.0, step.dx[:m]))
        new_P = jnp.where(linear, it.P + step.dx[m:], laws.percussions(zeta, mu, s.closed))
        iterations = it.iterations + jnp.where(on & ~first & ~back, step.iterations, 0)
        lost = step.ray | ((iterations >= most) & (it.attempt == 0)) | (back & (it.attempt > 0))
        turn = jnp.where(back, STEPS + 1, jnp.where(finite, it.turn + 1, last))
        turn, new_P = jnp.where(lost, last, turn), jnp.where(back, P, new_P)
        again = on & (turn >= last) & (it.attempt < restarts)
        if restarts:
            turn, new_z = jnp.where(again, -2, turn), jnp.where(again, z, new_z)
            new_P = jnp.where(again, 0.0, new_P)
        return _Iterate(
            z=jnp.where(on, new_z, it.z),
            zeta=zeta,
            P=jnp.where(on, new_P, it.P),
            turn=jnp.where(on, turn, it.turn),
            iterations=iterations,
            error=jnp.where(on, jnp.maximum(at.error, 2.0), jnp.where(go, at.error, it.error)),  # above one: not yet
            row=jnp.where(go, at.row, it.row),
            ray=it.ray | (on & step.ray),
            attempt=it.attempt + again,
        )

    none = jnp.zeros(s.tol.shape, int)
    turn = none + (STEPS + 1 if linear_only else -1)
    start = _Iterate(z, P, P, turn, none, jnp.inf + 0.0 * s.tol, none - 1, none > 0, none)
    end = lax.while_loop(lambda it: jnp.any(unfinished(it)), body, start)
    return Result(jnp.concatenate([end.z, end.P]), end.error, end.iterations, end.row, end.ray)


def _no_step(x: Array) -> Step:
    none = jnp.zeros(x.shape[1:], int)
    return Step(jnp.zeros_like(x), none, none > 0)


def _step(
    problem: Problem, lift: Lift, data: Any, mu: Array, it: _Iterate, F: Array, at: Evaluation, linear: Array
) -> Step:
    """Newton's step in (z, ζ), and in the `linear` lanes the step in (z, P) to the solution of the linearisation."""
    x = jnp.concatenate([it.z, it.P])
    if problem.method in ("newton", "path"):
        K = None if problem.sparse else linearised.matrix(problem, lift, data, x)
        dx = _newton_step(problem, lift, data, mu, it, F, K)
        newton = Step(dx, jnp.ones(dx.shape[1:], int), jnp.zeros(dx.shape[1:], bool))
        return lax.cond(
            jnp.any(linear), lambda: _followed(problem, lift, data, it.turn, x, at, K, linear, newton), lambda: newton
        )
    K = linearised.matrix(problem, lift, data, x)
    if problem.method == "natural_newton":  # of Breuling et al. 2024, §4, and Capobianco et al. 2024
        law = linearised.natural_law(problem, data.scaling)
        J = linearised.natural_jacobian(K, x, at.y, law)
        natural = jnp.concatenate([at.F[: it.z.shape[0]], law(at.y, it.P)])
        return Step(
            dense.eliminate(J, -natural[:, None])[:, 0], jnp.ones(x.shape[1:], int), jnp.zeros(x.shape[1:], bool)
        )
    sweeps, method = problem.max_sweeps, problem.method
    if method == "projected_newton":  # one sweep for each linearisation (Möller 2011, eq. 2.72)
        sweeps, method = 1, "projected_jacobi"
    return linearised.contact_step(
        problem.laws, K, x, at.F, at.y, data.scaling, method, sweeps, it.turn, problem.solver.alpha
    )


def _followed(
    problem: Problem,
    lift: Lift,
    data: Any,
    turn: Array,
    x: Array,
    at: Evaluation,
    K: Array | None,
    which: Array,
    step: Step,
) -> Step:
    """The step by the path of the linearisation, lane after lane, in the lanes that want it."""
    if K is None:
        K = linearised.matrix(problem, lift, data, x)
    lanes = (K, x, at.F, at.y, data.scaling, jnp.where(turn > STEPS + 1, path.POLISH, 0))

    def follow(K: Array, x: Array, F: Array, y: Array, scaling: Any, warm: Array) -> Step:
        return linearised.contact_step(problem.laws, K, x, F, y, scaling, "path", path.MAX_ITERATIONS, warm)

    if lift.size is None:
        return follow(*lanes)

    def turn_of_one(carry: tuple[Array, Step]) -> tuple[Array, Step]:
        left, step = carry
        lane = jnp.argmax(left)
        mine = jax.tree.map(lambda v: lax.dynamic_index_in_dim(v, lane, v.ndim - 1, keepdims=False), lanes)
        step = jax.tree.map(
            lambda v, new: lax.dynamic_update_index_in_dim(v, new, lane, v.ndim - 1), step, follow(*mine)
        )
        return left.at[lane].set(False), step

    return lax.while_loop(lambda carry: jnp.any(carry[0]), turn_of_one, (which, step))[1]


def _newton_step(problem: Problem, lift: Lift, data: Any, mu: Array, it: _Iterate, F: Array, K: Array | None) -> Array:
    """The step (δz, δζ) of Newton's method."""
    laws, s = problem.laws, data.scaling
    if K is not None and it.zeta.shape[0] == 0:
        return dense.eliminate(K, -F[:, None])[:, 0]
    size = largest(it.zeta)
    relative = jnp.minimum(norm(F) / jnp.where(size > 0.0, size, 1.0), 1.0)
    rho = jnp.where(it.turn < PROXIMAL_FROM, 0.0, path.PROXIMAL * relative)
    if isinstance(problem.sparse, sparse.CoupledForm):
        entries = lift.values(problem.newton_entries, 4)(it.z, it.zeta, rho, data)
        return sparse.solve_lanes(problem.sparse.plans[0], entries, -F)
    if K is None:
        return _sparse_step(problem, lift, data, mu, it.P, it.zeta, F, rho)
    m = it.z.shape[0]
    identity = jnp.eye(K.shape[0])[m:].astype(K.dtype).reshape(-1, K.shape[0], *(1,) * (K.ndim - 2))
    shifted = K.at[m:].add((rho - 1.0) * identity)
    right = laws.times_slope(shifted[:, m:], it.zeta, mu, s.closed)
    J = jnp.concatenate([K[:, :m], right], axis=1).at[m:].add(identity)
    return dense.eliminate(J, -F[:, None])[:, 0]


def _sparse_step(
    problem: Problem, lift: Lift, data: Any, mu: Array, P: Array, zeta: Array, F: Array, rho: Array
) -> Array:
    """The same for a large problem. With B = A (y_P + ρ − 1) + 1, the Jacobian in (u, P), which is sparse,

    ((y_P + ρ − 1) A + 1)⁻¹ = 1 − (y_P + ρ − 1) B⁻¹ A.
    """
    form, r = problem.sparse, data.scaling.r
    assert isinstance(form, sparse.SparseForm)
    push = jax.jvp(lambda zeta: problem.laws.percussions(zeta, mu, data.scaling.closed), (zeta,), (F,))[1]
    values = lift.values(form.entries, 6)(P, zeta, r, mu, rho, data)
    dP = sparse.solve_last(form.plans[0], values, push)

    def along(P: Array, dP: Array, data: Any) -> Array:
        root_r = jnp.sqrt(data.scaling.r)
        y = lambda P: root_r * problem.equations(P[:0], root_r * P, data)[1]  # noqa: E731
        return jax.jvp(y, (P,), (dP,))[1]

    return -F + lift.values(along, 3)(P, dP, data) + (rho - 1.0) * dP
