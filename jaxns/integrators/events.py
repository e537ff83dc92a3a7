"""Events of nonsmooth motion: when they come, and what happens at one.

Between events the contacts keep their mode, and these indicators stay positive:

    open contacts       g_N                         a gap closes
    closed contacts     λ_N                         a contact detaches
    sliding contacts    γ_F · direction             a slip velocity vanishes
    sticking contacts   λ_N − gauge(λ_F)            a friction force leaves its set
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import implicit, inclusion
from ..solve.lanes import anywhere
from . import velocity_level
from .acceleration_level import Accelerations, Instant, Mode, Motion, holding_direction, settle, unit_slips
from .base import Configuration, law_table, velocity_unit
from .runge_kutta import Stages


class EventKind(enum.IntEnum):
    """What happened to a contact.

    >>> EventKind(1).name
    'IMPACT'
    """

    NONE = 0  # an unused entry
    IMPACT = 1  # the gap closed; Newton's law gave the velocity after it
    REST = 2  # the same, and the rebound was so slow that the contact was closed for good (end of a Zeno sequence)
    DETACH = 3  # the normal force vanished and the gap opens
    STICK = 4  # sliding ended
    SLIP = 5  # sticking ended
    REVERSE = 6  # sliding changed its direction at once
    EDGE = 7  # at a geometrical discontinuity the contact gave way to another


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Events:
    """All events of a run, in the order of time; entries from `count` on are unused (kind NONE).

    `before` and `after` hold the relative velocities of the contact, (ġ_N, γ_F). A call that is not traced returns no
    unused entries.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.5)
    >>> events = ns.simulate(ball.system, ns.EventDriven(), ball.q0, ball.u0, dt=0.1, t1=1.0).events
    >>> ns.EventKind(int(events.kind[0])).name, round(float(-events.after[0, 0] / events.before[0, 0]), 6)
    ('IMPACT', 0.5)
    """

    t: Array  # (K,)
    kind: Array  # (K,) `jaxns.EventKind`
    contact: Array  # (K,)
    before: Array  # (K, 1 + d)
    after: Array  # (K, 1 + d)
    count: Array  # ()

    def trimmed(self) -> Events:
        """Without the unused entries; needs concrete values."""
        n = min(int(self.count), self.t.shape[0])
        return Events(self.t[:n], self.kind[:n], self.contact[:n], self.before[:n], self.after[:n], self.count)


# When ---------------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """The end of a trial step, with what decides about it."""

    t: Array
    q: Array
    u: Array
    gap: Array  # (n_N,)
    velocities: Array  # (n,) rows (ġ, γ, ġ_N, γ_F)
    force: Array  # (n,) λ
    u_dot: Array  # (nu,)


def point(motion: Motion, t: Array, q: Array, u: Array) -> Point:
    """The state (t, q, u) with its gaps, velocities and forces."""
    forces = motion.accelerations(t, q, u)
    system = motion.system
    return Point(t, q, u, system.g_N(t, q), system.velocities(t, q, u), forces.force, forces.u_dot)


def indicators(motion: Motion, laws: LawTable, at: Point, slow: Array | None = None) -> Array:
    """The indicators (4, n_N) of all contacts, +∞ where one does not apply.

    `slow` (n_N,) is the slip velocity that counts as none, by default zero.
    """
    system, (closed, stick, direction) = motion.system, motion.mode
    mu = system.coefficients(system.rows(at.t, at.q, at.u), at.q.dtype)[2]
    rough = laws.gather(mu) > 0.0
    _, _, gamma_F = laws.split(at.velocities)
    _, force_N, force_F = laws.split(at.force)
    slip = laws.gather(gamma_F * direction) - (0.0 if slow is None else slow)
    values = jnp.stack([at.gap, force_N, slip, force_N - laws.gauge(force_F, mu)])
    applies = jnp.stack([~closed, closed, closed & ~stick & rough, closed & stick])
    return jnp.where(applies, values, jnp.inf)


_STOPPED = 1e-8  # slip velocity that counts as none in spatial friction


def stopping_speed(motion: Motion, laws: LawTable, gamma_F: Array) -> Array:
    """The slip velocity (n_N,) at which sliding stops, in a step that begins with slip velocities gamma_F (n_F,).

    In the plane a slip velocity turns as it vanishes, so it counts as none just before it does; unless sliding has just
    begun from rest.
    """
    along = laws.gather(gamma_F * motion.mode.direction)
    return jnp.where((_dimensions(laws) > 1) & (along > 4.0 * _STOPPED), 2.0 * _STOPPED, 0.0)


def at_stages(motion: Motion, laws: LawTable, t: Array, h: Array, stages: Stages) -> Array:
    """The indicators (s, 4, n_N) at the stages of a step from t."""
    system = motion.system

    def one(c: Array, q: Array, u: Array, force: Array) -> Array:
        t_i = t + c * h
        here = Point(t_i, q, u, system.g_N(t_i, q), system.velocities(t_i, q, u), force, jnp.zeros_like(u))
        return indicators(motion, laws, here)

    return jax.vmap(one)(*stages)


def _dimensions(laws: LawTable) -> Array:
    return laws.gather(jnp.ones((laws.n_F,), int))


GAP, FORCE, SLIP, CONE = range(4)  # rows of the indicators


def small_velocity(velocities: Array, tol: Array) -> Array:
    """What counts as zero among these velocities or accelerations."""
    return 10.0 * tol / velocity_unit(velocities)


# What happens -------------------------------------------------------------------------------------------------------


class Encounter(NamedTuple):
    """What is known when an event comes."""

    closed: Array  # (n_N,) bool: contacts that may take part in an impact
    leaves: Array  # (n_N,) bool: contacts that open by themselves
    breaks: Array  # (n_N,) bool: sticking contacts that begin to slide


class After(NamedTuple):
    """The state after an event."""

    u: Array
    P: Array  # (n,) percussions of the impact
    mode: Mode
    before: Array  # (n,) velocities (ġ, γ, ġ_N, γ_F)
    after: Array  # (n,)
    rests: Array  # (n_N,) bool: rebounds too slow to follow
    stats: inclusion.Stats


class _Theta(NamedTuple):
    system: System
    t: Array
    q: Array
    u: Array
    closed: Array
    rest_speed: Array
    tol: Array


def encounter(motion: Motion, rows: Rows, at: Point, event: Encounter, rest_speed: Array, tol: Array) -> After:
    """Impact, then the decision which contacts stay closed, stick or slide.

        M (u⁺ − u⁻) = W P,    ξ_N = ġ_N⁺ + e_N ġ_N⁻ ∈ N_{R−}(−P_N),    ξ_F = γ_F⁺ + e_F γ_F⁻ ∈ N_{C_F(P_N)}(−P_F)

    with e_N = 0 where e_N |ġ_N⁻| is below the speed of rest; then the inclusion of the accelerations.
    """
    system, laws = motion.system, law_table(rows)
    theta = _Theta(system, at.t, at.q, at.u, event.closed, rest_speed, tol)
    problem = velocity_level.problem(laws, _configuration, lambda theta, d: _impact(rows, theta, d))
    (u, P), impact_stats = implicit.solve(problem, theta)
    after = system.velocities(at.t, at.q, u)
    small = small_velocity(at.velocities, tol)
    _, speed_N, gamma_F = laws.split(after)
    slip, slip_speed = unit_slips(laws, gamma_F)
    stays = event.closed & ~event.leaves & (speed_N <= small)

    mu = system.coefficients(rows, u.dtype)[2]
    _, _, force_F = laws.split(at.force)
    sliding = slip_speed > jnp.where(_dimensions(laws) > 1, 3.0 * _STOPPED, small)
    breaks = event.breaks & ~sliding
    onset = holding_direction(laws, mu, force_F)
    direction = jnp.where(laws.spread(breaks), onset, slip)
    instant = Instant(system, at.t, at.q, u, stays, sliding | breaks, direction, jnp.ones_like(at.t), tol)
    if not laws.spatial:
        instant = lax.stop_gradient(instant)
    (_, force, rates), decision_stats = implicit.solve(Accelerations(rows).problem(), instant)
    _, rate_N, rate_F = laws.split(rates)
    _, force_N, _ = laws.split(force)
    limit = small_velocity(rates, tol)
    closed = stays & ((force_N > 0.0) | (rate_N <= limit))
    start, start_speed = unit_slips(laws, rate_F)
    begins = stays & ~sliding & ~breaks & ((start_speed > limit) | (laws.gather(mu) <= 0.0))
    direction = jnp.where(laws.spread(begins), start, direction)
    stick = closed & ~(sliding | breaks | begins) & (_dimensions(laws) > 0)
    rests = lax.stop_gradient(_rebound_too_slow(system, rows, at, event.closed, rest_speed))
    mode = Mode(closed, stick, direction)
    u = settle(Motion(system, mode), at.t, at.q, u)
    after = system.velocities(at.t, at.q, u)
    return After(u, P, mode, at.velocities, after, rests, worse(impact_stats, decision_stats))


def kinds(laws: LawTable, old: Mode, event: Encounter, result: After, tol: Array) -> Array:
    """What happened to each contact (n_N,)."""
    _, before, _ = laws.split(result.before)
    _, after, _ = laws.split(result.after)
    _, P_N, _ = laws.split(result.P)
    small = small_velocity(result.before, tol)
    new = result.mode
    slid, slides = old.closed & ~old.stick, new.closed & ~new.stick
    rough = _dimensions(laws) > 0
    # A contact that was closed is hit if an impact elsewhere opens it.
    hit = (event.closed & ~old.closed & (before < -small)) | (old.closed & (P_N > 0.0) & (after > small))
    turned = slid & slides & rough & (laws.gather(old.direction * new.direction) < 0.0)
    cases = [
        (hit & result.rests, EventKind.REST),
        (hit, EventKind.IMPACT),
        (old.closed & ~new.closed, EventKind.DETACH),
        (slid & new.stick & rough, EventKind.STICK),
        (old.stick & slides & rough, EventKind.SLIP),
        (turned, EventKind.REVERSE),
    ]
    return jnp.select([c for c, _ in cases], [int(k) for _, k in cases], int(EventKind.NONE))


def _configuration(theta: _Theta) -> Configuration:
    return Configuration(theta.system, theta.t, theta.q, theta.u)


def _impact(rows: Rows, theta: _Theta, d: velocity_level.AnyDirections) -> velocity_level.Impact:
    system, t, q, u, closed, rest_speed, tol = theta
    velocities = system.velocities(t, q, u)
    before, mu = velocity_level.restitution(system, rows, velocities)
    b, n = rows.n_bilateral, rows.n_bilateral + rows.n_N
    before = before.at[b:n].set(jnp.where(jnp.abs(before[b:n]) < rest_speed, 0.0, before[b:n]))
    return velocity_level.Impact(u, before, mu, closed, jnp.zeros_like(velocities), tol)


def _rebound_too_slow(system: System, rows: Rows, at: Point, closed: Array, rest_speed: Array) -> Array:
    before, _ = velocity_level.restitution(system, rows, at.velocities)
    rebound = -law_table(rows).split(before)[1]
    return closed & (rebound > 0.0) & (rebound < rest_speed)


def worse(first: inclusion.Stats, second: inclusion.Stats) -> inclusion.Stats:
    """The worse of two solves, with the iterations of both."""
    bad = second.status > first.status
    return inclusion.Stats(
        jnp.where(bad, second.status, first.status),
        first.iterations + second.iterations,
        jnp.maximum(first.residual, second.residual),
        jnp.where(bad, second.row, first.row),
    )


def only_if(happens: Array, event: Callable[[], Any]) -> Any:
    """event() where it happens in some lane, else zeros of the same shapes."""

    def nothing() -> Any:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(event))

    return lax.cond(anywhere(happens), event, nothing)


def choose(condition: Array, first: Any, second: Any) -> Any:
    """One of two pytrees."""
    return jax.tree.map(partial(jnp.where, condition), first, second)
