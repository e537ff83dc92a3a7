"""What a simulation returns, and the error that it raises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..integrators.event_driven.events import Events
from ..integrators.event_driven.state import Effort
from ..solve.status import Status
from .dense import State, state_at
from .files import read, write
from .labelled import dataset
from .summary import card_of, lines

ROWS = ("t", "q", "u", "q_dot", "P_g", "P_gamma", "P_N", "P_F")  # fields that have a row for the initial state, too
PERCUSSIONS = ROWS[4:]


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
@dataclass(frozen=True, repr=False)
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
    q_dot: Array | None = None  # (N+1, nq) of systems with `kinematics`; others have q̇ = u

    @property
    def ok(self) -> Array:
        """Whether every step converged."""
        return jnp.all(self.status == Status.OK, axis=-1)

    def at(self, t: Any) -> State:
        """Positions and velocities (…, nq), (…, nu) at the times t (…), in the order of the rows or not.

        - A row without an impact: q is a cubic with the positions and slopes q̇ of both ends, with an error of O(h⁴) for
          rows h apart. u is its derivative, with O(h³); with `kinematics`, where q̇ ≠ u, it is linear, with O(h²). Where a
          contact opens, or begins to stick or slide, accelerations jump: then O(h²) in q and O(h) in u.
        - A row that holds an impact: q is continuous, and velocities jump at the instant; at the instant itself they are
          those after it. If the log has the instant (`EventDriven`, `Located`) and the rows beside have no impact, the
          error is O(h³) in q and O(h²) in u; if both of them have one, O(h²) and O(h).
        - Other schemes do not know the instant. A row of theirs has an impact if a contact closes in it (P_N > 0 after a
          row with P_N = 0), at the time at which the motions of both ends come closest. The same is done where the log has
          several instants in one row, is full, or leaves an impact out (`captured`). Then the instant is wrong by O(h),
          and so is q; u is wrong by its jump in between.

        The scheme's own error comes on top. Derivatives with respect to t, and to all that the trajectory depends on, are
        those of these formulas; across an impact they are right where the instant is known. Under `jit` and `vmap` times
        outside of the run count as its ends; eagerly they are an error. After a failed step all is NaN.

        >>> import jaxns as ns
        >>> ball = ns.models.bouncing_ball(e_N=0.5)
        >>> traj = ns.simulate(ball.system, ns.EventDriven(), ball.q0, ball.u0, dt=0.05, t1=0.6)
        >>> impact = traj.events.t[0]
        >>> q, u = traj.at(impact + jnp.array([-1e-6, 0.0, 0.1]))
        >>> [round(float(v), 3) for v in u[:, 1]]  # −√(2·0.9 g), half of it upwards, 0.1 s later
        [-4.202, 2.101, 1.12]
        """
        return state_at(self, t)

    def save(self, path: str | Path) -> None:
        """Write all fields, events included, to a `.npz` file that numpy reads without pickle.

        Fields of `events` and `effort` have names like `events_t`. A batch of runs can be written, too.

        >>> import jaxns as ns
        >>> ball = ns.models.bouncing_ball()
        >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
        >>> traj.save("ball.npz")  # doctest: +SKIP
        >>> np.load("ball.npz")["q"]  # doctest: +SKIP
        """
        write(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Trajectory:
        """The trajectory that `save` has written, bit by bit; also from files of `jaxns run --save`.

        >>> ns.Trajectory.load("ball.npz").ok  # doctest: +SKIP
        """
        return read(path)

    def to_xarray(self) -> Any:
        """An `xarray.Dataset` with named axes; needs xarray: pip install 'jaxns-mechanics[xarray]'.

        Rows lie along `t`, what belongs to a step along `step`, whose coordinate is the end of the step; positions,
        velocities, constraints, contacts and events have an axis each. In a batch, whose runs must have the same times, the
        leading axes are `run`, or `run_0`, `run_1` and so on.

        >>> import jaxns as ns
        >>> ball = ns.models.bouncing_ball()
        >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
        >>> float(traj.to_xarray().q.sel(t=0.05, method="nearest").isel(position=1))  # doctest: +SKIP
        0.98773
        """
        return dataset(self)

    def __repr__(self) -> str:
        return "\n  ".join(lines(self)) if self._has_arrays() else f"Trajectory({vars(self)})"

    def _repr_html_(self) -> str | None:
        return card_of(self) if self._has_arrays() else None

    def _has_arrays(self) -> bool:
        """Not where `jax.tree.map` has put something else in their places."""
        return all(hasattr(leaf, "ndim") for leaf in (self.t, self.q, self.u, self.status))

    def failed_as_nan(self) -> Trajectory:
        """With NaN in the rows from the first failed step on, so that nothing computed from them passes for a result."""
        bad = jnp.concatenate([jnp.zeros_like(self.status[..., :1], bool), self.status != Status.OK], axis=-1)

        def masked(values: Array) -> Array:
            return jnp.where(bad.reshape(*bad.shape, *(1,) * (values.ndim - bad.ndim)), jnp.nan, values)

        changes: dict[str, Any] = {n: masked(getattr(self, n)) for n in ROWS[1:] if getattr(self, n) is not None}
        return replace(self, **changes)
