"""Ball, slider-crank and slope: what the RATTLE and the Lobatto paper both say about them, and draw.

(Breuling, Capobianco, Eugster, Leine 2024, §5.1 to §5.3; Capobianco, Harsch, Leine 2024, §6.1 to §6.3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from .. import models
from ..integrators.base import Integrator
from ..model.system import System
from ..simulation.simulate import Trajectory, simulate
from .common import draw, draw_with_rate, gap_rates, gaps, of_case, panels, slips
from .experiment import Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOL = 1e-8  # of Newton's method, as in the papers, and so of gaps


# Bouncing ball --------------------------------------------------------------------------------------------------------

CASES = ({"omega": 0.0, "e_N": 0.5}, {"omega": 50.0, "e_N": 0.0}, {"omega": 10.0, "e_N": 0.0})
G, R, MU, DROP, BALL_DT = 9.81, 0.1, 0.2, 0.9, 1e-2
FALL = float(np.sqrt(2.0 * DROP / G))  # until the first impact
ROLLING = 2.0 / 7.0 * R  # rolling speed over initial angular velocity, from the angular momentum about the contact


def simulate_ball(integrator: Integrator, weaker: float = 0.0) -> Trajectory:
    """Cases 1, 2 and 3 (axis 0) up to t = 1.5 s; with e_N smaller by a part of it."""
    problems = [models.bouncing_ball(omega=case["omega"], e_N=(1.0 - weaker) * case["e_N"]) for case in CASES]
    one = partial(simulate, integrator=integrator, dt=BALL_DT, num_steps=150, throw=False)
    return _stacked([one(p.system, q0=p.q0, u0=p.u0) for p in problems])


def _stacked(trajs: Sequence[Trajectory]) -> Trajectory:
    return jax.tree.map(lambda *values: np.stack([np.asarray(v) for v in values]), *trajs)


def ball_statements(trajs: Trajectory) -> list[Statement]:
    """What both papers say about the three cases."""
    system = models.bouncing_ball().system
    bouncing, sliding, rolling = (of_case(trajs, k) for k in range(3))
    t, gap = bouncing.t, np.asarray(trajs.q)[:, :, 1] - R
    zeno = FALL * 3.0  # e_N = 1/2: flight times FALL (1 + 1 + 1/2 + 1/4 + …)
    resting = np.abs(gap[0][t > zeno]).max()
    weight = abs(bouncing.P_N[-1, 0] - G * BALL_DT)

    slip, P_F = slips(system, sliding)[:, 0], sliding.P_F[:, 0, 0]
    hit = int(np.argmax(sliding.P_N[:, 0] > 0.0))
    stick = hit + 1 + int(np.argmax(np.abs(slip[hit + 1 :]) <= TOL))
    while_sliding, after = np.abs(P_F[hit + 2 : stick]), np.abs(P_F[stick + 1 :]).max()
    stick_time = 50.0 * ROLLING / (MU * G)
    speed_error = np.abs(np.abs(sliding.u[stick:, 0]) - 50.0 * ROLLING).max()

    rolling_hit = int(np.argmax(rolling.P_N[:, 0] > 0.0))
    slip_3 = np.abs(slips(system, rolling)[rolling_hit:, 0]).max()
    friction_3 = np.abs(rolling.P_F[rolling_hit + 1 :]).max()
    speed_error_3 = np.abs(np.abs(rolling.u[rolling_hit:, 0]) - 10.0 * ROLLING).max()
    return [
        Statement(
            f"case 1: passes the accumulation point of impacts (here at t = {zeno:.4f})",
            f"{np.sum(trajs.status != 0)} steps fail; from there on |g_N| ≤ {resting:.1e} m, and P_N = m g Δt to "
            f"{weight:.1e} N s at the end",
            bool(np.all(trajs.ok) and resting <= TOL and weight <= 1e-6),
        ),
        Statement(
            f"no penetration, although Δt = {BALL_DT:g} is moderate",
            f"smallest gap of the three cases {gap.min():.1e} m (bound: the tolerance, {TOL:g})",
            bool(gap.min() >= -TOL),
        ),
        Statement(
            "case 2: slides after the impact; at the slip–stick transition friction drops to zero at once",
            f"slips at {abs(slip[hit]):.3f} m/s after the impact; |P_F| = {while_sliding.mean():.6f} N s while sliding "
            f"(μ m g Δt = {MU * G * BALL_DT:.6f}), {abs(P_F[stick]):.6f} in the step to t = {t[stick]:.2f}, at most "
            f"{after:.1e} after it",
            bool(abs(slip[hit]) > TOL and np.ptp(while_sliding) <= TOL and after <= TOL),
        ),
        Statement(
            "case 2 as in the analytical solution: then rolls with constant velocity",
            f"|u_x| = 2/7 R ω to {speed_error:.1e} m/s from t = {t[stick]:.2f} on; exact transition at {stick_time:.4f} "
            "(bound: a step)",
            bool(speed_error <= TOL and abs(t[stick] - stick_time) <= BALL_DT),
        ),
        Statement(
            "case 3: sticks upon impact and rolls, with zero friction forces",
            f"from the impact on γ_F ≤ {slip_3:.1e} m/s and |u_x| = 2/7 R ω to {speed_error_3:.1e} m/s; after it |P_F| ≤ "
            f"{friction_3:.1e} N s",
            bool(max(slip_3, friction_3, speed_error_3) <= TOL),
        ),
    ]


def draw_ball_gap(trajs: Trajectory) -> Figure:
    figure, (ax,) = panels(size=(6.0, 3.0))
    bouncing = of_case(trajs, 0)
    draw(ax, bouncing.t, {"$g_N$": bouncing.q[:, 1] - R}, ylabel="$g_N$ [m]", marker=".", markersize=3)
    ax.axvline(3.0 * FALL, color="0.6", linewidth=0.8, linestyle="--")
    return figure


def draw_ball_percussions(trajs: Trajectory) -> Figure:
    """The scale is that of sliding; the impacts, which exceed it, are written beside."""
    figure, axes = panels(2, 2, sharex=True)
    for k, name in ((1, r"case 2, $\omega = 50$"), (2, r"case 3, $\omega = 10$")):
        traj = of_case(trajs, k)
        for ax, P, symbol in ((axes[k - 1], traj.P_N[:, 0], "P_N"), (axes[k + 1], traj.P_F[:, 0, 0], "P_F")):
            draw(ax, traj.t, {"": P}, ylabel=rf"$\Delta {symbol}$ [N s]", marker=".", markersize=3)
            ax.set_ylim((-0.01, 0.15) if symbol == "P_N" else (-0.03, 0.005))
            peak = np.argmax(np.abs(P))
            ax.set_title(f"{name}; impact: {P[peak]:.3g} N s at {traj.t[peak]:.2f} s", fontsize="small")
    return figure


# Slider-crank -------------------------------------------------------------------------------------------------------


def simulate_crank(integrator: Integrator) -> Trajectory:
    """1500 steps of Δt = 1e-4 and of 1e-3 (axis 0): up to t = 0.15 and 1.5."""
    p = models.slider_crank()
    one = partial(simulate, p.system, integrator, p.q0, p.u0, num_steps=1500, throw=False)
    return _stacked([one(dt=dt) for dt in (1e-4, 1e-3)])


def crank_statements(traj: Trajectory) -> list[Statement]:
    """What both papers say about the run with Δt = 1e-4."""
    system = models.slider_crank().system
    g = np.abs(np.asarray(jax.vmap(system.g)(traj.t, traj.q))).max()
    g_dot = np.abs(np.asarray(jax.vmap(system.g_dot)(traj.t, traj.q, traj.u))).max()
    smallest, phi = gaps(system, traj).min(), np.abs(traj.q[:, 8])
    settled = traj.t[np.flatnonzero(phi > 0.01 * phi[0])[-1]]
    closes = (traj.P_N[1:] > 0.0) & (traj.P_N[:-1] == 0.0)
    joints = np.linalg.norm(traj.P_g, axis=1)
    return [
        Statement(
            "no penetration",
            f"smallest of the four gaps {smallest:.1e} m (bound: the tolerance, {TOL:g})",
            bool(smallest >= -TOL),
        ),
        Statement(
            "the slider, tilted by about 1° at first, is stabilised after t ≈ 0.01",
            f"|φ₃| is below 1 % of its {np.rad2deg(phi[0]):.2f}° from t = {settled:.4f} on (bound: 0.005 to 0.015)",
            bool(0.005 <= settled <= 0.015),
        ),
        Statement(
            "copes with impulsive changes of bilateral forces and contact patterns of high frequency",
            f"contacts close {closes.sum()} times, {np.sum(closes.sum(axis=1) > 1)} times two or more at once; joint "
            f"percussions reach {joints.max() / np.median(joints):.0f} times their median; |g| ≤ {g:.1e} m, "
            f"|ġ| ≤ {g_dot:.1e} m/s (bound: {TOL:g})",
            bool(traj.ok and closes.sum() > 0 and max(g, g_dot) <= TOL),
        ),
    ]


def impact_law_violation(traj: Trajectory) -> tuple[float, int]:
    """Largest violation of 0 ≤ ξ_N ⊥ P_N ≥ 0 over closed contacts, in m/s, and how many of them there are."""
    system = models.slider_crank().system
    rates = gap_rates(system, traj)
    xi_N = rates[1:] + float(system.params["e_N"]) * rates[:-1]
    pressed = traj.P_N[1:] > 0.0
    closed = pressed | (gaps(system, traj)[1:] <= 0.0)
    violation = np.where(pressed, np.abs(xi_N), np.maximum(-xi_N, 0.0))
    return float(violation[closed].max()), int(closed.sum())


def coarse_crank_statement(paper: str, traj: Trajectory) -> Statement:
    """Whether the run with Δt = 1e-3 converges."""
    failed, last = int(np.sum(traj.status[:150] != 0)), int(np.sum(traj.status != 0))
    residual = f"largest residual {traj.residual.max():.1e}"
    return Statement(
        paper, f"{failed} of 150 steps up to t = 0.15 fail, {last} of 1500 up to 1.5; {residual}", failed == 0
    )


def draw_crank_gaps(traj: Trajectory, contacts: Sequence[int]) -> Figure:
    system = models.slider_crank().system
    g_N, rates = gaps(system, traj), gap_rates(system, traj)
    figure, axes = panels(1, len(contacts), size=(5.2 * len(contacts), 2.8))
    for ax, k in zip(axes, contacts, strict=True):
        labels = (rf"$g_{{N{k + 1}}}$ [mm]", rf"$\dot g_{{N{k + 1}}}$ [m/s]")
        draw_with_rate(ax, traj.t, 1e3 * g_N[:, k], rates[:, k], labels=labels)
    return figure


def draw_crank_tilt_and_path(traj: Trajectory) -> Figure:
    figure, (tilt, path) = panels(1, 2, size=(10.4, 2.8))
    draw_with_rate(tilt, traj.t, traj.q[:, 8], traj.u[:, 8], labels=(r"$\varphi_3$ [rad]", r"$u_{\varphi_3}$ [rad/s]"))
    draw(path, traj.q[:, 6], {"": 1e3 * traj.q[:, 7]}, xlabel="$x_3$ [m]", ylabel="$y_3$ [mm]", linewidth=0.8)
    return figure


# Mass on a slope ----------------------------------------------------------------------------------------------------

ABRUPT = 10.0  # what is called a jump exceeds the changes from step to step around it so many times


def changes_of_acceleration(traj: Trajectory) -> np.ndarray:
    """|a_{n+1} − a_n| (N+1,) of the mean accelerations of the steps that end and begin at row n; zero in both end rows."""
    a = np.diff(traj.u, axis=0) / (traj.t[1] - traj.t[0])
    return np.pad(np.linalg.norm(np.diff(a, axis=0), axis=1), 1)


def stick_row(traj: Trajectory) -> int:
    """The first row from which on the mass rests."""
    return int(np.flatnonzero(np.linalg.norm(traj.u, axis=1) > TOL)[-1]) + 1


def kink_at_stick(traj: Trajectory) -> float:
    """Change of acceleration where the mass comes to rest, over the largest of the twenty steps before."""
    change, stick = changes_of_acceleration(traj), stick_row(traj)
    return float(change[stick - 1 : stick + 1].max() / change[stick - 21 : stick - 1].max())


def single_impact(paper: str, system: System, traj: Trajectory) -> Statement:
    """Whether the mass falls onto the slope once, with a jump of its velocity, and remains in contact."""
    g_N, jumps = gaps(system, traj)[:, 0], np.linalg.norm(np.diff(traj.u, axis=0), axis=1)
    closed = g_N <= TOL
    closings, openings = int(np.sum(closed[1:] & ~closed[:-1])), int(np.sum(~closed[1:] & closed[:-1]))
    hit = int(np.argmax(jumps))
    others, P_N = np.delete(jumps, hit).max(), traj.P_N[1:, 0]
    abrupt = jumps[hit] >= ABRUPT * others and P_N[hit] >= ABRUPT * P_N[hit + 1 :].max()
    return Statement(
        paper,
        f"the contact closes {closings} time and opens {openings} times; in the step to t = {traj.t[hit + 1]:.3f} (exact "
        f"impact: {np.sqrt(0.1):.4f}) |Δu| = {jumps[hit]:.2f} m/s, in the others at most {others:.3f}; ΔP_N there "
        f"{P_N[hit]:.2f} N s, later at most {P_N[hit + 1 :].max():.3f}",
        bool(closings == 1 and openings == 0 and abrupt),
    )
