"""What happens at an event: an impact, and the decision what the contacts do after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ...laws.table import LawTable
from ...model.system import Rows
from ...solve import implicit, inclusion
from ...solve.lanes import anywhere
from ...trace.distinct import distinct
from ..base import Configuration, law_table
from ..levels import velocity_level
from ..levels.acceleration_level import (
    Instant,
    Mode,
    Motion,
    acceleration_rows,
    as_impact,
    evenly,
    holding_direction,
    settle,
    unit_slips,
)
from .events import STOPPED, EventKind, Point, dimensions, small_velocity


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
    roots: inclusion.Root  # of the impact and of the decision, (2, n) each


class Again(NamedTuple):
    """What of the state after an event has a derivative."""

    u: Array
    P: Array
    direction: Array  # (n_F,) of sliding
    before: Array
    after: Array


class _Theta(NamedTuple):
    instant: Instant
    rest_speed: Array
    decides: Array  # bool: the inclusion of the accelerations, otherwise that of the impact


class _Contacts(NamedTuple):
    """What the contacts do after an impact; each is a bool (n_N,), but for the direction of sliding (n_F,)."""

    stays: Array
    slides: Array
    breaks: Array
    direction: Array


@dataclass(frozen=True)
class Meeting:
    """Impact, then the decision which contacts stay closed, stick or slide.

        M (u⁺ − u⁻) = W P,    ξ_N = ġ_N⁺ + e_N ġ_N⁻ ∈ N_{R−}(−P_N),    ξ_F = γ_F⁺ + e_F γ_F⁻ ∈ N_{C_F(P_N)}(−P_F)

    with e_N = 0 where e_N |ġ_N⁻| is below the speed of rest; then the inclusion of the accelerations. Both have the same
    force directions and the same Delassus matrix: one program solves the one, then the other.
    """

    motion: Motion
    rows: Rows
    at: Point
    event: Encounter
    rest_speed: Array
    tol: Array

    @property
    def laws(self) -> LawTable:
        return law_table(self.rows)

    def happen(self) -> After:
        """The event, for the first time."""
        at, problem = self.at, self._problem()

        def turn(u: Array, decides: Array) -> tuple[Array, Any]:
            contacts = self._contacts(u)
            solved = inclusion.solve(problem, self._theta(u, contacts, decides))
            v, P = solved.outputs
            return jnp.where(decides, u, v), (v, P, contacts, solved.root, solved.stats)

        u, results = lax.scan(turn, at.u, jnp.array([False, True]))
        (_, v), (P, force), _, roots, _ = results
        contacts, impact_stats, decision_stats = (
            jax.tree.map(lambda x, k=k: x[k], tree) for tree, k in ((results[2], 1), (results[4], 0), (results[4], 1))
        )
        mode = self._mode(u, v, force, contacts)
        rests = self._rebound_too_slow()
        u, P, _, before, after = self._settled(u, P, mode)
        return After(u, P, mode, before, after, rests, inclusion.worse(impact_stats, decision_stats), roots)

    def again(self, mode: Mode, roots: inclusion.Root) -> Again:
        """The same event once more, from its roots: for derivatives with respect to the state before it."""
        problem, direction = self._problem(), mode.direction

        @distinct
        def turn(u: Array, known: tuple[inclusion.Root, Array]) -> tuple[Array, Any]:
            root, decides = known
            contacts = self._contacts(u)
            v, P = implicit.known(problem, root, self._theta(u, contacts, decides))
            return jnp.where(decides, u, v), (v, P, contacts)

        if self.laws.spatial:
            u, results = lax.scan(turn, self.at.u, (roots, jnp.array([False, True])))
            (_, P), (v, force, contacts) = (jax.tree.map(lambda x, k=k: x[k], results[: 2 + k]) for k in (0, 1))
            direction = distinct(lambda *x: self._mode(*x).direction)(u, v, force, contacts)
        else:  # directions of sliding are signs
            impact = jax.tree.map(lambda x: x[0], roots)
            u, (_, P, _) = turn(self.at.u, (impact, jnp.asarray(False)))
        after = mode._replace(direction=direction)
        return Again(*distinct(self._settled)(u, P, after))

    def _problem(self) -> inclusion.Problem:
        def pose(theta: _Theta, d: velocity_level.AnyDirections) -> velocity_level.Impact:
            impact, acceleration = self._impact(theta), as_impact(self.rows, theta.instant, d)
            return choose(theta.decides, acceleration, impact)

        return velocity_level.problem(self.laws, lambda theta: Configuration(*theta.instant[:4]), pose)

    def _impact(self, theta: _Theta) -> velocity_level.Impact:
        system, t, q, u, closed, *_, tol = theta.instant
        velocities = system.velocities(t, q, u)
        before, mu = velocity_level.restitution(system.at_speeds(t, q, u), self.rows, velocities)
        b, n = self.rows.n_bilateral, self.rows.n_bilateral + self.rows.n_N
        before = before.at[b:n].set(jnp.where(jnp.abs(before[b:n]) < theta.rest_speed, 0.0, before[b:n]))
        none = jnp.zeros_like(velocities)
        return velocity_level.Impact(u, before, mu, closed, none, tol, none.astype(bool))

    def _theta(self, u: Array, contacts: _Contacts, decides: Array) -> _Theta:
        closed = jnp.where(decides, contacts.stays, self.event.closed)
        sliding = contacts.slides | contacts.breaks
        tau = jnp.ones_like(self.at.t)
        t, q = self.at.t, self.at.q
        instant = Instant(self.motion.system, t, q, u, closed, sliding, contacts.direction, tau, self.tol)
        return _Theta(instant, self.rest_speed, decides)

    def _contacts(self, u: Array) -> _Contacts:
        """Which contacts stay and which of them slide with the velocity u after an impact."""
        system, laws, at = self.motion.system, self.laws, self.at
        small = small_velocity(at.velocities, self.tol)
        _, speed_N, gamma_F = laws.split(system.velocities(at.t, at.q, u))
        slip, slip_speed = unit_slips(laws, gamma_F)
        stays = self.event.closed & ~self.event.leaves & (speed_N <= small)
        slides = slip_speed > jnp.where(dimensions(laws) > 1, 3.0 * STOPPED, small)
        breaks = self.event.breaks & ~slides
        mu = system.at_speeds(at.t, at.q, u).coefficients(self.rows, u.dtype)[2]
        onset = holding_direction(laws, mu, laws.split(at.force)[2])
        return _Contacts(stays, slides, breaks, jnp.where(laws.spread(breaks), onset, slip))

    def _mode(self, u: Array, u_dot: Array, force: Array, contacts: _Contacts) -> Mode:
        """What follows from accelerations and forces."""
        system, laws, at = self.motion.system, self.laws, self.at
        stays, slides, breaks, direction = contacts
        rates = acceleration_rows(system, at.t, at.q, u, u_dot)
        _, rate_N, rate_F = laws.split(rates)
        limit = small_velocity(rates, self.tol)
        closed = stays & ((laws.split(force)[1] > 0.0) | (rate_N <= limit))
        start, start_speed = unit_slips(laws, rate_F)
        mu = system.at_speeds(at.t, at.q, u).coefficients(self.rows, u.dtype)[2]
        begins = stays & ~slides & ~breaks & ((start_speed > limit) | ~laws.rough(mu))
        direction = jnp.where(laws.spread(begins), start, direction)
        stick = closed & ~(slides | breaks | begins) & (dimensions(laws) > 0)
        mode = Mode(closed, stick, direction, lax.stop_gradient(force))
        share = evenly(*lax.stop_gradient((Motion(system, mode), at.t, at.q, u)))
        return mode._replace(share=share)

    def _settled(self, u: Array, P: Array, mode: Mode) -> tuple[Array, Array, Array, Array, Array]:
        system, at = self.motion.system, self.at
        u = settle(Motion(system, mode), at.t, at.q, u)
        return u, P, mode.direction, at.velocities, system.velocities(at.t, at.q, u)

    def _rebound_too_slow(self) -> Array:
        system = self.motion.system.at_speeds(self.at.t, self.at.q, self.at.u)
        before, _ = velocity_level.restitution(system, self.rows, self.at.velocities)
        rebound = -self.laws.split(before)[1]
        return self.event.closed & (rebound > 0.0) & (rebound < self.rest_speed)


def kinds(laws: LawTable, old: Mode, event: Encounter, result: After, tol: Array) -> Array:
    """What happened to each contact (n_N,)."""
    _, before, _ = laws.split(result.before)
    _, after, _ = laws.split(result.after)
    _, P_N, _ = laws.split(result.P)
    small = small_velocity(result.before, tol)
    new = result.mode
    slid, slides = old.closed & ~old.stick, new.closed & ~new.stick
    rough = dimensions(laws) > 0
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


def only_if(happens: Array, event: Callable[[], Any]) -> Any:
    """event() where it happens in some lane, else zeros of the same shapes."""

    def nothing() -> Any:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(event))

    return lax.cond(anywhere(happens), event, nothing)


def choose(condition: Array, first: Any, second: Any) -> Any:
    """One of two pytrees."""
    return jax.tree.map(partial(jnp.where, condition), first, second)
