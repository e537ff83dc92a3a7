"""The derivative of a step with located impacts: its parts once more, from their roots.

A part ends at the instant t + τ at which the gap of a contact vanishes, g_N(t + τ, q⁺(τ)) = 0. Its end x(τ) = (q⁺, u⁺, P)
is that of a step of the scheme over τ, so that with dg_N/dτ of the scheme

    dτ = −dg_N / (dg_N/dτ),        dx = ∂x/∂(t, q, u, p) d(t, q, u, p) + ∂x/∂τ dτ.

Second derivatives follow from one more turn of Newton's method along x + s ∂x/∂τ + s²/2 ∂²x/∂τ².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..solve.derivative_only import vanishing, with_derivative_of
from ..solve.lanes import anywhere
from .event_meeting import choose, only_if
from .located_loop import DividedStep, End, Part
from .located_parts import Place, Theta


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


@dataclass(frozen=True)
class Replay:
    """The parts of one step, once more."""

    divided: DividedStep
    theta: Theta

    def run(self, parts: Part, end: End) -> End:
        """Values and decisions are those of the loop."""
        no_P = jnp.zeros_like(end.P)
        begin = Place(self.theta.t, self.theta.q, self.theta.u)

        def part(start: Place, slot: tuple[Part, Array]) -> tuple[Place, _After]:
            p, last = slot
            idle = _After(start, no_P, no_P, no_P)
            known = with_derivative_of(start, choose(p.used, p.start, begin))
            after = lax.cond(anywhere(p.used), lambda: choose(p.used, self._part(known, p, last), idle), lambda: idle)
            return after.place, after

        last = jnp.arange(self.divided.impacts + 1) == self.divided.impacts
        place, hits = lax.scan(jax.checkpoint(part, prevent_cse=False), begin, (parts, last))
        t, before, after = (x[:-1] for x in (hits.place.t, hits.before, hits.after))
        return with_derivative_of(End(place.q, place.u, jnp.sum(hits.P, axis=0), t, before, after), end)

    def _part(self, start: Place, p: Part, last: Array) -> _After:
        theta, parts = self.theta, self.divided.parts
        left = with_derivative_of(theta.t + theta.dt - start.t, p.h)
        h = jnp.where(last, left, p.h)

        def over(h: Array) -> _Reached:
            step, _ = parts.step(theta, start, h, p.acting, theta.tol, p.roots.step)
            return _Reached(start.t + h, step.q, step.u, step.P)

        end = self._at_instant(over, h, p.which, ~last)

        def impact() -> tuple[Array, Array]:
            return parts.known_impact(theta.system, end.place, p.touches, theta.tol, p.roots.impact)

        u, P = only_if(~last, impact)
        place = end.place._replace(u=jnp.where(last, end.u, u))
        before, after = (theta.system.velocities(*at) for at in (end.place, place))
        return _After(place, end.P + jnp.where(last, 0.0, P), before, after)

    def _at_instant(self, over: Callable[[Array], _Reached], h: Array, which: Array, moves: Array) -> _Reached:
        """x(h), moved by the time s to where the gap of a contact vanishes. Its value is zero."""
        one = jnp.ones_like(h)

        def rate(h: Array) -> tuple[_Reached, _Reached]:
            return jax.jvp(over, (h,), (one,))

        (end, speed), (_, change) = jax.jvp(rate, (h,), (one,))

        def after(s: Array) -> _Reached:
            moved = jax.tree.map(lambda v, a: v + 0.5 * a, speed, vanishing(s, change))
            return jax.tree.map(jnp.add, end, vanishing(s, moved))

        def gap(x: _Reached) -> Array:
            return self.theta.system.g_N(x.t, x.q)[which]

        g, closing = jax.jvp(gap, (end,), (speed,))
        closing = jnp.where(moves & (closing != 0.0), closing, 1.0)
        g_0 = lax.stop_gradient(g)
        s = -jnp.where(moves, g - g_0, 0.0) / closing
        s = s - jnp.where(moves, gap(after(s)) - g_0, 0.0) / lax.stop_gradient(closing)
        return after(s)
