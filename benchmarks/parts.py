"""The slider-crank from parts beside the one written by hand: compilation and time per step of a batch.

    python benchmarks/parts.py [--lanes 256] [--repeats 5]

Processor seconds of trace, lowering and compilation, and processor time per trajectory-step, both of RATTLE; the two take
turns in one process, and each figure is the least. Both ratios must be at most 1.3.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp

import jaxns as ns

STEPS, BOUND = 100, 1.3
L1, L2 = 0.153, 0.306


def from_parts() -> ns.Mechanism:
    law: dict[str, Any] = {"e_N": 0.4, "e_F": 0.0, "mu": 0.01}
    return ns.Mechanism(
        ns.Body("crank", 0.038, 7.4e-5, position=(0.5 * L1, 0), velocity=(0, 11.475), spin=150),
        ns.Body("rod", 0.038, 5.9e-4, position=(L1 + 0.5 * L2, 0), velocity=(0, 11.475), spin=-75),
        ns.Body("slider", 0.076, 2.7e-6, position=(L1 + L2, 0), angle=0.017, shape=ns.shapes.Box(0.1, 0.05)),
        ns.Body("top", fixed=True, position=(0, 0.026), angle=jnp.pi, shape=ns.shapes.HalfSpace()),
        ns.Body("bottom", fixed=True, position=(0, -0.026), shape=ns.shapes.HalfSpace()),
        ns.Revolute("ground", "crank", at=(0, 0)),
        ns.Revolute("crank", "rod", at=(L1, 0)),
        ns.Revolute("rod", "slider", at=(L1 + L2, 0)),
        ns.Touch("slider", "top", points=(3, 2), **law),
        ns.Touch("slider", "bottom", points=(0, 1), **law),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lanes", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    hand, parts = ns.models.slider_crank(), from_parts().problem(dt=1e-4, t1=0.15)
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
