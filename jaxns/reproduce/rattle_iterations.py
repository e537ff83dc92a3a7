"""Newton iterations of nonsmooth RATTLE, beside Table 1 of its paper."""

from __future__ import annotations

import numpy as np

from ..integrators.rattle import Rattle
from ..simulation.simulate import Trajectory
from .ball_crank_slope import TOL
from .experiment import Statement

TABLE_1 = {  # Newton iterations: (max, mean) of stage 1, then of stage 2
    "ball, case 1": (2, 1.0066, 1, 0.9466),
    "ball, case 2": (3, 1.0270, 2, 0.9466),
    "ball, case 3": (3, 1.0270, 2, 0.6756),
    "slider-crank": (5, 2.2290, 3, 1.0081),
    "slope, case 1": (2, 1.2774, 2, 0.6463),
    "slope, case 2": (2, 1.1737, 2, 0.5945),
    "slope, case 3": (4, 1.3628, 2, 0.6859),
    "slope, case 4": (5, 1.2469, 2, 0.6737),
    "tippedisk": (3, 2.4103, 2, 2.0000),
}


NATURAL = "natural_newton"
AS_PRINTED = Rattle(tol=TOL, solver=NATURAL)
COUNTED_ALIKE = (
    "counted with the papers' own iteration, on the natural residual; our default projects its guess before its first "
    "step, and does not count that"
)


def newton_statement(name: str, traj: Trajectory, default: Trajectory, settled: str = COUNTED_ALIKE) -> Statement:
    """Newton iterations of a run with the papers' iteration beside those of Table 1, which they should not exceed in either
    stage; `default` is the same run with our solver."""
    text = "stage 1 at most {:.0f}, mean {:.4f}; stage 2 at most {:.0f}, mean {:.4f}"
    ours, with_default = (_iterations(run) for run in (traj, default))
    theirs = TABLE_1[name]
    return Statement(
        f"Table 1, {name}: Newton iterations {text.format(*theirs)}",
        f"{text.format(*ours)}, on the natural residual; mean of both {ours[1] + ours[3]:.3f} against "
        f"{theirs[1] + theirs[3]:.3f}; with our default {text.format(*with_default)}",
        bool(traj.ok and np.all(ours <= np.array(theirs) + 1e-4)),
        settled,
    )


def _iterations(traj: Trajectory) -> np.ndarray:
    """Maximum and mean of stage 1, then of stage 2."""
    iterations = np.asarray(traj.stage_iterations)
    return np.stack([iterations.max(axis=0), iterations.mean(axis=0)], axis=1).ravel()
