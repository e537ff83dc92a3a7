"""Processor seconds that JAX and XLA take to make a program, this commit beside an older one.

    python benchmarks/compilation.py [--old 4c02ad9] [--repeats 3] [--only RATTLE]

Each line is trace + lower + compile of one program, in a fresh process with an empty cache; the least of the repeats. Old
and new take turns, so that a busy machine disturbs both alike. The table shows new / old and its bound, and is stored in
benchmarks/results/compilation.json.
"""

from __future__ import annotations

import time
from typing import Any

from beside import HEAD, ROOT, Child, Row, answer, checkout, child, parser, questions, store

LANES = 96
STEPS = 100  # a number in the program: it takes no time to compile
BOUNDS = {  # name of the line: largest new / old
    "slider-crank, RATTLE, one": 0.7,
    "slider-crank, RATTLE, batch": 0.75,
    "slider-crank, RATTLE, gradient": 0.7,
    "slider-crank, RATTLE, gradient batch": 0.75,
    "slider-crank, Lobatto(3), one": 0.8,
    "slider-crank, GGLUnified, one": 0.8,
    "slider-crank, GeneralizedAlpha, one": 0.8,
    "slider-crank, EnergyTwoStep, one": 0.8,
    "ball, EventDriven, one": 0.75,
    "ball, EventDriven, jacfwd": 0.75,
    "ball, EventDriven, gradient": 0.75,
    "slider-crank, EventDriven, one": 0.75,
    "slider-crank, EventDriven, jacfwd": 0.75,
    "slider-crank, EventDriven, gradient": 0.75,
}


def measure(name: str) -> dict[str, float]:
    """In the child: processor seconds of the three stages."""
    import jax
    import jax.numpy as jnp

    import jaxns as ns

    where, method, what = name.split(", ")
    problem, parameter = {
        "slider-crank": (ns.models.slider_crank(), "mu"),
        "ball": (ns.models.bouncing_ball(omega=10.0), "e_N"),
    }[where]
    integrator: Any = {
        "RATTLE": ns.Rattle(),
        "Lobatto(3)": ns.Lobatto(stages=3),
        "GGLUnified": ns.GGLUnified(),
        "GeneralizedAlpha": ns.GeneralizedAlpha(),
        "EnergyTwoStep": ns.EnergyTwoStep(),
        "EventDriven": ns.EventDriven(),
    }[method]

    def end(value: jax.Array) -> jax.Array:
        system = problem.system.with_params(**{parameter: value})
        traj = ns.simulate(system, integrator, problem.q0, problem.u0, dt=problem.dt, num_steps=STEPS)
        return jnp.sum(traj.q[-1]) + jnp.sum(traj.u[-1])

    function = {
        "one": end,
        "batch": jax.vmap(end),
        "jacfwd": jax.jacfwd(end),
        "gradient": jax.grad(end),
        "gradient batch": jax.vmap(jax.grad(end)),
    }[what]
    start = jnp.linspace(0.1, 0.2, LANES) if "batch" in what else jnp.asarray(0.1)
    seconds = [time.process_time()]
    traced = jax.jit(function).trace(start)
    seconds.append(time.process_time())
    lowered = traced.lower()
    seconds.append(time.process_time())
    lowered.compile()
    seconds.append(time.process_time())
    return {stage: seconds[k + 1] - seconds[k] for k, stage in enumerate(("trace", "lower", "compile"))}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    rows, stages = [], {}
    with checkout(chosen.old) as old:
        print(HEAD)
        for name, bound in BOUNDS.items():
            if chosen.only not in name:
                continue
            least: dict[str, dict[str, float]] = {}
            for _ in range(chosen.repeats):
                for commit, tree in (("old", old), ("new", ROOT)):
                    process = Child(__file__, tree, {"name": name})
                    found = process.ask()
                    process.close()
                    least[commit] = min(least.get(commit, found), found, key=lambda s: sum(s.values()))
            rows.append(Row(name, sum(least["new"].values()), sum(least["old"].values()), bound))
            stages[name] = least
            print(rows[-1], flush=True)
    store("compilation", chosen, "processor seconds", rows, stages=stages)


if __name__ == "__main__":
    asked = child()
    if asked is None:
        main()
    else:
        for _ in questions():
            answer(measure(asked["name"]))
