"""A linear contact problem by its smoothed path: what Newton's method starts from where nothing better is known.

For contact rows y = G P + c in scaled variables, with y_i ∈ N_{C_i}(−P_i), the unknown is ζ = P − y, and P = p_τ(ζ) follows
from the laws: p_0 projects ζ onto the sets, p_τ with τ > 0 is its smooth neighbour inside of them. The equation

    F(ζ, τ) = G P + c + (ε − 1) P + ζ = 0,      P = p_τ(ζ),   ε = κ (τ/s)²,   s = max |c|,

has one root for large τ, and a smooth path of roots leads from it to the solution at τ = 0, or, where there is none, to
infinity: with ε > 0 and G positive semidefinite, P is bounded for each τ > 0. τ need not fall on the way. So the path is
followed by its arc length in (ζ, θ = log τ), around its turning points, and the sign of det ∂F/∂ζ says which way is
forward. One elimination serves Newton's correction u and the tangent T; near the end Newton's method at τ = 0 takes over,

    J = (G + ρ − 1) ∂P/∂ζ + 1,      ρ = ε on the path, and a proximal term that vanishes with F at τ = 0,

which keeps J regular where contacts are redundant. Where a path is lost or does not end, another one is followed, with
more care and a larger κ, hence with its turns in other places; where that fails too, or where the path runs to infinity,
Newton's method has two attempts from P = 0. With G positive semidefinite ⟨c, P⟩ < 0 on the way to infinity; with another G
(stages of Lobatto) no sign is sure, so none is asked for. One problem at a time: arrays are (rows,), without lanes.
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
KAPPA = (1e-3, 0.1)  # ε at the beginning of the first path, and of the second
CLOSE_F, CLOSE_U = 1.0, 0.5  # a point counts as on the path: |F|/τ, |u|
NEAR_F, NEAR_U = 10.0, 2.0  # what a prediction may leave to correct
STEP, LONGEST, GROWTH, CUT = 1.0, 5.0, 2.5, 0.3  # length of the prediction
SHORTEST, LOST = 1e-10, 1e-6  # a prediction, or a correction, that is shorter has lost the path
SHORT = 0.05  # a correction that is shorter goes back to the path
TRIAL = 1e-2  # error, relative to c, below which Newton's method is tried, and then again at a tenth of it
RAY = 1e6  # percussions this large, relative to c: the path runs to infinity
CAREFUL = 0.3  # factor on what counts as close and near of the second path
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
    """An accepted point (ζ, θ), the tangent T of the path there, and Newton's correction u."""

    zeta: Array  # (n,)
    T: Array
    u: Array
    theta: Array  # () and what belongs to it of T and u
    T_theta: Array
    u_theta: Array
    ahead: Array  # bool: a prediction leaves from here; else a correction alone

    def move(self, length: Array, damping: Array) -> tuple[Array, Array]:
        """The next point: corrected, and further along the tangent; linear in τ, not in log τ."""
        step = jnp.where(self.ahead, length, 0.0) * self.T_theta
        far = jnp.abs(step) > 1e-8
        factor = jnp.where(far, jnp.expm1(step) / jnp.where(far, step, 1.0), 1.0)
        ahead = jnp.where(self.ahead, factor * length, 0.0)
        return self.zeta + damping * self.u + ahead * self.T, self.theta + damping * self.u_theta + step


class _State(NamedTuple):
    """All of the search; the fields from `last` on are those of the path."""

    zeta: Array  # (n,)
    P: Array
    theta: Array
    newton: Array  # bool: at τ = 0
    steps: Array  # of Newton's method that are left
    attempt: Array  # 0 the path, 1 the other path, 2 and 3 Newton's method from P = 0
    iterations: Array
    ray: Array
    on: Array
    solved: Array
    last: _Point
    anchor: _Point  # the last point on the path
    length: Array  # of the prediction
    anchor_length: Array
    damping: Array  # of the correction
    last_F: Array  # |F|² of the last point
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
    seeds = np.pad(np.arange(max(place, default=0) + 1)[:, None] == place, ((1, 0), (0, 0)))  # θ, then ζ
    directions = jnp.asarray(seeds, scale.dtype), jnp.asarray(~seeds.any(axis=1), scale.dtype)
    same = contact[:, None] == contact

    def law(s: _State) -> Array:
        def percussions(zeta: Array, theta: Array) -> Array:
            tau = jnp.where(s.newton, 0.0, jnp.exp(theta))
            return laws.percussions(jnp.pad(zeta, (n_b, 0)), c.mu, c.closed, tau)[n_b:]

        P, push = jax.linearize(percussions, s.zeta, s.theta)
        return jnp.concatenate([P[:, None], jax.vmap(push, out_axes=1)(*directions)], axis=1)

    def linear(s: _State, tau: Array) -> _Linear:
        epsilon = jnp.where(s.newton, 0.0, jnp.where(s.attempt == 0, *KAPPA) * (tau / scale) ** 2)
        at = law(s)
        P, P_theta = at[:, 0], at[:, 1]
        A = jnp.where(same, at[:, 2:][:, place], 0.0)
        K = c.G @ jnp.concatenate([at[:, :2], A], axis=1)
        F = K[:, 0] + (epsilon - 1.0) * P + constant + s.zeta
        proximal = jnp.where(s.attempt == 2, LAST_PROXIMAL[0], jnp.where(s.attempt == 3, LAST_PROXIMAL[1], PROXIMAL))
        rho = jnp.where(s.newton, proximal * jnp.minimum(norm(F) / scale, 1.0), epsilon)
        F_theta = K[:, 1] + (epsilon - 1.0) * P_theta + 2.0 * epsilon * P
        J = K[:, 2:] + (rho - 1.0) * A + jnp.eye(A.shape[0], dtype=A.dtype)
        steps, sign = dense.eliminate_with_sign(J, -jnp.stack([F, F_theta], axis=1))
        return _Linear(P, F, largest(P_theta), steps, sign)

    def body(s: _State) -> _State:
        tau = jnp.where(s.newton, 0.0, jnp.exp(s.theta))
        at = linear(s, tau)
        solved = s.newton & (largest(at.F * c.unit) <= c.tol)
        late = s.iterations >= max_iterations * (1 + s.attempt)
        new = _advance(laws, s, at, tau, constant, scale, late)
        return new._replace(P=at.P, iterations=s.iterations + 1, solved=solved, on=~solved & (new.attempt < 4))

    one = jnp.ones_like(scale)
    yes, no = one > 0.0, one < 0.0
    none, beginning = jnp.zeros_like(constant), jnp.log(scale)
    nowhere = _Point(none, none, none, beginning, 0.0 * one, 0.0 * one, no)
    start = _State(
        zeta=jnp.where(warm > 0, c.P - c.y, 0.0), P=c.P, theta=beginning, newton=warm > 0, steps=warm,
        attempt=0 * warm, iterations=0 * warm, ray=no, on=yes, solved=no, last=nowhere, anchor=nowhere,
        length=STEP * one, anchor_length=STEP * one, damping=one, last_F=one, forward=0.0 * one, begun=no,
        trial=TRIAL * scale,
    )  # fmt: skip
    end = _packed_while(lambda s: s.on, body, start)
    ray = end.ray & ~end.solved
    return Solution(jnp.where(ray, end.anchor.zeta, end.P), end.iterations, ray)  # far out, ζ = P − y is P


class _Directions(NamedTuple):
    """Newton's correction at a point, the tangent of unit length, and the part of the correction across it."""

    correction: Array  # (n,); it leaves θ as it is
    T: Array  # (n,)
    T_theta: Array
    across: Array  # (n,)
    across_theta: Array


def _directions(correction: Array, tangent: Array, D: Array) -> _Directions:
    """In the metric (1/D², 1) of (ζ, θ), with the tangent dζ/dθ. No division where a product will do: each becomes a
    kernel of its own."""
    inverse = lax.rsqrt(D * D + total(tangent * tangent))
    along = total(correction * tangent) * inverse * inverse
    T_theta = D * inverse
    return _Directions(correction, T_theta * tangent, T_theta, correction - along * tangent, -along)


def _advance(laws: Laws, s: _State, at: _Linear, tau: Array, c: Array, scale: Array, late: Array) -> _State:
    """Where to go from a point: accept it or not, correct, predict, or try Newton's method at τ = 0."""
    D = scale + largest(s.zeta)
    seen = s.forward != 0.0
    here = _directions(at.steps[:, 0], at.steps[:, 1], D)
    step, across = here.correction, here.across
    u, u_theta = jnp.where(seen, across, step), jnp.where(seen, here.across_theta, 0.0)
    square_u, square_F = total(u * u) + (D * u_theta) ** 2, total(at.F * at.F)
    finite = jnp.isfinite(square_F + square_u + here.T_theta)
    care = jnp.where(s.attempt == 0, 1.0, CAREFUL)

    def within(F: float, u: float) -> Array:
        return (square_F < laws.n_N * (care * F * tau) ** 2) & (square_u < (care * u * D) ** 2)

    corrected = (1.0 - 0.1 * s.damping) ** 2 * s.last_F >= square_F
    exact = square_F < laws.n_N * (1e-6 * tau) ** 2
    good = finite & (~s.begun | exact | jnp.where(s.last.ahead, within(NEAR_F, NEAR_U), corrected))
    accept = ~s.newton & good
    close = accept & within(CLOSE_F, CLOSE_U)
    # Forward is the side of the first close point where τ falls.
    forward = jnp.where(close & ~seen, -at.sign, s.forward)
    turn = jnp.where(close, forward * at.sign, 1.0)
    correction, correction_theta = jnp.where(close, across, u), jnp.where(close, here.across_theta, u_theta)
    point = _Point(s.zeta, turn * here.T, correction, s.theta, turn * here.T_theta, correction_theta, close)
    grown = close & s.begun & s.last.ahead & (s.damping == 1.0)
    polish = close & (at.bend < s.trial)
    ray = close & (largest(at.P) > RAY * scale)

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
    ended = lost | (late & ~more)
    again = ended & (s.attempt == 0)
    chance = (over | ended | ray) & ~again
    attempt = jnp.where(again, 1, jnp.where(chance, jnp.maximum(s.attempt, 1) + 1, s.attempt))
    begin = (s.newton & ~more & ~s.begun) | again
    zeta, theta = last.move(length, damping)
    zeta = jnp.where(begin, 0.0, zeta)
    # ζ = P − y, with y = F − (ε − 1) P − ζ and ε → 0
    zeta = jnp.where(chance, -c, jnp.where(polish, s.zeta - at.F, zeta))
    stays = more | chance | polish
    return s._replace(
        zeta=jnp.where(more, s.zeta + step, zeta),
        theta=jnp.where(stays, s.theta, jnp.where(begin, jnp.log(scale), theta)),
        newton=more | polish | chance,
        steps=jnp.where(chance, jnp.where(attempt == 2, *LAST_STEPS), jnp.where(polish, POLISH, s.steps - 1)),
        attempt=attempt,
        ray=s.ray | ray,
        last=last,
        anchor=_pick(close, point, s.anchor),
        length=jnp.where(again, STEP, length),
        anchor_length=jnp.where(close | back, length, s.anchor_length),
        damping=jnp.where(again, 1.0, damping),
        last_F=jnp.where(accept, square_F, s.last_F),
        forward=jnp.where(again, 0.0, forward),
        begun=(s.begun | accept) & ~again,
        trial=jnp.where(again, TRIAL * scale, jnp.where(polish, 0.1 * at.bend, s.trial)),
    )


def _pick(which: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(which, a, b), new, old)


def _packed_while(proceed: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """`lax.while_loop` with all scalars of its state in one vector, and all vectors of one length in one matrix: many
    small decisions then compile to one kernel."""
    leaves, structure = jax.tree.flatten(start)
    dtypes = [leaf.dtype for leaf in leaves]
    dtype = jnp.result_type(*(leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)))
    groups: dict[tuple[int, ...], list[int]] = {}
    for k, leaf in enumerate(leaves):
        groups.setdefault(leaf.shape, []).append(k)

    def pack(state: Any) -> list[Array]:
        leaves = [leaf.astype(dtype) for leaf in jax.tree.leaves(state)]
        # Not `stack`, which is not fused. Nothing is larger than infinity: so the compiler cannot lift the places, one
        # kernel each, out of the loop.
        never = next(leaves[members[0]] for shape, members in groups.items() if not shape) > jnp.inf
        packed = []
        for shape, members in groups.items():
            place = lax.broadcasted_iota(int, (len(members), *shape), 0) + never
            values = jnp.zeros(place.shape, dtype)
            for k, member in enumerate(members):
                values = jnp.where(place == k, leaves[member], values)
            packed.append(values)
        return packed

    def unpack(packed: list[Array]) -> Any:
        values = {k: group[i] for group, own in zip(packed, groups.values(), strict=True) for i, k in enumerate(own)}
        return jax.tree.unflatten(structure, [values[k].astype(dtype) for k, dtype in enumerate(dtypes)])

    return unpack(lax.while_loop(lambda s: proceed(unpack(s)), lambda s: pack(body(unpack(s))), pack(start)))
