"""The overbalanced wheel of Möller's thesis (§6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from .. import models
from ..integrators.energy.two_step import EnergyTwoStep
from ..simulation.simulate import Trajectory, simulate
from .common import draw, gaps, largest_rise, panels, total_energy
from .experiment import Outcome, Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TOL = 1e-9  # a change of the energy in a step that is none, relative to the size of energies: ten times the solver's
N, RADIUS = 12, 0.4
BESIDE = 0.6 * float(
    np.sin(np.pi / N)
)  # m: one lever hangs beneath the axle, nearer to it than half the way to the next
DROP = 1e-3  # m: a lever that comes down from so far above its stop has dropped
DT = 1e-4  # s, as in the thesis


def overbalanced_wheel() -> Outcome:
    """Levers between stops; inelastic and elastic impacts."""
    inelastic, elastic = (models.overbalanced_wheel(e_N=e_N) for e_N in (0.0, 1.0))
    runs = {
        e: simulate(p.system, EnergyTwoStep(), p.q0, p.u0, dt=DT, t1=t1, progress=False)
        for e, p, t1 in ((0, inelastic, 10.0), (1, elastic, 5.0))
    }
    system, traj = inelastic.system, runs[0]
    x0 = np.asarray(inelastic.q0)[1 : N + 1]
    right, left = x0[x0 > 1e-9], -x0[x0 < -1e-9]
    E, scale = total_energy(system, traj)
    E_elastic, scale_elastic = total_energy(system, runs[1])
    change = float(np.abs(E_elastic - E_elastic[0]).max() / scale_elastic)
    falls = np.flatnonzero(np.diff(E) < -1e-4 * scale)
    steep = float((E[falls] - E[falls + 1]).sum() / (E[0] - E[-1]))
    hits = {e: _hits(run) for e, run in runs.items()}
    jumps = np.abs(np.diff(np.asarray(traj.u[:, 0])))
    large = np.flatnonzero(jumps > 0.5 * jumps.max())
    dropped = [_dropped(traj, int(k)) for k in large]
    swing = float(jnp.ptp(traj.q[:, 0]))
    turn = float(traj.t[large[-1] + 1 + np.argmax(np.asarray(traj.u[large[-1] + 1 :, 0]) > 0.0)])
    early = (E[0] - E[large[-1] + 1]) / (E[0] - E[-1])
    hit, x_hit, fall, loss = _losses(traj, E)
    last = hit[(x_hit > BESIDE) & (fall > DROP)].max()
    hit, x_hit, fall, loss = (x[hit > last] for x in (hit, x_hit, fall, loss))
    others = fall[x_hit > BESIDE].max(initial=0.0)
    on_left = float(loss[x_hit < 0.0].sum() / loss.sum())
    beside = float(loss[x_hit < BESIDE].sum() / loss.sum())
    busy = {e: _relative_speed(run) for e, run in runs.items()}
    statements = (
        Statement(
            "lever arms are longer on the right side in general, but there are more levers on the left (Fig. 6.8)",
            f"mean arm {right.mean():.3f} m of {len(right)} levers on the right, {left.mean():.3f} m of {len(left)} on "
            "the left, and one straight beneath",
            bool(right.mean() > left.mean() and len(left) > len(right)),
        ),
        Statement(
            "ε = 1: the energy is constant (Δt = 10⁻⁴ s)",
            f"changes by at most {change:.1e} of its size in 5 s",
            change <= 1e-8,
        ),
        Statement(
            "ε = 0: the energy falls stepwise (bound: 95 % of the loss in 2 % of the steps)",
            f"from {E[0]:.3f} J to {E[-1]:.3f} J in 10 s, {100 * steep:.1f} % of it in {len(falls)} of {len(E) - 1} "
            f"steps; rises by at most {largest_rise(system, traj):.0e} of its size in a step",
            bool(largest_rise(system, traj) <= TOL and steep >= 0.95 and len(falls) <= 0.02 * len(E)),
        ),
        Statement(
            "the large jumps of φ̇ are impacts of levers that drop to their perpendicular position (Fig. 6.10)",
            f"{len(large)} jumps of {jumps[large].min():.2f} to {jumps[large].max():.2f} rad/s; in {sum(dropped)} of "
            "them a lever on the right side, tangential before, meets its perpendicular stop",
            len(large) > 0 and all(dropped),
        ),
        Statement(
            "impacts soon turn the rotation into a pendular motion (bound: within 5 s)",
            f"the wheel turns back at {turn:.2f} s; {100 * early:.0f} % of the energy lost in 10 s is lost by then; φ "
            f"stays within {swing:.2f} rad",
            bool(0.0 < turn <= 5.0 and swing < 2.0 * np.pi),
        ),
        Statement(
            "once no levers drop on the right side, all dissipation comes from small impacts on the left side (bound: 95 % "
            "by levers at the bottom or left)",
            f"{1e3 * loss.sum():.0f} mJ are lost after the last drop of more than {1e3 * DROP:.0f} mm on the right, at "
            f"{float(traj.t[last]):.2f} s: {100 * beside:.0f} % by levers at the bottom or left (x < {BESIDE:.3f} m), "
            f"{100 * on_left:.0f} % by levers left of the axle; on the right none comes down from more than "
            f"{1e3 * others:.1g} mm",
            beside >= 0.95,
            "the lever that hangs beneath the axle swings to both sides of x = 0, where our first criterion drew the line; "
            "and it counted from the last large jump on, which throws two levers on the right off their stops, and those "
            "drop once more",
        ),
        Statement(
            "ε = 1: impacts soon distribute the energy into a confusing motion of all levers (bound: 0.1 m/s)",
            f"from 3 s to 5 s the slowest of the {N} levers moves with {busy[1].min():.2f} m/s relative to the wheel "
            f"on average; with ε = 0 the fastest moves with {busy[0].max():.2f} m/s, the slowest with "
            f"{busy[0].min():.0e} m/s",
            bool(busy[1].min() > 0.1),
        ),
        Statement(
            "ε = 1: many impacts dominate the phase portrait (Fig. 6.12; bound: twice as many as with ε = 0)",
            f"{hits[1]} impacts in 5 s; {hits[0]} with ε = 0",
            hits[1] > 2 * hits[0],
        ),
    )
    figures = {
        "Fig. 6.8: initial position": _draw_position(np.asarray(inelastic.q0)),
        "Fig. 6.9: total energy": _draw_energy(runs, {0: E, 1: E_elastic}),
        "Figs. 6.10, 6.11: phase portrait and traces, ε = 0": _draw_motion(runs[0]),
        "Figs. 6.12, 6.13: phase portrait and traces, ε = 1": _draw_motion(runs[1]),
    }
    return Outcome(statements, figures)


def _joints(q: np.ndarray) -> np.ndarray:
    """Angles of the levers' joints (…, N)."""
    return q[..., :1] + 2.0 * np.pi * np.arange(N) / N


def _hits(traj: Trajectory) -> int:
    """Contacts that begin within 5 s, with a percussion."""
    rows = round(5.0 / DT) + 1
    system = models.overbalanced_wheel().system
    closed = gaps(system, traj)[:rows] <= 0.0
    return int(np.sum(closed[1:-1] & ~closed[:-2] & (np.asarray(traj.P_N)[2:rows] > 0.0)))


def _struck(traj: Trajectory, step: int) -> int:
    """The contact whose percussion grows most in a step: tangential stops first, then perpendicular ones."""
    return int(np.argmax(np.asarray(traj.P_N[step + 1] - traj.P_N[step])))


def _dropped(traj: Trajectory, step: int) -> bool:
    """Whether the struck stop is a perpendicular one, of a lever on the right that was tangential in the second
    before."""
    contact = _struck(traj, step)
    lever = contact % N
    before = gaps(models.overbalanced_wheel().system, traj)[max(step - round(1.0 / DT), 0) : step, lever]
    return contact >= N and float(traj.q[step, 1 + lever]) > 0.0 and bool(np.any(before <= 1e-3))


def _losses(traj: Trajectory, E: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of steps that lose energy: their numbers, horizontal positions of the struck levers, how far those have been from the
    struck stop since they left it, and the energy lost."""
    loss = E[:-1] - E[1:]
    steps = np.flatnonzero(loss > 1e-9)
    struck = np.argmax(np.diff(np.asarray(traj.P_N), axis=0)[steps], axis=1)
    gap = gaps(models.overbalanced_wheel().system, traj)
    fall = [_since_contact(gap[:k, c]) for k, c in zip(steps, struck, strict=True)]
    return steps, np.asarray(traj.q)[steps, 1 + struck % N], np.array(fall), loss[steps]


def _since_contact(gap: np.ndarray) -> float:
    """The largest gap since it was closed last."""
    closed = np.flatnonzero(gap <= 1e-8)
    return float(gap[closed[-1] if len(closed) else 0 :].max(initial=0.0))


def _relative_speed(traj: Trajectory) -> np.ndarray:
    """Mean speed of each mass (N,) relative to the turning wheel, from 3 s to 5 s."""
    rows = slice(round(3.0 / DT), round(5.0 / DT) + 1)
    q, u = np.asarray(traj.q)[rows], np.asarray(traj.u)[rows]
    x, y = u[:, 1 : N + 1] + u[:, :1] * q[:, N + 1 :], u[:, N + 1 :] - u[:, :1] * q[:, 1 : N + 1]
    return np.hypot(x, y).mean(axis=0)


def _rim(ax: Axes) -> None:
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    ax.plot(RADIUS * np.cos(turn), RADIUS * np.sin(turn), color="0.4", linewidth=1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("$x$ [m]")
    ax.set_ylabel("$y$ [m]")


def _draw_position(q: np.ndarray) -> Figure:
    figure, (ax,) = panels(size=(4.5, 4.2))
    _rim(ax)
    angles = _joints(q)
    x, y = q[1 : N + 1], q[N + 1 :]
    ax.plot(np.stack([RADIUS * np.cos(angles), x]), np.stack([RADIUS * np.sin(angles), y]), color="C0", linewidth=1.5)
    ax.plot(x, y, "o", color="C3", markersize=6)
    ax.plot(0.0, 0.0, "k+")
    return figure


def _draw_energy(runs: dict[int, Trajectory], E: dict[int, np.ndarray]) -> Figure:
    figure, (ax,) = panels(size=(7.5, 3.0))
    for e, run in runs.items():
        draw(ax, run.t, {rf"$\varepsilon = {e}$": E[e]}, ylabel="$E$ [J]")
    ax.legend(frameon=False)
    return figure


def _draw_motion(traj: Trajectory) -> Figure:
    figure, (phase, traces) = panels(1, 2, size=(10.0, 4.4))
    q = np.asarray(traj.q)
    draw(phase, q[:, 0], {"": traj.u[:, 0]}, xlabel=r"$\varphi$ [rad]", ylabel=r"$\dot\varphi$ [rad/s]", linewidth=0.7)
    traces.plot(q[:, 1 : N + 1], q[:, N + 1 :], linewidth=0.4)
    _rim(traces)
    return figure
