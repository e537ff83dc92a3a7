"""Multiple shooting: long or chaotic records, cut into windows that start from states of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..simulation.simulate import Trajectory


@dataclass(frozen=True)
class Shooting:
    """A record of K·W rows as K windows of W rows, for `jaxns.identify`.

    Each window runs from an initial state of its own, which is identified along with the parameters; that the end of a
    window is the start of the next is asked of the fit as further residuals, the defects. Errors then cannot grow over more
    than one window, and the loss stays smooth where a single run would be chaotic, or meet its impacts in another order.

    - run: `(params, t0, q0, u0) -> Trajectory` with W steps, traceable
    - observe: `(trajectory) -> pytree` of arrays whose leading axis are the W + 1 rows; row 0 is dropped
    - num_windows: K

    Use `predict`, `data(record)`, `guess(params, q, u)` and `weights(defect)` as the arguments of `identify`:

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> def run(params, t0, q0, u0):
    ...     return ns.simulate(ball.system.with_params(**params), ns.Moreau(), q0, u0, dt=0.01, num_steps=10, t0=t0)
    >>> shooting = Shooting(run, lambda traj: traj.q[:, 1], num_windows=3, window=0.1)
    >>> states = jnp.tile(ball.q0, (3, 1)), jnp.tile(ball.u0, (3, 1))
    >>> prediction = shooting.predict(shooting.guess({"gravity": 9.81}, *states))
    >>> prediction["record"].shape, prediction["defect_q"].shape
    ((30,), (2, 3))
    """

    run: Callable[[Any, Array, Array, Array], Trajectory]
    observe: Callable[[Trajectory], Any]
    num_windows: int
    window: float  # s, length of one window
    t0: float = 0.0

    def guess(self, params: Any, q: Array, u: Array) -> dict[str, Any]:
        """Parameters and the initial states q (K, nq), u (K, nu) of all windows, e.g. from the measured rows."""
        q, u = jnp.asarray(q, float), jnp.asarray(u, float)
        for name, values in (("q", q), ("u", u)):
            if values.ndim != 2 or values.shape[0] != self.num_windows:
                raise ValueError(f"Shooting: {name} must have shape ({self.num_windows}, n), got {values.shape}.")
        return {"params": params, "q": q, "u": u}

    def predict(self, theta: dict[str, Any]) -> dict[str, Any]:
        """The record of all windows, and the defects between them."""
        starts = self.t0 + self.window * jnp.arange(self.num_windows)

        def one(t0: Array, q0: Array, u0: Array) -> tuple[Any, Array, Array]:
            traj = self.run(theta["params"], t0, q0, u0).failed_as_nan()
            return jax.tree.map(lambda rows: rows[1:], self.observe(traj)), traj.q[-1], traj.u[-1]

        record, q_end, u_end = jax.vmap(one)(starts, theta["q"], theta["u"])
        record = jax.tree.map(lambda rows: rows.reshape(-1, *rows.shape[2:]), record)
        return {"record": record, "defect_q": q_end[:-1] - theta["q"][1:], "defect_u": u_end[:-1] - theta["u"][1:]}

    def data(self, record: Any, nq: int, nu: int) -> dict[str, Any]:
        """The measured rows 1 … K·W, with defects of zero."""
        gaps = self.num_windows - 1
        return {"record": record, "defect_q": jnp.zeros((gaps, nq)), "defect_u": jnp.zeros((gaps, nu))}

    def weights(self, data: dict[str, Any], record: float = 1.0, defect: float = 1.0) -> dict[str, Any]:
        """Weights for `identify`: one for all samples, another for all defects."""
        factor = {"record": record, "defect_q": defect, "defect_u": defect}
        return {name: jax.tree.map(lambda d, f=f: jnp.full_like(d, f), data[name]) for name, f in factor.items()}
