"""Event-driven integration: drift and steps of HEM5 and RKF45, event-capturing against event-driven, cost of derivatives.

    python benchmarks/event_driven.py [--out FOLDER]

1. Four-bar linkage, tolerance 1e-10, drift bound 1e-6, h in [1e-6, 1e-2]: step sizes and drift, `four_bar_steps.png`.
2. Rocking block held on corner A: average h, work, largest |g| and |ġ| for tolerances 1e-2 … 1e-11, in the form of the
   event-driven paper's Tables 1 and 2.
3. Error of Moreau and RATTLE against the event-driven solution.
4. Milliseconds of a run, and of its derivative in both modes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from measuring import measure, report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxns as ns
from jaxns.integrators.levels.acceleration_level import Mode, Motion
from jaxns.integrators.event_driven.loop import RowLoop
from jaxns.integrators.event_driven.state import Theta
from jaxns.simulation.loop import simulate_each_dt


def accepted_steps(problem: ns.Problem, integrator: ns.EventDriven, t1: float) -> dict[str, Any]:
    """All accepted steps of a run without contacts: t, h, |g|, |ġ|, and the number of trials."""
    system, q0, u0 = problem.system, problem.q0, problem.u0
    t, dt = jnp.zeros(()), jnp.asarray(t1)
    row = RowLoop(integrator, system.rows(t, q0, u0))
    motion = Motion(system, Mode.open(row.laws, q0.dtype))
    tolerance, _ = integrator.tolerances(q0.dtype)

    def step(state: Any, h: Any) -> Any:
        t, q, u = state
        end = integrator.smooth.step(motion, t, q, u, jnp.where(h > 0.0, h, 1.0), tolerance)
        t, q, u = (jnp.where(h > 0.0, new, old) for new, old in zip((t + h, end.q, end.u), state, strict=True))
        drift = jnp.max(jnp.abs(system.g(t, q))), jnp.max(jnp.abs(system.g_dot(t, q, u)))
        return (t, q, u), (t, h, *drift)

    @jax.jit
    def run() -> Any:
        memory = integrator.start(system, t, q0, u0, dt)
        outcome, schedule = row.run(Theta(system, t, dt, q0, u0, memory, jnp.asarray(1e-10)), record=True)
        assert schedule is not None
        h = jnp.where(schedule.used & ~schedule.still, schedule.h, 0.0)
        return outcome.status, outcome.effort, lax.scan(step, (t, q0, u0), h)

    status, effort, (end, steps) = run()
    if int(status) != ns.Status.OK:
        print(f"    {integrator.smooth}: {ns.Status(int(status)).message}")
    moved = np.asarray(steps[1]) > 0.0
    names = ("t", "h", "g", "g_dot")
    found = {name: np.asarray(values)[moved] for name, values in zip(names, steps, strict=True)}
    return {**found, "q": np.asarray(end[1]), "effort": effort, "ok": int(status) == ns.Status.OK}


def four_bar(out: Path) -> dict[str, float]:
    import matplotlib.pyplot as plt

    problem = ns.models.four_bar()
    limits = {"rtol": 1e-10, "atol": 1e-10, "error_per": "second", "drift": 1e-6, "h_min": 1e-6, "h_max": 1e-2}
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(7, 8))
    results = {}
    print("four-bar linkage: steps, smallest and mean h, largest |g|, |ġ|")
    for name, smooth in (
        ("HEM5", ns.HEM5()),
        ("HEM5, paper's estimate", ns.HEM5(sharp=False)),
        ("RKF45", ns.RKF45(project=False)),
        ("RKF45, projected", ns.RKF45()),
    ):
        steps = accepted_steps(problem, ns.EventDriven(smooth, max_steps=4000, **limits), problem.t1)
        h, g, g_dot = steps["h"], steps["g"], steps["g_dot"]
        print(f"    {name:24s} {len(h):6d} {h.min():.1e} {h.mean():.1e} {g.max():.1e} {g_dot.max():.1e}")
        results |= {f"four-bar steps, {name}": float(len(h)), f"four-bar log10 |ġ|, {name}": np.log10(g_dot.max())}
        for axis, values in zip(axes, (h, g, g_dot), strict=True):
            axis.semilogy(steps["t"], np.maximum(values, 1e-18), label=name)
    for axis, label in zip(axes, ("h in s", "|g| in m", "|ġ| in m/s"), strict=True):
        axis.set_ylabel(label)
    axes[0].legend()
    axes[-1].set_xlabel("t in s")
    figure.savefig(out / "four_bar_steps.png", dpi=150)
    return results


def rocking_block() -> dict[str, float]:
    problem = ns.models.rocking_block(held=True)
    results = {}
    for name, smooth in (("HEM5", ns.HEM5()), ("RKF45", ns.RKF45(project=False))):
        print(f"rocking block on corner A, {name}: tolerance, average h, work, g_max, ġ_max")
        for k in range(2, 12):
            tol = 10.0**-k
            integrator = ns.EventDriven(smooth, rtol=tol, atol=tol, error_per="second", drift=tol, max_steps=20_000)
            if name == "HEM5":
                integrator = replace(integrator, drift=None)  # it needs no bound
            steps = accepted_steps(problem, replace(integrator, h_min=1e-6), 0.5)
            work = 2 * int(steps["effort"].evaluations)  # evaluations, and as many linear systems
            average = 0.5 / len(steps["h"])
            print(f"    1e-{k:02d} {average:9.2e} {work:8d} {steps['g'].max():9.2e} {steps['g_dot'].max():9.2e}")
            results |= {f"block {name} 1e-{k:02d}: work": float(work), f"block {name} 1e-{k:02d}: h": average}
    return results


def convergence() -> dict[str, float]:
    problems = {
        "ball": (ns.models.bouncing_ball(omega=10.0, e_N=0.5), 1.0),
        "slope 4": (ns.models.mass_on_slope(case=4), 1.0),
        "rocking block": (ns.models.rocking_block(e_N=0.9), 0.5),
        "woodpecker": (ns.models.woodpecker(), 0.13),
    }
    results = {}
    for name, (p, end) in problems.items():
        exact = ns.simulate(p.system, ns.EventDriven(), p.q0, p.u0, dt=end / 8, num_steps=8, check=False)
        size = np.abs(np.asarray(exact.q)).max(axis=0) + 1e-3
        for scheme in (ns.Moreau(), ns.Rattle()):
            counts = tuple(1024 * 2**k for k in range(6))
            runs = simulate_each_dt(p.system, scheme, p.q0, p.u0, end / jnp.array(counts, float), counts)
            errors = [
                np.mean(np.abs(np.asarray(run.q[:: count // 8] - exact.q)) / size)
                for run, count in zip(runs, counts, strict=True)
            ]
            order = -np.polyfit(np.log2(counts), np.log2(errors), 1)[0]
            label = f"{name}, {type(scheme).__name__}"
            print(f"{label:28s} errors", " ".join(f"{e:.1e}" for e in errors), f"order {order:.2f}")
            results[f"order: {label}"] = float(order)
    return results


def cost() -> dict[str, float]:
    results = {}
    for name, p, t1 in (
        ("ball", ns.models.bouncing_ball(e_N=0.5), 1.2),
        ("slider-crank", ns.models.slider_crank(), 0.05),
    ):
        integrator = ns.EventDriven(max_steps=100)

        def end(e_N: Any, p: Any = p, t1: float = t1, integrator: Any = integrator) -> Any:
            system = p.system.with_params(e_N=e_N)
            return jnp.sum(ns.simulate(system, integrator, p.q0, p.u0, dt=t1 / 20, num_steps=20).q[-1])

        for label, function in (
            ("run", end),
            ("forward mode", lambda e, end=end: jax.jvp(end, (e,), (1.0,))),
            ("reverse mode", jax.value_and_grad(end)),
        ):
            compile_seconds, seconds, _ = measure(function, 0.4)
            print(f"{name}, {label}: compiled in {compile_seconds:.1f} s, {1e3 * seconds:.2f} ms")
            results[f"{name}, {label}: ms"] = 1e3 * seconds
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    out = parser.parse_args().out
    out.mkdir(exist_ok=True)
    report("event_driven", four_bar(out) | rocking_block() | convergence() | cost())


if __name__ == "__main__":
    main()
