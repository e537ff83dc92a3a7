"""Identification from many synthetic records of a planar box: time against their number, and errors by repetition.

    python benchmarks/many_records.py [scaling] [repetitions] [--repeats R]

`repetitions`: 100 drops with 2 mm and 0.02 rad of noise and 5 % gross outliers, e_N, μ and the inertia shared, initial
states own, event-driven prediction, "cauchy" loss; how far from the truth, and how often within two stated errors.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns
from measured_bodies import SQUARE_PARAMS, SQUARE_SYSTEM

RATE, ROWS = 250.0, 51
TRUTH = {"e_N": 0.45, "mu": 0.2, "inertia": 1.0}
GUESS = {"e_N": 0.4, "mu": 0.15, "inertia": 0.9}
BOUNDS = {"e_N": (0.0, 1.0), "mu": (0.0, 1.0), "inertia": (0.3, 3.0)}
NOISE = np.array([2e-3, 2e-3, 0.02])


def predictor(integrator: Any, every: int) -> Any:
    def predict(shared: Any, own: Any, record: Any) -> Any:
        system = SQUARE_SYSTEM.with_params(**({k: jnp.asarray(v) for k, v in SQUARE_PARAMS.items()} | shared))
        return ns.simulate(
            system, integrator, own["q"], own["u"], dt=1.0 / RATE / every, num_steps=(ROWS - 1) * every, save_every=every,
            check=False,
        ).failed_as_nan().q  # fmt: skip

    return predict


EVENT = predictor(ns.EventDriven(max_steps=30, max_events=6), 1)
RATTLE = predictor(ns.Rattle(), 8)


def drops(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Initial states of throws that touch the ground once or twice."""
    q = np.stack([np.zeros(count), rng.uniform(0.1, 0.13, count), rng.uniform(-np.pi, np.pi, count)], axis=1)
    u = np.stack([rng.normal(1.0, 0.3, count), rng.normal(-2.0, 0.2, count), rng.normal(0.0, 8.0, count)], axis=1)
    return {"q": jnp.asarray(q), "u": jnp.asarray(u)}


def scaling() -> dict[str, float]:
    """Seconds per iteration for 10 to 300 records, fixed-step prediction."""
    results, sizes = {}, (10, 30, 100, 300)
    for count in sizes:
        rng = np.random.default_rng(0)
        own = drops(count, rng)
        clean = np.asarray(jax.vmap(lambda o: RATTLE(TRUTH, o, None))(own))
        data = clean + NOISE * rng.standard_normal(clean.shape)
        options = {"shared": GUESS, "own": own, "bounds": BOUNDS, "weights": 1.0 / NOISE**2, "chunk": 5, "tol": 0.0}
        ns.identify_records(RATTLE, data, **options, num_iters=1)  # compiles
        seconds = []
        for turns in (2, 10):
            begin = time.perf_counter()
            ns.identify_records(RATTLE, data, **options, num_iters=turns)
            seconds.append(time.perf_counter() - begin)
        results[f"{count} records: s per iteration"] = (seconds[1] - seconds[0]) / 8.0
        print(f"{count} records: {results[f'{count} records: s per iteration']:.4f} s per iteration", flush=True)
    slope = np.polyfit(np.log(sizes), np.log(list(results.values())), 1)[0]
    return results | {"exponent of time per iteration": float(slope)}


def repetitions(repeats: int, count: int = 100) -> dict[str, float]:
    rng = np.random.default_rng(1)
    within, errors, intervals = [], [], []
    for turn in range(repeats):
        own = drops(count, rng)
        clean = np.asarray(jax.jit(jax.vmap(lambda o: EVENT(TRUTH, o, None)))(own))
        data = clean + NOISE * rng.standard_normal(clean.shape)
        data = np.where(rng.random(data.shape) < 0.05, data + 25.0 * NOISE * rng.standard_normal(data.shape), data)
        begin = time.perf_counter()
        guess = {k: v + s * rng.standard_normal(v.shape) for (k, v), s in zip(own.items(), (1e-3, 0.05), strict=True)}
        fit = ns.identify_records(
            EVENT,
            data,
            shared=GUESS,
            own=guess,
            bounds=BOUNDS,
            weights=1.0 / NOISE**2,
            loss="cauchy",
            num_iters=40,
            tol=1e-4,
        )
        off = {k: float(fit.shared[k]) - v for k, v in TRUTH.items()}
        errors.append([abs(off[k]) / v for k, v in TRUTH.items()])
        within.append([abs(off[k]) <= 2.0 * float(fit.standard_errors[k]) for k in TRUTH])
        intervals.append([low <= TRUTH[k] <= high for k, (low, high) in fit.intervals().items()])
        seconds = time.perf_counter() - begin
        print(f"{turn}: {seconds:.0f} s, {len(fit.history)} iterations; " + str(fit).replace("\n", "; "), flush=True)
    found: dict[str, float] = {"repetitions": float(repeats)}
    for k, name in enumerate(TRUTH):
        found[f"{name}: % off, median"] = 100.0 * float(np.median(np.array(errors)[:, k]))
        found[f"{name}: % off, largest"] = 100.0 * float(np.max(np.array(errors)[:, k]))
        found[f"{name}: share within two stated errors"] = float(np.mean(np.array(within)[:, k]))
    found["share of 95 % intervals that cover"] = float(np.mean(intervals))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ns.FitWarning)
    results: dict[str, Any] = {}
    if not options.parts or "scaling" in options.parts:
        results |= scaling()
    if not options.parts or "repetitions" in options.parts:
        results |= repetitions(options.repeats)
    report("many_records", results, update=bool(options.parts))


if __name__ == "__main__":
    main()
