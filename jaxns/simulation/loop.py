"""The loop over steps: as one scan for calls that are traced, as a chunk that a host repeats for all others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..integrators.base import Integrator, Step, follows_speeds, law_table, remembers_motion, tolerance
from ..integrators.event_driven.state import Log
from ..model.system import Rows, System
from ..solve.defined import accepted_or
from ..solve.derivative_only import tie_of, tied
from ..solve.implicit import ROOT
from ..solve.status import Status
from .trajectory import PERCUSSIONS, ROWS, Trajectory

CHUNK_BYTES = 2**18  # of the rows that a chunk has room for: they stay in the cache, and a short run pays for no more
Record = dict[str, Any]  # what the steps of a row report beside t, q and u


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Loop:
    """State of the loop between two steps."""

    n: Array  # steps done
    q: Array
    u: Array
    memory: Any  # the integrator's
    status: Array
    t0: Array
    dt: Array


@partial(jax.jit, static_argnums=1)
def start(system: System, integrator: Integrator, q0: Array, u0: Array, dt: Any, t0: Any) -> Loop:
    t0, dt = jnp.asarray(t0, q0.dtype), jnp.asarray(dt, q0.dtype)
    memory = integrator.start(system, t0, q0, u0, dt)
    return strong(Loop(n=0, q=q0, u=u0, memory=memory, status=int(Status.OK), t0=t0, dt=dt))  # type: ignore[arg-type]


def strong(tree: Any) -> Any:
    """The same values, none of weak type: a type that changes from chunk to chunk would compile the chunk again."""
    return jax.tree.map(lambda x: lax.convert_element_type(x, jnp.result_type(x)), tree)


@partial(jax.jit, static_argnums=1, inline=True)
def advance(system: System, integrator: Integrator, tol: Any, loop: Loop) -> tuple[Loop, Record]:
    """One step and its record. A `jit` of its own, so that programs that hold it share one trace of it."""
    rows = system.rows(loop.t0, loop.q, loop.u)

    def step(loop: Loop) -> tuple[Loop, Record]:
        return judged(rows, loop, integrator.step(*arguments(system, integrator, tol, loop)))

    policy = jax.checkpoint_policies.save_only_these_names(ROOT)
    return strong(jax.checkpoint(step, policy=policy, prevent_cse=False)(loop))


def arguments(system: System, integrator: Integrator, tol: Any, loop: Loop) -> tuple[Any, ...]:
    """Those of the next step: (system, t, q, u, Δt, memory, tol)."""
    t = loop.t0 + loop.n * loop.dt
    limit = jnp.where(loop.status == Status.OK, jnp.asarray(tol, loop.q.dtype), jnp.inf)
    here = system if follows_speeds(integrator) else system.at_speeds(t, loop.q, loop.u)
    return here, t, loop.q, loop.u, loop.dt, loop.memory, limit


def judged(rows: Rows, loop: Loop, new: Step) -> tuple[Loop, Record]:
    """The state after a step, and its record: it is accepted if its solves are, and its numbers are finite."""
    alive = loop.status == Status.OK
    finite = jnp.all(jnp.isfinite(jnp.concatenate([new.q, new.u])))
    # The verdict of the first solve that failed: those after it work with what it left.
    outcome, worst = jnp.where(finite, Status.OK, Status.NONFINITE), new.solves[0].row
    for solve in reversed(new.solves):
        failed = solve.status > Status.OK
        outcome, worst = jnp.where(failed, solve.status, outcome), jnp.where(failed, solve.row, worst)
    accepted = alive & (outcome == Status.OK)

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(accepted, new, old)

    after = replace(
        loop,
        n=loop.n + 1,
        q=accepted_or(accepted, new.q, loop.q),
        u=accepted_or(accepted, new.u, loop.u),
        memory=jax.tree.map(keep, new.memory, loop.memory),
        status=jnp.where(alive, outcome, loop.status),
    )
    return after, {
        **_split(rows, accepted_or(accepted, new.P, jnp.zeros_like(new.P))),
        "status": jnp.where(alive, outcome, jnp.where(loop.n == 0, loop.status, Status.STOPPED)),
        "stage_iterations": jnp.where(alive, jnp.stack([s.iterations for s in new.solves]), 0),
        "residual": jnp.where(alive, jnp.max(jnp.stack([s.residual for s in new.solves])), 0.0),
        "worst_row": jnp.where(alive & ~accepted, worst, -1),
        "effort": jax.tree.map(lambda e: keep(e, jnp.zeros_like(e)), new.extra),
        "reduced": jax.tree.map(lambda e: keep(e, jnp.zeros_like(e)), new.reduced),
        "captured": jax.tree.map(lambda e: keep(e, jnp.zeros_like(e)), new.captured),
    }


def no_steps(step: Callable[[Loop], tuple[Loop, Record]], loop: Loop) -> Record:
    """The record of a row before its first step."""
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(step, loop)[1])


def with_step(seen: Record, step: Record) -> Record:
    """The record of a row with one more step: percussions and counts add up, the largest residual and the first failure
    stay."""
    first = seen["status"] == Status.OK
    sums = (*PERCUSSIONS, "stage_iterations", "effort", "reduced", "captured")
    return {
        **{name: jax.tree.map(jnp.add, seen[name], step[name]) for name in sums},
        "residual": jnp.maximum(seen["residual"], step["residual"]),
        **{name: jnp.where(first, step[name], seen[name]) for name in ("status", "worst_row")},
    }


def _split(rows: Rows, P: Array) -> dict[str, Array]:
    """Percussions by their names."""
    laws = law_table(rows)
    P_b, P_N, P_F = laws.split(P)
    return {"P_g": P_b[: rows.n_g], "P_gamma": P_b[rows.n_g :], "P_N": P_N, "P_F": laws.contact_matrix(P_F)}


def row_of(system: System, loop: Loop, record: Record) -> dict[str, Any]:
    """What a trajectory keeps of a row."""
    t = loop.t0 + loop.n * loop.dt
    rates = {} if system.kinematics is None else {"q_dot": system.q_dot(t, loop.q, loop.u)}
    return {"t": t, "q": loop.q, "u": loop.u, **rates, **record}


# In chunks --------------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=1)
def start_chunks(
    system: System, integrator: Integrator, tol: Any, q0: Array, u0: Array, dt: Any, t0: Any
) -> tuple[Loop, Record, dict[str, Any]]:
    """The state before the first chunk: that of the loop, and the record of the row that is under way. Also row 0."""
    loop = start(system, integrator, q0, u0, dt, t0)
    record = no_steps(partial(advance, system, integrator, tol), loop)
    return loop, record, row_of(system, loop, record)


@partial(jax.jit, static_argnums=1)
def chunk(
    system: System, integrator: Integrator, tol: Any, loop: Loop, record: Record, stop: Any, save_every: Any
) -> tuple[Loop, Record, dict[str, Any]]:
    """Steps until `stop` of them are done or all rows of the chunk are full.

    Returns the state after them and the rows (K, …) of the chunk, of which the first one goes on with the row that the
    chunk before left unfinished. Nothing about the length of a run is static: one program serves all of them.
    """
    shapes = jax.eval_shape(partial(row_of, system), loop, record)
    capacity = max(1, CHUNK_BYTES // sum(math.prod(s.shape) * s.dtype.itemsize for s in jax.tree.leaves(shapes)))
    empty = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes)
    first = loop.n // save_every

    def more(state: tuple[Loop, Record, dict[str, Any]]) -> Array:
        n = state[0].n
        return (n < stop) & (n // save_every - first < capacity)

    def step(state: tuple[Loop, Record]) -> tuple[Loop, Record]:
        loop, seen = state
        loop, report = advance(system, integrator, tol, loop)
        return loop, with_step(seen, report)

    def row(state: tuple[Loop, Record, dict[str, Any]]) -> tuple[Loop, Record, dict[str, Any]]:
        loop, record, rows = state
        place = loop.n // save_every - first
        record = jax.tree.map(lambda x: jnp.where(loop.n % save_every == 0, 0, x), record)
        end = jnp.minimum(stop, (first + place + 1) * save_every)
        # A loop of its own, also for a single step: apart from the large arrays of rows, many a step takes half of the
        # time (docs/decisions.md).
        loop, record = lax.while_loop(lambda state: state[0].n < end, step, (loop, record))
        return loop, record, jax.tree.map(lambda all, one: all.at[place].set(one), rows, row_of(system, loop, record))

    return strong(lax.while_loop(more, row, (loop, record, empty)))


# As a scan --------------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=(1, 4, 5))
def scan(
    system: System, integrator: Integrator, tol: float, start: Loop, num_rows: int, save_every: int
) -> tuple[Loop, dict[str, Any]]:
    """`num_rows` rows of `save_every` steps each; returns the last state and the stacked rows."""
    step = partial(advance, system, integrator, tol)
    start = _live(start, system, integrator)

    def row(loop: Loop, _: None) -> tuple[Loop, dict[str, Any]]:
        loop, record = step(loop) if save_every == 1 else _merged(step, loop, save_every)
        return loop, row_of(system, loop, record)

    return lax.scan(row, start, length=num_rows)


def _live(loop: Loop, system: System, integrator: Integrator) -> Loop:
    """The same state, all of whose parts are `tied` to all others before the first step."""
    tie = tie_of((system, loop))
    guesses = tie if remembers_motion(integrator) else lax.stop_gradient(tie)
    return replace(
        loop,
        q=tied(loop.q, tie),
        u=tied(loop.u, tie),
        memory=tied(loop.memory, guesses),
        status=tied(loop.status, lax.stop_gradient(tie)),
    )


def _merged(step: Callable[[Loop], tuple[Loop, Record]], loop: Loop, count: int) -> tuple[Loop, Record]:
    """`count` steps and the record of all of them."""

    def both(carry: tuple[Loop, Record]) -> tuple[tuple[Loop, Record], None]:
        loop, seen = carry
        loop, report = step(loop)
        return (loop, with_step(seen, report)), None

    return checkpointed_scan(both, (loop, no_steps(step, loop)), count)[0]


@jax.jit
def finish(system: System, start: Loop, end: Loop | None, rows: dict[str, Any]) -> Trajectory:
    """Put the initial state in front of the rows, and what the integrator remembers of events beside them."""
    rows = dict(rows)
    first = row_of(system, start, {})
    for name in (name for name in ROWS if name in rows):  # in one order: a program has one fingerprint
        initial = first.get(name, jnp.zeros_like(rows[name][0]))
        rows[name] = jnp.concatenate([initial[None], rows[name]])
    log = None if end is None else log_of(end)
    if log is not None:
        rows["events"] = log.events()
    return Trajectory(iterations=jnp.sum(rows["stage_iterations"], axis=-1), **rows)


def log_of(loop: Loop) -> Log | None:
    """The log of events in the memory of an integrator that keeps one."""
    return getattr(loop.memory, "log", None)


def checkpointed_scan(step: Callable[[Any], tuple[Any, Any]], carry: Any, length: int) -> tuple[Any, Any]:
    """`lax.scan` without inputs whose reverse pass stores about 2√length carries and repeats the forward pass once."""
    if length < 16:
        return lax.scan(lambda c, _: step(c), carry, length=length)
    size = _segment_size(length)
    full, rest = divmod(length, size)

    @partial(jax.checkpoint, prevent_cse=False)
    def segment(carry: Any) -> tuple[Any, Any]:
        return lax.scan(lambda c, _: step(c), carry, length=size)

    carry, rows = lax.scan(lambda c, _: segment(c), carry, length=full)
    rows = jax.tree.map(lambda r: r.reshape(full * size, *r.shape[2:]), rows)
    if rest:
        carry, tail = lax.scan(lambda c, _: step(c), carry, length=rest)
        rows = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), rows, tail)
    return carry, rows


def _segment_size(length: int) -> int:
    """A segment length near √length that divides it, if there is one within a factor of three."""
    root = math.isqrt(length)
    candidates = sorted(range(max(root // 3, 1), 3 * root + 1), key=lambda size: abs(math.log(size / root)))
    return next((size for size in candidates if length % size == 0), root)


def simulate_each_dt(
    system: System, integrator: Integrator, q0: Array, u0: Array, dts: Array, num_steps: tuple[int, ...], t0: Any = 0.0
) -> list[Trajectory]:
    """One trajectory from (q0, u0) for each step size, in one batched loop that is as long as the longest of them.

    Each lane of the batch works through a queue of runs, one after the other, so that short runs do not keep a lane
    idle: eight step sizes that double from one to the next take two lanes. Nothing is raised and nothing is checked.
    """
    queues = _queues(num_steps)
    length = max(num_steps)
    tol = tolerance(integrator.tol, q0.dtype)
    begin = start(system, integrator, q0, u0, dts[0], t0)

    def lane(phase: Array, which: Array) -> dict[str, Array]:
        def next_row(loop: Loop, now: tuple[Array, Array]) -> tuple[Loop, dict[str, Any]]:
            phase, dt = now
            loop = jax.tree.map(lambda first, last: jnp.where(phase == _FRESH, first, last), begin, loop)
            status = jnp.where(phase == _IDLE, Status.STOPPED, loop.status)
            loop, record = advance(system, integrator, tol, replace(loop, dt=dt, status=status))
            return loop, row_of(system, loop, record)

        return lax.scan(next_row, begin, (phase, dts[which]))[1]

    phase, which = np.full((len(queues), length), _IDLE), np.zeros((len(queues), length), int)
    place = {}
    for lane_number, queue in enumerate(queues):
        done = 0
        for k in queue:
            place[k] = (lane_number, slice(done, done + num_steps[k]))
            phase[place[k]] = _ON
            phase[lane_number, done] = _FRESH
            which[place[k]] = k
            done += num_steps[k]
    rows = jax.vmap(lane)(jnp.asarray(phase), jnp.asarray(which))
    return [finish(system, begin, None, jax.tree.map(lambda r, k=k: r[place[k]], rows)) for k in range(len(num_steps))]


_ON, _FRESH, _IDLE = 0, 1, 2  # what a lane does next: go on, begin its next run, or nothing any more


def _queues(num_steps: tuple[int, ...]) -> list[list[int]]:
    """Runs, longest first, each in the first lane where it ends no later than the longest run."""
    queues: list[list[int]] = []
    for k in sorted(range(len(num_steps)), key=lambda k: -num_steps[k]):
        room = (q for q in queues if sum(num_steps[i] for i in q) + num_steps[k] <= max(num_steps))
        queue = next(room, None)
        if queue is None:
            queues.append([k])
        else:
            queue.append(k)
    return queues
