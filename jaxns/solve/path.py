"""A linear contact problem by its smoothed path: what Newton's method starts from where nothing better is known.

For contact rows y = G P + c in scaled variables, with y_i ∈ N_{C_i}(−P_i), the unknown is ζ = P − y, and P = p_τ(ζ) follows
from the laws: p_0 projects ζ onto the sets, p_τ with τ > 0 is its smooth neighbour inside of them. The equation

    F(ζ, τ) = G P + c + (ε − 1) P + ζ = 0,      P = p_τ(ζ),   ε = κ (τ/s)²,   s = max |c|,

has one root for large τ, and a smooth path of roots leads from it to the solution at τ = 0, or, where there is none, to
infinity: with ε > 0 and G positive semidefinite, P is bounded for each τ > 0. τ need not fall on the way. So the path is
followed by its arc length in (ζ, θ = log τ), around its turning points, and the sign of det ∂F/∂ζ says which way is
forward. One elimination serves Newton's correction u and the tangent T; near the end Newton's method at τ = 0 takes over,

    J = (G + ρ − 1) ∂P/∂ζ + 1,      ρ = ε on the path, and a proximal term that vanishes with F at τ = 0,

which keeps J regular where contacts are redundant. A path that is lost is followed once more with more care; where that
fails too, Newton's method has two attempts from P = 0. One problem at a time: arrays are (rows,), without lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import dense
from .lanes import largest, norm, total
from .projected import Contacts

MAX_ITERATIONS = 300
POLISH = 8  # steps of Newton's method from a point close to the end
PROXIMAL = 1e-3  # ρ of Newton's method, for |F| of the order of one
KAPPA = 0.1  # ε at the beginning
CLOSE_F, CLOSE_U = 0.5, 0.2  # a point counts as on the path: |F|/τ, |u|
NEAR_F, NEAR_U = 3.0, 0.7  # what a prediction may leave to correct
STEP, LONGEST, GROWTH, CUT = 1.0, 5.0, 2.5, 0.3  # length of the prediction
SHORTEST, LOST = 1e-10, 1e-6  # a prediction, or a correction, that is shorter has lost the path
SHORT = 0.05  # a correction that is shorter goes back to the path
TRIAL = 1e-2  # error, relative to c, below which Newton's method is tried, and then again at a tenth of it
RAY = 1e6  # percussions this large, relative to c: the path runs to infinity
CAREFUL = 0.3  # factor on what counts as close and near, where the path was lost and is followed once more
# Newton's method from P = 0, where the path ended without a solution: steps and proximal terms of two attempts
LAST_STEPS, LAST_PROXIMAL = (20, 40), (0.3, 1e-3)


class Laws(Protocol):
    """What the path must know of the laws; rows are [bilateral, normals, friction]."""

    @property
    def n_bilateral(self) -> int: ...
    @property
    def n_N(self) -> int: ...
    def contact_of_row(self) -> np.ndarray: ...
    def row_in_contact(self) -> np.ndarray: ...
    def percussions(self, zeta: Array, mu: Array, closed: Array, tau: Array | None = None) -> Array: ...


class Solution(NamedTuple):
    P: Array  # (n,); on a ray that of the last point, 10⁶ times as large as what it should balance
    iterations: Array  # () eliminations
    ray: Array  # () bool: the path ran to infinity, along percussions that hold each other in balance


class _Point(NamedTuple):
    """An accepted point x = (ζ, θ), the tangent T of the path there, and Newton's correction u."""

    x: Array  # (n+1,)
    T: Array
    u: Array
    ahead: Array  # bool: a prediction leaves from here; else a correction alone

    def move(self, length: Array, damping: Array) -> Array:
        """The next point: corrected, and further along the tangent; linear in τ, not in log τ."""
        step = length * self.T[-1]
        far = jnp.abs(step) > 1e-8
        factor = jnp.where(far, jnp.expm1(step) / jnp.where(far, step, 1.0), 1.0)
        is_theta = jnp.arange(self.x.shape[0]) == self.x.shape[0] - 1
        prediction = jnp.where(is_theta, step, factor * length * self.T)
        return self.x + damping * self.u + jnp.where(self.ahead, prediction, 0.0)


class _State(NamedTuple):
    """All of the search; the fields from `last` on are those of the path."""

    x: Array  # (ζ, θ)
    P: Array
    newton: Array  # bool: at τ = 0
    steps: Array  # of Newton's method that are left
    attempt: Array  # 0 the path, 1 the path with care, 2 and 3 Newton's method from P = 0
    iterations: Array
    ray: Array
    on: Array
    solved: Array
    last: _Point
    anchor: _Point  # the last point on the path
    length: Array  # of the prediction
    anchor_length: Array
    damping: Array  # of the correction
    last_F: Array
    forward: Array  # the sign of det J that leads forward, 0 before the first point on the path
    begun: Array  # bool
    trial: Array


class _Linear(NamedTuple):
    """The equation at a point, and the two solutions of its Jacobian."""

    P: Array
    F: Array
    bend: Array  # how far P is from its projection, estimated by τ ∂P/∂τ
    steps: Array  # (n, 2) −J⁻¹F and −J⁻¹ ∂F/∂θ
    sign: Array  # of det J


def solve(laws: Laws, contacts: Contacts, warm: Array, max_iterations: int) -> Solution:
    """Percussions P (n,) at which the laws hold to the tolerance, if they were found.

    Newton's method from the given percussions comes first, `warm` steps of it.
    """
    c = contacts
    n_b = laws.n_bilateral
    constant = c.y - c.G @ c.P
    size = largest(constant)
    scale = jnp.where(size > 0.0, size, 1.0)

    # ∂P/∂ζ has a block for each contact: one derivative in each of its directions, of all contacts at once, gives all.
    place, contact = laws.row_in_contact(), laws.contact_of_row()
    seeds = np.pad(np.arange(max(place, default=0) + 1)[:, None] == place, ((1, 0), (0, 1)))
    seeds[0, -1] = True  # θ
    directions = jnp.asarray(seeds, scale.dtype)
    same = contact[:, None] == contact

    def law(x: Array, newton: Array) -> Array:
        def percussions(x: Array) -> Array:
            tau = jnp.where(newton, 0.0, jnp.exp(x[-1]))
            return laws.percussions(jnp.pad(x[:-1], (n_b, 0)), c.mu, c.closed, tau)[n_b:]

        P, push = jax.linearize(percussions, x)
        return jnp.concatenate([P[:, None], jax.vmap(push, out_axes=1)(directions)], axis=1)

    def linear(s: _State, tau: Array) -> _Linear:
        zeta = s.x[:-1]
        epsilon = jnp.where(s.newton, 0.0, KAPPA * (tau / scale) ** 2)
        at = law(s.x, s.newton)
        P, P_theta = at[:, 0], at[:, 1]
        A = jnp.where(same, at[:, 2:][:, place], 0.0)
        K = c.G @ jnp.concatenate([at[:, :2], A], axis=1)
        F = K[:, 0] + (epsilon - 1.0) * P + constant + zeta
        proximal = jnp.where(s.attempt == 2, LAST_PROXIMAL[0], jnp.where(s.attempt == 3, LAST_PROXIMAL[1], PROXIMAL))
        rho = jnp.where(s.newton, proximal * jnp.minimum(norm(F) / scale, 1.0), epsilon)
        F_theta = K[:, 1] + (epsilon - 1.0) * P_theta + 2.0 * epsilon * P
        J = K[:, 2:] + (rho - 1.0) * A + jnp.eye(A.shape[0], dtype=A.dtype)
        steps, sign = dense.eliminate_with_sign(J, -jnp.stack([F, F_theta], axis=1))
        return _Linear(P, F, largest(P_theta), steps, sign)

    def body(s: _State) -> _State:
        tau = jnp.where(s.newton, 0.0, jnp.exp(s.x[-1]))
        at = linear(s, tau)
        solved = s.newton & (largest(at.F * c.unit) <= c.tol)
        late = s.iterations >= max_iterations * (1 + s.attempt)
        new = _advance(laws, s, at, tau, constant, scale, late)
        return new._replace(P=at.P, iterations=s.iterations + 1, solved=solved, on=~solved & (new.attempt < 4))

    one = jnp.ones_like(scale)
    yes, no = one > 0.0, one < 0.0
    beginning = jnp.append(jnp.zeros_like(constant), jnp.log(scale))
    x = jnp.where(warm > 0, jnp.append(c.P - c.y, jnp.log(scale)), beginning)
    nowhere = _Point(beginning, 0.0 * beginning, 0.0 * beginning, no)
    start = _State(
        x=x, P=c.P, newton=warm > 0, steps=warm, attempt=0 * warm, iterations=0 * warm, ray=no, on=yes, solved=no,
        last=nowhere, anchor=nowhere, length=STEP * one, anchor_length=STEP * one, damping=one, last_F=one,
        forward=0.0 * one, begun=no, trial=TRIAL * one,
    )  # fmt: skip
    end = _packed_while(lambda s: s.on, body, start)
    ray = end.ray & ~end.solved
    return Solution(jnp.where(ray, end.anchor.x[:-1], end.P), end.iterations, ray)  # far out, ζ = P − y is P


def _advance(laws: Laws, s: _State, at: _Linear, tau: Array, c: Array, scale: Array, late: Array) -> _State:
    """Where to go from a point: accept it or not, correct, predict, or try Newton's method at τ = 0."""
    zeta = s.x[:-1]
    # The tangent of unit length, and the part of Newton's correction across it, in the metric (1/D², 1) of (ζ, θ).
    D = scale + largest(zeta)
    metric = jnp.append(jnp.broadcast_to(1.0 / D**2, zeta.shape), 1.0)
    newton_step, tangent = jnp.append(at.steps[:, 0], 0.0), jnp.append(at.steps[:, 1], 1.0)
    T = tangent / jnp.sqrt(total(metric * tangent**2))
    across = newton_step - total(metric * newton_step * T) * T
    seen = s.forward != 0.0
    u = jnp.where(seen, across, newton_step)
    F, size_u = norm(at.F) / max(laws.n_N, 1) ** 0.5, jnp.sqrt(total(metric * u**2))
    finite = jnp.isfinite(F + total(at.steps[:, 0]) + total(T))

    error = F / jnp.where(tau > 0.0, tau, 1.0)
    care = jnp.where(s.attempt == 0, 1.0, CAREFUL)
    predicted = (error < care * NEAR_F) & (size_u < care * NEAR_U)
    corrected = (1.0 - 0.1 * s.damping) * s.last_F >= F
    good = finite & (~s.begun | (error < 1e-6) | jnp.where(s.last.ahead, predicted, corrected))
    accept = ~s.newton & good
    close = accept & (error < care * CLOSE_F) & (size_u < care * CLOSE_U)
    # Forward is the side of the first close point where τ falls.
    forward = jnp.where(close & ~seen, -at.sign, s.forward)
    turn = jnp.where(close, forward * at.sign, 1.0)
    point = _Point(s.x, turn * T, jnp.where(close, across, u), close)
    grown = close & s.begun & s.last.ahead & (s.damping == 1.0)
    polish = close & (at.bend < s.trial * scale)
    ray = close & (largest(at.P) > RAY * scale) & (total(c * at.P) < 0.0)

    # Not accepted: shorter, or, where that does not help, back to the path.
    failed = ~s.newton & ~good
    shorter, damped = jnp.where(s.last.ahead, CUT * s.length, s.length), 0.5 * s.damping
    back = failed & ~s.last.ahead & (damped < SHORT) & seen
    last = _pick(accept, point, _pick(back, s.anchor, s.last))
    length = jnp.where(grown, jnp.minimum(LONGEST, GROWTH * s.length), s.length)
    length = jnp.where(failed, jnp.where(back, CUT * s.anchor_length, shorter), length)
    damping = jnp.where(failed & ~back, damped, 1.0)
    lost = failed & (~s.begun | (damping < LOST) | (length < SHORTEST))

    more = s.newton & (s.steps > 0) & finite
    over = ~more & (s.attempt >= 2)
    again = lost & (s.attempt == 0) & ~late
    chance = (over | lost | ray | (late & ~more)) & ~again
    attempt = jnp.where(again, 1, jnp.where(chance, jnp.maximum(s.attempt, 1) + 1, s.attempt))
    begin = (s.newton & ~more & ~s.begun) | again
    moved = jnp.where(begin, jnp.append(0.0 * zeta, jnp.log(scale)), last.move(length, damping))
    # ζ = P − y, with y = F − (ε − 1) P − ζ and ε → 0
    projected = jnp.append(zeta - at.F, s.x[-1])
    resumed = jnp.where(chance, jnp.append(-c, s.x[-1]), jnp.where(polish, projected, moved))
    return s._replace(
        x=jnp.where(more, s.x + newton_step, resumed),
        newton=more | polish | chance,
        steps=jnp.where(chance, jnp.where(attempt == 2, *LAST_STEPS), jnp.where(polish, POLISH, s.steps - 1)),
        attempt=attempt,
        ray=s.ray | ray,
        last=last,
        anchor=_pick(close, point, s.anchor),
        length=jnp.where(again, STEP, length),
        anchor_length=jnp.where(close | back, length, s.anchor_length),
        damping=jnp.where(again, 1.0, damping),
        last_F=jnp.where(accept, F, s.last_F),
        forward=jnp.where(again, 0.0, forward),
        begun=(s.begun | accept) & ~again,
        trial=jnp.where(again, TRIAL, jnp.where(polish, 0.1 * at.bend / scale, s.trial)),
    )


def _pick(which: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), new, old)


def _packed_while(proceed: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """`lax.while_loop` with all scalars of its state in one vector: many small decisions then compile to one kernel."""
    leaves, structure = jax.tree.flatten(start)
    scalar = [jnp.ndim(leaf) == 0 for leaf in leaves]
    dtypes = [leaf.dtype for leaf in leaves]
    dtype = jnp.result_type(*(leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)))

    def pack(state: Any) -> tuple[Array, list[Array]]:
        leaves = jax.tree.leaves(state)
        scalars = [leaf.astype(dtype) for leaf, is_scalar in zip(leaves, scalar, strict=True) if is_scalar]
        # Not `stack`, which is not fused. Nothing is larger than infinity: so the compiler cannot lift the places, one
        # kernel each, out of the loop.
        place = lax.iota(int, len(scalars)) + (scalars[0] > jnp.inf)
        packed = jnp.zeros(place.shape, dtype)
        for k, value in enumerate(scalars):
            packed = jnp.where(place == k, value, packed)
        return packed, [leaf for leaf, is_scalar in zip(leaves, scalar, strict=True) if not is_scalar]

    def unpack(packed: tuple[Array, list[Array]]) -> Any:
        scalars, arrays = iter(packed[0]), iter(packed[1])
        return jax.tree.unflatten(
            structure,
            [
                (next(scalars) if is_scalar else next(arrays)).astype(dtype)
                for is_scalar, dtype in zip(scalar, dtypes, strict=True)
            ],
        )

    return unpack(lax.while_loop(lambda s: proceed(unpack(s)), lambda s: pack(body(unpack(s))), pack(start)))
