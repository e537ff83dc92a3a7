"""Experiments of the paper on Lobatto IIIA–IIIB methods with frictional contact (Capobianco, Harsch, Leine 2024, §6)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from .. import models, plot
from ..integrators.lobatto import Lobatto
from ..integrators.rattle import Rattle
from ..simulation.simulate import Trajectory
from .ball_crank_slope import (
    ABRUPT,
    BALL_DT,
    TOL,
    ball_statements,
    coarse_crank_statement,
    crank_statements,
    draw_ball_gap,
    draw_ball_percussions,
    draw_crank_gaps,
    draw_crank_tilt_and_path,
    kink_at_stick,
    simulate_ball,
    simulate_crank,
    single_impact,
    stick_row,
)
from .common import draw, gaps, initial_states, not_monotone_statement, of_case, order_statement, panels, runs, study
from .experiment import Experiment, Outcome, Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "Capobianco, Harsch, Leine 2024"
STAGES = (2, 3, 4)


# Bouncing ball --------------------------------------------------------------------------------------------------------

INDISTINGUISHABLE = 0.01  # of the range of a coordinate: about the width of a line in a figure
WEAKER = 1e-6  # part of e_N that is taken off it, so that no flight ends on a row to round-off


def ball() -> Outcome:
    """Figs. 3 and 4, with s = 3; the other numbers of stages, and RATTLE, to compare."""
    trajs = {s: simulate_ball(Lobatto(stages=s, tol=TOL)) for s in STAGES}
    rattle = simulate_ball(Rattle(tol=TOL))
    untied = {s: simulate_ball(Lobatto(stages=s, tol=TOL), WEAKER) for s in STAGES}
    statements = [*ball_statements(trajs[3]), _same_curves(untied, trajs), _same_as_rattle(trajs[2], rattle)]
    figures = {
        "Fig. 3: gap in case 1; the dashed line is the accumulation point": draw_ball_gap(trajs[3]),
        "Fig. 4: percussions in cases 2 and 3": draw_ball_percussions(trajs[3]),
    }
    return Outcome(tuple(statements), figures)


def _same_curves(trajs: dict[int, Trajectory], tied: dict[int, Trajectory]) -> Statement:
    q = _positions(trajs)
    apart, as_printed = (_apart(_positions(of)) for of in (trajs, tied))
    failed = sum(int(np.sum(np.asarray(traj.status) != 0)) for traj in trajs.values())
    smallest = q[..., 1].min() - 0.1
    return Statement(
        f"with s = 2, 3, 4 and Δt = {BALL_DT:g} the solutions are nearly indistinguishable",
        f"x, y, φ differ by at most {', '.join(f'{v:.2%}' for v in apart)} of their range (bound: "
        f"{INDISTINGUISHABLE:.0%}); {failed} steps fail; smallest gap {smallest:.1e} m. With e_N = 0.5 to the last digit "
        f"rounding decides, and they differ by up to {as_printed.max():.2%}",
        bool(apart.max() <= INDISTINGUISHABLE and failed == 0),
        f"asked with e_N smaller by {WEAKER:g} of it: with e_N = 0.5 the flight after the first impact takes 42 steps to "
        "round-off, and the last bit decides whether it ends in the 42nd or the 43rd",
    )


def _positions(trajs: dict[int, Trajectory]) -> np.ndarray:
    """(stages, cases, rows, 3)."""
    return np.stack([np.asarray(traj.q) for traj in trajs.values()])


def _apart(q: np.ndarray) -> np.ndarray:
    """How far methods are apart, as parts of the range of each coordinate (3,)."""
    return np.ptp(q, axis=0).max(axis=(0, 1)) / np.ptp(q, axis=(0, 1, 2))


def _same_as_rattle(two: Trajectory, rattle: Trajectory) -> Statement:
    names = ("q", "u", "P_N", "P_F")
    apart = [np.abs(np.asarray(getattr(two, name)) - np.asarray(getattr(rattle, name))).max() for name in names]
    return Statement(
        "RATTLE is the pair with two stages: the results are those of the RATTLE paper",
        f"s = 2 and RATTLE differ by at most {', '.join(f'{v:.1e} ({n})' for v, n in zip(apart, names, strict=True))} over "
        f"all cases and steps (bound: ten times the tolerance, {10 * TOL:g})",
        bool(max(apart) <= 10 * TOL),
    )


# Slider-crank -------------------------------------------------------------------------------------------------------


def slider_crank() -> Outcome:
    """Fig. 6, with s = 3."""
    trajs = simulate_crank(Lobatto(stages=3, tol=TOL))
    fine, coarse = of_case(trajs, 0), of_case(trajs, 1)
    said = "a ten times larger step, Δt = 1e-3, converges too (said of RATTLE; here for s = 3)"
    figures = {
        "Fig. 6 (a), (b): gaps of P₁ and P₃ and their rates": draw_crank_gaps(fine, (0, 2)),
        "Fig. 6 (c), (d): tilt of the slider, and path of its centre of mass": draw_crank_tilt_and_path(fine),
    }
    return Outcome((*crank_statements(fine), coarse_crank_statement(said, coarse)), figures)


# Mass on a slope ----------------------------------------------------------------------------------------------------

SLOPE_TOL, T1 = 1e-14, 1.6
DT_REFERENCE, DRAWN_DT = 5e-5, 1e-2
DTS = [3.2e-3 * 2**k for k in range(8)]
CASES = {1: 1, 2: 4}  # of the paper, and of `models.mass_on_slope`


@lru_cache(maxsize=3)
def _slope_runs(stages: int) -> list[list[Trajectory]]:
    """For each case the reference, one run for each Δt, and last the run to t = 3 of Fig. 8."""
    problems = [models.mass_on_slope(case=case) for case in CASES.values()]
    steps = tuple((dt, int(T1 / dt + 1e-6)) for dt in (DT_REFERENCE, *DTS))
    integrator = Lobatto(stages=stages, tol=SLOPE_TOL)
    trajs = runs(problems[0].system, integrator, *initial_states(problems), (*steps, (DRAWN_DT, 300)))
    return [[of_case(traj, k) for traj in trajs] for k in range(len(CASES))]


def slope() -> Outcome:
    """Fig. 8."""
    system = models.mass_on_slope().system
    sliding, falling = (case[-1] for case in _slope_runs(3))
    rest, change = sliding.t[stick_row(sliding)], np.abs(np.diff(sliding.u, axis=0)).max() / DRAWN_DT
    jump = falling.t[1 + np.argmax(np.linalg.norm(np.diff(falling.u, axis=0), axis=1))]
    kinks = {number: (traj.t[stick_row(traj)], kink_at_stick(traj)) for number, traj in ((1, sliding), (2, falling))}
    smallest = min(gaps(system, traj).min() for traj in (sliding, falling))
    statements = (
        Statement(
            "case 1: slides downhill and comes to rest at t ≈ 2.1",
            f"at rest from t = {rest:.2f} on (bound: 2.05 to 2.15)",
            bool(2.05 <= rest <= 2.15),
        ),
        Statement(
            "case 1: the velocity is continuous",
            f"no velocity changes by more than {change:.1f} m/s² times Δt in a step (bound: 2g)",
            bool(change <= 20.0),
        ),
        Statement(
            "case 2: the velocity jumps at t ≈ 0.3",
            f"it jumps in the step to t = {jump:.2f} (bound: 0.25 to 0.35)",
            bool(0.25 <= jump <= 0.35),
        ),
        single_impact("case 2: after an inelastic impact it slides until it rests", system, falling),
        Statement(
            "between t = 2 and 2.5 both motions have a kink in the velocity, from the slip–stick transition",
            "; ".join(
                f"case {k}: at t = {t:.2f} the acceleration changes {v:.0f} times as much as from step to step just before"
                for k, (t, v) in kinks.items()
            )
            + f" (bound: {ABRUPT:g})",
            all(bool(2.0 <= t <= 2.5 and v >= ABRUPT) for t, v in kinks.values()),
        ),
        Statement("no contact penetration", f"smallest gap {smallest:.1e} m", bool(smallest >= -TOL)),
    )
    return Outcome(statements, {"Fig. 8: cases 1 and 2, with s = 3 and Δt = 1e-2": _draw_slope(sliding, falling)})


def _draw_slope(*trajs: Trajectory) -> Figure:
    figure, axes = panels(2, 2, sharex=True)
    for k, traj in enumerate(trajs):
        draw(axes[k], traj.t, {"$x$": traj.q[:, 0], "$y$": traj.q[:, 1]}, xlabel="", ylabel="[m]")
        draw(axes[k + 2], traj.t, {"$v_x$": traj.u[:, 0], "$v_y$": traj.u[:, 1]}, ylabel="[m/s]")
        axes[k].set_title(f"case {k + 1}")
    return figure


def convergence() -> Outcome:
    """Fig. 9."""
    studies = {
        (number, s): study(case[0], case[1:-1], norm="sum", tol=SLOPE_TOL)
        for s in STAGES
        for number, case in zip(CASES, _slope_runs(s), strict=True)
    }
    closed = max(np.abs(gaps(models.mass_on_slope().system, _slope_runs(s)[0][1])).max() for s in STAGES)
    statements = [
        Statement(
            "case 1: the contact is always closed",
            f"|g_N| ≤ {closed:.1e} m for s = 2, 3, 4 and Δt = {DTS[0]:g} (bound: {TOL:g})",
            bool(closed <= TOL),
        )
    ]
    for s in STAGES:
        said = f"case 1, s = {s}: order 2s − 2 = {2 * s - 2}"
        statements.append(order_statement(said, studies[1, s], 2 * s - 2))
    for s in STAGES:
        said = f"case 2, s = {s}: convergent, and apparently of first order"
        statements.append(order_statement(said, studies[2, s], 1, scattered=True))
    falling = {f"s = {s}": studies[2, s] for s in STAGES}
    statements.append(not_monotone_statement("case 2: the convergence that Fig. 9 shows is not monotone", falling))
    figures = {
        f"Fig. 9, case {number}: errors (74) over Δt on [0, 1.6]; the references have Δt = 5e-5": plot.convergence({
            f"s = {s}": studies[number, s] for s in STAGES
        })
        for number in CASES
    }
    return Outcome(tuple(statements), figures)


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("lobatto-ball", PAPER, "§6.1, Figs. 3 and 4", "Rotating bouncing ball", ball),
    Experiment("lobatto-slider-crank", PAPER, "§6.2, Fig. 6", "Slider-crank mechanism", slider_crank),
    Experiment("lobatto-slope", PAPER, "§6.3, Fig. 8", "Point mass on a slope", slope),
    Experiment("lobatto-convergence", PAPER, "§6.3, Fig. 9", "Order of convergence on the slope", convergence),
)
