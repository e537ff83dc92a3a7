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


def solver(method, d, law=None):
    return jax.vmap(lambda G, c, mu: ns.solve_contacts(G, c, mu, d=d, law=law, method=method, tol=1e-12))


def percussions(s):
    return np.concatenate([s.P_N, s.P_F.reshape(s.P_N.shape[0], -1)], axis=1)


def all_solvers(results):
    """Every method on the same problems, planar (with Lemke) and spatial."""
    for d in (1, 2):
        problems = random_problems(np.random.default_rng(1), NUMBER, N_MAX, d)
        reference = None
        for method in METHODS:
            if method == "lemke" and d > 1:
                continue
            _, seconds, solution = measuring.measure(solver(method, d), *problems, repeats=1)
            P, ok = percussions(solution), np.asarray(solution.status) == ns.Status.OK
            reference = P if reference is None else reference
            name = f"d = {d}, {method}"
            results[f"{name}: solved of {NUMBER}"] = int(ok.sum())
            results[f"{name}: largest difference, 1e-9"] = 1e9 * np.abs(P - reference)[ok].max()
            results[f"{name}: mean iterations"] = float(np.mean(solution.iterations))
            results[f"{name}: µs per solve"] = 1e6 * seconds / NUMBER
            print(f"{name}: {seconds:.2f} s", flush=True)


def contensou(results):
    """One rolling, drilling contact: R̄ = 1 mm, so that μ and μR̄ differ by 10³, as with the tippe top."""
    rng = np.random.default_rng(2)
    number = 2000
    W = rng.normal(size=(number, 4, 6)) * np.array([1.0, 1.0, 1.0, 30.0])[None, :, None]
    G, c = jnp.asarray(W @ W.transpose(0, 2, 1)), rng.normal(size=(number, 4)) * np.array([1.0, 1.0, 1.0, 1e3])
    c[:, 0] = -np.abs(c[:, 0])
    mu = jnp.broadcast_to(0.3 * jnp.array([[1.0, 1.0, 1e-3]]), (number, 1, 3))
    for method in ("projected_jacobi", "newton"):
        sphere = None
        for shape in ("sphere", "ellipsoid", "cylinder", "exact"):
            run = solver(method, 3, ns.Contensou(shape))
            _, seconds, solution = measuring.measure(run, G, jnp.asarray(c), mu)
            sphere = seconds if sphere is None else sphere
            name = f"Contensou, {method}, {shape}"
            results[f"{name}: unsolved of {number}"] = int(np.sum(np.asarray(solution.status) != ns.Status.OK))
            results[f"{name}: mean iterations"] = float(np.mean(solution.iterations))
            results[f"{name}: µs per solve"] = 1e6 * seconds / number
            results[f"{name}: time / sphere"] = seconds / sphere


def main() -> None:
    results: dict[str, float] = {}
    all_solvers(results)
    contensou(results)
    measuring.report("contact_solvers", results)


if __name__ == "__main__":
    main()
