"""Runs of `EventDriven` in a batch: rows take unequal numbers of turns, and no lane waits for another between its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..integrators.event_driven.integrator import EventDriven
from ..integrators.event_driven.loop import RowLoop
from ..integrators.event_driven.state import Log, Theta
from ..model.system import System
from ..solve.status import Status
from ..solve.worklist import until_done
from . import loop as in_step
from .loop import Loop, Record

# Lanes that work at once, where a system has few rows of constraints and contacts. Of larger ones a trial step takes as
# long in a batch as alone, and an event longer (docs/decisions.md).
LANES, FEW_ROWS = 32, 16


@partial(jax.custom_jvp, nondiff_argnums=(1, 4, 5))
def scan(
    system: System, integrator: EventDriven, tol: Any, start: Loop, num_rows: int, save_every: int
) -> tuple[Loop, dict[str, Any]]:
    """`loop.scan`, of which the lanes of a batch do not wait for each other; derivatives are those of `loop.scan`."""

    @jax.custom_batching.custom_vmap
    def run(system: System, tol: Any, start: Loop) -> tuple[Loop, dict[str, Any]]:
        return in_step.scan(system, integrator, tol, start, num_rows, save_every)

    @run.def_vmap
    def in_lanes(size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        axes = jax.tree.map(lambda batched: 0 if batched else None, tuple(in_batched))
        ends = jax.vmap(_Apart(integrator, num_rows, save_every).run, in_axes=axes, axis_size=size)(*arguments)
        return ends, jax.tree.map(lambda _: True, ends)

    return run(system, tol, start)


@scan.defjvp
def _scan_jvp(integrator: EventDriven, num_rows: int, save_every: int, primals: Any, tangents: Any) -> Any:
    def run(system: System, tol: Any, start: Loop) -> Any:
        return in_step.scan(system, integrator, tol, start, num_rows, save_every)

    return jax.jvp(run, primals, tangents)


class _Lane(NamedTuple):
    """A run that is under way."""

    loop: Loop  # before the row that is under way; its memory has the number of events in place of their log
    turns: Any  # the state of that row, which has the log
    seen: Record  # of the steps since a row was saved
    saved: dict[str, Any]  # rows


@dataclass(frozen=True)
class _Apart:
    """One loop over the turns of all rows of a run."""

    integrator: EventDriven
    num_rows: int
    save_every: int

    @partial(jax.jit, static_argnums=0)  # for batches that are not compiled as a whole
    def run(self, system: System, tol: Any, start: Loop) -> tuple[Loop, dict[str, Any]]:
        rows = system.rows(start.t0, start.q, start.u)
        row_loop = RowLoop(self.integrator, rows)
        start = in_step.strong(start)
        seen = in_step.no_steps(partial(in_step.advance, system, self.integrator, tol), start)
        shapes = jax.eval_shape(partial(in_step.row_of, system), start, seen)
        saved = jax.tree.map(lambda s: jnp.zeros((self.num_rows, *s.shape), s.dtype), shapes)
        log = start.memory.log
        begin = replace(start, memory=start.memory._replace(log=log.entries))
        turns = row_loop.start(self._theta(system, tol, begin, log), record=False)
        steps = self.num_rows * self.save_every
        end = until_done(
            partial(self._turn, row_loop),
            lambda lane: lane.loop.n < steps,
            (system, tol),
            in_step.strong(_Lane(begin, turns, seen, saved)),
            together=False,
            group=LANES if row_loop.laws.size <= FEW_ROWS else 1,
        )
        log = end.turns.log.first(end.loop.memory.log)
        return replace(end.loop, memory=end.loop.memory._replace(log=log)), end.saved

    def _theta(self, system: System, tol: Any, loop: Loop, log: Log) -> Theta:
        here, t, q, u, dt, memory, limit = in_step.arguments(system, self.integrator, tol, loop)
        return Theta(here, t, dt, q, u, memory._replace(log=log._replace(entries=memory.log)), limit)

    def _turn(self, row_loop: RowLoop, context: tuple[System, Any], lane: _Lane) -> _Lane:
        """One turn of the row; where it is the last one, also what `loop.scan` does between two rows."""
        system, tol = context
        theta = self._theta(system, tol, lane.loop, lane.turns.log)
        turns = row_loop.turn(theta, lane.turns)
        done = ~row_loop.unfinished(turns) | (lane.loop.status != Status.OK)

        def choose(new: Any, old: Any) -> Any:
            return jax.tree.map(partial(jnp.where, done), new, old)

        step = row_loop.outcome(theta, turns).step()
        step = step._replace(memory=step.memory._replace(log=step.memory.log.entries))
        after, report = in_step.judged(row_loop.rows, lane.loop, step)
        seen = in_step.with_step(lane.seen, report)
        full = after.n % self.save_every == 0
        place = jnp.where(done & full, after.n // self.save_every - 1, self.num_rows)
        row = in_step.row_of(system, after, seen)
        saved = jax.tree.map(lambda all_, one: all_.at[place].set(one, mode="drop"), lane.saved, row)
        unseen = jax.tree.map(lambda x: jnp.where(full, 0, x), seen)
        fresh = row_loop.start(self._theta(system, tol, after, turns.log), record=False)
        # The log is large, and grows in its place.
        log = turns.log._replace(entries=choose(after.memory.log, turns.log.entries))
        elsewhere: Any = None
        turns = choose(fresh._replace(log=elsewhere), turns._replace(log=elsewhere))._replace(log=log)
        return _Lane(choose(after, lane.loop), turns, choose(unseen, lane.seen), saved)
