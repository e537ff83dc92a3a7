"""Event-driven integration: adaptive steps between events, events located, laws applied at them.

Derivatives. A loop with an unknown number of turns has no reverse mode, and the derivative of an instant must not come from
the search for it. So the derivative of a row is that of a replay: the accepted steps, whose number and sizes are known by
then, run once more as a scan, and each event moves its instant by −(change of its indicator) / (rate of its indicator), the
implicit function theorem. Step sizes and modes are constants of the replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name

from ...model.system import System
from ...solve.implicit import ROOT, zero_tangent
from ..base import Step, law_table
from ..levels.acceleration_level import Mode
from .loop import RowLoop
from .replay import replay
from .state import Log, Memory, Outcome, Settings, Theta


@dataclass(frozen=True)
class EventDriven(Settings):
    """Event-driven integration of systems with contacts, impacts and Coulomb friction.

    Between two events the contacts keep their mode (open, sticking, sliding), and a Runge–Kutta method with adaptive steps
    integrates a smooth system with the closed contacts as constraints. A mode ends when a gap closes, a normal force
    vanishes, a sliding contact stops, or the friction force of a sticking one leaves its set. It is located on the step
    itself, the impact law is applied, and an inclusion on acceleration level decides the next mode. `dt` of `simulate` is
    the spacing of the output rows alone; `traj.events` tells what happened in between.

    This is the integrator whose derivatives are those of the motion, also through impacts: instants of events are implicit
    functions of parameters and initial state. First and second derivatives are exact up to the tolerance, in forward and
    in reverse mode (`jax.hessian`).

    Main arguments:

    - smooth: `HEM5()` or `RKF45()`
    - rtol, atol: the error of a step is kept below atol + rtol |q|; by default from the dtype

    Other arguments:

    - error_per: "step", or "second": then the error of a step of length h is kept below h times that (the paper's (10))
    - tol: of the impact and mode solves, and what counts as zero among gaps and velocities
    - h_min, h_max: bounds on the step; a step of h_min is accepted whatever its error. By default 1e-10 dt, and dt. Where
      gaps or forces change faster than the motion shows (a thin obstacle, a short pulse), h_max keeps steps from passing it
    - drift: if given, steps also keep |g| and |ġ| of constraints and closed contacts below it
    - rest_speed: a rebound slower than this closes the contact (event REST): the end of a Zeno sequence
    - edges: what to do where gap functions of different curvature meet and the closed contacts contradict each other:
      "none" fails; "lcp" solves each stage as a complementarity problem; "nscd" takes one step of Moreau's scheme to see
      which contacts go on, and goes back (event-driven paper, §4)
    - max_steps: bound on the accepted steps of one row; a derivative stores and repeats so many
    - max_events: how many events `traj.events` can hold

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball(e_N=0.5)
    >>> traj = ns.simulate(ball.system, ns.EventDriven(), ball.q0, ball.u0, dt=0.1, t1=1.0)
    >>> [round(float(t), 4) for t in traj.events.t[:2]]  # √(2·0.9/g), and one flight later
    [0.4284, 0.8567]
    """

    follows_speeds: ClassVar[bool] = True  # at each instant
    remembers_motion: ClassVar[bool] = True  # directions of sliding, instants of events

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        laws = law_table(system.rows(t, q, u))
        for _, d, law in laws.groups:
            if d and law.gauge(jnp.ones((d,), q.dtype), jnp.ones((d,), q.dtype)) is None:
                raise TypeError(
                    f"EventDriven: {type(law).__name__} has no gauge. A contact sticks or slides as a whole here; some of "
                    "its friction rows cannot slide while others stick. Take another law, or define `gauge` for your own."
                )
        return Memory(Mode.open(laws, q.dtype), dt, jnp.asarray(True), Log.empty(self.max_events, laws, q.dtype))

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Memory, tol: Array) -> Step:
        return _advance(RowLoop(self, system.rows(t, q, u)), Theta(system, t, dt, q, u, memory, tol)).step()


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _advance(row: RowLoop, theta: Theta) -> Outcome:
    """The motion from t to t + Δt."""
    return row.run(theta, record=False)[0]


@_advance.defjvp
def _advance_jvp(row: RowLoop, primals: tuple[Theta], tangents: tuple[Theta]) -> tuple[Any, Any]:
    (theta,), (theta_dot,) = primals, tangents
    outcome, schedule = row.run(lax.stop_gradient(theta), record=True)
    # A reverse pass keeps the schedule and never repeats the loop.
    outcome, schedule = jax.tree.map(lambda x: checkpoint_name(x, ROOT), (outcome, schedule))
    moved, moved_dot = jax.jvp(lambda theta: replay(row, theta, schedule, outcome), (theta,), (theta_dot,))
    rest = jax.tree.map(zero_tangent, outcome)
    return outcome._replace(motion=moved), rest._replace(motion=moved_dot)
