"""The one loop: from an initial state through the steps of an integrator to a trajectory."""

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
from tqdm.auto import tqdm

from .integrators.base import Integrator, law_table, tolerance
from .integrators.event_state import Effort, Memory
from .integrators.events import Events
from .laws.table import LawTable
from .model.checks import check_arguments, check_initial_state, check_restitution, check_shapes
from .model.system import Rows, System
from .model.values import is_concrete
from .solve.implicit import ROOT
from .solve.status import Status


class SimulationError(RuntimeError):
    """A step failed; the message names step, time, contact and residual.

    `trajectory` holds what was computed; it is None where a study of several runs failed.

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> system = ns.System(None, mass=lambda t, q, p: jnp.eye(1), force=lambda t, q, u, p: jnp.sqrt(0.04 - t) * jnp.ones(1))
    >>> try:
    ...     ns.simulate(system, ns.Moreau(), jnp.zeros(1), jnp.zeros(1), dt=0.02, t1=0.1)
    ... except ns.SimulationError as error:
    ...     print([ns.Status(int(s)).name for s in error.trajectory.status])
    ['OK', 'OK', 'NONFINITE', 'STOPPED', 'STOPPED']
    """

    def __init__(self, message: str, trajectory: Trajectory | None = None):
        super().__init__(message)
        self.trajectory = trajectory


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trajectory:
    """What a simulation returns: N + 1 rows, of which row 0 is the initial state.

    Percussions belong to the step that ends at their row (zeros in row 0). The last four fields have one entry for
    each row after the first; with `save_every` > 1 they cover all steps since the row before (worst status, largest
    residual, iterations summed). A failed step keeps the last accepted state.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> traj.t.shape, traj.q.shape, traj.P_N.shape, traj.P_F.shape, traj.status.shape
    ((11,), (11, 3), (11, 1), (11, 1, 1), (10,))
    """

    t: Array  # (N+1,)
    q: Array  # (N+1, nq)
    u: Array  # (N+1, nu)
    P_g: Array  # (N+1, n_g)
    P_gamma: Array  # (N+1, n_γ)
    P_N: Array  # (N+1, n_N)
    P_F: Array  # (N+1, n_N, d)
    status: Array  # (N,) `jaxns.Status`
    iterations: Array  # (N,) Newton iterations of all solves of the step
    residual: Array  # (N,) largest residual
    stage_iterations: Array  # (N, solves per step)
    worst_row: Array  # (N,) row (g, γ, N, F) with the largest residual of a failed step, −1 for a smooth equation
    events: Events | None = None  # of event-driven runs: impacts, detachments, stick and slip
    effort: Effort | None = None  # of event-driven runs: steps and evaluations, each (N,)

    @property
    def ok(self) -> Array:
        """Whether every step converged."""
        return jnp.all(self.status == Status.OK, axis=-1)

    def failed_as_nan(self) -> Trajectory:
        """With NaN in the rows from the first failed step on, so that nothing computed from them passes for a result."""
        bad = jnp.concatenate([jnp.zeros_like(self.status[..., :1], bool), self.status != Status.OK], axis=-1)

        def masked(values: Array) -> Array:
            return jnp.where(bad.reshape(*bad.shape, *(1,) * (values.ndim - bad.ndim)), jnp.nan, values)

        changes: dict[str, Any] = {n: masked(getattr(self, n)) for n in ("q", "u", "P_g", "P_gamma", "P_N", "P_F")}
        return replace(self, **changes)


def simulate(
    system: System,
    integrator: Integrator,
    q0: Array,
    u0: Array,
    *,
    dt: Any,
    t1: float | None = None,
    num_steps: int | None = None,
    t0: Any = 0.0,
    save_every: int = 1,
    throw: bool = True,
    check: bool = True,
    progress: bool = False,
) -> Trajectory:
    """Simulate a system from (q0, u0) at t0, in steps of dt up to t1 or for `num_steps` steps.

    Main arguments:

    - q0 (nq,), u0 (nu,): an admissible initial state
    - dt: step size; may be a traced array when `num_steps` is given
    - t1 or num_steps: exactly one of them

    Other arguments:

    - save_every: keep every k-th row; `num_steps` must be a multiple of it
    - throw: raise `SimulationError` when a step fails (eager calls only; traced calls report through `status`)
    - check: test that the initial state satisfies constraints and gaps
    - progress: show a progress bar (eager calls only)

    The loop is compiled once for each system structure, integrator and number of steps. `simulate` can itself be
    called under `jit`, `vmap`, `grad`, `jacfwd`, `jacrev` and `checkpoint`. A reverse pass stores one state and its
    percussions for each row, and about √save_every of them between two rows: for long runs, save few rows.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> traj.q.shape, bool(traj.ok)
    ((11, 3), True)
    """
    q0, u0 = jnp.asarray(q0), jnp.asarray(u0)
    if not jnp.issubdtype(q0.dtype, jnp.inexact) or not jnp.issubdtype(u0.dtype, jnp.inexact):
        q0, u0 = q0.astype(float), u0.astype(float)
    num_steps = check_arguments(q0, u0, dt, t0, t1, num_steps, save_every)
    tol = tolerance(integrator.tol, q0.dtype)
    check_shapes(system, q0, u0)
    concrete = is_concrete((system, q0, u0, dt, t0))
    if concrete and check:
        check_initial_state(system, jnp.asarray(t0, q0.dtype), q0, u0)
        check_restitution(system, jnp.asarray(t0, q0.dtype), q0, u0)
    start = _start(system, integrator, q0, u0, dt, t0)
    num_rows = num_steps // save_every
    if progress and concrete:
        traj = _run_with_progress(system, integrator, tol, start, num_rows, save_every)
    else:
        traj = _finish(start, *_run(system, integrator, tol, start, num_rows, save_every))
    if concrete and traj.events is not None:
        traj = replace(traj, events=traj.events.trimmed())
    if concrete and throw and np.any(np.asarray(traj.status) != Status.OK):
        raise SimulationError(_failure_message(system, traj, save_every), traj)
    return traj


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Loop:
    """State of the loop between two steps."""

    n: Array  # steps done
    q: Array
    u: Array
    memory: Any  # the integrator's
    status: Array
    t0: Array
    dt: Array


@partial(jax.jit, static_argnums=1)
def _start(system: System, integrator: Integrator, q0: Array, u0: Array, dt: Any, t0: Any) -> _Loop:
    t0, dt = jnp.asarray(t0, q0.dtype), jnp.asarray(dt, q0.dtype)
    memory = integrator.start(system, t0, q0, u0, dt)
    return _Loop(n=jnp.asarray(0), q=q0, u=u0, memory=memory, status=jnp.asarray(int(Status.OK)), t0=t0, dt=dt)


@partial(jax.jit, static_argnums=(1, 2, 4, 5))
def _run(
    system: System, integrator: Integrator, tol: float, start: _Loop, num_rows: int, save_every: int
) -> tuple[_Loop, dict[str, Any]]:
    """`num_rows` rows of `save_every` steps each; returns the last state and the stacked rows."""
    row = _row(system, integrator, tol, start, save_every)
    return lax.scan(lambda loop, _: row(loop), start, length=num_rows)


def _row(
    system: System, integrator: Integrator, tol: float, start: _Loop, save_every: int
) -> Callable[[_Loop], tuple[_Loop, dict[str, Any]]]:
    """The function that advances the loop by one row."""
    rows = system.rows(start.t0, start.q, start.u)
    laws = law_table(rows)

    def step(loop: _Loop) -> tuple[_Loop, dict[str, Any]]:
        alive = loop.status == Status.OK
        t = loop.t0 + loop.n * loop.dt
        limit = jnp.where(alive, jnp.asarray(tol, loop.q.dtype), jnp.inf)
        new = integrator.step(system, t, loop.q, loop.u, loop.dt, loop.memory, limit)
        outcomes = jnp.stack([s.status for s in new.solves])
        finite = jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.u))
        outcome = jnp.where(finite, jnp.max(outcomes), jnp.maximum(jnp.max(outcomes), Status.NONFINITE))
        accepted = alive & (outcome == Status.OK)
        failed = jnp.argmax(outcomes > Status.OK)
        worst = jnp.stack([s.row for s in new.solves])[failed]

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(accepted, new, old)

        after = replace(
            loop,
            n=loop.n + 1,
            q=keep(new.q, loop.q),
            u=keep(new.u, loop.u),
            memory=jax.tree.map(keep, new.memory, loop.memory),
            status=jnp.where(alive, outcome, loop.status),
        )
        info = {
            "P": keep(new.P, jnp.zeros_like(new.P)),
            "status": jnp.where(alive, outcome, Status.STOPPED),
            "stage_iterations": jnp.stack([s.iterations for s in new.solves]),
            "residual": jnp.max(jnp.stack([s.residual for s in new.solves])),
            "worst_row": jnp.where(alive & ~accepted, worst, -1),
            "extra": jax.tree.map(lambda e: keep(e, jnp.zeros_like(e))[None], new.extra),
        }
        return after, info

    policy = jax.checkpoint_policies.save_only_these_names(ROOT)
    step = jax.checkpoint(step, policy=policy, prevent_cse=False)

    def row(loop: _Loop) -> tuple[_Loop, dict[str, Any]]:
        loop, info = step(loop) if save_every == 1 else _merged(step, loop, save_every)
        parts = _split(info.pop("P"), rows, laws)
        return loop, {"t": loop.t0 + loop.n * loop.dt, "q": loop.q, "u": loop.u, **parts, **info}

    return row


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
    start = _start(system, integrator, q0, u0, dts[0], t0)

    def lane(phase: Array, which: Array) -> dict[str, Array]:
        row = _row(system, integrator, tol, start, 1)

        def next_row(loop: _Loop, now: tuple[Array, Array]) -> tuple[_Loop, dict[str, Any]]:
            phase, dt = now
            loop = jax.tree.map(lambda first, last: jnp.where(phase == _FRESH, first, last), start, loop)
            status = jnp.where(phase == _IDLE, Status.STOPPED, loop.status)
            return row(replace(loop, dt=dt, status=status))

        return lax.scan(next_row, start, (phase, dts[which]))[1]

    phase, which = np.full((len(queues), length), _IDLE), np.zeros((len(queues), length), int)
    place = {}
    for lane_number, queue in enumerate(queues):
        begin = 0
        for k in queue:
            place[k] = (lane_number, slice(begin, begin + num_steps[k]))
            phase[place[k]] = _ON
            phase[lane_number, begin] = _FRESH
            which[place[k]] = k
            begin += num_steps[k]
    rows = jax.vmap(lane)(jnp.asarray(phase), jnp.asarray(which))
    return [_finish(start, None, jax.tree.map(lambda r, k=k: r[place[k]], rows)) for k in range(len(num_steps))]


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


def _merged(step: Callable[..., Any], loop: _Loop, count: int) -> tuple[_Loop, dict[str, Any]]:
    """`count` steps as one row: the last percussions, the first failure, largest residual, all iterations."""

    def both(carry: tuple[_Loop, dict[str, Any]]) -> tuple[tuple[_Loop, dict[str, Any]], Any]:
        loop, seen = carry
        loop, info = step(loop)
        extra = jax.tree.map(lambda e: e[0], info.pop("extra"))
        info["stage_iterations"] = seen["stage_iterations"] + info["stage_iterations"]
        info["residual"] = jnp.maximum(seen["residual"], info["residual"])
        fresh = seen["status"] == Status.OK
        for name in ("status", "worst_row"):
            info[name] = jnp.where(fresh, info[name], seen[name])
        return (loop, info), extra

    _, shapes = jax.eval_shape(step, loop)
    shapes.pop("extra")
    nothing = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    (loop, info), extra = checkpointed_scan(both, (loop, nothing), count)
    return loop, {**info, "extra": extra}


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


def _split(P: Array, rows: Rows, laws: LawTable) -> dict[str, Array]:
    """Percussions by their names."""
    P_b, P_N, P_F = laws.split(P)
    return {"P_g": P_b[: rows.n_g], "P_gamma": P_b[rows.n_g :], "P_N": P_N, "P_F": laws.contact_matrix(P_F)}


@jax.jit
def _finish(start: _Loop, end: _Loop | None, rows: dict[str, Any]) -> Trajectory:
    """Put the initial state in front of the rows, and what the integrator remembers of events beside them."""
    rows = dict(rows)
    first = {"t": start.t0, "q": start.q, "u": start.u}
    for name in ("t", "q", "u", "P_g", "P_gamma", "P_N", "P_F"):
        initial = first.get(name, jnp.zeros_like(rows[name][0]))
        rows[name] = jnp.concatenate([initial[None], rows[name]])
    extra = rows.pop("extra")
    if extra is not None:
        rows["effort"] = jax.tree.map(lambda e: jnp.sum(e, axis=1), extra)
    if end is not None and isinstance(end.memory, Memory):
        rows["events"] = end.memory.log.events()
    return Trajectory(iterations=jnp.sum(rows["stage_iterations"], axis=-1), **rows)


def _run_with_progress(
    system: System, integrator: Integrator, tol: float, start: _Loop, num_rows: int, save_every: int
) -> Trajectory:
    """The same loop in pieces of equal length, so that a bar can move between them."""
    pieces = next(k for k in range(min(num_rows, 50), 0, -1) if num_rows % k == 0)
    loop, parts = start, []
    with tqdm(total=num_rows * save_every, unit="step", desc=type(integrator).__name__) as bar:
        for _ in range(pieces):
            loop, rows = _run(system, integrator, tol, loop, num_rows // pieces, save_every)
            parts.append(rows)
            bar.update(int(loop.n) - bar.n)
    return _finish(start, loop, jax.tree.map(lambda *r: jnp.concatenate(r), *parts))


def _failure_message(system: System, traj: Trajectory, save_every: int) -> str:
    """Which step failed, when, where, and how badly."""
    first = int(np.argmax(np.asarray(traj.status) != Status.OK))
    rows = system.rows(traj.t[0], traj.q[0], traj.u[0])
    worst = int(traj.worst_row[first])
    where = law_table(rows).name(worst, rows.n_g) if worst >= 0 else "the smooth equations"
    step = f"step {first}" if save_every == 1 else f"a step between {first * save_every} and {(first + 1) * save_every}"
    return (
        f"{step} failed at t = {float(traj.t[first]):.6g}: {Status(int(traj.status[first])).message}; largest residual "
        f"{float(traj.residual[first]):.3g}, in {where}. The rows after it repeat the last accepted state. Try a smaller "
        "dt, or call with throw=False and look at traj.status."
    )
