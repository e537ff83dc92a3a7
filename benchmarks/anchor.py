"""Speed of the fixed-step integrators on slider-crank and ball beside a hand-written C++ program, in one run.

    python benchmarks/anchor.py [--anchor slider_crank.cpp] [--steps 1500] [--all]

Prints microseconds per step for one trajectory, and per trajectory-step for batches of 256 and 2048 with friction
coefficients 0 … 0.1, compile seconds, and the cost of a gradient relative to a forward run. Batches are split over one
virtual CPU device per core and, on each, into chunks whose arrays stay in the cache. The C++ program (one core, compiled
with g++ -O3 -march=native) is measured before and after. On equal terms: "per core" is processor time of a plain
`jax.vmap`, compiled as `sweep` and `identify` compile, over the time of the C++ program. With --all, batches of all
fixed-step integrators follow, on the slider-crank and on the ball (300 steps). The results are stored as JSON in
benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from measuring import CORES, measure, report  # first: it sets up XLA

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

import jaxns as ns
from jaxns.host.compiler import compiler_options

CHUNK = 64  # lanes whose working set fits the cache of one core
PROBLEM = ns.models.slider_crank()
MESH, BATCH = jax.make_mesh((CORES,), ("batch",)), PartitionSpec("batch")
INTEGRATOR = ns.Rattle(tol=1e-8)  # the tolerance of the C++ program
ALL = {
    "Moreau": ns.Moreau(tol=1e-8),
    "GGLDecoupled": ns.GGLDecoupled(tol=1e-8),
    "GGLUnified": ns.GGLUnified(tol=1e-8),
    "Rattle": INTEGRATOR,
    "Lobatto 2": ns.Lobatto(stages=2, tol=1e-8),
    "Lobatto 3": ns.Lobatto(stages=3, tol=1e-8),
    "Lobatto 4": ns.Lobatto(stages=4, tol=1e-8),
    "GeneralizedAlpha": ns.GeneralizedAlpha(tol=1e-8),
    "EnergyTwoStep": ns.EnergyTwoStep(tol=1e-8),
}
PROBLEMS = {"slider-crank": PROBLEM, "ball": ns.models.bouncing_ball(omega=10.0)}


def final_state(
    mu: jax.Array, steps: int, save_every: int, integrator: Any = INTEGRATOR, problem: ns.Problem = PROBLEM
) -> jax.Array:
    system = problem.system.with_params(mu=mu)
    traj = ns.simulate(
        system, integrator, problem.q0, problem.u0, dt=problem.dt, num_steps=steps, save_every=save_every
    )
    return jnp.where(traj.ok, jnp.concatenate([traj.q[-1], traj.u[-1]]), jnp.nan)


def split_over_cores(function: Any) -> Any:
    """The batch over all devices, each device in chunks."""

    def local(mus: jax.Array) -> jax.Array:
        out = jax.lax.map(jax.vmap(function), mus.reshape(-1, min(CHUNK, mus.shape[0])))
        return out.reshape(mus.shape[0], *out.shape[2:])

    return jax.shard_map(local, mesh=MESH, in_specs=BATCH, out_specs=BATCH, check_vma=False)


def anchor(program: Path, lanes: int, steps: int) -> float:
    """Microseconds per trajectory-step of the C++ program."""
    runs = [
        subprocess.run([program, str(lanes), str(steps)], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    return min(json.loads(run.stdout)["us_per_step"] for run in runs)


def per_core(lanes: int, steps: int) -> float:
    """Microseconds of processor time per trajectory-step of a plain `jax.vmap`, with jaxns' own options of XLA."""
    mus = jnp.linspace(0.0, 0.1, lanes)
    batch = jax.jit(jax.vmap(lambda mu: final_state(mu, steps, steps)), compiler_options=compiler_options())
    program = batch.lower(mus).compile()
    jax.block_until_ready(program(mus))
    least = math.inf
    for _ in range(3):
        begin = time.process_time()
        jax.block_until_ready(program(mus))
        least = min(least, time.process_time() - begin)
    return 1e6 * least / steps / lanes


def every_integrator(mus: jax.Array, steps: int = 300) -> dict[str, float]:
    """Microseconds per trajectory-step in a batch, and the share of lanes that converged."""
    results = {}
    for where, problem in PROBLEMS.items():
        for name, integrator in ALL.items():
            end = partial(final_state, steps=steps, save_every=steps, integrator=integrator, problem=problem)
            compile_seconds, seconds, state = measure(split_over_cores(end), mus, repeats=3)
            results[f"{where}, {name}: us"] = 1e6 * seconds / steps / len(mus)
            results[f"{where}, {name}: converged"] = float(jnp.mean(jnp.all(jnp.isfinite(state), axis=1)))
            results[f"{where}, {name}: compile, s"] = compile_seconds
            print(f"{where}, {name}: {results[f'{where}, {name}: us']:.2f} us", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--anchor", type=Path, default=Path("../shared/anchors/slider_crank.cpp"))
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--all", action="store_true", help="batches of all fixed-step integrators, too")
    options = parser.parse_args()
    steps = options.steps
    results: dict[str, Any] = {}

    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "slider_crank"
        has_anchor = options.anchor.exists()
        if has_anchor:
            subprocess.run(["g++", "-O3", "-march=native", options.anchor, "-o", program], check=True)
            results["cpp one trajectory, us"] = anchor(program, 1, 20 * steps)
            results["cpp batch 256, us"] = anchor(program, 256, steps)

        mu = jnp.asarray(0.01)
        compile_one, seconds, _ = measure(lambda mu: final_state(mu, steps, steps), mu)
        results["compile one, s"] = compile_one
        results["one trajectory, us"] = 1e6 * seconds / steps

        def loss(mu: jax.Array) -> jax.Array:
            return jnp.sum(final_state(mu, steps, 1))

        _, forward, _ = measure(loss, mu)
        compile_gradient, gradient, _ = measure(jax.value_and_grad(loss), mu)
        results["gradient/forward, one"] = gradient / forward
        results["compile gradient, s"] = compile_gradient

        for lanes in (96, 256, 2048):
            results[f"batch {lanes}, us per core"] = per_core(lanes, steps // 3)
        for lanes in (256, 2048):
            mus = jax.device_put(jnp.linspace(0.0, 0.1, lanes), NamedSharding(MESH, BATCH))
            compile_batch, seconds, state = measure(split_over_cores(lambda mu: final_state(mu, steps, steps)), mus)
            results[f"compile batch {lanes}, s"] = compile_batch
            results[f"batch {lanes}, us"] = 1e6 * seconds / steps / lanes
            results[f"converged lanes {lanes}"] = float(jnp.mean(jnp.all(jnp.isfinite(state), axis=1)))

        short = steps // 5
        mus = jax.device_put(jnp.linspace(0.005, 0.1, 256), NamedSharding(MESH, BATCH))

        def short_loss(mu: jax.Array) -> jax.Array:
            return jnp.sum(final_state(mu, short, 1))

        _, forward, _ = measure(split_over_cores(short_loss), mus)
        _, gradient, _ = measure(split_over_cores(jax.grad(short_loss)), mus)
        results["gradient/forward, batch 256"] = gradient / forward
        if options.all:
            results |= every_integrator(mus)
        if has_anchor:
            results["cpp batch 256 again, us"] = anchor(program, 256, steps)
            reference = max(results["cpp batch 256, us"], results["cpp batch 256 again, us"])
            for lanes in (256, 2048):
                results[f"batch {lanes} / cpp"] = results[f"batch {lanes}, us"] / reference
            fastest = min(results["cpp batch 256, us"], results["cpp batch 256 again, us"])
            for lanes in (96, 256, 2048):
                results[f"batch {lanes} / cpp, per core"] = results[f"batch {lanes}, us per core"] / fastest
    report("anchor", results)


if __name__ == "__main__":
    main()
