"""Random starts and parameters on every model with every integrator: is each accepted step what its scheme promises?

    python benchmarks/fuzz.py [--budget 1000000] [--lanes 64] [--model slider_crank] [--integrator Rattle] [--seed 0]

Every step converges or is flagged. Each accepted step is judged by tests/step_laws.py, which is plain numpy and holds the
table of what each scheme promises: finite values, gaps, constraints, no percussion on open contacts, complementarity,
friction in its set and against the slip, energy. A defect is given in units of the solver's tolerance (1e-10).

It must show: 99.99 % of the steps converge, and no accepted step breaks a law by more than 100 tolerances. The verdict
INFEASIBLE counts as not converged, as nobody checks it here. A lane whose step fails is not run any further, so that a
scheme that fails often has fewer steps. "touching" are the accepted steps with a percussion at a contact. Results go to
benchmarks/results/fuzz.json.
"""

from __future__ import annotations

import os

# Few steps for each program: compilation is what costs.
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}"
os.environ["JAX_ENABLE_X64"] = "1"

import argparse
import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from random_starts import random_states, random_systems
from random_states import slider_crank_starts
from step_laws import LAWS, defects, steps_of

LIMIT = 100.0  # tolerances
SHARE = 0.9999


class Model(NamedTuple):
    """A model, how far its starts lie from its own, and its step size."""

    make: Any
    q: Any
    u: Any
    dt: float
    events: bool = False  # whether EventDriven runs it, too


m = ns.models
MODELS = {
    "ball_chain": Model(partial(m.ball_chain, n=4), 0.02, 1.0, 1e-3, True),
    "bouncing_ball": Model(m.bouncing_ball, [0.1, 0.5, 1.0], [1.0, 1.0, 20.0], 1e-2, True),
    "double_pendulum": Model(m.double_pendulum, 0.3, 2.0, 5e-3, True),
    "edge_sphere": Model(m.edge_sphere, [0.3, 0.1], 1.0, 5e-3),
    "four_bar": Model(m.four_bar, 0.1, 1.0, 1e-2),
    "impact_oscillator": Model(m.impact_oscillator, [5e-3, 1e-4], [0.5, 0.1], 2e-5, True),
    "mass_on_slope": Model(m.mass_on_slope, 0.5, 1.0, 5e-3, True),
    "overbalanced_wheel": Model(partial(m.overbalanced_wheel, n=4), 0.05, 1.0, 1e-3),
    "rocking_block": Model(m.rocking_block, [0.1, 0.05, 0.3], [0.5, 0.5, 3.0], 5e-3, True),
    "slider_crank": Model(m.slider_crank, [0, 0, 0.5, 0, 0, 0.2, 0, 0, 0.01], 10.0, 1e-4),
    "slider_crank_bilateral": Model(m.slider_crank_bilateral, 0.3, 10.0, 1e-4),
    "slider_crank_minimal": Model(m.slider_crank_minimal, [0.02, 0.01, 0.01], 10.0, 5e-5),
    "sprag_clutch": Model(m.sprag_clutch, 0.05, 1.0, 1e-2),
    "tippe_top": Model(m.tippe_top, [0, 0, 2e-3, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 30, 30, 30], 2e-4),
    "tippedisk": Model(m.tippedisk, [0, 0, 5e-3, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 10, 10, 10], 5e-4),
    "woodpecker": Model(m.woodpecker, [0, 0.05, 0.2], [0.3, 3, 5], 5e-5, True),
    "violent": Model(m.slider_crank, None, None, 1e-3),  # crank and slider turn with a deviation of 100 rad/s
}
INTEGRATORS = [
    ns.Moreau(), ns.GGLDecoupled(), ns.GGLUnified(), ns.Rattle(), ns.Lobatto(3), ns.GeneralizedAlpha(),
    ns.EnergyConstantMass(), ns.EnergyCoordinateMass(), ns.EnergyDecomposedMass(), ns.EnergyTwoStep(),
    ns.EnergyQuaternion(), ns.EnergyQuaternionTwoStep(), ns.EventDriven(),
]  # fmt: skip


def starts(name: str, lanes: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Systems, q0, u0 and dt, each with an axis of lanes."""
    model = MODELS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    problem = model.make()
    systems = random_systems(problem.system, lanes, rng)
    dt = jnp.asarray(model.dt * np.exp(rng.uniform(np.log(0.3), np.log(1.5), lanes)))
    if name == "violent":
        q, u, mu = slider_crank_starts(problem, lanes, seed, violent=True)
        params = {name: jnp.broadcast_to(value, (lanes,)) for name, value in problem.system.params.items()}
        return problem.system.with_tree({**params, "mu": mu}), q, u, jnp.full((lanes,), model.dt)
    return *random_states(systems, problem.q0, problem.u0, model.q, model.u, rng), dt


def fits(system: Any, integrator: Any, q0: Any, u0: Any) -> bool:
    """Whether the scheme is made for the system: those that are not say so."""
    try:
        jax.eval_shape(lambda *start: ns.simulate(system, integrator, *start, dt=1e-3, num_steps=1), q0, u0)
    except (ValueError, TypeError):
        return False
    return True


def run(systems: Any, integrator: Any, q0: Any, u0: Any, dt: Any, num_steps: int) -> Any:
    """One trajectory for each lane."""

    def one(system: Any, q0: Any, u0: Any, dt: Any) -> Any:
        return ns.simulate(system, integrator, q0, u0, dt=dt, num_steps=num_steps)

    return jax.jit(jax.vmap(one))(systems, q0, u0, dt)


def judge(systems: Any, integrator: Any, traj: Any) -> dict[str, Any]:
    """How many steps ended how, and the worst defect of the accepted ones by law, with its place."""
    status = np.asarray(traj.status)
    accepted = status == ns.Status.OK
    steps = steps_of(systems, traj)
    worst, broken = {}, np.zeros(status.shape, bool)
    for law, defect in defects(steps, type(integrator).__name__).items():
        defect = np.where(accepted, np.where(np.isnan(defect), np.inf, defect), 0.0)
        broken |= defect > LIMIT
        lane, step = np.unravel_index(np.argmax(defect), defect.shape)
        worst[law] = (float(defect[lane, step]), int(lane), int(step))
    counts = {code.name: int(np.sum(status == code)) for code in ns.Status}
    first = [(int(i), int(np.argmax(row != 0)), ns.Status(int(row[row != 0][0])).name)
             for i, row in enumerate(status) if np.any(row)]  # fmt: skip
    touching = np.any(np.asarray(traj.P_N)[:, 1:] > 0.0, axis=-1) | np.any(
        np.asarray(traj.P_F)[:, 1:] != 0.0, axis=(-2, -1)
    )
    counts["touching"] = int(np.sum(accepted & touching))
    return {"counts": counts, "worst": worst, "broken": int(np.sum(broken)), "failed": first}


def converged(ends: dict[str, int]) -> float:
    """The share of the steps that were tried and converged."""
    return ends["accepted"] / max(1, ends["accepted"] + ends["failed"] + ends["infeasible"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=1_000_000, help="steps of all programs together")
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--model", default="")
    parser.add_argument("--integrator", default="")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="coupled contacts")
    programs = []
    for name in (name for name in MODELS if options.model in name):
        problem = MODELS[name].make()
        for integrator in (i for i in INTEGRATORS if options.integrator in type(i).__name__):
            wanted = not isinstance(integrator, ns.EventDriven) or MODELS[name].events
            if wanted and fits(problem.system, integrator, problem.q0, problem.u0):
                programs.append((name, integrator))
    num_steps = max(1, -(-options.budget // (len(programs) * options.lanes)))
    print(f"{len(programs)} programs of {options.lanes} lanes and {num_steps} steps; worst defects in tolerances")
    total = dict.fromkeys(("accepted", "touching", "failed", "infeasible", "broken"), 0)
    results: dict[str, Any] = {}
    last = ""
    for name, integrator in programs:
        begin = time.perf_counter()
        if name != last:  # functions of a model are evaluated by the same programs for all integrators
            jax.clear_caches()
            last = name
        systems, q0, u0, dt = starts(name, options.lanes, options.seed)
        found = judge(systems, integrator, run(systems, integrator, q0, u0, dt, num_steps))
        counts = found["counts"]
        new = {
            "accepted": counts["OK"],
            "touching": counts["touching"],
            "infeasible": counts["INFEASIBLE"],
            "broken": found["broken"],
        }
        new["failed"] = sum(counts[k.name] for k in ns.Status if k.name not in ("OK", "STOPPED", "INFEASIBLE"))
        total = {k: total[k] + new[k] for k in total}
        label = f"{name} {type(integrator).__name__}"
        worst = {law: found["worst"][law] for law in LAWS if found["worst"][law][0] > 1.0}
        results[label] = {**new, "worst": {law: value for law, (value, _, _) in found["worst"].items() if value > 1.0}}
        line = "  ".join(f"{law} {value:.3g} ({lane}, {step})" for law, (value, lane, step) in worst.items())
        ends = f"ok {new['accepted']:6d} failed {new['failed']:3d} infeasible {new['infeasible']:3d} broken {new['broken']}"
        print(
            f"{label:44s} {ends} | {time.perf_counter() - begin:4.0f} s | {line} {found['failed'][:3] or ''}",
            flush=True,
        )
    for scheme in dict.fromkeys(type(integrator).__name__ for _, integrator in programs):
        own = [result for label, result in results.items() if label.split()[1] == scheme]
        ends = {k: sum(result[k] for result in own) for k in total}
        print(f"{scheme:24s} {ends}; converged {100 * converged(ends):.4f} %")
    share = converged(total)
    print(f"{total}; converged {100 * share:.4f} %: {'holds' if share >= SHARE and not total['broken'] else 'FAILS'}")
    if not options.model and not options.integrator:
        file = ROOT / "benchmarks" / "results" / "fuzz.json"
        file.write_text(json.dumps({"seed": options.seed, **total, "converged": share, "programs": results}, indent=1))


if __name__ == "__main__":
    main()
