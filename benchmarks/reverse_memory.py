"""Memory of a reverse pass over long runs: it must grow no faster than the square root of the number of steps.

    python benchmarks/reverse_memory.py

Differentiates the end state of the slider-crank after 1,250 … 50,000 steps of RATTLE, of which only the last row is
saved, and prints the temporary memory that XLA plans for the compiled gradient and the exponent fitted to its growth.
With --run the longest gradient is also executed, and what it adds to the peak resident memory printed; the peak before it
is that of the compiler. `--counts 50000` looks at one number of steps alone.
"""

from __future__ import annotations

import argparse
import os
import resource

os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

PROBLEM = ns.models.slider_crank()


def loss(mu: jax.Array, steps: int) -> jax.Array:
    system = PROBLEM.system.with_params(mu=mu)
    traj = ns.simulate(system, ns.Rattle(), PROBLEM.q0, PROBLEM.u0, dt=1e-5, num_steps=steps, save_every=steps)
    return jnp.sum(traj.q[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--counts", type=int, nargs="+", default=[1250, 5000, 20000, 50000])
    options = parser.parse_args()
    counts = options.counts
    sizes = []
    for steps in counts:
        compiled = jax.jit(jax.grad(lambda mu, steps=steps: loss(mu, steps))).lower(jnp.asarray(0.01)).compile()
        sizes.append(compiled.memory_analysis().temp_size_in_bytes)
        print(f"{steps:6d} steps: {sizes[-1] / 2**20:8.3f} MiB of temporaries", flush=True)
    if len(counts) > 1:
        exponent = np.polyfit(np.log(counts), np.log(sizes), 1)[0]
        print(f"growth exponent {exponent:.3f} (0.5 is a square root)")
    if options.run:
        before = peak()
        print("gradient", float(compiled(jnp.asarray(0.01))))
        print(f"peak resident memory {before:.0f} MiB after compilation, {peak():.0f} MiB after the run")


def peak() -> float:
    """Peak resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
