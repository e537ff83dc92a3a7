"""The derivative of a row of event-driven integration: its accepted steps once more, as a scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ...solve.derivative_only import tie_of, tied, vanishing, with_derivative_of
from ...solve.lanes import anywhere
from ...trace.distinct import distinct
from ..levels.acceleration_level import Motion
from . import events
from .loop import RowLoop
from .meeting import Again, Meeting, choose, only_if
from .state import Instants, Moved, Outcome, Slot, Start, Theta

_Carry = tuple[Start, Array]  # and percussions


def replay(row: RowLoop, theta: Theta, schedule: Slot, outcome: Outcome) -> Moved:
    """The motion of a row from its schedule: values, step sizes, modes and the kinds of events are those of the loop.

    The instant of an event is where its indicator f(t, q, u) vanishes. A step of constant size ends there, with f = 0 but
    df ≠ 0; so the end of the step moves along the motion (`_instant`).
    """
    nothing = jnp.zeros((row.laws.size,), theta.q.dtype)
    begin = Start(theta.t, theta.q, theta.u, theta.memory.mode.direction)

    def slot(carry: _Carry, s: Slot) -> tuple[_Carry, tuple[Array, Array, Array]]:
        start, P = carry
        idle = carry, (start.t, nothing, nothing)
        known = with_derivative_of(start, choose(s.used, s.start, begin))
        return lax.cond(anywhere(s.used), lambda: choose(s.used, _step(row, theta, known, P, s), idle), lambda: idle)

    slot = jax.checkpoint(slot, prevent_cse=False)
    (last, P), (t, before, after) = lax.scan(slot, tied((begin, nothing), tie_of(theta)), schedule)
    # A row that ends with an event, not with a step, still ends at t + Δt: the instant moves, its end does not.
    moved, end = outcome.motion, theta.t + theta.dt
    t_last, q, u, direction = with_derivative_of(last, Start(end, moved.q, moved.u, moved.direction))
    mode = outcome.memory.mode._replace(direction=direction)
    if row.rows.n_N:
        motion = Motion(theta.system, mode, row.settings.lcp)
        begun = _Place(t_last, q, u, P)
        path = _Path.of(distinct(lambda x: _flow(motion, x, _point(motion, x))), begun)
        _, q, u, P = path.after(end - t_last)
    log, past = outcome.memory.log, theta.memory.log
    entry = jnp.arange(log.kind.shape[0])
    here = (entry >= past.entries) & (entry < log.entries)  # the entries that this row made

    def logged(old: Array, new: Array) -> Array:
        if not row.rows.n_N:
            return old
        of_contact = jax.vmap(row.by_contact)(new)[log.slot, log.contact]
        return jnp.where(here[:, None], of_contact, old)

    instants = Instants(
        jnp.where(here, t[log.slot], past.instants.t),
        logged(past.instants.before, before),
        logged(past.instants.after, after),
    )
    return with_derivative_of(Moved(q, u, P, direction, instants), moved)


def _step(row: RowLoop, theta: Theta, start: Start, P: Array, s: Slot) -> tuple[_Carry, tuple[Array, Array, Array]]:
    """One accepted step, and the event at its end."""
    t, q, u, direction = start
    system, t_end = theta.system, theta.t + theta.dt
    mode = s.mode._replace(direction=direction)
    motion = Motion(system, mode, row.settings.lcp)
    tolerance, rest_speed = row.settings.tolerances(q.dtype)
    moves = s.used & ~s.still
    h = jnp.where(moves, jnp.where(s.last, t_end - t, s.h), 1e-3 * theta.dt)
    step = row.settings.smooth.step(motion, t, q, u, h, tolerance)
    t_1 = jnp.where(moves, jnp.where(s.last, t_end, t + h), t)
    end = _Place(t_1, jnp.where(moves, step.q, q), jnp.where(moves, step.u, u), P + jnp.where(moves, step.P, 0.0))

    at, P = _instant(row, motion, end, s.which)
    limit = jnp.where(s.event, theta.tol, jnp.inf)
    meeting = Meeting(motion, row.rows, at, s.encounter, rest_speed, limit)
    result: Again = only_if(s.event, lambda: meeting.again(s.after, s.roots))
    u = jnp.where(s.event, result.u, at.u)
    direction = jnp.where(s.event, result.direction, jnp.where(moves, row.turned(mode, at), direction))
    P = P + jnp.where(s.event, result.P, 0.0)
    return (Start(at.t, at.q, u, direction), P), (at.t, result.before, result.after)


class _Place(NamedTuple):
    """Where a motion has come to."""

    t: Array
    q: Array
    u: Array
    P: Array  # (n,) ∫ λ dt


def _point(motion: Motion, x: _Place) -> events.Point:
    return events.point(motion, x.t, x.q, x.u)


def _flow(motion: Motion, x: _Place, at: events.Point) -> _Place:
    """(1, q̇, u̇, λ)."""
    return _Place(jnp.ones_like(x.t), motion.system.q_dot(x.t, x.q, x.u), at.u_dot, at.force)


class _Path(NamedTuple):
    """A motion near its start, x(s) = x + s ẋ + s²/2 ẍ."""

    start: _Place
    rate: _Place
    change: _Place  # ẍ

    @classmethod
    def of(cls, flow: Callable[[_Place], _Place], start: _Place) -> _Path:
        rate, along = jax.linearize(flow, start)
        return cls(start, rate, along(rate))

    def after(self, s: Array) -> _Place:
        start, rate, change = self
        moved = jax.tree.map(lambda v, a: v + 0.5 * a, rate, vanishing(s, change))
        return jax.tree.map(jnp.add, start, vanishing(s, moved))


def _instant(row: RowLoop, motion: Motion, end: _Place, which: Array) -> tuple[events.Point, Array]:
    """The end of a step, moved along the motion by the time s to where its indicator f vanishes; with its percussions.

    Its value is zero there, up to rounding, and so is s: s = −f/ḟ has the right derivative, and one more turn of Newton's
    method that of the derivative. Forces are what costs: they are found once with their rates along the motion, and once
    more after the first turn, from where the rates lead on.
    """
    if not row.rows.n_N:  # no event
        return _point(motion, end), end.P

    @distinct
    def here(x: _Place) -> tuple[_Place, tuple[events.Point, Array]]:
        at = _point(motion, x)
        values = events.indicators(motion, row.laws, at).reshape(-1)
        f = jnp.where(which >= 0, values[jnp.maximum(which, 0)] if values.shape[0] else 0.0 * x.t, 0.0)
        return _flow(motion, x, at), (at, f)

    (rate, (_, f)), along = jax.linearize(here, end)
    change, (at_rate, speed) = along(rate)
    path = _Path(end, rate, change)
    speed = jnp.where((which >= 0) & (speed != 0.0), speed, 1.0)
    f_0 = lax.stop_gradient(f)
    first = -(f - f_0) / speed
    _, (at, f_1) = here(path.after(first))
    # The second turn has neither value nor first derivative.
    second = -(f_1 - f_0) / lax.stop_gradient(speed)
    at = jax.tree.map(jnp.add, at, vanishing(second, at_rate))
    return at, path.after(first + second).P
