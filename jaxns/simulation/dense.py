"""The state of a trajectory at any time, from its rows and its impacts.

In a row without an impact, q is the cubic that has the positions and the slopes q̇ of both ends. In a row from t_n to
t_n + h with an impact after τ, q has two parabolas, of which each begins at an end of the row:

    q = q_n + q̇_n s + a⁻ s²/2                    s ≤ τ
    q = q_{n+1} − q̇_{n+1} σ + a⁺ σ²/2            σ = h − s < h − τ

a⁻ and a⁺ are those next to ā⁻ and ā⁺, the mean accelerations of the rows before and after, with which q is continuous at τ:

    a⁻ = ā⁻ + τ²/2 · r/D,   a⁺ = ā⁺ − (h − τ)²/2 · r/D,   D = (τ⁴ + (h − τ)⁴)/4

where r is the gap that ā⁻ and ā⁺ would leave. D has no zero in the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..integrators.event_driven.events import EventKind
from ..model.values import is_concrete
from ..solve.status import Status

if TYPE_CHECKING:
    from .trajectory import Trajectory

NEARBY = 1e-9  # part of a row: an impact so soon after its beginning ended the row before
JUMPS = (EventKind.IMPACT, EventKind.REST, EventKind.EDGE)  # events at which velocities may jump


class State(NamedTuple):
    """Positions and velocities at the times that `Trajectory.at` was asked for.

    >>> State(jnp.zeros(3), jnp.zeros(3))._fields
    ('q', 'u')
    """

    q: Array  # (…, nq)
    u: Array  # (…, nu)


def state_at(traj: Trajectory, t: Any) -> State:
    """What `Trajectory.at` returns, whose docstring says how."""
    if traj.t.ndim != 1:
        raise ValueError(
            f"at: the trajectory is a batch, with t of shape {traj.t.shape}; ask each of its runs: "
            "jax.vmap(lambda run: run.at(t))(traj)."
        )
    t = jnp.asarray(t, traj.t.dtype)
    if is_concrete((t, traj.t)):
        nearby = NEARBY * (traj.t[-1] - traj.t[0])
        outside = ~((t >= traj.t[0] - nearby) & (t <= traj.t[-1] + nearby))
        if jnp.any(outside):
            first = float(t[outside].ravel()[0])
            raise ValueError(f"at: t = {first:g} is outside of the run, {traj.t[0]:g} … {traj.t[-1]:g} s.")
    return _states(traj, t)


@jax.jit
def _states(traj: Trajectory, t: Array) -> State:
    instants = _instants(traj)
    state = jax.vmap(lambda t: _Row.of(traj, instants, t).state())(t.reshape(-1))
    return State(*(x.reshape(*t.shape, -1) for x in state))


def _instants(traj: Trajectory) -> Array:
    """Logged impacts in the order of time, then ∞."""
    end = jnp.full((1,), jnp.inf, traj.t.dtype)
    if traj.events is None:
        return end
    jumps = jnp.any(jnp.stack([traj.events.kind == kind for kind in JUMPS]), axis=0)
    return jnp.concatenate([jnp.sort(jnp.where(jumps, traj.events.t, jnp.inf)), end])


class _Impacts(NamedTuple):
    """What is known of the impacts of a row."""

    any: Array  # bool: velocities jump
    known: Array  # bool: all at one instant, which the log has
    tau: Array  # that instant, since the beginning of the row; where it is not known, 0


class _Row(NamedTuple):
    """The row that holds a time, with its neighbours."""

    traj: Trajectory
    instants: Array
    n: Array  # its number
    s: Array  # time since its beginning

    @classmethod
    def of(cls, traj: Trajectory, instants: Array, t: Array) -> _Row:
        t = jnp.clip(t, traj.t[0], traj.t[-1])
        n = jnp.clip(jnp.searchsorted(traj.t, t, side="right") - 1, 0, traj.t.shape[0] - 2)
        return cls(traj, instants, n, t - traj.t[n])

    def state(self) -> State:
        traj, n, s = self.traj, self.n, self.s
        h, impacts = traj.t[n + 1] - traj.t[n], self._impacts(n)
        slopes = traj.u if traj.q_dot is None else traj.q_dot
        q, q_dot = _smooth(s, h, traj.q[n], traj.q[n + 1], slopes[n], slopes[n + 1])
        tau = self._tau(impacts, h, slopes)
        kinked, kinked_dot = _kinked(
            s, h, tau, traj.q[n], traj.q[n + 1], slopes[n], slopes[n + 1], self._around(slopes)
        )
        q = jnp.where(impacts.any, kinked, q)
        if traj.q_dot is None:
            u = jnp.where(impacts.any, kinked_dot, q_dot)
        else:
            before, after = self._around(traj.u)
            sides = jnp.where(s < tau, traj.u[n] + before * s, traj.u[n + 1] - after * (h - s))
            u = jnp.where(impacts.any, sides, traj.u[n] + s / h * (traj.u[n + 1] - traj.u[n]))
        at_row = (s == 0.0) & ((n == 0) | (traj.status[jnp.maximum(n - 1, 0)] == Status.OK))
        fine = (traj.status[n] == Status.OK) | at_row
        return State(jnp.where(fine, q, jnp.nan), jnp.where(fine, u, jnp.nan))

    def _impacts(self, n: Array) -> _Impacts:
        """Of row n, from the log; where there is none, or not all is in it, from contacts that close."""
        traj, instants = self.traj, self.instants
        begin, end = traj.t[n], traj.t[n + 1]
        nearby = NEARBY * (end - begin)
        first = jnp.where(n == 0, 0, jnp.searchsorted(instants, begin + nearby, side="right"))
        count = jnp.searchsorted(instants, end + nearby, side="right") - first
        t_first, t_last = instants[first], instants[jnp.maximum(first + count - 1, 0)]
        closes = jnp.any((traj.P_N[n + 1] > 0.0) & (traj.P_N[n] <= 0.0)) & ~self._all_logged(n)
        known = (count > 0) & (t_last - t_first <= nearby) & ~closes
        tau = jnp.where(known, jnp.where(known, t_first, begin) - begin, 0.0)
        return _Impacts((count > 0) | closes, known, jnp.clip(tau, 0.0, end - begin))

    def _all_logged(self, n: Array) -> Array:
        """Whether all impacts of row n are in the log."""
        traj = self.traj
        if traj.events is None:
            return jnp.asarray(False)
        room = traj.events.t.shape[0]
        last = traj.events.t[-1] if room else traj.t[0]
        complete = (traj.events.count <= room) | (traj.t[n + 1] < last)
        return complete if traj.captured is None else complete & (traj.captured[n] == 0)

    def _tau(self, impacts: _Impacts, h: Array, slopes: Array) -> Array:
        """The instant of the impact: that of the log, else where the motions of both ends come closest."""
        n, q = self.n, self.traj.q
        jump = slopes[n] - slopes[n + 1]
        square = jump @ jump
        nearest = (q[n + 1] - q[n] - h * slopes[n + 1]) @ jump / jnp.where(square > 0.0, square, 1.0)
        captured = jnp.clip(jnp.where(square > 0.0, nearest, 0.5 * h), 0.0, h)
        return jnp.where(impacts.known, impacts.tau, captured)

    def _around(self, velocities: Array) -> tuple[Array, Array]:
        """Mean accelerations of the rows before and after this one; one stands for the other where that has an impact."""
        traj, last = self.traj, self.traj.t.shape[0] - 2

        def mean(n: Array) -> tuple[Array, Array]:
            exists = (n >= 0) & (n <= last)
            n = jnp.clip(n, 0, last)
            smooth = exists & ~self._impacts(n).any & (traj.status[n] == Status.OK)
            rate = (velocities[n + 1] - velocities[n]) / (traj.t[n + 1] - traj.t[n])
            return smooth, jnp.where(smooth, rate, 0.0)

        (has_before, before), (has_after, after) = mean(self.n - 1), mean(self.n + 1)
        return jnp.where(has_before, before, after), jnp.where(has_after, after, before)


def _smooth(s: Array, h: Array, q_0: Array, q_1: Array, v_0: Array, v_1: Array) -> tuple[Array, Array]:
    """Hermite's cubic and its slope."""
    x, rise = s / h, (q_1 - q_0) / h
    b, c = 3.0 * rise - 2.0 * v_0 - v_1, v_0 + v_1 - 2.0 * rise
    return q_0 + s * (v_0 + x * (b + x * c)), v_0 + x * (2.0 * b + 3.0 * x * c)


def _kinked(
    s: Array, h: Array, tau: Array, q_0: Array, q_1: Array, v_0: Array, v_1: Array, around: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Two parabolas that meet at τ, and their slopes; the one after the impact at τ itself."""
    before, after = around
    rest = h - tau
    apart = q_1 - q_0 - v_0 * tau - v_1 * rest - 0.5 * before * tau**2 + 0.5 * after * rest**2
    D = 0.25 * (tau**4 + rest**4)
    before, after = before + 0.5 * tau**2 * apart / D, after - 0.5 * rest**2 * apart / D
    left = s - h
    first = q_0 + s * (v_0 + 0.5 * s * before), v_0 + s * before
    second = q_1 + left * (v_1 + 0.5 * left * after), v_1 + left * after
    q, q_dot = (jnp.where(s < tau, a, b) for a, b in zip(first, second, strict=True))
    return q, q_dot
