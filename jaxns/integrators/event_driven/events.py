"""Events of nonsmooth motion: what they are, and when they come.

Between events the contacts keep their mode, and these indicators stay positive:

    open contacts       g_N                         a gap closes
    closed contacts     λ_N                         a contact detaches
    sliding contacts    γ_F · direction             a slip velocity vanishes
    sticking contacts   λ_N − gauge(λ_F)            a friction force leaves its set
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...laws.table import LawTable
from ...trace.distinct import distinct
from ..base import velocity_unit
from ..levels.acceleration_level import Motion
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

    @distinct
    def here(t: Array, q: Array, u: Array) -> Point:
        forces = motion.accelerations(t, q, u)
        system = motion.system
        return Point(t, q, u, system.g_N(t, q), system.velocities(t, q, u), forces.force, forces.u_dot)

    return here(t, q, u)


def indicators(motion: Motion, laws: LawTable, at: Point, slow: Array | None = None) -> Array:
    """The indicators (4, n_N) of all contacts, +∞ where one does not apply.

    `slow` (n_N,) is the slip velocity that counts as none, by default zero.
    """
    system, (closed, stick, direction, _) = motion.system, motion.mode
    here = at.t, at.q, at.u
    mu = system.at_speeds(*here).coefficients(system.rows(*here), at.q.dtype)[2]
    _, _, gamma_F = laws.split(at.velocities)
    _, force_N, force_F = laws.split(at.force)
    slip = laws.gather(gamma_F * direction) - (0.0 if slow is None else slow)
    values = jnp.stack([at.gap, force_N, slip, force_N - laws.gauge(force_F, mu)])
    applies = jnp.stack([~closed, closed, closed & ~stick & laws.rough(mu), closed & stick])
    return jnp.where(applies, values, jnp.inf)


STOPPED = 1e-8  # slip velocity that counts as none in spatial friction


def stopping_speed(motion: Motion, laws: LawTable, gamma_F: Array) -> Array:
    """The slip velocity (n_N,) at which sliding stops, in a step that begins with slip velocities gamma_F (n_F,).

    In the plane a slip velocity turns as it vanishes, so it counts as none just before it does; unless sliding has just
    begun from rest.
    """
    along = laws.gather(gamma_F * motion.mode.direction)
    return jnp.where((dimensions(laws) > 1) & (along > 4.0 * STOPPED), 2.0 * STOPPED, 0.0)


def unsure_slip(laws: LawTable) -> Array:
    """How far a slip velocity (n_N,) along its direction may be below zero: what counts as rest when sliding begins.

    A contact near the centre of a turning body passes through rest at a small distance, and its direction turns by then.
    """
    return jnp.where(dimensions(laws) > 1, 4.0 * STOPPED, 0.0)


def at_stages(motion: Motion, laws: LawTable, t: Array, h: Array, stages: Stages) -> Array:
    """The indicators (s, 4, n_N) at the stages of a step from t."""
    system = motion.system

    def one(c: Array, q: Array, u: Array, force: Array) -> Array:
        t_i = t + c * h
        here = Point(t_i, q, u, system.g_N(t_i, q), system.velocities(t_i, q, u), force, jnp.zeros_like(u))
        return indicators(motion, laws, here)

    return jax.vmap(one)(*stages)


def dimensions(laws: LawTable) -> Array:
    return laws.gather(jnp.ones((laws.n_F,), int))


GAP, FORCE, SLIP, CONE = range(4)  # rows of the indicators


def small_velocity(velocities: Array, tol: Array) -> Array:
    """What counts as zero among these velocities or accelerations."""
    return 10.0 * tol / velocity_unit(velocities)
