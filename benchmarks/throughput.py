"""Processor time per trajectory-step of batches, this commit beside an older one, which take turns in one run.

    python benchmarks/throughput.py [--old 4c02ad9] [--repeats 5] [--cores 1 2] [--only slider-crank] [--widest]

A plain `jax.vmap` of each model and scheme, forward and gradient, in one process per commit that is held to one core or
two; both have compiled when the first run begins. Each figure is the least processor time of the repeats in µs per
trajectory-step. The wall time and the share of converged lanes are stored beside it. "gradient / forward" divides two
lines of the same commit. `--widest` lets XLA use vectors of 512 bits in the new commit, as jaxns does for the programs that
it compiles itself on processors that have them.

The table shows new / old and its bound, and is stored in benchmarks/results/throughput.json.
"""

from __future__ import annotations

import math
import os
import time
from functools import partial
from typing import Any, NamedTuple

from beside import HEAD, ROOT, Child, Row, answer, checkout, child, parser, questions, store


class Line(NamedTuple):
    model: str
    scheme: str
    lanes: int
    what: str = "forward"
    bound: float = 1.0
    steps: int = 100

    @property
    def name(self) -> str:
        return f"{self.model}, {self.scheme}, {self.lanes}, {self.what}"


LANES = 96
LINES = [  # the slider-crank at the sizes that have bounds of their own, then all models and schemes
    Line("slider-crank", "RATTLE", 1, steps=2000),
    Line("slider-crank", "RATTLE", 256, bound=0.35),
    Line("slider-crank", "RATTLE", 2048, bound=0.3),
    *(
        Line(model, scheme, LANES, what)
        for model in ("ball", "slider-crank", "tippedisk", "chain of 32")
        for scheme in ("Moreau", "RATTLE", "Lobatto(3)")
        for what in ("forward", "gradient")
    ),
]
GRADIENT_BOUND = 3.5  # forward runs, slider-crank with RATTLE
LONG_ENOUGH = 0.3  # s of processor time for one measurement
WIDE_BOUND = 0.8  # slider-crank with RATTLE, LANES, with vectors of 512 bits


def program(line: Line) -> tuple[Any, Any]:
    """In the child: the function of the whole batch, and its argument."""
    import jax
    import jax.numpy as jnp

    import jaxns as ns

    problem, parameter, low, high = {
        "ball": (ns.models.bouncing_ball(omega=10.0), "mu", 0.1, 0.3),
        "slider-crank": (ns.models.slider_crank(), "mu", 0.0, 0.1),
        "tippedisk": (ns.models.tippedisk(), "mu", 0.2, 0.4),
        "chain of 32": (ns.models.ball_chain(32), "e_N", 0.2, 0.8),
    }[line.model]
    scheme: Any = {"Moreau": ns.Moreau, "RATTLE": ns.Rattle, "Lobatto(3)": partial(ns.Lobatto, stages=3)}[line.scheme]
    integrator = scheme(tol=1e-8)

    def end(value: Any) -> Any:
        system = problem.system.with_params(**{parameter: value})
        traj = ns.simulate(system, integrator, problem.q0, problem.u0, dt=problem.dt, num_steps=line.steps)
        return jnp.sum(traj.q[-1]) + jnp.sum(traj.u[-1]), traj.ok

    function = jax.grad(end, has_aux=True) if line.what == "gradient" else end
    values = jnp.linspace(low, high, line.lanes)
    return (jax.vmap(function), values) if line.lanes > 1 else (function, values[0])


def serve(line: Line, wide: bool) -> None:
    """In the child: compile, then run for a fraction of a second for each question."""
    import jax
    import numpy as np

    function, values = program(line)
    settings = {"xla_cpu_prefer_vector_width": 512} if wide else {}
    compiled = jax.jit(function, compiler_options=settings).lower(values).compile()
    _, ok = jax.block_until_ready(compiled(values))
    begin = time.process_time()
    jax.block_until_ready(compiled(values))
    runs = math.ceil(LONG_ENOUGH / (time.process_time() - begin))
    unit = 1e6 / line.lanes / line.steps / runs
    for _ in questions():
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(runs):
            jax.block_until_ready(compiled(values))
        spent = {"processor": time.process_time() - processor, "wall": time.perf_counter() - wall}
        answer({k: unit * s for k, s in spent.items()} | {"converged": float(np.mean(ok))})


def compare(line: Line, trees: dict[str, Any], cores: int, repeats: int, wide: bool) -> dict[str, dict[str, float]]:
    """The best run of each commit; they take turns."""
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    best: dict[str, dict[str, float]] = {}
    processes: dict[str, Child] = {}
    try:
        for commit, tree in trees.items():
            asked = {"line": line, "wide": wide and commit == "new"}
            processes[commit] = Child(__file__, tree, asked, chosen)
        for _ in range(repeats):
            for commit, process in processes.items():
                found = process.ask()
                best[commit] = min(best.get(commit, found), found, key=lambda s: s["processor"])
    finally:
        for process in processes.values():
            process.close()
    return best


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    options.add_argument("--widest", action="store_true", help="vectors of 512 bits in the new commit")
    chosen = options.parse_args()
    rows, more = [], {}
    with checkout(chosen.old) as old:
        print(HEAD)
        for cores in chosen.cores:
            for line in (x for x in LINES if chosen.only in x.name):
                best = compare(line, {"old": old, "new": ROOT}, cores, chosen.repeats, chosen.widest)
                special = chosen.widest and line.name == f"slider-crank, RATTLE, {LANES}, forward"
                name, bound = f"{line.name}, {cores} core{'s' * (cores > 1)}", WIDE_BOUND if special else line.bound
                rows.append(Row(name, best["new"]["processor"], best["old"]["processor"], bound))
                more[name] = best
                print(rows[-1], flush=True)
    ratios = gradients(more)
    for name, (ratio, bound) in ratios.items():
        print(f"{name:44s} {ratio:12.2f} {'':12s} {'':8s} {'' if bound is None else f'{bound:8.2f}'}")
    store("throughput", chosen, "µs of processor time per trajectory-step", rows, runs=more, gradients=ratios)


def gradients(runs: dict[str, dict[str, dict[str, float]]]) -> dict[str, tuple[float, float | None]]:
    """Gradient / forward of the new commit, and its bound where there is one."""
    ratios: dict[str, tuple[float, float | None]] = {}
    for name, best in runs.items():
        forward = name.replace("gradient", "forward")
        if forward != name and forward in runs:
            bound = GRADIENT_BOUND if name.startswith("slider-crank, RATTLE") else None
            ratio = best["new"]["processor"] / runs[forward]["new"]["processor"]
            ratios[name.replace("gradient", "gradient / forward")] = (ratio, bound)
    return ratios


if __name__ == "__main__":
    asked = child()
    if asked is None:
        main()
    else:
        serve(Line(*asked["line"]), asked["wide"])
