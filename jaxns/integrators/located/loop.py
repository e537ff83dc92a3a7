"""The loop of a step with located impacts: each turn tries one step of the scheme from where the motion has come to."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ...laws.table import LawTable
from ...solve import inclusion
from ...solve.lanes import anywhere
from ...solve.status import Status
from ...solve.worklist import until_done
from ..base import Step, velocity_unit
from ..event_driven import search
from ..event_driven.meeting import choose, only_if
from .parts import Acting, Parts, Place, Roots, Theta

MOST_TRIALS = 12  # for one instant
SHORTEST = 1e-8  # part of a step, of Δt: gaps of its length are rounding


class Phase(enum.IntEnum):
    """What a turn tries."""

    AHEAD = 0  # all that is left of the step, without the contacts that are open
    SEARCH = 1  # a part of it, up to where the first of them closes
    CAPTURE = 2  # all that is left, with all contacts, as the plain scheme does
    DONE = 3


class Part(NamedTuple):
    """A part of a step, as the replay must know it; the last one ends with the step, all others with an impact."""

    used: Array  # bool
    start: Place
    h: Array
    acting: Acting
    which: Array  # the contact whose gap ends it
    touches: Array  # (n_N,) bool: contacts that take part in the impact
    roots: Roots


class Hit(NamedTuple):
    """An impact, for the log."""

    t: Array
    before: Array  # (n,) velocities (ġ, γ, ġ_N, γ_F)
    after: Array  # (n,)
    struck: Array  # (n_N,) bool


class End(NamedTuple):
    """What of a step has a derivative."""

    q: Array
    u: Array
    P: Array  # (n,)
    t_hits: Array  # (impacts,)
    before: Array  # (impacts, n)
    after: Array  # (impacts, n)


class Outcome(NamedTuple):
    """The end of a step."""

    end: End
    memory: Any  # of the scheme
    closed: Array  # (n_N,) bool
    struck: Array  # (impacts, n_N) bool
    captured: Array  # impacts that were not located
    stats: tuple[inclusion.Stats, ...]


class _State(NamedTuple):
    """The step between two turns."""

    phase: Array
    at: Place  # the start of the part under way
    left: Array  # of the step
    h: Array  # to try
    lo: Array  # in a search: no contact has closed by then
    hi: Array  # one has
    trials: Array
    closed: Array  # (n_N,) bool
    located: Array  # how many impacts
    P: Array  # up to `at`
    hits: Hit  # (impacts, …)
    parts: Part | None  # (impacts + 1, …)
    outcome: tuple[Array, Array, Any, tuple[inclusion.Stats, ...]]  # q, u, memory and stats of the last trial
    captured: Array


class _Trial(NamedTuple):
    """A step that was tried."""

    step: Step
    roots: tuple[inclusion.Root, ...]
    t: Array
    gap: Array  # (n_N,) at its end, above the deepest that it was
    rate: Array  # (n_N,) there
    acting: Acting
    late: Array  # (n_N,) bool: contacts that should have acted before its end
    usable: Array


class _Impact(NamedTuple):
    u: Array
    P: Array
    before: Array
    after: Array
    touches: Array
    closed: Array  # (n_N,) bool: contacts that stay closed
    root: inclusion.Root
    stats: inclusion.Stats


@dataclass(frozen=True)
class DividedStep:
    """A step of a scheme, divided at its impacts."""

    parts: Parts
    impacts: int

    @property
    def laws(self) -> LawTable:
        return self.parts.laws

    def run(self, theta: Theta, record: bool) -> tuple[Outcome, Part | None]:
        state = until_done(self._turn, _unfinished, theta, self._start(theta, record))
        q, u, memory, stats = state.outcome
        end = End(q, u, state.P, state.hits.t, state.hits.before, state.hits.after)
        outcome = Outcome(end, memory, state.closed, state.hits.struck, state.captured, stats)
        return outcome, state.parts

    def closed(self, theta: Theta, at: Place, tol: Array) -> Array:
        """Contacts that are closed and neither approach nor separate (n_N,)."""
        velocities = theta.system.velocities(*at)
        _, rate, _ = self.laws.split(velocities)
        small = 10.0 * tol / velocity_unit(velocities)
        return (theta.system.g_N(at.t, at.q) <= 10.0 * tol) & (jnp.abs(rate) <= small)

    def _start(self, theta: Theta, record: bool) -> _State:
        at, zero, n, n_N = Place(theta.t, theta.q, theta.u), jnp.asarray(0), self.laws.size, self.laws.n_N
        none, no, no_P = 0.0 * theta.t, jnp.zeros((n_N,), bool), jnp.zeros((n,), theta.q.dtype)
        acting = Acting(no, no)
        step, roots = jax.eval_shape(lambda theta: self.parts.step(theta, at, theta.dt, acting, theta.tol), theta)

        def empty(count: int, tree: Any) -> Any:
            return jax.tree.map(lambda x: jnp.zeros((count, *x.shape), x.dtype), tree)

        hits = empty(self.impacts, Hit(none, no_P, no_P, no))
        parts = None
        if record:
            all_roots = Roots(roots, inclusion.Root(no_P, no_P))
            part = Part(jnp.asarray(False), at, none, acting, zero, no, all_roots)
            parts = empty(self.impacts + 1, part)
            ones = jax.tree.map(jnp.ones_like, (parts.roots.impact.r, parts.h))
            parts = parts._replace(h=ones[1], roots=parts.roots._replace(impact=parts.roots.impact._replace(r=ones[0])))
        stats = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), step.solves)
        return _State(
            phase=zero, at=at, left=theta.dt, h=theta.dt, lo=none, hi=theta.dt, trials=zero,
            closed=theta.closed | self.closed(theta, at, theta.tol), located=zero, P=no_P, hits=hits, parts=parts,
            outcome=(theta.q, theta.u, theta.memory, stats), captured=zero,
        )  # fmt: skip

    def _turn(self, theta: Theta, s: _State) -> _State:
        """One trial step and what follows from it."""
        ahead, searching, capturing = (s.phase == p for p in (Phase.AHEAD, Phase.SEARCH, Phase.CAPTURE))
        shortest = SHORTEST * theta.dt
        limit = jnp.where(s.phase == Phase.DONE, jnp.inf, theta.tol)
        trial = self._trial(theta, s, capturing, limit)
        on_time = searching & trial.usable & self._on_time(s, trial, theta.tol, shortest)
        ends = capturing | (ahead & trial.usable & ~jnp.any(trial.late))
        lost = ~capturing & (~trial.usable | (s.trials >= MOST_TRIALS)) & ~on_time
        place = Place(trial.t, trial.step.q, trial.step.u)
        impact = only_if(on_time, lambda: self._impact(theta, place, jnp.where(on_time, theta.tol, jnp.inf)))
        happens = on_time & (impact.stats.status == Status.OK)
        lost = lost | (on_time & ~happens)

        left = s.left - jnp.where(happens, s.h, 0.0)
        used_up = happens & (s.located + 1 >= self.impacts)
        phase = jnp.where(lost | used_up, Phase.CAPTURE, jnp.where(happens, Phase.AHEAD, Phase.SEARCH))
        lo, hi, h = only_if(~ends, lambda: self._next(theta, s, trial, shortest))
        fresh = happens | lost
        _, P_N, _ = self.laws.split(trial.step.P)
        stats = self._stats(s, trial, impact, on_time)
        return _State(
            phase=jnp.where(ends, Phase.DONE, phase),
            at=choose(happens, place._replace(u=impact.u), s.at),
            left=left,
            h=jnp.where(fresh, jnp.maximum(left, shortest), h),
            lo=jnp.where(fresh, 0.0, lo),
            hi=jnp.where(fresh, left, hi),
            trials=jnp.where(fresh, 0, s.trials + 1),
            closed=jnp.where(ends, trial.acting.may & (P_N > 0.0), jnp.where(happens, impact.closed, s.closed)),
            located=s.located + happens,
            P=s.P + jnp.where(happens | ends, trial.step.P, 0.0) + jnp.where(happens, impact.P, 0.0),
            hits=lax.cond(anywhere(happens), lambda: self._with_hit(s, trial, impact, happens), lambda: s.hits),
            parts=None if s.parts is None else self._with_part(s, trial, impact, happens, ends),
            outcome=(trial.step.q, trial.step.u, trial.step.memory, stats),
            captured=s.captured + jnp.where(capturing, jnp.sum((P_N > 0.0) & ~s.closed), 0),
        )

    def _trial(self, theta: Theta, s: _State, capturing: Array, tol: Array) -> _Trial:
        predicts = getattr(self.parts.scheme, "predicts_contact", False)
        acting = Acting(s.closed | capturing, s.closed & predicts)
        step, roots = self.parts.step(theta, s.at, s.h, acting, tol)
        t = s.at.t + s.h
        floor = jnp.minimum(theta.system.g_N(s.at.t, s.at.q), 0.0)  # a gap that has drifted counts from where it is
        gap = theta.system.g_N(t, step.q) - floor
        rate = theta.system.g_N_dot(t, step.q, step.u)
        solved = jnp.all(jnp.stack([stats.status for stats in step.solves]) == Status.OK)
        usable = solved & jnp.all(jnp.isfinite(step.q)) & jnp.all(jnp.isfinite(step.u))
        return _Trial(step, roots, t, gap, rate, acting, ~acting.may & (gap < -tol), usable)

    def _on_time(self, s: _State, trial: _Trial, tol: Array, shortest: Array) -> Array:
        """Whether a contact closes at the end of a trial, and none before."""
        late, narrow = jnp.any(trial.late), s.hi - s.lo <= shortest
        closes = jnp.any(~trial.acting.may & (jnp.abs(trial.gap) <= tol) & (trial.rate < 0.0))
        return (closes & ~late) | (late & ((s.h <= shortest) | narrow))

    def _next(self, theta: Theta, s: _State, trial: _Trial, shortest: Array) -> tuple[Array, Array, Array]:
        """Bounds and end of the next trial: by the cubic through the gaps at both ends, then by Newton's method."""
        late, any_late = trial.late, jnp.any(trial.late)
        first = s.phase == Phase.AHEAD
        lo, hi = jnp.where(any_late, s.lo, s.h), jnp.where(any_late, s.h, s.hi)
        gap_0 = jnp.maximum(theta.system.g_N(s.at.t, s.at.q), 0.0)
        rate_0 = theta.system.g_N_dot(*s.at)
        falls = s.h * _fall(gap_0, s.h * rate_0, trial.gap, s.h * trial.rate)
        newton = s.h - trial.gap / jnp.where(trial.rate < 0.0, trial.rate, -1.0)
        times = jnp.where(first, falls, newton)
        coming = jnp.where(any_late, late, ~trial.acting.may) & (first | (trial.rate < 0.0))
        h = jnp.min(jnp.where(coming, times, jnp.inf), initial=jnp.inf)
        inside = (h > lo) & (h < hi)
        h = jnp.where(inside | (first & (h <= lo)), h, 0.5 * (lo + hi))
        return lo, hi, jnp.maximum(h, shortest)

    def _impact(self, theta: Theta, place: Place, tol: Array) -> _Impact:
        touches = theta.system.g_N(place.t, place.q) <= 10.0 * theta.tol
        solved = self.parts.impact(theta.system, place, touches, tol)
        u, P = solved.outputs
        after = Place(place.t, place.q, u)
        closed = touches & self.closed(theta, after, theta.tol)
        before_and_after = theta.system.velocities(*place), theta.system.velocities(*after)
        return _Impact(u, P, *before_and_after, touches, closed, solved.root, solved.stats)

    def _stats(self, s: _State, trial: _Trial, impact: _Impact, on_time: Array) -> tuple[inclusion.Stats, ...]:
        """Those of the last trial, with the iterations of all of them."""
        last = trial.step.solves[-1]
        solves = (*trial.step.solves[:-1], choose(on_time, inclusion.worse(last, impact.stats), last))
        past = s.outcome[-1]
        return tuple(
            new._replace(iterations=old.iterations + new.iterations) for new, old in zip(solves, past, strict=True)
        )

    def _with_hit(self, s: _State, trial: _Trial, impact: _Impact, happens: Array) -> Hit:
        _, P_N, _ = self.laws.split(impact.P)
        hit = Hit(trial.t, impact.before, impact.after, impact.touches & (P_N > 0.0))
        return _put(s.hits, s.located, hit, happens)

    def _with_part(self, s: _State, trial: _Trial, impact: _Impact, happens: Array, ends: Array) -> Part:
        which = jnp.argmin(jnp.where(trial.acting.may, jnp.inf, trial.gap))
        root = impact.root._replace(r=jnp.where(happens, impact.root.r, 1.0))
        part = Part(happens | ends, s.at, s.h, trial.acting, which, impact.touches, Roots(trial.roots, root))
        return _put(s.parts, jnp.where(ends, self.impacts, s.located), part, happens | ends)


def _unfinished(s: _State) -> Array:
    return s.phase != Phase.DONE


def _put(table: Any, index: Array, entry: Any, wanted: Array) -> Any:
    """The table with an entry at an index, if it is wanted."""

    def put(all_: Array, one: Array) -> Array:
        here = (jnp.arange(all_.shape[0]) == index) & wanted
        return jnp.where(here.reshape(-1, *(1,) * (all_.ndim - 1)), one, all_)

    return jax.tree.map(put, table, entry)


def _fall(value_0: Array, slope_0: Array, value_1: Array, slope_1: Array) -> Array:
    """Where in (0, 1] the cubic through two values with their slopes falls through zero, if the second one is negative.

    >>> round(float(_fall(*(jnp.array(x) for x in (1.0, 0.0, -1.0, -4.0)))), 6)  # 1 − 2 s² near there
    0.707107
    """
    rise = value_1 - value_0
    b, c = 3.0 * rise - 2.0 * slope_0 - slope_1, slope_0 + slope_1 - 2.0 * rise
    s = search.descent(value_0, slope_0, value_1)
    for _ in range(3):
        slope = slope_0 + s * (2.0 * b + s * 3.0 * c)
        value = value_0 + s * (slope_0 + s * (b + s * c))
        s = jnp.clip(s - value / jnp.where(slope < 0.0, slope, -jnp.inf), 0.0, 1.0)
    return jnp.where((value_0 <= 0.0) & (slope_0 < 0.0), 0.0, s)
