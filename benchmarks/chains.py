"""Growth of the cost with the length of a chain of hinges, in coordinates of joints.

    python benchmarks/chains.py [--bodies] [--quick]

Microseconds per step and seconds of compilation (trace, lower, compile) of a planar and a spatial chain of 4 … 64 hinges
with RATTLE, and the exponents a of cost ∝ n^a, fitted to all sizes. With --bodies the same in coordinates of bodies.
"""

from __future__ import annotations

import argparse
from typing import Any

from measuring import measure, report  # first: it sets up XLA

import jax
import numpy as np

import jaxns as ns

STEPS = 200
SIZES = (4, 8, 16, 32, 64)


def chain(n: int, d: int, coordinates: str) -> ns.Mechanism:
    """Links of 0.2 m that begin level; in space their axes alternate."""
    parts: list[Any] = []
    for k in range(n):
        rest = (0.0,) * (d - 1)
        before, inertia = ("ground" if k == 0 else f"link{k - 1}"), (1e-3 if d == 2 else (1e-4, 1e-3, 1e-3))
        axis = {} if d == 2 else {"axis": (0.0, 1.0, 0.0) if k % 2 else (0.0, 0.6, 0.8)}
        parts.append(ns.Body(f"link{k}", 0.3, inertia, position=(0.2 * k + 0.1, *rest)))
        parts.append(ns.Revolute(before, f"link{k}", at=(0.2 * k, *rest), damping=1e-3, **axis))
    return ns.Mechanism(*parts, gravity=(*(0.0,) * (d - 1), -9.81), coordinates=coordinates)


def cost(mechanism: ns.Mechanism) -> tuple[float, float]:
    """Microseconds per step and compile seconds."""

    def run(q0: jax.Array, u0: jax.Array) -> Any:
        return ns.simulate(mechanism.system, ns.Rattle(), q0, u0, dt=1e-4, num_steps=STEPS, save_every=STEPS)

    compile_seconds, seconds, traj = measure(run, mechanism.q0, mechanism.u0, repeats=3)
    assert bool(traj.ok)
    return 1e6 * seconds / STEPS, compile_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bodies", action="store_true", help="also in coordinates of bodies")
    parser.add_argument("--quick", action="store_true", help="leave out the largest size")
    options = parser.parse_args()
    sizes = SIZES[:-1] if options.quick else SIZES
    results: dict[str, Any] = {}
    for coordinates in ("joints", "bodies")[: 2 if options.bodies else 1]:
        for d, where in ((2, "plane"), (3, "space")):
            costs = []
            for n in sizes:
                costs.append(cost(chain(n, d, coordinates)))
                name = f"{where} {coordinates} {n}"
                results[f"{name}, us"], results[f"{name} compile, s"] = costs[-1]
                print(f"{name}: {costs[-1][0]:.1f} us per step, compiled in {costs[-1][1]:.1f} s", flush=True)
            for what, values in zip(("step", "compile"), np.array(costs).T, strict=True):
                exponent = np.polyfit(np.log(sizes), np.log(values), 1)[0]
                results[f"{where} {coordinates} {what} exponent"] = float(exponent)
    report("chains", results)


if __name__ == "__main__":
    main()
