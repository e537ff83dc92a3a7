"""Located impacts beside the plain scheme: orders of value and derivative, energy, run time and compile time.

    python benchmarks/located.py [orders] [energy] [costs]

Orders are those of the RMS over 16 phases of the first impact within the step, against event-driven integration at 1e-12.
Costs are ratios to plain RATTLE in the same process: slider-cranks with different e_N, all impacts of the first 30 ms.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import located_cases as cases

SCHEMES = {"Rattle": ns.Rattle(), "Moreau": ns.Moreau(), "Lobatto(3)": ns.Lobatto(3)}
CASES = {
    "ball, 1 impact": lambda: cases.ball(1),
    "ball, 3 impacts": lambda: cases.ball(3),
    "ball, 10 impacts": lambda: cases.ball(10),
    "two balls, 1 impact": lambda: cases.two_balls(1),
    "two balls, 3 impacts": lambda: cases.two_balls(3),
    "pendulum at a wall": cases.pendulum,
    "disc that slides": lambda: cases.disc(0.1),
    "disc that sticks": lambda: cases.disc(2.0),
    "slider-crank, 3 impacts": cases.slider_crank,
}
HALVINGS = 2


def orders() -> dict[str, float]:
    results = {}
    for label, make in CASES.items():
        case = make()
        exact = cases.both(case, ns.EventDriven(rtol=1e-12, atol=1e-12), case.ticks)
        for name, scheme in SCHEMES.items():
            errors = cases.errors(case, ns.Located(scheme), HALVINGS, exact)
            found = np.log2(errors[:, :-1] / errors[:, 1:])
            print(f"{label:26s} {name:12s} values {found[0].round(2)} derivatives {found[1].round(2)}", flush=True)
            for what, order in zip(("value", "derivative"), found[:, -1], strict=True):
                results[f"{label}, {name}: order of {what}"] = float(order)
            results[f"{label}, {name}: error of derivative"] = float(errors[1, -1])
    return results


def energy() -> dict[str, float]:
    """Elastic ball on a spring, a thousand impacts."""
    system = cases.ball(1).system.with_params(e_N=1.0, damping=0.0)
    results = {}
    for dt in (0.02, 0.01):
        traj = ns.simulate(system, ns.Located(ns.Rattle()), jnp.array([1.0]), jnp.zeros(1), dt=dt, t1=900.0)
        E = np.asarray(ns.energy(system, traj).total) / float(ns.energy(system, traj).total[0]) - 1.0
        tenth = len(E) // 10
        results[f"energy, dt {dt}: impacts"] = int(traj.events.count)
        results[f"energy, dt {dt}: log10 of the trend"] = np.log10(abs(E[-tenth:].mean() - E[:tenth].mean()))
        results[f"energy, dt {dt}: log10 of the band"] = np.log10(np.abs(E).max())
    return results


def end(e_N: Any, integrator: Any, dt: float) -> Any:
    crank = ns.models.slider_crank()
    traj = ns.simulate(crank.system.with_params(e_N=e_N), integrator, crank.q0, crank.u0, dt=dt, num_steps=300)
    return jnp.sum(traj.q[-1]) + 1e-3 * jnp.sum(traj.u[-1]) + 0.0 * jnp.sum(~traj.ok)


def costs() -> dict[str, float]:
    results: dict[str, float] = {}
    runs: dict[str, dict[str, Any]] = {}
    for lanes, dt, what in (
        (96, 1e-4, "fwd"),
        (256, 1e-4, "fwd"),
        (96, 3e-6, "fwd"),
        (96, 1e-4, "grad"),
        (1, 1e-4, "fwd"),
    ):
        for name, integrator in (("plain", ns.Rattle()), ("located", ns.Located(ns.Rattle()))):
            one = lambda e, i=integrator, dt=dt: end(e, i, dt)  # noqa: E731
            function = jax.grad(one) if what == "grad" else one
            start = jnp.linspace(0.3, 0.5, lanes)
            begin = time.process_time()
            if lanes == 1:
                program = jax.jit(function).lower(start[0]).compile()
                start = start[0]
            else:
                program = jax.jit(jax.vmap(function)).lower(start).compile()
            label = f"{lanes} cranks, dt {dt:g}, {what}"
            results[f"{label}, {name}: compile s"] = time.process_time() - begin
            runs.setdefault(label, {})[name] = (program, start)
    for label, pair in runs.items():
        best = dict.fromkeys(pair, np.inf)
        for _ in range(6):  # they take turns
            for name, (program, start) in pair.items():
                begin = time.perf_counter()
                jax.block_until_ready(program(start))
                best[name] = min(best[name], time.perf_counter() - begin)
        results[f"{label}: plain ms"] = 1e3 * best["plain"]
        results[f"{label}: located / plain"] = best["located"] / best["plain"]
        compiled = [results[f"{label}, {name}: compile s"] for name in ("located", "plain")]
        results[f"{label}: compile, located / plain"] = compiled[0] / compiled[1]
    forward, gradient = (
        results[f"96 cranks, dt 0.0001, {k}: located / plain"] * results[f"96 cranks, dt 0.0001, {k}: plain ms"]
        for k in ("fwd", "grad")
    )
    results["96 cranks: located gradient / located run"] = gradient / forward
    return results


def main() -> None:
    wanted = sys.argv[1:] or ["orders", "energy", "costs"]
    results: dict[str, Any] = {}
    for name in wanted:
        results |= {"orders": orders, "energy": energy, "costs": costs}[name]()
    report("located", results, update=len(wanted) < 3)


if __name__ == "__main__":
    main()
