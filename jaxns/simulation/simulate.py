"""From an initial state through the steps of an integrator to a trajectory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..host.progress import LateBar, Notice, clock
from ..integrators.base import Integrator, law_table, tolerance
from ..integrators.event_driven.integrator import EventDriven
from ..model.affinity import check_affinity
from ..model.checks import (
    acceptable,
    check_arguments,
    check_coefficients,
    check_initial_values,
    check_restitution,
    check_shapes,
)
from ..model.system import Rows, System
from ..model.values import inside_trace, is_concrete
from ..solve.status import Status
from . import apart, loop
from .trajectory import ROWS, SimulationError, Trajectory

__all__ = ["SimulationError", "Trajectory", "simulate"]

FIRST_CHUNK = 256  # steps before the first look at the clock
LONG_CHUNK = 0.1  # seconds from which a chunk is too long for a bar that moves and for Ctrl-C


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
    progress: bool | None = None,
) -> Trajectory:
    """Simulate a system from (q0, u0) at t0, in steps of dt up to t1 or for `num_steps` steps.

    Main arguments:

    - q0 (nq,), u0 (nu,): an admissible initial state
    - dt: step size; may be a traced array when `num_steps` is given
    - t1 or num_steps: exactly one of them

    Other arguments:

    - save_every: keep every k-th row, with the percussions of all its k steps; `num_steps` must be a multiple of it
    - throw: raise `SimulationError` when a step fails (eager calls only; traced calls report through `status`)
    - check: test that the initial state satisfies constraints and gaps
    - progress: show a progress bar, and a line while the program is compiled (eager calls only): True, False, or by
      default in a terminal or notebook, as soon as a run has taken two seconds, and a compilation half a second

    The loop is compiled once for each system structure and integrator: other parameters, initial states, times, numbers
    of steps and rows use the same program. `simulate` can itself be called under `jit`, `vmap`, `grad`, `jacfwd`,
    `jacrev` and `checkpoint`; there, the number of steps is part of the program. A reverse pass stores one state and
    its percussions for each row, and about √save_every of them between two rows: for long runs, save few rows.

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> traj.q.shape, bool(traj.ok)
    ((11, 3), True)
    """
    q0, u0 = jnp.asarray(q0), jnp.asarray(u0)
    if not jnp.issubdtype(q0.dtype, jnp.inexact) or not jnp.issubdtype(u0.dtype, jnp.inexact):
        q0, u0 = q0.astype(float), u0.astype(float)
    num_steps, save_every = check_arguments(q0, u0, dt, t0, t1, num_steps, save_every)
    tol = tolerance(integrator.tol, q0.dtype)
    rows = check_shapes(system, q0, u0)
    constant = not inside_trace() and is_concrete(system)
    if not constant or not is_concrete((q0, u0, dt, t0)):
        if constant and not any(c.follows_speed for c in system.contacts):
            check_coefficients(system, rows)
        begin = loop.start(system, integrator, q0, u0, dt, t0)
        fine = acceptable(system, rows, q0, u0, begin.dt, begin.t0)
        begin = replace(begin, status=jnp.where(fine, begin.status, Status.BAD_INPUT))
        scan = apart.scan if isinstance(integrator, EventDriven) else loop.scan
        return loop.finish(system, begin, *scan(system, integrator, tol, begin, num_steps // save_every, save_every))
    system, q0, u0 = jax.tree.map(_strong, (system, q0, u0))
    initial: tuple[Any, ...] = q0, u0, np.asarray(dt, q0.dtype), np.asarray(t0, q0.dtype)
    with Notice(_about_compilation(integrator, rows, q0.size), show=progress) as notice:
        check_affinity(system, initial[3], q0, u0)
        if check:
            here = initial[3], q0, u0
            values = check_initial_values(system, rows, *here)
            if getattr(integrator, "restitution", "newton") != "poisson":
                check_restitution(system, rows, values, *here)
        else:
            check_coefficients(system.at_speeds(initial[3], q0, u0), rows)
        traj, state = _run_in_chunks(system, integrator, tol, initial, num_steps, save_every, progress, notice)
    if throw and np.any(np.asarray(traj.status) != Status.OK):
        first = int(np.argmax(np.asarray(traj.status) != Status.OK))
        advice = "Try a smaller dt, or call"
        if traj.status[first] == Status.INFEASIBLE:
            advice = _about_wedges(_failed_percussions(system, integrator, tol, state, traj.t[first])) + "Or call"
        raise SimulationError(_failure_message(rows, traj, first, save_every, advice), traj)
    return traj


def _strong(leaf: Any) -> Any:
    """The same value without a weak type, for which there would be another program."""
    return jnp.asarray(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf


def _run_in_chunks(
    system: System,
    integrator: Integrator,
    tol: float,
    initial: tuple[Any, ...],
    num_steps: int,
    save_every: int,
    progress: bool | None,
    notice: Notice,
) -> tuple[Trajectory, loop.Loop]:
    """All steps from (q0, u0, dt, t0), chunk by chunk; chunks grow while they are quick. Also the last state.

    The first chunk compiles; what it computes is waited for later, when the notice has gone.
    """
    state, record, start = loop.start_chunks(system, integrator, tol, *initial)
    table: dict[str, Any] = {}
    done, size = 0, FIRST_CHUNK
    with LateBar(num_steps, show=progress, unit="step", desc=type(integrator).__name__) as bar:
        while done < num_steps:
            before, first, stop = clock(), done // save_every, min(done + size, num_steps)
            state, record, rows = loop.chunk(system, integrator, tol, state, record, stop, save_every)
            notice.close()
            done = min(stop, (first + len(rows["t"])) * save_every)
            table = table or _empty_table(rows, num_steps // save_every)
            _store(table, rows, first, -(-done // save_every))
            size = 2 * size if clock() - before < LONG_CHUNK else max(1, size // 2)
            bar.reach(done)
    for name in (name for name in ROWS if name in table):
        table[name][0] = start[name]
    table["iterations"] = np.sum(table["stage_iterations"], axis=-1)
    log = loop.log_of(state)
    if log is not None:
        table["events"] = jax.tree.map(np.asarray, log.events()).trimmed()
    return jax.device_put(Trajectory(**table)), state


def _about_compilation(integrator: Integrator, rows: Rows, nq: int) -> str:
    """What one waits for in a first call, and that it happens once."""
    sizes = [f"{n} {what}{'s' * (n != 1)}" for n, what in ((nq, "coordinate"), (rows.n_N, "contact")) if n]
    return f"compiling {type(integrator).__name__}, {', '.join(sizes)}; once for this model"


def _empty_table(rows: dict[str, Any], num_rows: int) -> dict[str, Any]:
    """Numpy arrays for all rows of a run."""

    def empty(length: int, like: Array) -> np.ndarray:
        return np.empty((length, *like.shape[1:]), like.dtype)

    return {name: jax.tree.map(partial(empty, num_rows + (name in ROWS)), value) for name, value in rows.items()}


def _store(table: dict[str, Any], rows: dict[str, Any], first: int, end: int) -> None:
    """Put the rows of a chunk where they belong, as soon as they are computed."""

    def put(offset: int, all_rows: np.ndarray, some: Array) -> None:
        all_rows[first + offset : end + offset] = np.asarray(some)[: end - first]

    for name, value in rows.items():
        jax.tree.map(partial(put, int(name in ROWS)), table[name], value)


def _failure_message(rows: Rows, traj: Trajectory, first: int, save_every: int, advice: str) -> str:
    """Which step failed, when, where, and how badly."""
    worst = int(traj.worst_row[first])
    where = law_table(rows).name(worst, rows.n_g) if worst >= 0 else "the smooth equations"
    step = f"step {first}" if save_every == 1 else f"a step between {first * save_every} and {(first + 1) * save_every}"
    return (
        f"{step} failed at t = {float(traj.t[first]):.6g}: {Status(int(traj.status[first])).message}; largest residual "
        f"{float(traj.residual[first]):.3g}, in {where}. The rows after it repeat the last accepted state. {advice} "
        "with throw=False and look at traj.status."
    )


def _failed_percussions(system: System, integrator: Integrator, tol: float, state: loop.Loop, t: Array) -> np.ndarray:
    """(n_N,) of the failed step, once more from the last accepted state: where it has no solution, those of its ray."""
    step = jax.jit(lambda system, *state: integrator.step(system, *state).P)
    P = step(system, t, state.q, state.u, state.dt, state.memory, jnp.asarray(tol, state.q.dtype))
    return np.asarray(law_table(system.rows(t, state.q, state.u)).split(P)[1])


def _about_wedges(P_N: np.ndarray) -> str:
    """Which contacts hold each other in balance on a ray, and what to do."""
    largest = np.max(P_N, initial=0.0)
    wedged = np.flatnonzero((1e-3 * largest < P_N) & np.isfinite(largest) & (largest > 0.0))
    names = ", ".join(str(k) for k in wedged)
    what = f"Percussions in the contacts {names} hold each other in balance, whatever their size: bodies wedge there. "
    return (what if len(wedged) > 1 else "") + (
        "Newton's impact law has no solution where it asks wedged bodies to rebound: take a smaller e_N in these contacts, "
        'restitution="reduce" or "poisson", or another impact law; walls that close on a body must yield. '
    )
