"""The derivative of a step with located impacts: its parts once more, from their roots.

A part ends at the instant t + τ at which the gap of a contact vanishes, g_N(t + τ, q⁺(τ)) = 0. Its end x(τ) = (q⁺, u⁺, P)
is that of a step of the scheme over τ, so that with dg_N/dτ of the scheme

    dτ = −dg_N / (dg_N/dτ),        dx = ∂x/∂(t, q, u, p) d(t, q, u, p) + ∂x/∂τ dτ.

First derivatives are a linear map: that of the parts before the last impact, in the lanes alone that have one, then that of
the rest of the step. Second derivatives take one more turn of Newton's method along x + s ∂x/∂τ + s²/2 ∂²x/∂τ².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ...model.system import System
from ...solve.defined import once_differentiable
from ...solve.derivative_only import tie_of, tied, vanishing, with_derivative_of
from ...solve.lanes import anywhere
from ...solve.worklist import linear_map, where_wanted
from ..event_driven.meeting import choose
from .loop import DividedStep, End, Part
from .parts import Place, Theta


class _Moving(NamedTuple):
    """What of a step's arguments has a derivative."""

    system: System
    t: Array
    dt: Array
    q: Array
    u: Array

    @classmethod
    def of(cls, theta: Theta) -> _Moving:
        return cls(theta.system, theta.t, theta.dt, theta.q, theta.u)


class _Reached(NamedTuple):
    """Where a part ends, before an impact."""

    t: Array
    q: Array
    u: Array
    P: Array

    @property
    def place(self) -> Place:
        return Place(self.t, self.q, self.u)


class _After(NamedTuple):
    """The same after it, with the velocities (ġ, γ, ġ_N, γ_F) on both sides."""

    place: Place
    P: Array
    before: Array
    after: Array


class _Impacts(NamedTuple):
    """The parts that end with an impact."""

    place: Place  # after the last of them
    P: Array
    t: Array  # (impacts,)
    before: Array  # (impacts, n)
    after: Array


@dataclass(frozen=True)
class Replay:
    """The parts of one step, once more: values and decisions are those of the loop."""

    divided: DividedStep
    twice: bool  # whether second derivatives are wanted

    def run(self, theta: Theta, parts: Part, end: End) -> End:
        impacts = self.impacts(theta, parts)
        return with_derivative_of(self.rest(theta, impacts, parts), end)

    def impacts(self, theta: Theta, parts: Part) -> _Impacts:
        no_P = jnp.zeros_like(parts.roots.impact.x[0])
        begin = Place(theta.t, theta.q, theta.u)

        def part(start: Place, p: Part) -> tuple[Place, _After]:
            idle = _After(start, no_P, no_P, no_P)
            known = with_derivative_of(start, choose(p.used, p.start, begin))
            after = lax.cond(
                anywhere(p.used), lambda: choose(p.used, self._until_impact(theta, known, p), idle), lambda: idle
            )
            return after.place, after

        some = jax.tree.map(lambda x: x[:-1], parts)
        part = jax.checkpoint(part, prevent_cse=False)
        place, hits = lax.scan(part, tied(begin, tie_of(theta)), some)
        return _Impacts(place, jnp.sum(hits.P, axis=0), hits.place.t, hits.before, hits.after)

    def rest(self, theta: Theta, impacts: _Impacts, parts: Part) -> End:
        p: Part = jax.tree.map(lambda x: x[-1], parts)
        start = with_derivative_of(impacts.place, p.start)
        left = with_derivative_of(theta.t + theta.dt - start.t, p.h)
        end = self._over(theta, start, p, left)
        return End(end.q, end.u, impacts.P + end.P, impacts.t, impacts.before, impacts.after)

    def _over(self, theta: Theta, start: Place, p: Part, h: Array) -> _Reached:
        step, _ = self.divided.parts.step(theta, start, h, p.acting, theta.tol, p.roots.step, self.twice)
        return _Reached(start.t + h, step.q, step.u, step.P)

    def _until_impact(self, theta: Theta, start: Place, p: Part) -> _After:
        end = self._at_instant(theta.system, partial(self._over, theta, start, p), p.h, p.which)
        impact = self.divided.parts.known_impact
        u, P = impact(theta.system, end.place, p.touches, theta.tol, p.roots.impact, self.twice)
        place = end.place._replace(u=u)
        before, after = (theta.system.velocities(*at) for at in (end.place, place))
        return _After(place, end.P + P, before, after)

    def _at_instant(self, system: System, over: Callable[[Array], _Reached], h: Array, which: Array) -> _Reached:
        """x(h), moved by the time s to where the gap of a contact vanishes. Its value is zero."""
        one = jnp.ones_like(h)

        def gap(x: _Reached) -> Array:
            return system.g_N(x.t, x.q)[which]

        def with_rate(h: Array) -> tuple[_Reached, _Reached]:
            return jax.jvp(over, (h,), (one,))

        if not self.twice:
            end, speed = with_rate(h)
            closing = lax.stop_gradient(jax.jvp(gap, (end,), (speed,))[1])
            g = gap(end)
            s = -(g - lax.stop_gradient(g)) / jnp.where(closing != 0.0, closing, 1.0)
            return jax.tree.map(jnp.add, end, vanishing(s, lax.stop_gradient(speed)))

        (end, speed), (_, change) = jax.jvp(with_rate, (h,), (one,))

        def after(s: Array) -> _Reached:
            moved = jax.tree.map(lambda v, a: v + 0.5 * a, speed, vanishing(s, change))
            return jax.tree.map(jnp.add, end, vanishing(s, moved))

        g, closing = jax.jvp(gap, (end,), (speed,))
        closing = jnp.where(closing != 0.0, closing, 1.0)
        g_0 = lax.stop_gradient(g)
        s = -(g - g_0) / closing
        s = s - (gap(after(s)) - g_0) / lax.stop_gradient(closing)
        return after(s)


_FROM_REVERSE = (
    "the derivative of a reverse pass through Located is not available (jax.hessian, jax.grad of jax.grad). Second "
    "derivatives that begin with forward mode are: write jax.jacfwd(jax.jacfwd(f)) or jax.jacrev(jax.jacfwd(f))."
)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def replayed(divided: DividedStep, theta: Theta, parts: Part, end: End) -> End:
    """The end of a step that is known, as a function of theta."""
    return end


@replayed.defjvp
def _replayed_jvp(divided: DividedStep, primals: Any, tangents: Any) -> tuple[End, End]:
    theta, parts, end = primals
    return replayed(divided, *primals), _push(divided, theta, _Moving.of(tangents[0]), parts, end)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _push(divided: DividedStep, theta: Theta, moving_dot: _Moving, parts: Part, end: End) -> End:
    """The derivative of the end of a step in the direction moving_dot: linear in it."""
    theta, parts, end = once_differentiable((theta, parts, end), _FROM_REVERSE)
    replay = Replay(divided, twice=False)
    moving = _Moving.of(theta)

    def impacts(theta: Theta, parts: Part, moving: _Moving) -> _Impacts:
        return replay.impacts(theta._replace(**moving._asdict()), parts)

    def forward(moving_dot: _Moving) -> _Impacts:
        def pushed(theta: Theta, parts: Part, moving_dot: _Moving) -> _Impacts:
            return jax.jvp(partial(impacts, theta, parts), (_Moving.of(theta),), (moving_dot,))[1]

        n = divided.impacts
        none = jax.tree.map(jnp.zeros_like, (end.P, end.before, end.after))
        start_dot = Place(moving_dot.t, moving_dot.q, moving_dot.u)
        otherwise = _Impacts(start_dot, none[0], jnp.broadcast_to(moving_dot.t, (n,)), *none[1:])
        return where_wanted(pushed, parts.used[0], (theta, parts, moving_dot), otherwise)

    def backward(ct: _Impacts) -> _Moving:
        def pulled(theta: Theta, parts: Part, ct: _Impacts) -> _Moving:
            return jax.vjp(partial(impacts, theta, parts), _Moving.of(theta))[1](ct)[0]

        zero = jax.tree.map(jnp.zeros_like, moving)
        place = ct.place
        otherwise = zero._replace(t=place.t + jnp.sum(ct.t), q=place.q, u=place.u)
        return where_wanted(pulled, parts.used[0], (theta, parts, ct), otherwise)

    impacts_dot = linear_map(forward, backward, moving_dot)
    last = jax.tree.map(lambda x: x[-1], parts)
    reached = _Impacts(last.start, jnp.zeros_like(end.P), end.t_hits, end.before, end.after)

    def rest(moving: _Moving, reached: _Impacts) -> End:
        return replay.rest(theta._replace(**moving._asdict()), reached, parts)

    return jax.jvp(rest, (moving, reached), (moving_dot, impacts_dot))[1]


@_push.defjvp
def _push_jvp(divided: DividedStep, primals: Any, tangents: Any) -> tuple[End, End]:
    theta, moving_dot, parts, end = primals
    theta_dot, moving_ddot, *_ = tangents
    replay = Replay(divided, twice=True)

    def pushed(moving: _Moving, moving_dot: _Moving) -> End:
        def run(moving: _Moving) -> End:
            return replay.run(theta._replace(**moving._asdict()), parts, end)

        return jax.jvp(run, (moving,), (moving_dot,))[1]

    second = jax.jvp(pushed, (_Moving.of(theta), moving_dot), (_Moving.of(theta_dot), moving_ddot))[1]
    return _push(divided, *primals), second
