"""Speed of RATTLE on the slider-crank beside a hand-written C++ program, in one run.

    python benchmarks/throughput.py [--anchor slider_crank.cpp] [--steps 1500]

Prints microseconds per step for one trajectory, and per trajectory-step for batches of 256 and 2048 with friction
coefficients 0 … 0.1, compile seconds, and the cost of a gradient relative to a forward run. Batches are split over one
virtual CPU device per core and, on each, into chunks whose arrays stay in the cache. The C++ program (one core, compiled
with g++ -O3 -march=native) is measured before and after; a table of ratios follows, and the results are stored as JSON
in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CORES = os.cpu_count() or 1
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={CORES}"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

import jaxns as ns

REPEATS = 5
CHUNK = 64  # lanes whose working set fits the cache of one core
PROBLEM = ns.models.slider_crank()
MESH, BATCH = jax.make_mesh((CORES,), ("batch",)), PartitionSpec("batch")
INTEGRATOR = ns.Rattle(tol=1e-8)  # the tolerance of the C++ program


def final_state(mu: jax.Array, steps: int, save_every: int) -> jax.Array:
    system = PROBLEM.system.with_params(mu=mu)
    traj = ns.simulate(
        system, INTEGRATOR, PROBLEM.q0, PROBLEM.u0, dt=PROBLEM.dt, num_steps=steps, save_every=save_every
    )
    return jnp.where(traj.ok, jnp.concatenate([traj.q[-1], traj.u[-1]]), jnp.nan)


def measure(function: Any, argument: jax.Array) -> tuple[float, float, Any]:
    """Compile seconds (trace, lower, compile), best run seconds, result."""
    begin = time.perf_counter()
    compiled = jax.jit(function).lower(argument).compile()
    compile_seconds = time.perf_counter() - begin
    result = jax.block_until_ready(compiled(argument))
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(argument))
        seconds.append(time.perf_counter() - begin)
    return compile_seconds, min(seconds), result


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--anchor", type=Path, default=Path("../shared/anchors/slider_crank.cpp"))
    parser.add_argument("--steps", type=int, default=1500)
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
        if has_anchor:
            results["cpp batch 256 again, us"] = anchor(program, 256, steps)
            reference = max(results["cpp batch 256, us"], results["cpp batch 256 again, us"])
            for lanes in (256, 2048):
                results[f"batch {lanes} / cpp"] = results[f"batch {lanes}, us"] / reference
    report(results)


def report(results: dict[str, Any]) -> None:
    for name, value in results.items():
        print(f"{name:32s} {value:10.3f}")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    record = {"commit": commit, "machine": platform.processor() or platform.machine(), "cores": CORES, **results}
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "throughput.json").write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
