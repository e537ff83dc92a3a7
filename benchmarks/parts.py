"""The slider-crank from parts beside the one written by hand: compilation and time per step of a batch.

    python benchmarks/parts.py [--lanes 256] [--repeats 5]

Processor seconds of trace, lowering and compilation, and processor time per trajectory-step, both of RATTLE; the two take
turns in one process, and each figure is the least. Both ratios must be at most 1.3.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp

import jaxns as ns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from test_mechanism import slider_crank

STEPS, BOUND = 100, 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lanes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    hand, parts = ns.models.slider_crank(), slider_crank().problem(dt=1e-4, t1=0.15)
    speeds = jnp.linspace(0.9, 1.1, chosen.lanes)

    def run(problem: ns.Problem) -> Any:
        def end(factor: jax.Array) -> tuple[jax.Array, jax.Array]:
            start = factor * problem.u0
            traj = ns.simulate(problem.system, ns.Rattle(), problem.q0, start, dt=1e-4, num_steps=STEPS)
            return traj.q[-1], traj.ok

        return jax.jit(jax.vmap(end))

    least: dict[str, float] = {}
    programs: dict[str, Any] = {}
    for _ in range(2):
        for name, problem in (("parts", parts), ("hand", hand)):
            jax.clear_caches()
            begin = time.process_time()
            programs[name] = run(problem).lower(speeds).compile()
            least[f"{name}, compilation"] = min(least.get(f"{name}, compilation", jnp.inf), time.process_time() - begin)
    ends = {name: jax.block_until_ready(program(speeds)) for name, program in programs.items()}
    assert all(bool(jnp.all(ok)) for _, ok in ends.values())
    for _ in range(chosen.repeats):
        for name, program in programs.items():
            begin = time.process_time()
            jax.block_until_ready(program(speeds))
            each = 1e6 * (time.process_time() - begin) / chosen.lanes / STEPS
            least[f"{name}, step"] = min(least.get(f"{name}, step", jnp.inf), each)
    ratios = {
        f"{what}, parts / hand": least[f"parts, {what}"] / least[f"hand, {what}"] for what in ("compilation", "step")
    }
    distance = float(jnp.max(jnp.abs(ends["parts"][0] - ends["hand"][0])))
    report("parts", {**least, **ratios, "bound": BOUND, "distance of the ends": distance})


if __name__ == "__main__":
    main()
