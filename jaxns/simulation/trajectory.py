"""What a simulation returns, and the error that it raises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..integrators.event_driven.events import Events
from ..integrators.event_driven.state import Effort
from ..solve.status import Status

ROWS = ("t", "q", "u", "P_g", "P_gamma", "P_N", "P_F")  # fields that have a row for the initial state, too


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

    Percussions belong to the step that ends at their row (zeros in row 0). Fields from `status` on have one entry for
    each row after the first. With `save_every` = k a row stands for k steps: percussions, iterations and effort are
    their sums, `status` and `worst_row` those of the first failure, `residual` the largest. A failed step keeps the last
    accepted state.

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
    reduced: Array | None = None  # (N,) with restitution="reduce": impacts whose restitution was reduced
    captured: Array | None = None  # (N,) of `Located`: impacts that were not located, but left to the scheme

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
