"""From a slider to the picture, measured in a headless browser: `python benchmarks/exploring.py`.

Each number is the time from the event of a slider until the picture that belongs to it has been drawn, with all that lies
between: the message, the run in Python, frames and curves back, and the drawing. A small server stands in for a notebook's
kernel (tests/exploration.py); the script of the page is the widget's own.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import jax

jax.config.update("jax_enable_x64", True)
import numpy as np
from exploration import explored

import jaxns as ns
from jaxns.exploring.explore import explorer_of

MOVES = 30
DRIVE = """
  found.times = [];
  const input = view.querySelector("input");
  for (let k = 0; k < MOVES; k++) {
    const picture = next();
    move(input.getAttribute("aria-label"), 0.2 + 0.6 * k / MOVES);
    found.times.push((await picture).milliseconds);
  }
""".replace("MOVES", str(MOVES))


def toy() -> ns.Mechanism:
    """The mechanism of the README."""
    return ns.Mechanism(
        ns.Body("box", mass=1.0, position=(-0.3, 0.5), angle=0.4, shape=ns.shapes.Box(0.2, 0.1)),
        ns.Body("bob", mass=0.5, position=(0.4, 0.6), shape=ns.shapes.Disk(0.08)),
        ns.Body("slope", fixed=True, angle=-0.2, shape=ns.shapes.HalfSpace()),
        ns.Revolute("ground", "bob", at=(0.4, 1.0)),
        ns.Spring("box", "bob", stiffness=5.0, name="spring"),
        ns.Touch("box", "slope", e_N=0.3, mu=0.5),
        ns.Touch("box", "bob", e_N=0.3, mu=0.2),
    )


CASES = {
    "bouncing ball": (ns.models.bouncing_ball, ["e_N"], {}),
    "slider-crank": (ns.models.slider_crank, ["mu"], {}),
    "toy of the README, 2,000 steps": (toy, ["box-slope.mu"], {}),
    "woodpecker": (ns.models.woodpecker, ["mu"], {}),
    "tippedisk, in space": (ns.models.tippedisk, ["mu"], {"t1": 1.0}),
}


def main() -> None:
    print(f"{'system':34}{'steps':>7}{'median':>9}{'largest':>9}   ms from slider to picture, {MOVES} moves")
    for name, (make, params, options) in CASES.items():
        problem = make()
        usable = [p for p in params if p in problem.system.params] or list(problem.system.params)[:1]
        explorer = explorer_of(problem, usable, integrators=[ns.Rattle()], **options)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found = explored(explorer, Path(folder), DRIVE)
        assert not found["complaints"], found["complaints"]
        times = np.array(found["times"])
        steps = explorer.steps(explorer.start)[2]
        print(f"{name:34}{steps:7d}{np.median(times):9.0f}{times.max():9.0f}")


if __name__ == "__main__":
    main()
