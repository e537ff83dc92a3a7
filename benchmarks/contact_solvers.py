"""All solvers of frictional contact problems on the same random problems, and Coulomb–Contensou friction by the shape of
its set: agreement, iterations, seconds per solve.

    python benchmarks/contact_solvers.py
"""

from __future__ import annotations

import measuring  # before jax

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns
from jaxns.solve.inclusion import METHODS

NUMBER, N_MAX = 1000, 20


def random_problems(rng, number, n_max, d):
    """Problems of 1 to n_max contacts; contacts that a problem does not have are open and uncoupled."""
    rows = n_max * (1 + d)
    W = rng.normal(size=(number, rows, rows + 3))
    G, c = W @ W.transpose(0, 2, 1) / rows, rng.normal(size=(number, rows))
    absent = np.arange(n_max)[None] >= rng.integers(1, n_max + 1, number)[:, None]
    gone = np.concatenate([absent, np.repeat(absent, d, axis=1)], axis=1)
    G = np.where(gone[:, :, None] | gone[:, None], np.eye(rows), G)
    return jnp.asarray(G), jnp.asarray(np.where(gone, 1.0, c)), jnp.asarray(rng.uniform(0.0, 0.8, (number, n_max)))


def solver(method, d, law=None, **options):
    return jax.vmap(lambda G, c, mu: ns.solve_contacts(G, c, mu, d=d, law=law, method=method, **options))


def percussions(s):
    return np.concatenate([s.P_N, s.P_F.reshape(s.P_N.shape[0], -1)], axis=1)


def all_solvers(results):
    """Every method on the same problems, planar (with Lemke) and spatial."""
    for d in (1, 2):
        problems = random_problems(np.random.default_rng(1), NUMBER, N_MAX, d)
        reference = None
        for method in METHODS:
            if d > 1 and method in ("lemke", "projected_newton"):  # planar only; here the same as projected Jacobi
                continue
            _, seconds, solution = measuring.measure(solver(method, d, tol=1e-12), *problems, repeats=1)
            P, ok = percussions(solution), np.asarray(solution.status) == ns.Status.OK
            reference = P if reference is None else reference
            name = f"d = {d}, {method}"
            results[f"{name}: solved of {NUMBER}"] = int(ok.sum())
            results[f"{name}: largest difference, 1e-9"] = 1e9 * np.abs(P - reference)[ok].max()
            results[f"{name}: mean iterations"] = float(np.mean(solution.iterations))
            results[f"{name}: µs per solve"] = 1e6 * seconds / NUMBER
            print(f"{name}: {seconds:.2f} s", flush=True)


def contensou(results):
    """The main sphere of the tippe top, at random inclinations, sliding and spinning (Möller 2011, §6.5)."""
    rng = np.random.default_rng(2)
    number = 256
    top = ns.models.tippe_top()
    tilt, turn = rng.uniform(0.05, 1.5, number), rng.uniform(0.0, 2 * np.pi, number)
    quaternion = np.stack([
        np.cos(tilt / 2),
        np.sin(tilt / 2) * np.cos(turn),
        np.sin(tilt / 2) * np.sin(turn),
        0 * turn,
    ])
    q = jnp.asarray(np.concatenate([np.zeros((3, number)), quaternion])).T
    u = jnp.asarray(rng.normal(size=(number, 6)) * np.array([0.3, 0.3, 0.05, 20.0, 20.0, 100.0]))
    rows = jnp.array([0, 2, 3, 4])  # normal and friction of the main sphere, of the rows (N, N, F, F)
    M_inv = jnp.linalg.inv(top.system.M(0.0, q[0]))

    def inclusion(q, u):
        W = top.system.W(0.0, q, u)[:, rows]
        return W.T @ M_inv @ W, (W.T @ u).at[0].set(-jnp.abs(W[:, 0] @ u))

    G, c = jax.vmap(inclusion)(q, u)
    mu = jnp.broadcast_to(0.3 * jnp.array([[1.0, 1.0, 2.945e-4]]), (number, 1, 3))
    for method in ("projected_jacobi", "newton"):
        sphere = None
        for shape in ("sphere", "ellipsoid", "cylinder", "exact"):
            _, seconds, solution = measuring.measure(solver(method, 3, ns.Contensou(shape), max_sweeps=3000), G, c, mu)
            sphere = seconds if sphere is None else sphere
            name = f"Contensou, {method}, {shape}"
            results[f"{name}: unsolved of {number}"] = int(np.sum(np.asarray(solution.status) != ns.Status.OK))
            results[f"{name}: mean iterations"] = float(np.mean(solution.iterations))
            results[f"{name}: µs per solve"] = 1e6 * seconds / number
            results[f"{name}: time / sphere"] = seconds / sphere


def main() -> None:
    for name, study in (("contensou", contensou), ("contact_solvers", all_solvers)):
        results: dict[str, float] = {}
        study(results)
        measuring.report(name, results)


if __name__ == "__main__":
    main()
