"""The loop of one output row of event-driven integration: trial steps, the search for instants, and events.

Each turn does one trial step from the state accepted last. It accepts the step, repeats it with another step size, or, if
an indicator changed its sign, searches the instant by further trials of the same step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...laws.table import LawTable
from ...model.system import Rows, System
from ...solve.inclusion import Root, Stats, worse
from ...solve.status import Status
from ...solve.worklist import until_done, where_wanted
from ...trace.vectorise import stored
from ..base import law_table, velocity_unit
from ..levels.acceleration_level import NO_SLIP, Mode, Motion, acceleration_rows, evenly, unit_slips
from ..moreau import Moreau
from . import events, search
from .events import EventKind, Point
from .meeting import After, Encounter, Meeting, choose, kinds
from .runge_kutta import SmoothStep
from .state import Effort, Instants, Log, Memory, Moved, Outcome, Settings, Slot, Start, Theta

# Lanes of a batch that work on one row at once, where they wait for each other (derivatives, convergence studies): with
# more rows of constraints and contacts than a few each lane alone is faster (docs/decisions.md).
WAITING, FEW_ROWS = 32, 4
MOST_IDLE = 400  # events at one instant, each found by some fifty trials; more than eight find no way on


class _State(NamedTuple):
    """The loop of a row."""

    enough: Array  # where it ends, less what is no time at all
    t: Array
    q: Array
    u: Array
    mode: Mode
    fresh: Array
    h: Array
    search: search.Search
    P: Array
    log: Log
    slot: Array  # accepted steps and still events
    idle: Array  # trial steps since time last went on
    effort: Effort
    status: Array
    stats: Stats
    schedule: Slot | None


class _Trial(NamedTuple):
    """What a trial step says."""

    h: Array
    last: Array
    step: SmoothStep
    at: Point
    verdict: search.Verdict
    usable: Array  # bool: finite, and its constraints can hold
    finite: Array
    accurate: Array  # bool
    guess: Array  # step size at which a gap closes
    dips: Array  # fraction of the step at which a gap dips below zero and comes back, 1 if none does


class _Decision(NamedTuple):
    """What becomes of a trial step; each is a bool, `released` one for each contact."""

    accept: Array  # its end is the new state
    passes: Array  # without an event
    dips: Array  # an indicator was below zero on the way: repeat it up to there
    begins: Array  # an indicator is below zero at its end: search the instant
    located: Array  # it ends at the instant sought
    lost: Array  # a search met contradictory constraints, which the longer step did not notice
    stuck: Array  # no shorter step is allowed, and this one is of no use
    released: Array  # (n_N,) contacts that complementarity in the stages has opened
    still: Array  # an event takes place at its beginning
    event: Array
    again: Array  # repeat it with a smaller size


@dataclass(frozen=True)
class RowLoop:
    """The loop of one row."""

    settings: Settings
    rows: Rows

    @property
    def laws(self) -> LawTable:
        return law_table(self.rows)

    def run(self, theta: Theta, record: bool) -> tuple[Outcome, Slot | None]:
        start = self.start(theta, record)
        group = WAITING if self.laws.size <= FEW_ROWS else 1
        end = until_done(self.turn, self.unfinished, theta, start, together=False, group=group)
        return self.outcome(theta, end), end.schedule

    def unfinished(self, s: _State) -> Array:
        trials = s.effort.accepted + s.effort.rejected
        some = (trials < 20 * self.settings.max_steps) & (s.idle < MOST_IDLE)
        return (s.status == Status.OK) & (s.t < s.enough) & some

    def outcome(self, theta: Theta, end: _State) -> Outcome:
        """The row, of which `end` is the last state."""
        # A trajectory that has failed before takes no part: its tolerance is infinite.
        incomplete = (end.t < end.enough) & (end.status == Status.OK) & jnp.isfinite(theta.tol)
        status = jnp.where(incomplete, Status.TOO_MANY_STEPS, jnp.where(jnp.isfinite(theta.tol), end.status, Status.OK))
        moved = Moved(end.q, end.u, end.P, end.mode.direction, end.log.instants)
        memory = Memory(end.mode, end.h, end.fresh, end.log)
        return Outcome(moved, memory, status, end.stats, end.effort)

    def nearby(self, theta: Theta) -> Array:
        """What is no time at all, at the end of a row."""
        return 16.0 * jnp.finfo(theta.t.dtype).eps * (jnp.abs(theta.t) + theta.dt)

    def start(self, theta: Theta, record: bool) -> _State:
        _, t, dt, q, u, memory, tol = theta
        S, n_N = self.settings.max_steps, self.rows.n_N
        zero, no, none = jnp.asarray(0), jnp.asarray(False), jnp.zeros((n_N,), bool)
        start = Start(t, q, u, memory.mode.direction)
        empty = jnp.zeros((2, self.laws.size), q.dtype)
        slot = Slot(
            start,
            0.0 * t,
            no,
            no,
            no,
            no,
            zero - 1,
            memory.mode,
            Encounter(none, none, none),
            memory.mode,
            Root(empty, empty),
        )
        schedule = jax.tree.map(lambda x: jnp.zeros((S, *x.shape), x.dtype), slot) if record else None
        stats = Stats(zero, zero, 0.0 * t, zero - 1)
        status = jnp.where(jnp.isfinite(tol), Status.OK, Status.STOPPED)
        return _State(
            t + dt - self.nearby(theta), t, q, u, memory.mode, memory.fresh,
            jnp.minimum(memory.h, self.settings.bounds(dt)[1]),
            search.Search.off(4 * n_N, t), jnp.zeros((self.laws.size,), q.dtype), memory.log, zero, zero,
            Effort(zero, zero, zero), status, stats, schedule,
        )  # fmt: skip

    def turn(self, theta: Theta, s: _State) -> _State:
        """One trial step and what follows from it."""
        h_min, h_max = self.settings.bounds(theta.dt)
        trial: _Trial = stored(self._trial(theta, s))
        d = self._decide(theta, s, trial, h_min)
        at = choose(d.still, self._here(theta, s, trial.at), trial.at)
        # Of a batch few lanes have an event in the same turn.
        unneeded: Any = None  # it would be gathered, too
        known = theta._replace(memory=unneeded), s._replace(log=unneeded, schedule=None), trial, d, at
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(self._happen, *known))
        result, kind, meeting = where_wanted(self._happen, d.event, known, nothing, group=1)
        # What the contacts do at the very start is no event, unless they are hit.
        kind = jnp.where(d.event & (~s.fresh | (kind == EventKind.IMPACT)), kind, EventKind.NONE)
        went_on = s.mode._replace(direction=self.turned(s.mode, at))
        counts = Effort(
            s.effort.accepted + d.accept,
            s.effort.rejected + (~d.accept & ~s.fresh),
            s.effort.evaluations + self.settings.smooth.stages + 1,
        )
        which = jnp.where(d.located, trial.verdict.which, jnp.where(d.still, self._hit(at, theta.tol), -1))
        slot = Slot(
            Start(s.t, s.q, s.u, s.mode.direction), trial.h, jnp.asarray(True), d.still, trial.last & d.passes, d.event,
            which, s.mode, meeting,
            result.mode, result.roots._replace(r=jnp.where(d.event, result.roots.r, 1.0)),
        )  # fmt: skip
        counts_as_slot = d.accept | d.still
        return _State(
            enough=s.enough,
            t=jnp.where(d.accept, at.t, s.t),
            q=jnp.where(d.accept, at.q, s.q),
            u=jnp.where(d.event, result.u, jnp.where(d.accept, at.u, s.u)),
            mode=choose(d.event, result.mode, choose(d.accept, went_on, s.mode)),
            fresh=jnp.asarray(False),
            h=jnp.clip(self._next_h(s, trial, d), h_min, h_max),
            search=s.search.after(trial.verdict, trial.h, d.begins, d.located | d.lost, trial.guess),
            P=s.P + jnp.where(d.accept, trial.step.P, 0.0) + jnp.where(d.event, result.P, 0.0),
            log=s.log.add(kind, self._instants(at, result), s.slot),
            slot=s.slot + counts_as_slot,
            idle=jnp.where(d.accept & (at.t > s.t + self.nearby(theta)), 0, s.idle + 1),
            effort=counts,
            status=self._status(theta, s, trial, d, at, result, meeting),
            stats=choose(d.event, worse(s.stats, result.stats), s.stats),
            schedule=None if s.schedule is None else _put(s.schedule, s.slot, slot, counts_as_slot),
        )

    def _decide(self, theta: Theta, s: _State, trial: _Trial, h_min: Array) -> _Decision:
        """What becomes of a trial step."""
        smallest = trial.h <= 1.001 * h_min
        plain = ~s.search.on & ~s.fresh
        good = trial.usable & (trial.accurate | smallest | s.search.on)
        dips = good & plain & (trial.dips < 1.0)
        begins = good & plain & ~dips & trial.verdict.fired
        passes = good & plain & ~dips & ~trial.verdict.fired
        located = s.search.on & trial.verdict.located & trial.usable
        lost = ~trial.usable & s.search.on
        stuck = ~trial.usable & ~s.fresh & smallest
        released = self._released(s, trial, theta.tol) & passes
        still = s.fresh | (stuck & (self.settings.edges == "nscd"))
        event = located | jnp.any(released) | still
        accept = passes | located
        again = (plain & ~accept & ~begins & ~event) | lost
        return _Decision(accept, passes, dips, begins, located, lost, stuck, released, still, event, again)

    def _happen(
        self, theta: Theta, s: _State, trial: _Trial, d: _Decision, at: Point
    ) -> tuple[After, Array, Encounter]:
        """The event at a point: what follows it, what it is to each contact, and who took part."""
        reached = (d.located & trial.verdict.reached).reshape(4, -1)
        closed = s.mode.closed | (at.gap <= theta.tol) | reached[events.GAP]
        leaves = reached[events.FORCE] | d.released
        if self.settings.edges == "nscd":
            giving_way = self._leaving(theta, s) & d.stuck
            closed, leaves = closed & ~giving_way, leaves | giving_way
        breaks = jnp.any(reached[events.CONE]) & self._at_limit(theta.system, s.mode, at, theta.tol)
        meeting = Encounter(closed, leaves, breaks)
        limit = jnp.where(d.event, theta.tol, jnp.inf)  # in nested batches other lanes wait
        _, rest_speed = self.settings.tolerances(s.q.dtype)
        motion = Motion(theta.system, s.mode, self.settings.lcp)
        result = Meeting(motion, self.rows, at, meeting, rest_speed, limit).happen()
        kind = kinds(self.laws, s.mode, meeting, result, theta.tol)
        at_edge = jnp.any(d.released) | d.stuck
        return result, jnp.where(at_edge & leaves, EventKind.EDGE, kind), meeting

    def _at_limit(self, system: System, mode: Mode, at: Point, tol: Array) -> Array:
        """Sticking contacts (n_N,) at the limit of their friction, however redundant ones among them share it."""
        motion = Motion(system, mode._replace(share=at.force))
        force = evenly(motion, at.t, at.q, at.u)
        left = events.indicators(motion, self.laws, at._replace(force=force))[events.CONE]
        unsure = 64.0 * float(jnp.finfo(force.dtype).eps) ** 0.5  # `evenly` is not exact
        return left <= unsure * self.laws.split(force)[1] + _noise(at, tol)

    def _status(
        self, theta: Theta, s: _State, trial: _Trial, d: _Decision, at: Point, result: After, meeting: Encounter
    ) -> Array:
        """How the row fares: an event may fail, a step find no way on, or the steps be too many."""
        status = jnp.where(d.event, result.stats.status, Status.OK)
        no_way = d.stuck & ((self.settings.edges != "nscd") | ~jnp.any(meeting.leaves))
        status = jnp.where(no_way, jnp.where(trial.finite, Status.NOT_CONVERGED, Status.NONFINITE), status)
        unfinished = at.t < theta.t + theta.dt - self.nearby(theta)
        full = (s.slot + 1 >= self.settings.max_steps) & unfinished & (d.accept | d.event)
        return jnp.where((status == Status.OK) & full, Status.TOO_MANY_STEPS, status)

    def _trial(self, theta: Theta, s: _State) -> _Trial:
        system, t, dt, *_, tol = theta
        motion = Motion(system, s.mode, self.settings.lcp)
        remaining = t + dt - s.t
        last = ~s.search.on & (s.h >= remaining - self.nearby(theta)) & ~s.fresh
        h = jnp.where(s.search.on, s.search.candidate(), jnp.where(last, remaining, s.h))
        tolerance, _ = self.settings.tolerances(s.q.dtype)
        step = self.settings.smooth.step(motion, s.t, s.q, s.u, h, tolerance)
        at = events.point(motion, jnp.where(last, t + dt, s.t + h), step.q, step.u)
        finite = jnp.all(jnp.isfinite(jnp.concatenate([at.q, at.u, at.force, at.velocities])))
        finite = finite & jnp.isfinite(step.error)
        gap_0, rate_0 = system.g_N(s.t, s.q), system.g_N_dot(s.t, s.q, s.u)
        _, rate_1, _ = self.laws.split(at.velocities)
        small = events.small_velocity(at.velocities, tol)
        slow = events.stopping_speed(motion, self.laws, system.gamma_F(s.t, s.q, s.u))
        values = events.indicators(motion, self.laws, at, slow)
        # A contact that starts at a closed gap is on its way up until it comes down again.
        rising = (gap_0 <= tol) & (at.gap < 0.0) & (rate_1 >= -small)
        values = values.at[events.GAP].set(jnp.where(rising, jnp.abs(at.gap), values[events.GAP]))
        first = jnp.zeros_like(values).at[events.GAP].set(jnp.maximum(gap_0, 0.0))
        load = _noise(at, tol)
        noise = jnp.zeros_like(values).at[jnp.array([events.FORCE, events.CONE])].set(load)
        noise = noise.at[events.SLIP].set(jnp.where(slow > 0.0, 0.0, events.unsure_slip(self.laws)))
        verdict = s.search.judge(values.reshape(-1), first.reshape(-1), noise.reshape(-1), h, s.t)
        open_before = ~s.mode.closed & (gap_0 > tol)
        dips = jnp.where(open_before, search.dip(gap_0, h * rate_0, at.gap, h * rate_1, tol), 1.0)
        at_stages = events.at_stages(motion, self.laws, s.t, h, step.stages)
        dips = jnp.minimum(
            jnp.min(dips, initial=1.0), self._passed(at_stages, step.stages.c, noise, open_before, h / dt)
        )
        lands = jnp.where(s.mode.closed, 1.0, search.descent(gap_0, h * rate_0, at.gap))
        guess = h * jnp.min(lands, initial=1.0)
        # At an edge the constraints may stop the motion altogether; forces far below zero at a stage tell.
        jammed = jnp.any(at_stages[:, events.FORCE] < -10.0 * (load + jnp.max(jnp.abs(at.force), initial=0.0)))
        usable = finite & self._consistent(motion, at) & ~jammed
        accurate = (step.error <= self._allowed(h)) & self._no_drift(motion, at)
        return _Trial(h, last, step, at, verdict, usable, finite, accurate, guess, dips)

    def _passed(self, values: Array, c: Array, noise: Array, open_before: Array, part: Array) -> Array:
        """The first fraction of the step at which a stage sees an indicator below zero, 1 if none does.

        An event that begins and ends within one step shows at its stages alone. They are less accurate than the step, so
        that a step that is a small part of the row need not mind them.
        """
        seen = values < -(noise + 1e-6 * jnp.max(jnp.where(jnp.isfinite(values), jnp.abs(values), 0.0), axis=0))
        seen = seen.at[:, events.GAP].set(seen[:, events.GAP] & open_before)
        seen = seen.at[:, events.SLIP].set(False)  # a slip velocity that passes zero is below it at the end
        inside = (c > 0.0) & (c < 1.0) & jnp.any(seen, axis=(1, 2)) & (part > 1e-4)
        return jnp.min(jnp.where(inside, c, 1.0))

    def _consistent(self, motion: Motion, at: Point) -> Array:
        """Whether the rows that act can all hold: contradictory ones leave a residual in velocities or accelerations."""
        acting = motion.acting(self.laws)
        b, n = self.laws.n_bilateral, self.laws.n_bilateral + self.laws.n_N
        normal = jnp.zeros_like(acting).at[b:n].set(True)
        ok = jnp.asarray(True)
        bias = acceleration_rows(motion.system, at.t, at.q, at.u, at.u_dot)
        size = jnp.max(jnp.abs(at.u_dot), initial=1.0)
        for rows, allowed in ((at.velocities, 1e-3 / velocity_unit(at.velocities)), (bias, 1e-6 * size)):
            wrong = jnp.where(normal & self.settings.lcp, jnp.minimum(rows, 0.0), rows)
            ok = ok & (jnp.max(jnp.where(acting, jnp.abs(wrong), 0.0), initial=0.0) <= allowed)
        return ok

    def _no_drift(self, motion: Motion, at: Point) -> Array:
        if self.settings.drift is None:
            return jnp.asarray(True)
        gaps = jnp.concatenate([motion.system.g(at.t, at.q), jnp.where(motion.mode.closed, at.gap, 0.0)])
        rates = jnp.where(motion.acting(self.laws), at.velocities, 0.0)
        return jnp.max(jnp.abs(jnp.concatenate([gaps, rates])), initial=0.0) <= self.settings.drift

    def _allowed(self, h: Array) -> Array:
        """Error that a step of size h may have, over the tolerance: 1, or h as in paper 001, (10)."""
        return h if self.settings.error_per == "second" else jnp.ones_like(h)

    def _next_h(self, s: _State, trial: _Trial, d: _Decision) -> Array:
        """h_new = s h (allowed / error)^(1/k), k the order of error / allowed in h, with bounded factors."""
        error = jnp.maximum(trial.step.error, jnp.finfo(s.h.dtype).tiny)
        exponent = self.settings.smooth.step_exponent(self.settings.error_per == "second")
        factor = 0.9 * (self._allowed(trial.h) / error) ** exponent
        factor = jnp.clip(jnp.where(jnp.isfinite(factor), factor, 0.1), 0.2, 5.0)
        grown = trial.h * factor
        # A step that the row cut short says little about the next one.
        grown = jnp.where(trial.last, jnp.maximum(grown, s.h), grown)
        shrunk = trial.h * jnp.where(trial.usable, jnp.where(d.dips, trial.dips, jnp.minimum(factor, 0.5)), 0.1)
        return jnp.where(d.passes, grown, jnp.where(d.again, shrunk, s.h))

    def _here(self, theta: Theta, s: _State, at: Point) -> Point:
        """The beginning of the step as a point; forces are not known there."""
        system = theta.system
        gap, velocities = system.g_N(s.t, s.q), system.velocities(s.t, s.q, s.u)
        return Point(s.t, s.q, s.u, gap, velocities, jnp.zeros_like(at.force), jnp.zeros_like(at.u_dot))

    def _hit(self, at: Point, tol: Array) -> Array:
        """The contact whose closed gap is about to be hit fastest, −1 if none is: its gap decides on the instant."""
        _, rate, _ = self.laws.split(at.velocities)
        if not rate.shape[0]:
            return jnp.asarray(-1)
        _, rest_speed = self.settings.tolerances(rate.dtype)
        approach = jnp.where(at.gap <= tol, -rate, 0.0)
        return jnp.where(jnp.max(approach) > rest_speed, jnp.argmax(approach), -1)

    def _released(self, s: _State, trial: _Trial, tol: Array) -> Array:
        """With complementarity in the stages: closed contacts that have opened by themselves."""
        if not self.settings.lcp:
            return jnp.zeros_like(s.mode.closed)
        _, rate, _ = self.laws.split(trial.at.velocities)
        return s.mode.closed & (rate > events.small_velocity(trial.at.velocities, tol))

    def _leaving(self, theta: Theta, s: _State) -> Array:
        """Closed contacts without percussion in one step of Moreau's scheme from here (paper 001, §4, second method)."""
        moreau = Moreau()
        tau = 1e-4 * theta.dt
        memory = moreau.start(theta.system, s.t, s.q, s.u, tau)
        P = moreau.step(theta.system.at_speeds(s.t, s.q, s.u), s.t, s.q, s.u, tau, memory, theta.tol).P
        return s.mode.closed & (self.laws.split(P)[1] <= 0.0)

    def turned(self, mode: Mode, at: Point) -> Array:
        """Directions of sliding at the end of a step."""
        if not self.laws.spatial:
            return mode.direction
        _, _, gamma_F = self.laws.split(at.velocities)
        slip, speed = unit_slips(self.laws, gamma_F)
        return jnp.where(self.laws.spread((speed > NO_SLIP) & mode.closed & ~mode.stick), slip, mode.direction)

    def _instants(self, at: Point, result: After) -> Instants:
        """Instant and velocities of an event, for each contact."""
        t = jnp.broadcast_to(at.t, (self.rows.n_N,))
        return Instants(t, self.by_contact(result.before), self.by_contact(result.after))

    def by_contact(self, velocities: Array) -> Array:
        """(ġ_N, γ_F) of each contact (n_N, 1 + d)."""
        _, normal, friction = self.laws.split(velocities)
        return jnp.concatenate([normal[:, None], self.laws.contact_matrix(friction)], axis=1)


def _noise(at: Point, tol: Array) -> Array:
    """What counts as zero among forces."""
    return tol * jnp.maximum(1.0, jnp.max(jnp.abs(at.force), initial=0.0))


def _put(schedule: Slot, index: Array, slot: Slot, wanted: Array) -> Slot:
    index = jnp.where(wanted, index, schedule.h.shape[0])
    return jax.tree.map(lambda all_, one: all_.at[index].set(one, mode="drop"), schedule, slot)
