"""Runs full of hard contact problems, with every integrator: how each lane ends, and whether INFEASIBLE is right.

    python benchmarks/hard_contacts.py [--only groove] [--integrator Moreau] [--lanes 16]

A verdict INFEASIBLE is checked on the impact problem at the last accepted state: contacts that touch there or within the
next step, Newton's law, all contact modes by linear programs (planar systems with at most six such contacts). For schemes
that solve for accelerations, the same is asked of the accelerations of sliding contacts.
"""

from __future__ import annotations

import measuring  # noqa: F401  (before jax)

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np

import jaxns as ns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import hard_systems
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


def run(system, integrator, q0, u0, dt, steps):
    """Status of every step and the last accepted state of every lane."""
    axes = jax.tree.map(lambda x: 0 if is_batched(x, len(q0)) else None, system)

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--integrator", default="")
    parser.add_argument("--lanes", type=int, help="at most so many lanes")
    options = parser.parse_args()
    print(f"{'':20s} {'':17s} lanes | ok  NOT_CONV. INFEASIBLE (no solution, has one, unknown) other | it. max | s")
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
            begin = time.perf_counter()
            try:
                result = run(system, integrator, q0, u0, dt, STEPS[name.split()[0].rstrip(",")])
            except (ValueError, TypeError, NotImplementedError) as error:
                print(f"{name:20s} {label:17s} does not fit: {str(error)[:70]}", flush=True)
                continue
            status, q, u, iterations = map(np.asarray, result)
            ends = np.array([row[row != ns.Status.OK][0] if np.any(row != ns.Status.OK) else 0 for row in status])
            verdicts = []
            for lane in np.flatnonzero(ends == ns.Status.INFEASIBLE):
                its = jax.tree.map(
                    lambda x, lane=lane, status=status: x[lane] if is_batched(x, len(status)) else x, system
                )
                answer = has_solution(its, q[lane], u[lane], dt)
                if answer and label in ("GeneralizedAlpha", "EventDriven"):  # these ask for accelerations, too
                    answer = has_acceleration(its, q[lane], u[lane]) is not False
                verdicts.append(answer)
            counts = [verdicts.count(answer) for answer in (False, True, None)]
            other = np.sum(~np.isin(ends, [ns.Status.OK, ns.Status.NOT_CONVERGED, ns.Status.INFEASIBLE]))
            print(
                f"{name:20s} {label:17s} {len(q0):5d} | {np.sum(ends == 0):4d} {np.sum(ends == 1):6d} {len(verdicts):8d}"
                f" ({counts[0]}, {counts[1]}, {counts[2]}) {other:5d} | {iterations.max():5d} |"
                f" {time.perf_counter() - begin:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
