"""Contact problems by the hundred: what is solved, how accurately, in how many iterations, and whether verdicts are right.

    python benchmarks/contact_suite.py [folder] [--seed 2026]
    python benchmarks/contact_suite.py [folder] --profiles [--siconos python3]

A folder holds .npz sets: count, k_G, k_c, k_mu, k_d, k_name, k_tag. Beside them (solvable or not by k_solvable, by
solvable.json, or by enumeration) come random ones with known answers. All go through `solve_contacts`, one by one and under
`vmap`. `--profiles` times every fifth problem with our methods and, with a Python that has Siconos, with its Gauss–Seidel
(NSGS) and its semismooth Newton (NSN, Alart–Curnier).
"""

from __future__ import annotations

import measuring  # noqa: F401  (before jax)

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import jaxns as ns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import random_contacts
from contact_modes import natural_residual, planar_solution
from random_contacts import ContactProblem

NUMBER, GROOVES = 1000, 400
SIZES = (1, 2, 4, 8, 16, 32, 50)
TOLERANCE = 1e-10
RATIOS = (1, 2, 5, 10, 100)
MAX_SWEEPS = 5000


class Case(NamedTuple):
    problem: ContactProblem
    name: str
    solvable: bool | None  # None: nobody knows


class Outcome(NamedTuple):
    status: int
    iterations: int
    residual: float


def stored_sets(folder: Path) -> dict[str, list[Case]]:
    known = folder / "solvable.json"
    answers = json.loads(known.read_text()) if known.exists() else {}
    sets: dict[str, list[Case]] = {}
    for file in sorted(folder.glob("*.npz")):
        data = np.load(file)
        for k in range(int(data["count"])):
            G, c, mu, d = (data[f"{k}_{name}"] for name in ("G", "c", "mu", "d"))
            d, name, tag = int(d), str(data[f"{k}_name"]), str(data[f"{k}_tag"])
            n = len(c) // (1 + d)
            problem = ContactProblem(G, c, np.broadcast_to(mu.ravel(), (n,)), d, file.stem)
            if f"{k}_solvable" in data:
                solvable = bool(data[f"{k}_solvable"])
            elif name in answers:
                solvable = answers[name][1]
            else:
                solvable = planar_solution(*problem[:3]) is not None if d == 1 and n <= 3 else None
            label = tag if tag == "rover" else file.stem
            sets.setdefault(label, []).append(Case(problem, name, solvable))
    return sets


def random_sets(seed: int) -> dict[str, list[Case]]:
    sets: dict[str, list[Case]] = defaultdict(list)
    for k, problem in enumerate(random_contacts.problems(seed, NUMBER)):
        sets[f"random {problem.kind}, d = {problem.d}"].append(Case(problem, f"random {k}", True))
    rng = np.random.default_rng(seed)
    for k in range(GROOVES):
        problem = random_contacts.groove(rng)
        solvable = planar_solution(*problem[:3]) is not None
        sets["random groove"].append(Case(problem, f"groove {k}", solvable))
    return sets


def size_of(problem: ContactProblem) -> int:
    return next(size for size in SIZES if size >= len(problem.mu))


def padded(problem: ContactProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With open contacts that nothing touches, up to the next size: one program for many problems.

    Neither the largest entry of c nor that of its scaled form, c_k/√G_kk, is changed by them: both are units of the solver.
    """
    n, N, d = len(problem.mu), size_of(problem), problem.d
    place = np.concatenate([np.arange(n), N + np.arange(n * d)])
    diagonal, speed = np.diag(problem.G), np.abs(problem.c)
    largest = np.max(speed) or 1.0
    scaled = np.max(speed / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))) or 1.0
    G, c, mu = (largest / scaled) ** 2 * np.eye(N * (1 + d)), np.zeros(N * (1 + d)), np.zeros(N)
    c[:N] = largest
    G[np.ix_(place, place)], c[place], mu[:n] = problem.G, problem.c, problem.mu
    return G, c, mu


@cache
def program(d: int, method: str, batched: bool):
    def solve(G, c, mu):
        solution = ns.solve_contacts(G, c, mu, d=d, method=method, max_sweeps=MAX_SWEEPS)
        return solution.P_N, solution.P_F, solution.status, solution.iterations

    return jax.jit(jax.vmap(solve) if batched else solve)


def outcome(problem: ContactProblem, P_N, P_F, status, iterations) -> Outcome:
    n = len(problem.mu)
    P = np.concatenate([P_N[:n], P_F[:n].ravel()])
    return Outcome(int(status), int(iterations), natural_residual(*problem[:4], P))


def solve_all(cases: list[Case], batched: bool) -> list[Outcome]:
    groups = defaultdict(list)
    for k, case in enumerate(cases):
        groups[size_of(case.problem), case.problem.d].append(k)
    out: list[Outcome | None] = [None] * len(cases)
    for (_, d), members in groups.items():
        run = program(d, "newton", batched)
        inputs = [padded(cases[k].problem) for k in members]
        if batched:
            results = list(zip(*map(np.asarray, run(*map(np.stack, zip(*inputs, strict=True)))), strict=True))
        else:
            results = [tuple(map(np.asarray, run(*each))) for each in inputs]
        for k, result in zip(members, results, strict=True):
            out[k] = outcome(cases[k].problem, *result)
    return out  # type: ignore[return-value]


HEAD = f"{'set':23s} |     n | solvable | solved | residual | it. median  95 %  max | INFEASIBLE right wrong | missed"


def table_row(name: str, cases: list[Case], outcomes: list[Outcome]) -> str:
    solvable = np.array([case.solvable is not False for case in cases])
    status, iterations, residual = map(np.array, zip(*outcomes, strict=True))
    solved = (status == ns.Status.OK) & (residual <= TOLERANCE)
    said_no = status == ns.Status.INFEASIBLE
    worst = residual[status == ns.Status.OK].max(initial=0.0)
    count = iterations[solved] if solved.any() else np.zeros(1)
    missed = [
        (cases[k].name, ns.Status(status[k]).name) for k in np.flatnonzero(solvable & ~solved | ~solvable & ~said_no)
    ]
    return (
        f"{name:23s} | {len(cases):5d} | {solvable.sum():8d} | {solved.sum():6d} | {worst:8.1e} |"
        f" {np.median(count):10.0f} {np.percentile(count, 95):5.0f} {count.max():4d} |"
        f" {(said_no & ~solvable).sum():16d} {(said_no & solvable).sum():5d} | {len(missed)} {missed[:4] or ''}"
    )


def contract(sets: dict[str, list[Case]]) -> dict[str, list[Outcome]]:
    for batched in (False, True):
        print("under vmap" if batched else "one by one", HEAD, sep="\n")
        found = {name: solve_all(cases, batched) for name, cases in sets.items()}
        for name, cases in sets.items():
            print(table_row(name, cases, found[name]))
        everything = [case for cases in sets.values() for case in cases], [o for each in found.values() for o in each]
        print(table_row("all", *everything), flush=True)
    return found


def seconds_of(method: str, problem: ContactProblem) -> float:
    """The best of three runs, infinite where the problem was not solved."""
    run, arguments = program(problem.d, method, False), padded(problem)
    result = outcome(problem, *map(np.asarray, run(*arguments)))
    if result.residual > TOLERANCE:
        return np.inf
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        jax.block_until_ready(run(*arguments))
        times.append(time.perf_counter() - begin)
    return min(times)


def siconos_seconds(python: str, problems: list[ContactProblem]) -> dict[str, list[float]]:
    """The same with Siconos; a planar contact gets a second friction direction in which nothing moves."""
    places, sizes, given = [], [], {"count": len(problems)}
    for k, problem in enumerate(problems):
        n, d = len(problem.mu), problem.d
        ours = np.concatenate([np.arange(n)[:, None], n + np.arange(n * d).reshape(n, d)], axis=1).ravel()
        theirs = (3 * np.arange(n)[:, None] + np.arange(1 + d)).ravel()
        W, q, size = np.eye(3 * n), np.zeros(3 * n), np.max(np.abs(problem.c))
        W[np.ix_(theirs, theirs)], q[theirs] = problem.G[np.ix_(ours, ours)], problem.c[ours] / size
        given |= {f"{k}_W": W, f"{k}_q": q, f"{k}_mu": problem.mu}
        places.append((ours, theirs))
        sizes.append(size)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("problems.npz", "solutions.npz")]
        np.savez(files[0], **given)
        subprocess.run(
            [python, str(Path(__file__).with_name("siconos_solvers.py")), *files], check=True, capture_output=True
        )
        found = dict(np.load(files[1]))
    seconds: dict[str, list[float]] = {str(name): [] for name in found["names"]}
    for name, times in seconds.items():
        for k, (problem, (ours, theirs), size) in enumerate(zip(problems, places, sizes, strict=True)):
            P = np.zeros(len(ours))
            P[ours] = found[f"{name}_{k}_r"][theirs] * size
            solved = natural_residual(*problem[:4], P) <= TOLERANCE
            times.append(float(found[f"{name}_{k}_seconds"]) if solved else np.inf)
    return seconds


def profiles(sets: dict[str, list[Case]], siconos: str | None) -> None:
    """Dolan and Moré's: the share of problems that a method solves in at most τ times the time of the fastest."""
    problems = [case.problem for each in sets.values() for case in each[::5] if case.solvable]
    times: dict[str, list[float]] = {}
    for method in ("newton", "path", "projected_gauss_seidel", "projected_jacobi", "lemke"):
        times[method] = [
            np.inf if method == "lemke" and (problem.d > 1 or len(problem.mu) > 16) else seconds_of(method, problem)
            for problem in problems
        ]
        print(f"{method}: median {1e6 * np.median(times[method]):.0f} µs", flush=True)
    if siconos:
        times |= siconos_seconds(siconos, problems)
    best = np.min(list(times.values()), axis=0)
    print(
        f"{len(problems)} problems".ljust(24) + " ".join(f"τ = {ratio:<4d}" for ratio in RATIOS) + " solved  median µs"
    )
    for name, seconds in times.items():
        shares = [np.mean(np.isfinite(best) & (np.array(seconds) <= ratio * best)) for ratio in RATIOS]
        row = " ".join(f"{share:8.3f}" for share in shares)
        print(f"{name:24s}{row} {np.mean(np.isfinite(seconds)):6.3f} {1e6 * np.median(seconds):10.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--profiles", action="store_true", help="times of all methods instead of the table")
    parser.add_argument("--siconos", metavar="PYTHON", help="a Python with siconos.numerics, for the profiles")
    parser.add_argument("--seed", type=int, default=2026, help="of the random problems")
    options = parser.parse_args()
    sets = (stored_sets(options.folder) if options.folder else {}) | random_sets(options.seed)
    if options.profiles:
        profiles(sets, options.siconos)
    else:
        contract(sets)


if __name__ == "__main__":
    main()
