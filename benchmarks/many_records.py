"""Identification from many synthetic records of a planar box: time against their number, and errors by repetition.

    python benchmarks/many_records.py [scaling] [bound] [repetitions] [linearised] [truth] [--first K] [--repeats R]

`repetitions`: 100 drops with 2 mm and 0.02 rad of noise and 5 % gross outliers, e_N, μ and the inertia shared, initial
states own, "cauchy" loss; how far from the truth, and how often within two stated errors. Records come from EventDriven,
predictions from Located(Rattle()), which takes a thirteenth of the time and differs by less than 1e-6. Each repetition has
its own seed and is stored when it ends, so `--first` goes on with a run that was stopped.

`linearised`: the same records, noise and outliers, with the prediction replaced by its first order at the truth, where no
loss jumps: errors that the noise alone makes, and whether standard errors state them. `truth`: the full prediction again,
begun at the truth.

`bound`: Cramér and Rao's bound of the standard errors, for these drops without outliers. The drops were chosen by it,
before any fit: with μ = 0.1, falls of 1.6 m/s, 0.5 m/s along the ground and 31 rows it is 0.24, 1.2 and 0.35 % (e_N, μ,
inertia), so no estimator could find μ within 1 %. A fifth of a second instead of an eighth, faster falls, more sliding and
spin, and μ = 0.2, leave 0.17, 0.39 and 0.26 %.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
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
LOCATED = predictor(ns.Located(ns.Rattle(), impacts=3), 1)
RATTLE = predictor(ns.Rattle(), 8)
CLEAN = jax.jit(jax.vmap(lambda own: EVENT(TRUTH, own, None)))
STORE = Path(__file__).parent / "results" / "many_records_repetitions.json"


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


def bound() -> dict[str, float]:
    """The smallest standard errors in % that an unbiased estimator can have, from derivatives by differences."""
    own, h = drops(100, np.random.default_rng(1)), 1e-5
    x = np.concatenate([np.tile(list(TRUTH.values()), (100, 1)), own["q"], own["u"]], axis=1)

    @jax.jit
    @jax.vmap
    def poses(x: Any) -> Any:
        return EVENT(dict(zip(TRUTH, x[:3], strict=True)), {"q": x[3:6], "u": x[6:]}, None)

    J = np.stack(
        [(np.asarray(poses(x + h * e)) - np.asarray(poses(x - h * e))) / (2.0 * h) for e in np.eye(9)], axis=-1
    )
    J = (J / NOISE[:, None]).reshape(100, -1, 9)
    left = [j[:, :3] - j[:, 3:] @ np.linalg.lstsq(j[:, 3:], j[:, :3], rcond=None)[0] for j in J]
    errors = np.sqrt(np.diag(np.linalg.inv(sum(j.T @ j for j in left))))
    return {
        f"{k}: bound of its standard error, %": 100.0 * e / v for (k, v), e in zip(TRUTH.items(), errors, strict=True)
    }


def drawn(turn: int, count: int = 100) -> tuple[np.random.Generator, Any, Any, Any]:
    """The generator, initial states, and records without and with errors, of one repetition."""
    rng = np.random.default_rng([5, turn])  # sets of [1, …] to [3, …] served to find what holds records back
    own = drops(count, rng)
    clean = np.asarray(CLEAN(own))
    data = clean + NOISE * rng.standard_normal(clean.shape)
    gross = rng.random(data.shape) < 0.05
    return rng, own, clean, np.where(gross, data + 25.0 * NOISE * rng.standard_normal(data.shape), data)


def repetition(turn: int) -> dict[str, Any]:
    """One set of records: for each parameter its value, its standard error and its interval of 95 %."""
    rng, own, _, data = drawn(turn)
    guess = {k: v + s * rng.standard_normal(v.shape) for (k, v), s in zip(own.items(), (1e-3, 0.05), strict=True)}
    begin = time.perf_counter(), time.process_time()
    fit = ns.identify_records(
        LOCATED,
        data,
        shared=GUESS,
        own=guess,
        bounds=BOUNDS,
        weights=1.0 / NOISE**2,
        loss="cauchy",
    )
    seconds = time.perf_counter() - begin[0], time.process_time() - begin[1]
    print(f"{turn}: {seconds[0]:.0f} s, {seconds[1]:.0f} of a processor; " + str(fit).replace("\n", "; "), flush=True)
    intervals = fit.intervals()
    found = {k: [float(fit.shared[k]), float(fit.standard_errors[k]), *map(float, intervals[k])] for k in TRUTH}
    return found | {"converged": fit.converged}


@jax.jit
@jax.vmap
def poses(x: Any) -> Any:
    """Of one drop, from shared and own parameters in one vector."""
    return LOCATED(dict(zip(TRUTH, x[:3], strict=True)), {"q": x[3:6], "u": x[6:]}, None)


def linearised(turn: int, h: float = 1e-5) -> dict[str, Any]:
    """Of one set of records: value, standard error and interval for each parameter, if predictions were linear."""
    _, own, clean, data = drawn(turn)
    x = np.concatenate([np.tile(list(TRUTH.values()), (len(data), 1)), own["q"], own["u"]], axis=1)
    J = np.stack([np.asarray(poses(x + h * e) - poses(x - h * e)) / (2.0 * h) for e in np.eye(9)], axis=-1)
    fit = ns.identify_records(
        lambda shared, own, r: {"y": r["at"] + r["J"][..., :3] @ shared["p"] + r["J"][..., 3:] @ own["z"]},
        {"y": data, "at": clean, "J": J}, shared={"p": np.zeros(3)}, own={"z": np.zeros((len(data), 6))},
        weights={"y": np.broadcast_to(1.0 / NOISE**2, clean.shape[1:])}, loss="cauchy", num_iters=40,
    )  # fmt: skip
    intervals = np.array(list(fit.intervals().values()))
    rows = np.column_stack([fit.shared["p"], fit.standard_errors["p"], intervals])
    found = {k: [v + row[0], row[1], v + row[2], v + row[3]] for (k, v), row in zip(TRUTH.items(), rows, strict=True)}
    return found | {"converged": fit.converged}


def from_truth(turn: int) -> dict[str, Any]:
    """Of one set of records, when the descent begins at the truth."""
    _, own, _, data = drawn(turn)
    fit = ns.identify_records(
        LOCATED, data, shared=TRUTH, own=own, bounds=BOUNDS, weights=1.0 / NOISE**2, loss="cauchy"
    )
    intervals = fit.intervals()
    found = {k: [float(fit.shared[k]), float(fit.standard_errors[k]), *map(float, intervals[k])] for k in TRUTH}
    return found | {"converged": fit.converged}


def repetitions(first: int, repeats: int) -> dict[str, float]:
    done = json.loads(STORE.read_text()) if first and STORE.exists() else {}
    for turn in range(first, repeats):
        done[str(turn)] = repetition(turn)
        STORE.write_text(json.dumps(done))
    return summary([done[str(turn)] for turn in range(repeats)])


def summary(chosen: list[dict[str, Any]]) -> dict[str, float]:
    """Errors, scatter and coverage of repetitions."""
    found = {
        "repetitions": float(len(chosen)),
        "share that converged": float(np.mean([r["converged"] for r in chosen])),
    }
    inside, close = [], []
    for name, truth in TRUTH.items():
        value, error, low, high = np.array([r[name] for r in chosen]).T
        off = np.abs(value - truth)
        found[f"{name}: % off, median"] = 100.0 * float(np.median(off)) / truth
        found[f"{name}: % off, largest"] = 100.0 * float(np.max(off)) / truth
        found[f"{name}: scatter of the fits, %"] = 100.0 * float(np.std(value, ddof=1)) / truth
        found[f"{name}: stated standard error, %, median"] = 100.0 * float(np.median(error)) / truth
        found[f"{name}: share within 1 %"] = float(np.mean(off <= 0.01 * truth))
        found[f"{name}: share within two stated errors"] = float(np.mean(off <= 2.0 * error))
        inside.append((low <= truth) & (truth <= high))
        close.append(off <= 0.01 * truth)
    found["share of repetitions with all parameters within 1 %"] = float(np.mean(np.all(close, axis=0)))
    found["share of 95 % intervals that cover"] = float(np.mean(inside))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--first", type=int, default=0, help="the first repetition that is not stored yet")
    parser.add_argument("--repeats", type=int, default=50)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=ns.FitWarning)
    results: dict[str, Any] = {}
    if not options.parts or "scaling" in options.parts:
        results |= scaling()
    if not options.parts or "bound" in options.parts:
        results |= bound()
    if not options.parts or "repetitions" in options.parts:
        results |= repetitions(options.first, options.repeats)
    for part, of in (("linearised", linearised), ("truth", from_truth)):
        if part in options.parts:
            found = summary([of(turn) for turn in range(options.repeats)])
            results |= {f"{part}, {key}": value for key, value in found.items()}
    report("many_records", results, update=bool(options.parts))


if __name__ == "__main__":
    main()
