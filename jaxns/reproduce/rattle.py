"""Experiments of the nonsmooth RATTLE paper (Breuling, Capobianco, Eugster, Leine 2024, §5)."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import models, plot
from ..analysis.convergence import ConvergenceStudy
from ..integrators.generalized_alpha import GeneralizedAlpha
from ..integrators.moreau import Moreau
from ..integrators.rattle import Rattle
from ..model.rotation import rotation_matrix
from ..simulation.simulate import Trajectory, simulate
from .ball_crank_slope import (
    ABRUPT,
    TOL,
    ball_statements,
    changes_of_acceleration,
    coarse_crank_statement,
    crank_statements,
    draw_ball_gap,
    draw_ball_percussions,
    draw_crank_gaps,
    draw_crank_tilt_and_path,
    impact_law_violation,
    kink_at_stick,
    simulate_ball,
    simulate_crank,
    single_impact,
    stick_row,
)
from .common import (
    ORDER_BOUND,
    draw,
    gaps,
    initial_states,
    not_monotone_statement,
    of_case,
    order_statement,
    panels,
    runs,
    study,
)
from .experiment import Experiment, Outcome, Statement
from .rattle_iterations import AS_PRINTED, NATURAL, newton_statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "Breuling, Capobianco, Eugster, Leine 2024"


# Bouncing ball --------------------------------------------------------------------------------------------------------


def ball() -> Outcome:
    trajs, counted = simulate_ball(Rattle(tol=TOL)), simulate_ball(AS_PRINTED)
    statements = ball_statements(trajs)
    statements += [newton_statement(f"ball, case {k + 1}", of_case(counted, k), of_case(trajs, k)) for k in range(3)]
    figures = {
        "Fig. 2: gap in case 1; the dashed line is the accumulation point": draw_ball_gap(trajs),
        "Fig. 3: percussion increments in cases 2 and 3": draw_ball_percussions(trajs),
    }
    return Outcome(tuple(statements), figures)


# Slider-crank -------------------------------------------------------------------------------------------------------


def _draw_crank_speeds(traj: Trajectory) -> Figure:
    figure, (speeds, portrait) = panels(1, 2, size=(10.4, 2.8))
    curves = {r"$u_{\varphi_1}$": traj.u[:, 2], r"$u_{\varphi_2}$": traj.u[:, 5]}
    draw(speeds, traj.t, curves, ylabel="angular velocity [rad/s]")
    draw(portrait, traj.q[:, 5], {"": traj.u[:, 5]}, xlabel=r"$\varphi_2$ [rad]", ylabel=r"$u_{\varphi_2}$ [rad/s]")
    return figure


def _periodicity(traj: Trajectory) -> tuple[float, float, float]:
    """Angular speeds one turn of the crank later: their ratio, and how far u_φ1, u_φ2 are from that multiple of theirs."""
    crank = traj.q[:, 2]
    angle = np.linspace(crank[traj.t > 0.015][0], crank[-1] - 2.0 * np.pi, 500)
    first, second = (
        np.stack([np.interp(angle + turn, crank, traj.u[:, k]) for k in (2, 5)]) for turn in (0.0, 2.0 * np.pi)
    )
    ratio = np.mean(second[0] / first[0])
    apart = np.abs(second - ratio * first).max(axis=1) / np.abs(second).max(axis=1)
    return float(ratio), float(apart[0]), float(apart[1])


def slider_crank() -> Outcome:
    trajs, counted = simulate_crank(Rattle(tol=TOL)), simulate_crank(AS_PRINTED)
    fine, coarse = of_case(trajs, 0), of_case(trajs, 1)
    xi_N, closed = impact_law_violation(fine)
    after = fine.t > 0.015
    phi, u_phi = np.abs(fine.q[:, 8]), np.abs(fine.u[:, 8])
    ratio, apart_1, apart_2 = _periodicity(fine)
    statements = (
        *crank_statements(fine),
        Statement(
            "afterwards φ₃ = u_φ₃ ≈ 0: it moves without rotation",
            f"for t > 0.015: |φ₃| ≤ {phi[after].max():.1e}, |u_φ₃| ≤ {u_phi[after].max():.1e} rad/s; before up to "
            f"{phi.max():.3f} and {u_phi.max():.1f} (bound: a thousandth of these)",
            bool(phi[after].max() <= 1e-3 * phi.max() and u_phi[after].max() <= 1e-3 * u_phi.max()),
        ),
        Statement(
            "u_φ₁ and u_φ₂ are periodic but for dissipation",
            f"a turn of the crank later both are {ratio:.3f} times as large, to {100 * apart_1:.1f} % and "
            f"{100 * apart_2:.1f} % (bound: 5 %, and a ratio below 1)",
            bool(ratio < 1.0 and max(apart_1, apart_2) <= 0.05),
        ),
        Statement(
            "whenever a contact is closed, its velocity satisfies the generalized Newton impact law",
            f"0 ≤ ġ_N⁺ + e_N ġ_N⁻ ⊥ P_N ≥ 0 to {xi_N:.1e} m/s for {closed} closed contacts of all steps (bound: 1e-6)",
            xi_N <= 1e-6,
        ),
        coarse_crank_statement("a ten times larger step, Δt = 1e-3, converges without issues", coarse),
        newton_statement("slider-crank", of_case(counted, 0), fine),
    )
    figures = {
        "Fig. 5 (a), (b): gaps and their rates": draw_crank_gaps(fine, (0, 2)),
        "Fig. 5 (c), (e): angular velocities, and phase portrait of the rod": _draw_crank_speeds(fine),
        "Fig. 5 (d), (f): tilt of the slider, and path of its centre of mass": draw_crank_tilt_and_path(fine),
    }
    return Outcome(statements, figures)


# Mass on a slope ----------------------------------------------------------------------------------------------------

SLOPE_TOL, MU = 1e-12, 0.3
DT_REFERENCE, T1 = 5e-5, 2**16 * 5e-5
DTS = [2e-4 * 2**k for k in range(8)]
DRAWN = 6  # of reference and DTS: 6.4e-3


@lru_cache(maxsize=1)
def _slope_runs() -> list[list[Trajectory]]:
    """For each case the reference, then one run for each Δt; Figs. 7 and 8 share them."""
    problems = [models.mass_on_slope(case=case, m=np.pi) for case in (1, 2, 3, 4)]
    steps = tuple((dt, round(T1 / dt)) for dt in (DT_REFERENCE, *DTS))
    trajs = runs(problems[0].system, Rattle(tol=SLOPE_TOL), *initial_states(problems), steps)
    return [[of_case(traj, k) for traj in trajs] for k in range(4)]


def slope() -> Outcome:
    """Fig. 7."""
    trajs = [case[DRAWN] for case in _slope_runs()]
    impact = "case 4: a single inelastic impact; velocities and percussions are discontinuous"
    statements = [
        *map(_smooth_until_stick, (1, 2), trajs[:2]),
        _slip_reversal(trajs[2]),
        single_impact(impact, models.mass_on_slope().system, trajs[3]),
        *map(_slip_stick, (1, 2, 3, 4), trajs),
    ]
    statements += [_slope_iterations(case) for case in (1, 2, 3, 4)]
    return Outcome(tuple(statements), {"Fig. 7: positions, velocities and percussion increments": _draw_slope(trajs)})


def _slope_iterations(case: int) -> Statement:
    """Table 1 at the step size that its means tell."""
    p = models.mass_on_slope(case=case, m=np.pi)
    schemes = (Rattle(tol=SLOPE_TOL, solver=NATURAL), Rattle(tol=SLOPE_TOL))
    counted, ours = (simulate(p.system, s, p.q0, p.u0, dt=1e-2, num_steps=328, progress=False) for s in schemes)
    reason = (
        "the table does not name its Δt; its means are whole multiples of 1/328, so Δt = 1e-2. At first we took 2e-4"
    )
    return newton_statement(f"slope, case {case}", counted, ours, reason)


def _smooth_until_stick(case: int, traj: Trajectory) -> Statement:
    change, stick = changes_of_acceleration(traj), stick_row(traj)
    before, at = change[: stick - 1].max(), change[stick - 1 : stick + 1].max()
    return Statement(
        f"case {case}: smooth curves until stick",
        f"the acceleration changes by at most {before:.3f} m/s² from step to step before, by {at:.2f} m/s² at stick, "
        f"t = {traj.t[stick]:.2f} (bound: {ABRUPT:g} times)",
        bool(at >= ABRUPT * before),
    )


def _slip_reversal(traj: Trajectory) -> Statement:
    """Friction flips from μP_N to −μP_N, with at most one step between, which has a kink at its begin and its end."""
    change, stick = changes_of_acceleration(traj), stick_row(traj)
    ratio = traj.P_F[1:stick, 0, 0] / (MU * traj.P_N[1:stick, 0])  # of the steps that end at rows 1, 2, …
    up, down = np.abs(ratio - 1.0) <= 1e-6, np.abs(ratio + 1.0) <= 1e-6
    between = np.flatnonzero(~up & ~down)
    turn = int(np.argmax(~up)) + 1
    flips = bool(np.all(up[: turn - 1]) and np.all(down[turn:]))
    at, elsewhere = change[turn - 1 : turn + 1].max(), np.delete(change[: stick - 1], [turn - 1, turn]).max()
    return Statement(
        "case 3: a backward–forward slip transition after a short time: kink of the velocities, jump of the percussions",
        f"in the step to t = {traj.t[turn]:.3f} the acceleration changes by {at:.2f} m/s², elsewhere before stick by at "
        f"most {elsewhere:.3f} from step to step (bound: {ABRUPT:g} times); P_F = μP_N before and −μP_N after, with "
        f"{len(between)} step between",
        bool(flips and len(between) <= 1 and at >= ABRUPT * elsewhere),
    )


def _slip_stick(case: int, traj: Trajectory) -> Statement:
    """Changes within the step in which the mass stops, against the largest of the twenty steps before."""
    stick, kink, jump = stick_row(traj), kink_at_stick(traj), {}
    for name, P in (("N", traj.P_N[:, 0]), ("F", traj.P_F[:, 0, 0])):
        jump[name] = abs(P[stick + 1] - P[stick - 1]) / np.abs(np.diff(P)[stick - 21 : stick - 1]).max()
    return Statement(
        f"case {case}: the final slip–stick transition is a kink of the velocity and a jump of the percussions",
        f"at t = {traj.t[stick]:.3f}, against the largest change from step to step just before: acceleration {kink:.0f} "
        f"times, P_F {jump['F']:.0f} times (bound: {ABRUPT:g}); P_N {jump['N']:.1f} times: λ_N = m (g cos α + κ v²) does "
        "not jump there",
        bool(min(kink, jump["F"]) >= ABRUPT),
    )


def _draw_slope(trajs: list[Trajectory]) -> Figure:
    figure, axes = panels(3, 4, size=(14.0, 7.0), sharex=True)
    for k, traj in enumerate(trajs):
        P_N, P_F = traj.P_N[1:, 0], traj.P_F[1:, 0, 0]
        draw(axes[k], traj.t, {"$x$": traj.q[:, 0], "$y$": traj.q[:, 1]}, xlabel="", ylabel="[m]")
        draw(axes[k + 4], traj.t, {"$u_x$": traj.u[:, 0], "$u_y$": traj.u[:, 1]}, xlabel="", ylabel="[m/s]")
        draw(axes[k + 8], traj.t[1:], {r"$\Delta P_N$": P_N, r"$\Delta P_F$": P_F}, ylabel="[N s]")
        axes[k].set_title(f"case {k + 1}")
    hit = trajs[3].P_N[:, 0].max()
    axes[-1].set_ylim(-0.2, 0.4)
    axes[-1].set_title(rf"impact: $\Delta P_N$ = {hit:.2f} N s", fontsize="small")
    return figure


def convergence() -> Outcome:
    """Fig. 8."""
    studies = {
        f"case {k + 1}": study(case[0], case[1:], norm="max", tol=SLOPE_TOL) for k, case in enumerate(_slope_runs())
    }
    statements = []
    for name in ("case 1", "case 2"):
        said = f"{name}: positions and velocities of second order, although there is a slip–stick transition"
        statements.append(order_statement(said, studies[name], 2))
    for name in ("case 3", "case 4"):
        said = f"{name}: order reduction, positions and velocities of order one"
        statements.append(order_statement(said, studies[name], 1, scattered=True))
    reduced = {name: studies[name] for name in ("case 3", "case 4")}
    statements.append(not_monotone_statement("cases 3 and 4: their convergence in Fig. 8 is not monotone", reduced))
    statements += [_percussion_order(name, s) for name, s in studies.items()]
    figures = {
        "Fig. 8: errors (56) of positions and velocities; the reference has Δt = 5e-5": plot.convergence(studies),
        "Fig. 8: errors (56) of percussion increments": plot.convergence(studies, quantities=("P_N", "P_F")),
    }
    return Outcome(tuple(statements), figures)


def _percussion_order(name: str, s: ConvergenceStudy) -> Statement:
    P_N, P_F, force_N, force_F, total_N, total_F = (
        float(s.order(f"{kind}{index}")) for kind in ("P_", "force ", "total ") for index in "NF"
    )
    forces = "" if name == "case 4" else f"ΔP/Δt: {force_N:.2f}, {force_F:.2f}; "  # an impact has no force
    return Statement(
        f"{name}: percussion increments of first order",
        f"order {P_N:.2f} in ΔP_N, {P_F:.2f} in ΔP_F (bound: 1 ± {ORDER_BOUND}). The measure compares steps of unlike "
        f"length, and ΔP grows with Δt: that alone gives order 1. {forces}sums of ΔP: {total_N:.2f}, {total_F:.2f}",
        max(abs(P_N - 1.0), abs(P_F - 1.0)) <= ORDER_BOUND,
    )


# Tippedisk ------------------------------------------------------------------------------------------------------------

DISK_DT, DISK_STEPS = 1e-3, 2000
IN_LINE = 0.05  # of the rise 2e, and of a half turn, by which curves may differ that are "in line"


def tippedisk() -> Outcome:
    """Fig. 10; with Moreau's method also at the large step, and with RATTLE also without drilling friction."""
    disk = models.tippedisk()
    r, a, b = (float(disk.system.params[name]) for name in "rab")
    e = b * a**2 / (r**2 - a**2)
    one = partial(simulate, q0=disk.q0, u0=disk.u0, dt=DISK_DT, num_steps=DISK_STEPS)
    rattle, coulomb = (one(disk.system.with_params(R=R), Rattle(tol=TOL)) for R in (1e-3, 0.0))
    alpha = one(disk.system, GeneralizedAlpha(rho_inf=0.9))
    moreau, coarse = (
        simulate(disk.system, Moreau(), disk.q0, disk.u0, dt=dt, t1=2.0, save_every=every, progress=False)
        for dt, every in ((1e-5, 100), (DISK_DT, 1))
    )
    trajs = {"Moreau": moreau, "generalized-α": alpha, "RATTLE": rattle}
    z = {name: np.asarray(traj.q[:, 2]) for name, traj in trajs.items()}
    gamma = {name: _euler_angles(traj)[1] for name, traj in trajs.items()}

    def of_rise(difference: Any) -> float:
        return float(np.abs(difference).max() / (2 * e))

    def in_line(said: str, name: str) -> Statement:
        height, angle = of_rise(z[name] - z["RATTLE"]), float(np.abs(gamma[name] - gamma["RATTLE"]).max() / np.pi)
        ours = (
            f"z differs by at most {height:.1%} of the rise 2e, γ by {angle:.1%} of a half turn (bound: {IN_LINE:.0%})"
        )
        return Statement(said, ours, max(height, angle) <= IN_LINE)

    inverted = r + e - IN_LINE * 2 * e
    ends = ", ".join(f"{z[name][-1]:.5f} ({name})" for name in z)
    depth, late = -gaps(disk.system, coarse).min(), of_rise(np.asarray(coarse.q[:, 2]) - z["Moreau"])
    drift = np.abs(gaps(disk.system, rattle)).max()
    iterations, moreau_iterations = int(np.sum(rattle.iterations)), int(np.sum(moreau.iterations))
    spin = np.abs(np.asarray(jax.vmap(lambda q, u: (rotation_matrix(q[3:]) @ u[3:])[2])(rattle.q, rattle.u)))
    highest = coulomb.q[:, 2].max()
    statements = (
        Statement(
            "spun about an in-plane axis, the disk inverts: its centre of mass rises",
            f"z from {z['RATTLE'][0]:.5f} (r − e) to {ends} at t = 2 (bound: {inverted:.5f}, r + e = {r + e:.5f} less "
            f"{IN_LINE:.0%} of the rise); γ from {gamma['RATTLE'][0]:.3f} to {gamma['RATTLE'][-1]:.3f}, near −3π/2",
            all(bool(height[-1] >= inverted) for height in z.values()),
        ),
        in_line("RATTLE with Δt = 1e-3 is in line with Moreau's method with Δt = 1e-5", "Moreau"),
        in_line("RATTLE is in line with the generalized-α method with ρ_∞ = 0.9 and Δt = 1e-3", "generalized-α"),
        Statement(
            "Moreau's method does not prevent penetration, and so needs a very small step for an accurate inversion",
            f"with Δt = 1e-3 it penetrates by {1e3 * depth:.2f} mm and z is off by {late:.0%} of the rise (bound: more "
            f"than {IN_LINE:.0%}); with 1e-5 by {-1e3 * gaps(disk.system, moreau).min():.4f} mm; RATTLE has |g_N| ≤ "
            f"{drift:.1e} m",
            bool(depth > TOL and late > IN_LINE and drift <= TOL),
        ),
        Statement(
            "the larger step reduces the number of operations, a substantial saving",
            f"{iterations:,} Newton iterations against {moreau_iterations:,} of Moreau's method (bound: a tenth)",
            iterations <= 0.1 * moreau_iterations,
        ),
        Statement(
            "due to dissipation the spinning velocity falls slowly",
            f"about the vertical {spin[0]:.1f}, {spin[1000]:.1f} and {spin[2000]:.1f} rad/s at t = 0, 1 and 2",
            bool(spin[0] > spin[1000] > spin[2000]),
        ),
        Statement(
            "Coulomb friction without drilling friction is not enough for the inversion (cited there)",
            f"with R = 0, z is {highest:.5f} at most and {coulomb.q[-1, 2]:.5f} at the end, "
            f"{of_rise(coulomb.q[-1, 2] - (r - e)):.0%} of the rise (bound: below {inverted:.5f})",
            bool(highest < inverted),
        ),
        newton_statement("tippedisk", one(disk.system, AS_PRINTED), rattle),
    )
    caption = "Fig. 10: height of the centre of mass, last Euler angle γ (z–x–z) and inclination β"
    return Outcome(statements, {caption: _draw_disk(trajs)})


def _euler_angles(traj: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """Inclination β and last angle γ of A_IK = R_z(α) R_x(β) R_z(γ); S is below the geometric centre where γ = −π/2."""
    A = np.asarray(jax.vmap(rotation_matrix)(jnp.asarray(traj.q)[:, 3:]))
    return np.arccos(A[:, 2, 2]), np.unwrap(np.arctan2(A[:, 2, 0], A[:, 2, 1]))


def _draw_disk(trajs: dict[str, Trajectory]) -> Figure:
    figure, axes = panels(1, 3, size=(14.0, 3.4))
    for (name, traj), style in zip(trajs.items(), ("k-", "C0--", "C3:"), strict=True):
        beta, gamma = _euler_angles(traj)
        for ax, y in zip(axes, (1e3 * np.asarray(traj.q[:, 2]), gamma, beta), strict=True):
            ax.plot(np.asarray(traj.t), y, style, linewidth=1.2, label=name)
    for ax, label in zip(axes, ("$z$ [mm]", r"last angle $\gamma$ [rad]", r"inclination $\beta$ [rad]"), strict=True):
        ax.set_xlabel("$t$ [s]")
        ax.set_ylabel(label)
    axes[0].legend(fontsize="small", frameon=False)
    return figure


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("rattle-ball", PAPER, "§5.1, Figs. 2 and 3, Table 1", "Rotating bouncing ball", ball),
    Experiment("rattle-slider-crank", PAPER, "§5.2, Fig. 5, Table 1", "Slider-crank mechanism", slider_crank),
    Experiment("rattle-slope", PAPER, "§5.3, Fig. 7, Table 1", "Point mass on a slope", slope),
    Experiment("rattle-convergence", PAPER, "§5.3, Fig. 8", "Order of convergence on the slope", convergence),
    Experiment("rattle-tippedisk", PAPER, "§5.4, Fig. 10, Table 1", "Tippedisk", tippedisk),
)
