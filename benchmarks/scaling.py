"""Growth of the cost with the size of a system, and of memory with the number of steps.

    python benchmarks/scaling.py [--quick]

Microseconds per step of the overbalanced wheel with 6 … 192 levers and of a chain of 4 … 256 balls between two walls, with
Moreau's scheme, RATTLE, RATTLE with forces that depend on velocities, and Lobatto(3), and the exponents a of cost ∝ n^a,
fitted to all sizes and to the four largest. Up to a few dozen unknowns the cost is that of starting operations, whatever
their size. With --dense the largest size that is bearable is repeated with dense matrices. Then the memory that XLA plans
for a run of 1,000 … 100,000 steps that saves one row out of N/100: it must not grow.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from measuring import measure, report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns
from jaxns.integrators.levels import large

STEPS = 200
INTEGRATORS = {
    "Moreau": ns.Moreau(),
    "RATTLE": ns.Rattle(),
    "RATTLE with drag": ns.Rattle(),
    "Lobatto(3)": ns.Lobatto(stages=3),
}
SIZES = {"wheel": (6, 12, 24, 48, 96, 192), "chain": (4, 8, 16, 32, 64, 128, 256)}


def problem_of(kind: str, n: int, drag: bool) -> ns.Problem:
    problem = ns.models.overbalanced_wheel(n=n) if kind == "wheel" else ns.models.ball_chain(n=n)
    if not drag:
        return problem
    s = problem.system
    force = lambda t, q, u, p: -0.1 * u * jnp.abs(u)  # noqa: E731
    system = ns.System(
        s.params, s.mass, potential=s.potential, force=force, constraint=s.constraint, contacts=s.contacts
    )
    return replace(problem, system=system)


def cost(kind: str, n: int, name: str) -> tuple[float, float, float]:
    """Microseconds per step, compile seconds, and Newton iterations per step."""
    problem, integrator = problem_of(kind, n, "drag" in name), INTEGRATORS[name]

    def run(q0: jax.Array, u0: jax.Array) -> Any:
        return ns.simulate(problem.system, integrator, q0, u0, dt=problem.dt, num_steps=STEPS, save_every=STEPS)

    compile_seconds, seconds, traj = measure(run, problem.q0, problem.u0)
    assert bool(traj.ok), f"{kind} with n = {n} failed"
    return 1e6 * seconds / STEPS, compile_seconds, float(jnp.sum(traj.iterations)) / STEPS


def exponent(sizes: Any, costs: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def memory(steps: int) -> float:
    """MiB of temporaries and results of a slider-crank run that saves a hundred rows."""
    problem = ns.models.slider_crank()

    def run(q0: jax.Array) -> Any:
        rows = steps // 100
        return ns.simulate(problem.system, ns.Rattle(), q0, problem.u0, dt=1e-6, num_steps=steps, save_every=rows)

    analysis = jax.jit(run).lower(problem.q0).compile().memory_analysis()
    return (analysis.temp_size_in_bytes + analysis.output_size_in_bytes) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the three largest sizes")
    parser.add_argument("--dense", action="store_true", help="repeat one size with dense matrices")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for kind, all_sizes in SIZES.items():
        sizes = all_sizes[:-3] if options.quick else all_sizes
        for name in INTEGRATORS:
            costs = []
            for n in sizes:
                microseconds, compile_seconds, iterations = cost(kind, n, name)
                costs.append(microseconds)
                print(
                    f"{kind} {name} n = {n:3d}: {microseconds:8.1f} us per step, {iterations:.2f} iterations, "
                    f"compiled in {compile_seconds:.1f} s",
                    flush=True,
                )
                results[f"{kind} {name} {n}, us"] = microseconds
                results[f"{kind} {name} {n} compile, s"] = compile_seconds
                results[f"{kind} {name} {n} iterations"] = iterations
            results[f"{kind} {name} exponent, all sizes"] = exponent(sizes, costs)
            results[f"{kind} {name} exponent, four largest"] = exponent(sizes[-4:], costs[-4:])
    if options.dense:
        smallest, large.SMALLEST = large.SMALLEST, 10**9
        jax.clear_caches()
        for n in (24, 48):
            results[f"wheel RATTLE {n} dense, us"], results[f"wheel RATTLE {n} dense compile, s"], _ = cost(
                "wheel", n, "RATTLE"
            )
        large.SMALLEST = smallest
        jax.clear_caches()
    for steps in (1_000, 10_000, 100_000):
        results[f"memory of {steps} steps, MiB"] = memory(steps)
    report("scaling", results)


if __name__ == "__main__":
    main()
