"""The derivative of a row of event-driven integration: its accepted steps once more, as a scan."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..solve.defined import with_derivative_of
from ..solve.lanes import anywhere
from . import events
from .acceleration_level import Mode, Motion
from .event_loop import RowLoop
from .event_meeting import Again, Meeting, choose, only_if
from .event_state import Instants, Moved, Outcome, Slot, Start, Theta
from .events import Point

_Carry = tuple[Start, Array]  # and percussions


def replay(row: RowLoop, theta: Theta, schedule: Slot, outcome: Outcome) -> Moved:
    """The derivatives of a row from its schedule; step sizes, modes, kinds of events and all values are those of the loop.

    The instant of an event is where its indicator f(t, q, u) vanishes. A step of constant size ends there, with f = 0 but
    df ≠ 0; so the end of the step moves along the motion by dt = −df / ḟ.
    """
    nothing = jnp.zeros((row.laws.size,), theta.q.dtype)
    begin = Start(theta.t, theta.q, theta.u, theta.memory.mode.direction)

    def slot(carry: _Carry, s: Slot) -> tuple[_Carry, tuple[Array, Array, Array]]:
        start, P = carry
        idle = carry, (start.t, nothing, nothing)
        recorded = choose(s.used, s.start, lax.stop_gradient(begin))
        known = with_derivative_of(start, recorded), P
        return lax.cond(anywhere(s.used), lambda: choose(s.used, _step(row, theta, known, s), idle), lambda: idle)

    slot = jax.checkpoint(slot, prevent_cse=False)
    (last, P), (t, before, after) = lax.scan(slot, (begin, nothing), schedule)
    moved = outcome.motion
    end = Start(lax.stop_gradient(theta.t + theta.dt), moved.q, moved.u, moved.direction)
    q, u, P = _to_row_end(row, theta, outcome, with_derivative_of(last, end), P)
    log, past = outcome.memory.log, theta.memory.log
    entry = jnp.arange(log.kind.shape[0])
    here = (entry >= past.entries) & (entry < log.entries)  # the entries that this row made

    def logged(old: Array, new: Array) -> Array:
        of_contact = jax.vmap(row.by_contact)(new)[log.slot, log.contact]
        return jnp.where(here[:, None], of_contact, old)

    instants = Instants(
        jnp.where(here, t[log.slot], past.instants.t),
        logged(past.instants.before, before),
        logged(past.instants.after, after),
    )
    return with_derivative_of(Moved(q, u, P, last.direction, instants), moved)


def _step(row: RowLoop, theta: Theta, carry: _Carry, s: Slot) -> tuple[_Carry, tuple[Array, Array, Array]]:
    """One accepted step, and the event at its end."""
    (t, q, u, direction), P = carry
    system, t_end = theta.system, theta.t + theta.dt
    motion = Motion(system, Mode(s.closed, s.stick, direction), row.settings.lcp)
    tolerance, rest_speed = row.settings.tolerances(q.dtype)
    moves = s.used & ~s.still
    h = jnp.where(moves, jnp.where(s.last, t_end - t, s.h), 1e-3 * theta.dt)
    step = row.settings.smooth.step(motion, t, q, u, h, tolerance)
    t_1 = jnp.where(moves, jnp.where(s.last, t_end, t + h), t)
    q_1, u_1 = jnp.where(moves, step.q, q), jnp.where(moves, step.u, u)

    at = _at_instant(row, motion, t_1, q_1, u_1, s.which)
    limit = jnp.where(s.event, theta.tol, jnp.inf)

    meeting = Meeting(motion, row.rows, at, s.encounter, rest_speed, limit)
    result: Again = only_if(s.event, lambda: meeting.again(s.after, s.roots))
    u = jnp.where(s.event, result.u, at.u)
    direction = jnp.where(s.event, result.direction, jnp.where(moves, row.turned(motion.mode, at), direction))
    P = P + jnp.where(moves, step.P, 0.0) + jnp.where(s.event, result.P, 0.0)
    return (Start(at.t, at.q, u, direction), P), (at.t, result.before, result.after)


def _to_row_end(row: RowLoop, theta: Theta, outcome: Outcome, last: Start, P: Array) -> tuple[Array, Array, Array]:
    """A row that ends with an event, not with a step, still ends at t + Δt: the instant moves, its end does not."""
    t, q, u, direction = last
    late = theta.t + theta.dt - t
    late = late - lax.stop_gradient(late)  # no time, but a derivative
    mode = outcome.memory.mode._replace(direction=direction)
    forces = Motion(theta.system, mode, row.settings.lcp).accelerations(t, q, u)
    return q + late * theta.system.q_dot(t, q, u), u + late * forces.u_dot, P + late * forces.force


def _at_instant(row: RowLoop, motion: Motion, t: Array, q: Array, u: Array, which: Array) -> Point:
    """The end of a step, moved along the motion to where its indicator vanishes."""
    system = motion.system

    def indicator(t: Array, q: Array, u: Array) -> tuple[Array, Array]:
        at = events.point(motion, t, q, u)
        values = events.indicators(motion, row.laws, at).reshape(-1)
        value = values[jnp.maximum(which, 0)] if values.shape[0] else 0.0 * t
        return jnp.where(which >= 0, value, 0.0), at.force

    u_dot, q_dot = motion.accelerations(t, q, u).u_dot, system.q_dot(t, q, u)
    (value, force), (rate, force_rate) = jax.jvp(indicator, (t, q, u), (jnp.ones_like(t), q_dot, u_dot))
    rate = lax.stop_gradient(jnp.where((which >= 0) & (rate != 0.0), rate, 1.0))
    shift = -(value - lax.stop_gradient(value)) / rate
    t, q, u = t + shift, q + shift * q_dot, u + shift * u_dot
    return Point(
        t, q, u, system.g_N(t, q), system.velocities(t, q, u), force + shift * lax.stop_gradient(force_rate), u_dot
    )
