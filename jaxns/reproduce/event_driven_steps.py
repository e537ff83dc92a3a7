"""All accepted steps of event-driven runs without contacts, for any tolerance with one program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..integrators.event_driven.integrator import EventDriven
from ..integrators.event_driven.loop import RowLoop
from ..integrators.event_driven.runge_kutta import HEM5, RKF45, Smooth, SmoothStep, Tolerance
from ..integrators.event_driven.state import ErrorPer, Theta
from ..integrators.levels.acceleration_level import Mode, Motion
from ..model.system import Problem, System
from ..solve.status import Status


class _Unscaled(Tolerance):
    """Errors by their plain norm, as (11) has it; (9) scales errors by the size of what has them, as `Tolerance` does."""

    def norm(self, error: Array, old: Array, new: Array) -> Array:
        return jnp.sqrt(jnp.sum(error**2)) / self.atol


@dataclass(frozen=True)
class _PrintedRKF45(RKF45):
    """With p = 4 in (10), whatever the rule of error."""

    unscaled: bool = False

    def step_exponent(self, per_second: bool) -> float:
        return 1.0 / 4.0

    def step(self, motion: Motion, t: Array, q: Array, u: Array, h: Array, tolerance: Tolerance) -> SmoothStep:
        return super().step(motion, t, q, u, h, _Unscaled(*tolerance) if self.unscaled else tolerance)


METHODS: Mapping[str, Smooth] = {
    "HEM5": HEM5(sharp=False),  # with the paper's estimate (9) of the error
    "HEM5, sharper": HEM5(),
    "RKF45": _PrintedRKF45(project=False),
}
UNSCALED_RKF45 = _PrintedRKF45(project=False, unscaled=True)
MAX_STEPS = {HEM5: 30_000, _PrintedRKF45: 600_000}  # the bound on the drift drives RKF45 to the smallest step
PER_STEP = (
    "our first runs kept the error per second below the tolerance, as (10) has it; the drifts and the work of the tables "
    "are those of errors per step"
)


class Control(NamedTuple):
    """Bounds of the step-size control; with h_min = h_max steps are fixed."""

    tol: Any
    drift: Any = np.inf
    h_min: Any = 1e-6
    h_max: Any = np.inf


class Steps(NamedTuple):
    """The accepted steps of a run."""

    t: np.ndarray  # (n,) their ends
    h: np.ndarray  # (n,)
    g: np.ndarray  # (n, n_g)
    g_dot: np.ndarray  # (n, n_g)
    q: np.ndarray  # (nq,) at the end
    work: int  # evaluations of forces and linear systems solved, of rejected steps too
    finished: bool

    @property
    def average_h(self) -> float:
        return float(self.t[-1] / len(self.h))

    @property
    def drift(self) -> tuple[float, float]:
        return float(np.abs(self.g).max()), float(np.abs(self.g_dot).max())


@dataclass(frozen=True)
class _Traced(EventDriven):
    """`EventDriven` whose settings may be traced, so that one program serves all tolerances."""

    def __post_init__(self) -> None:
        pass


def accepted_steps(problem: Problem, smooth: Smooth, control: Control, error_per: ErrorPer = "step") -> Steps:
    """The steps of one run, of a problem without contacts."""
    bounds = Control(*(jnp.asarray(value, float) for value in control))
    runs = _run(problem.system, smooth, error_per, problem.q0, problem.u0, jnp.asarray(problem.t1), bounds)
    status, evaluations, q, rows = jax.tree.map(np.asarray, runs)
    moved = rows[1] > 0.0
    t, h, g, g_dot = (x[moved] for x in rows)
    return Steps(t, h, g, g_dot, q, 2 * int(evaluations), int(status) == Status.OK)


@partial(jax.jit, static_argnums=(1, 2))
def _run(system: System, smooth: Smooth, error_per: ErrorPer, q0: Array, u0: Array, t1: Array, control: Control) -> Any:
    """The loop of one row from 0 to t1, and its accepted steps once more to see their drift."""
    tol, drift, h_min, h_max = control
    integrator = _Traced(
        smooth, tol, tol, error_per=error_per, drift=drift, h_min=h_min, h_max=h_max, max_steps=MAX_STEPS[type(smooth)]
    )
    t = jnp.zeros_like(t1)
    memory = integrator.start(system, t, q0, u0, t1)
    row = RowLoop(integrator, system.rows(t, q0, u0))
    outcome, schedule = row.run(Theta(system, t, t1, q0, u0, memory, jnp.asarray(1e-10)), record=True)
    assert schedule is not None
    motion = Motion(system, Mode.open(row.laws, q0.dtype))
    tolerance, _ = integrator.tolerances(q0.dtype)

    def step(state: Any, h: Array) -> Any:
        t, q, u = state
        end = smooth.step(motion, t, q, u, h, tolerance)
        return t + h, end.q, end.u

    def row_of_step(state: Any, h: Array) -> Any:
        state = lax.cond(h > 0.0, step, lambda state, h: state, state, h)
        t, q, u = state
        return state, (t, h, system.g(t, q), system.g_dot(t, q, u))

    h = jnp.where(schedule.used & ~schedule.still, schedule.h, 0.0)
    (_, q, _), rows = lax.scan(row_of_step, (t, q0, u0), h)
    return outcome.status, outcome.effort.evaluations, q, rows
