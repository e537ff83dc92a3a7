"""What the loop of event-driven integration and its replay hand to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array

from ...laws.table import LawTable
from ...model.system import System
from ...solve.inclusion import Root, Stats
from ..base import Step
from ..levels.acceleration_level import Mode
from .events import Events
from .meeting import Encounter
from .runge_kutta import HEM5, Smooth, Tolerance

Edges = Literal["none", "lcp", "nscd"]
ErrorPer = Literal["step", "second"]


_HEM5 = HEM5()


@dataclass(frozen=True)
class Settings:
    """The arguments of `EventDriven`, which explains them."""

    smooth: Smooth = _HEM5
    rtol: float | None = None
    atol: float | None = None
    error_per: ErrorPer = "step"
    tol: float | None = None
    h_min: float | None = None
    h_max: float | None = None
    drift: float | None = None
    rest_speed: float | None = None
    edges: Edges = "none"
    max_steps: int = 500
    max_events: int = 256

    def __post_init__(self) -> None:
        for name, allowed in (("edges", get_args(Edges)), ("error_per", get_args(ErrorPer))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"EventDriven: {name} must be one of {allowed}, got {getattr(self, name)!r}.")
        for name in ("rtol", "atol", "tol", "h_min", "h_max", "drift", "rest_speed"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"EventDriven: {name} must be positive, got {value!r}.")
        for name in ("max_steps", "max_events"):
            if getattr(self, name) < 1:
                raise ValueError(f"EventDriven: {name} must be at least 1, got {getattr(self, name)!r}.")

    @property
    def lcp(self) -> bool:
        return self.edges == "lcp"

    def tolerances(self, dtype: Any) -> tuple[Tolerance, Array]:
        """Error tolerance and speed of rest."""
        eps = float(jnp.finfo(dtype).eps)
        rtol = self.rtol if self.rtol is not None else (1e-10 if eps < 1e-15 else 1e-4)
        atol = self.atol if self.atol is not None else (1e-12 if eps < 1e-15 else 1e-5)
        rest = self.rest_speed if self.rest_speed is not None else 64.0 * eps**0.5
        return Tolerance(jnp.asarray(rtol, dtype), jnp.asarray(atol, dtype)), jnp.asarray(rest, dtype)

    def bounds(self, dt: Array) -> tuple[Array, Array]:
        """Smallest and largest step."""
        h_min = 1e-10 * dt if self.h_min is None else jnp.asarray(self.h_min, dt.dtype)
        return h_min, dt if self.h_max is None else jnp.minimum(jnp.asarray(self.h_max, dt.dtype), dt)


class Instants(NamedTuple):
    """What of a log has a derivative."""

    t: Array  # (E,)
    before: Array  # (E, 1 + d)
    after: Array  # (E, 1 + d)


class Log(NamedTuple):
    """All events so far; those beyond its capacity E are counted only."""

    instants: Instants
    kind: Array  # (E,)
    contact: Array  # (E,)
    slot: Array  # (E,) the step of its row that ended with the event
    entries: Array  # events so far

    @classmethod
    def empty(cls, capacity: int, laws: LawTable, dtype: Any) -> Log:
        wide = 1 + max((d for _, d, _ in laws.groups), default=0)
        velocities, numbers = jnp.zeros((capacity, wide), dtype), jnp.zeros((capacity,), int)
        instants = Instants(jnp.zeros((capacity,), dtype), velocities, velocities)
        return cls(instants, numbers, numbers, numbers, jnp.asarray(0))

    def add(self, kind: Array, instants: Instants, slot: Array, contact: Array | None = None) -> Log:
        """With one more entry for each contact of which `kind` (n_N,) is not NONE, or for each of the contacts given."""
        happened = kind > 0
        capacity = self.kind.shape[0]
        index = jnp.where(happened, self.entries + jnp.cumsum(happened) - 1, capacity)

        def put(old: Array, new: Array) -> Array:
            return old.at[index].set(new, mode="drop")

        return Log(
            Instants(*(put(old, new) for old, new in zip(self.instants, instants, strict=True))),
            put(self.kind, kind),
            put(self.contact, jnp.arange(kind.shape[0]) if contact is None else contact),
            put(self.slot, jnp.broadcast_to(slot, kind.shape)),
            self.entries + jnp.sum(happened),
        )

    def first(self, count: Array) -> Log:
        """The same with its first entries alone."""
        kept = jnp.arange(self.kind.shape[0]) < count

        def clear(x: Array) -> Array:
            return jnp.where(kept.reshape(-1, *[1] * (x.ndim - 1)), x, 0) if x.ndim else x

        return jax.tree.map(clear, self._replace(entries=count))

    def events(self) -> Events:
        return Events(self.instants.t, self.kind, self.contact, self.instants.before, self.instants.after, self.entries)


class Memory(NamedTuple):
    """What a row knows of those before."""

    mode: Mode
    h: Array  # step size to try
    fresh: Array  # bool: the mode is not known yet
    log: Log


class Effort(NamedTuple):
    """What a row cost."""

    accepted: Array  # steps
    rejected: Array  # trial steps that were repeated, those of the search for an instant included
    evaluations: Array  # of forces, each with one linear system


class Theta(NamedTuple):
    """What a row depends on."""

    system: System
    t: Array
    dt: Array
    q: Array
    u: Array
    memory: Memory
    tol: Array


class Moved(NamedTuple):
    """What of a row has a derivative."""

    q: Array
    u: Array
    P: Array
    direction: Array
    instants: Instants


class Outcome(NamedTuple):
    """The end of a row."""

    motion: Moved
    memory: Memory
    status: Array
    stats: Stats
    effort: Effort

    def step(self) -> Step:
        """The row as a step of an integrator; its memory has the derivatives of the motion."""
        m, effort = self.memory, self.effort
        q, u, P, direction, instants = self.motion
        memory = m._replace(mode=m.mode._replace(direction=direction), log=m.log._replace(instants=instants))
        smooth = Stats(self.status, effort.accepted + effort.rejected, jnp.zeros_like(m.h), jnp.asarray(-1))
        return Step(q, u, P, memory, (smooth, self.stats), effort)


class Start(NamedTuple):
    """The state from which a step starts."""

    t: Array
    q: Array
    u: Array
    direction: Array  # (n_F,) of sliding


class Slot(NamedTuple):
    """One accepted step, as the replay must know it."""

    start: Start
    h: Array
    used: Array  # bool
    still: Array  # bool: an event without a step before it
    last: Array  # bool: the step that ends the row
    event: Array  # bool: an event ends the step
    which: Array  # its indicator, −1 if the instant does not depend on one
    mode: Mode  # of the step
    encounter: Encounter
    after: Mode  # mode after the event
    roots: Root  # of its two inclusions
