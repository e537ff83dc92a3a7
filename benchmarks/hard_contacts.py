"""Runs full of hard contact problems, with every integrator: how each lane ends, and whether INFEASIBLE is right.

    python benchmarks/hard_contacts.py [--only groove] [--integrator Moreau] [--lanes 16]

A verdict INFEASIBLE is checked by contact modes, one linear program each. Where the problem that the step poses is linear
and planar, it is that very problem, read from the equations of the scheme. Else, and with `EventDriven`, it is the impact
problem at the last accepted state: contacts that touch there or within the next step, Newton's law; for schemes that solve
for accelerations, also those of sliding contacts. `EventDriven` first repeats its last row in 2,000 rows, to come close to
the event. The results of several calls are gathered in results/hard_contacts.json.
"""

from __future__ import annotations

import measuring  # noqa: F401  (before jax)

import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import hard_systems
import posed_problems
from contact_modes import planar_solution

SYSTEMS = {
    "groove 11": hard_systems.groove,
    "groove 12": partial(hard_systems.groove, seed=12),
    "groove 13, e = 0.8": partial(hard_systems.groove, seed=13, e=0.8),
    "stack": hard_systems.stack,
    "tall boxes": partial(hard_systems.stack, boxes=3, half=(0.1, 0.5), lanes=32),
    "square": hard_systems.square,
    "cube": hard_systems.cube,
    "cradle": hard_systems.cradle,
    "painleve": hard_systems.painleve,
}
FINE = 2000  # rows instead of one, for EventDriven
STEPS = {"groove": 500, "stack": 100, "tall": 150, "square": 250, "cube": 200, "cradle": 100, "painleve": 250}
INTEGRATORS = {
    type(integrator).__name__: integrator
    for integrator in (
        ns.Moreau(), ns.GGLDecoupled(), ns.GGLUnified(), ns.Rattle(), ns.Lobatto(3), ns.EnergyTwoStep(),
        ns.GeneralizedAlpha(), ns.EventDriven(),
    )
}  # fmt: skip


def is_batched(leaf, lanes):
    """Whether a parameter has an entry for each lane."""
    return np.ndim(leaf) == 1 and len(leaf) == lanes


def axes_of(system, lanes):
    return jax.tree.map(lambda x: 0 if is_batched(x, lanes) else None, system)


def run(system, integrator, q0, u0, dt, steps, axes):
    """Status of every step and the last accepted state of every lane."""

    def one(system, q0, u0):
        traj = ns.simulate(system, integrator, q0, u0, dt=dt, num_steps=steps)
        return traj.status, traj.q[-1], traj.u[-1], traj.iterations

    return jax.jit(jax.vmap(one, in_axes=(axes, 0, 0)))(system, q0, u0)


def has_solution(system, q, u, dt):
    """Whether the impact problem at a state has a solution; None where modes cannot be enumerated."""
    rows = system.rows(0.0, q, u)
    n = rows.n_N
    W, M = np.asarray(system.W(0.0, q, u)), np.asarray(system.M(0.0, q))
    if W.shape[1] not in (n, 2 * n):
        return None
    e_N, e_F, mu = (np.asarray(x) for x in system.coefficients(rows, q.dtype))
    before = W.T @ np.asarray(u)
    after = before + dt * W.T @ np.linalg.solve(M, np.asarray(system.h(0.0, q, u)))
    gap = np.asarray(system.g_N(0.0, q))
    closed = np.flatnonzero(gap + dt * np.minimum(after[:n], 0.0) <= 1e-9)
    if not 0 < len(closed) <= 6:
        return None
    frictional = W.shape[1] == 2 * n
    place = np.concatenate([closed, n + closed]) if frictional else closed
    W, before, after = W[:, place], before[place], after[place]
    e = np.concatenate([e_N[closed], e_F[closed]]) if frictional else e_N[closed]
    G, c = W.T @ np.linalg.solve(M, W), after + e * before
    if not frictional:
        k = len(closed)
        G = np.block([[G, np.zeros((k, k))], [np.zeros((k, k)), np.eye(k)]])
        c, mu = np.concatenate([c, np.zeros(k)]), np.zeros(n)
    return planar_solution(G, c, mu[closed]) is not None


def has_acceleration(system, q, u):
    """The same for accelerations of contacts that slide on, λ_F = −μ sign(γ) λ_N: none in Painlevé's paradox."""
    rows = system.rows(0.0, q, u)
    n = rows.n_N
    W, M = np.asarray(system.W(0.0, q, u)), np.asarray(system.M(0.0, q))
    if W.shape[1] != 2 * n or len(q) != len(u):
        return None
    velocity = W.T @ np.asarray(u)
    closed = np.flatnonzero((np.asarray(system.g_N(0.0, q)) < 1e-6) & (np.abs(velocity[:n]) < 1e-6))
    slip = velocity[n + closed]
    if not 0 < len(closed) <= 6 or np.any(np.abs(slip) < 1e-6):
        return None
    mu = np.asarray(system.coefficients(rows, q.dtype)[2])[closed]
    _, bias = jax.jvp(lambda q: system.g_N_dot(0.0, q, u), (q,), (u,))
    inverse = np.linalg.inv(M)
    normal, sliding = W[:, closed], W[:, closed] - W[:, n + closed] * (mu * np.sign(slip))
    k = len(closed)
    G = np.block([[normal.T @ inverse @ sliding, np.zeros((k, k))], [np.zeros((k, k)), np.eye(k)]])
    c = np.concatenate([np.asarray(bias)[closed] + normal.T @ inverse @ np.asarray(system.h(0.0, q, u)), np.zeros(k)])
    return planar_solution(G, c, np.zeros(k)) is not None


def of_lane(system, lane, lanes):
    return jax.tree.map(lambda x: x[lane] if is_batched(x, lanes) else x, system)


def verdicts(system, integrator, q0, u0, dt, steps, ends, q, u):
    """For each lane that ended INFEASIBLE, whether its problem has a solution after all; None where nobody knows."""
    lanes = np.flatnonzero(ends == ns.Status.INFEASIBLE)
    if not len(lanes):
        return []
    its = jax.tree.map(lambda x: x[lanes] if is_batched(x, len(q0)) else x, system)
    known, axes = {}, axes_of(system, len(q0))
    if isinstance(integrator, ns.EventDriven):
        dt = dt / FINE
        _, q_last, u_last, _ = run(its, integrator, q[lanes], u[lanes], dt, FINE + 1, axes)
    else:
        after = posed_problems.last_steps(its, integrator, q0[lanes], u0[lanes], dt, axes=axes)
        known, q_last, u_last = dict(after(steps).infeasible()), q[lanes], u[lanes]
    result = []
    for k, lane in enumerate(lanes):
        answer = known.get(k)
        if answer is None:
            own = of_lane(system, lane, len(q0))
            answer = has_solution(own, q_last[k], u_last[k], dt)
            if answer and isinstance(integrator, ns.GeneralizedAlpha | ns.EventDriven):
                answer = has_acceleration(own, q_last[k], u_last[k]) is not False
        result.append(answer)
    return result


def measured(system, integrator, q0, u0, dt, steps):
    """Counts of how the lanes ended."""
    begin = time.perf_counter()
    status, q, u, iterations = map(np.asarray, run(system, integrator, q0, u0, dt, steps, axes_of(system, len(q0))))
    seconds = time.perf_counter() - begin
    ends = np.array([row[row != ns.Status.OK][0] if np.any(row != ns.Status.OK) else 0 for row in status])
    answers = verdicts(system, integrator, q0, u0, dt, steps, ends, jnp.asarray(q), jnp.asarray(u))
    return {
        "lanes": len(q0),
        "ok": int(np.sum(ends == ns.Status.OK)),
        "not converged": int(np.sum(ends == ns.Status.NOT_CONVERGED)),
        "infeasible": len(answers),
        "infeasible, without a solution": answers.count(False),
        "infeasible, with a solution": answers.count(True),
        "infeasible, not known": answers.count(None),
        "other": int(np.sum(~np.isin(ends, [ns.Status.OK, ns.Status.NOT_CONVERGED, ns.Status.INFEASIBLE]))),
        "most iterations of a step": int(iterations.max()),
        "seconds with compilation": round(seconds, 1),
    }


def store(results):
    """Beside the results of earlier calls, with the commit of each."""
    path = Path(__file__).parent / "results" / "hard_contacts.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | results, indent=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--integrator", default="")
    parser.add_argument("--lanes", type=int, help="at most so many lanes; nothing is stored then")
    options = parser.parse_args()
    print(f"{'':20s} {'':17s} lanes | ok  NOT_CONV. INFEASIBLE (no solution, has one, unknown) other | it. max | s")
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    results = {}
    for name, make in SYSTEMS.items():
        if options.only not in name:
            continue
        system, q0, u0, dt = make()
        if options.lanes and len(q0) > options.lanes:
            keep = np.linspace(0, len(q0) - 1, options.lanes).astype(int)
            system = jax.tree.map(lambda x, q0=q0, keep=keep: x[keep] if is_batched(x, len(q0)) else x, system)
            q0, u0 = q0[keep], u0[keep]
        for label, integrator in INTEGRATORS.items():
            if options.integrator not in label:
                continue
            try:
                m = measured(system, integrator, q0, u0, dt, STEPS[name.split()[0].rstrip(",")])
            except (ValueError, TypeError, NotImplementedError) as error:
                print(f"{name:20s} {label:17s} does not fit: {str(error)[:70]}", flush=True)
                results[f"{name}: {label}"] = "does not fit"
                continue
            results[f"{name}: {label}"] = {"commit": commit} | m
            kinds = tuple(m[f"infeasible, {kind}"] for kind in ("without a solution", "with a solution", "not known"))
            print(
                f"{name:20s} {label:17s} {m['lanes']:5d} | {m['ok']:4d} {m['not converged']:6d} {m['infeasible']:8d}"
                f" {kinds} {m['other']:5d} | {m['most iterations of a step']:5d} | {m['seconds with compilation']:.0f}",
                flush=True,
            )
            if not options.lanes:
                store(results)


if __name__ == "__main__":
    main()
