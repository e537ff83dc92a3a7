"""Identification from synthetic records with 1 % noise: parameters, standard errors, time.

    python benchmarks/identification.py [NAME …]

Each case: known parameters, a record with noise of 1 % of its standard deviation (fixed seed), a fit from a wrong guess.
The ball runs from 32 random starts, with the event-driven integrator, located RATTLE and RATTLE; `errors` compares stated
standard errors with the spread over 200 noise draws in one batched run.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from measuring import report  # first: it sets up XLA

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

NOISE = 0.01
EARLY_FIRST = (0.25, 0.5, 0.75, 1.0)
STEP_BY_STEP = tuple(0.1 * k for k in range(1, 11))  # for motions in which every impact decides about the next


class Case(NamedTuple):
    predict: Callable[[Any], Any]
    truth: dict[str, float]
    guess: dict[str, float]
    bounds: dict[str, tuple[float | None, float | None]]
    horizons: tuple[float, ...] = (1.0,)


def run_of(problem: ns.Problem, integrator: Any, columns: list[int], dt: float, rows: int, every: int = 1) -> Any:
    """predict(params) for the given positions, every `every` steps."""

    def predict(params: Any) -> Any:
        system = problem.system.with_params(**params)
        traj = ns.simulate(
            system, integrator, problem.q0, problem.u0, dt=dt, num_steps=rows * every, save_every=every, check=False
        )
        return traj.failed_as_nan().q[1:, jnp.array(columns)]

    return predict


def with_noise(clean: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    clean = np.asarray(clean)
    return clean + NOISE * np.std(clean, axis=0) * rng.standard_normal(clean.shape)


BALL = ns.models.bouncing_ball(e_N=0.7)
EVENT = ns.EventDriven(max_steps=150, max_events=8)
ball_truth = {"e_N": 0.7, "gravity": 9.81}
ball_bounds = {"e_N": (0.05, 1.0), "gravity": (2.0, 30.0)}


def ball_case(integrator: Any, dt: float, every: int, horizons: tuple[float, ...]) -> Case:
    predict = run_of(BALL, integrator, [1], dt, 48, every)
    return Case(predict, ball_truth, {"e_N": 0.4, "gravity": 5.0}, ball_bounds, horizons)


def masses_case() -> Case:
    """A ball hits another one at rest: from their motion, and the first one's mass, the second one's mass and e_N."""

    def mass(t: Any, q: Any, p: Any) -> Any:
        return jnp.diag(jnp.stack([1.0 * jnp.ones_like(p["m2"]), p["m2"]]))

    contacts = ns.Contacts(lambda t, q, p: q[1:] - q[:1], e_N=lambda p: p["e_N"])
    system = ns.System({"m2": 2.0, "e_N": 0.8}, mass, contacts=contacts)
    problem = ns.Problem(system, jnp.array([0.0, 0.5]), jnp.array([1.0, 0.0]), t1=1.0, dt=0.02)
    predict = run_of(problem, EVENT, [0, 1], 0.02, 50)
    return Case(predict, {"m2": 2.0, "e_N": 0.8}, {"m2": 1.0, "e_N": 0.5}, {"m2": (0.1, 20.0), "e_N": (0.0, 1.0)})


def cases() -> dict[str, Callable[[], Case]]:
    slope, rolling = ns.models.mass_on_slope(case=3), ns.models.bouncing_ball(omega=50.0, e_N=0.0)
    crank, bird, top = ns.models.slider_crank(mu=0.05), ns.models.woodpecker(), ns.models.tippe_top()
    crank_bounds = {"e_N": (0.0, 1.0), "mu": (0.0, 0.5)}
    bird_bounds = {"mu": (0.05, 1.0), "c": (1e-3, 2e-2)}
    event = ns.EventDriven(max_steps=1000, max_events=4)
    return {
        "slope": lambda: Case(run_of(slope, EVENT, [0], 0.04, 50), {"mu": 0.3}, {"mu": 0.6}, {"mu": (0.0, 0.9)}),
        "rolling ball": lambda: Case(
            run_of(rolling, ns.Rattle(), [0, 1, 2], 2.5e-3, 60, 10),
            {"mu": 0.2, "R": 0.1},
            {"mu": 0.4, "R": 0.14},
            {"mu": (0.01, 1.0), "R": (0.02, 0.3)},
        ),
        "slider-crank": lambda: Case(
            run_of(crank, event, [6, 7, 8], 5e-5, 400),
            {"e_N": 0.4, "mu": 0.05},
            {"e_N": 0.6, "mu": 0.15},
            crank_bounds,
            STEP_BY_STEP,
        ),
        "woodpecker": lambda: Case(
            run_of(bird, event, [0, 1, 2], 1e-3, 150), {"mu": 0.3, "c": 0.0056}, {"mu": 0.35, "c": 0.0052}, bird_bounds,
            (0.14, *EARLY_FIRST),
        ),
        "tippe top": lambda: Case(
            run_of(top, ns.Moreau(), [0, 1, 2, 3, 4, 5, 6], 1e-4, 50, 100), {"mu": 0.3}, {"mu": 0.15},
            {"mu": (0.01, 1.0)}, EARLY_FIRST,
        ),
        "masses from an impact": masses_case,
    }  # fmt: skip


def fit_case(name: str, case: Case, **options: Any) -> tuple[ns.Fit, float]:
    data = with_noise(jax.jit(case.predict)(case.truth), seed=sum(map(ord, name)))
    weights = 1.0 / np.var(data, axis=0)  # every column has noise of its own size
    begin = time.perf_counter()
    fit = ns.identify(
        case.predict, data, case.guess, bounds=case.bounds, horizons=case.horizons, weights=weights, **options
    )
    return fit, time.perf_counter() - begin


def relative_errors(params: Any, truth: dict[str, float]) -> dict[str, Any]:
    return {name: np.abs(np.asarray(params[name]) / value - 1.0) for name, value in truth.items()}


def ball() -> dict[str, float]:
    """e_N and gravity from three bounces, from 32 starts in wide bounds."""
    results = {}
    for name, integrator, dt, every in (
        ("event-driven", EVENT, 0.035, 1),
        ("located RATTLE, dt 3.5e-3", ns.Located(ns.Rattle()), 3.5e-3, 10),
        ("RATTLE, dt 7e-4", ns.Rattle(), 7e-4, 50),
        ("RATTLE, dt 3.5e-3", ns.Rattle(), 3.5e-3, 10),
    ):
        for horizons in ((1.0,), EARLY_FIRST):
            case = ball_case(integrator, dt, every, horizons)
            truth = ball_case(EVENT, 0.035, 1, (1.0,))
            data = with_noise(jax.jit(truth.predict)(truth.truth), seed=0)
            begin = time.perf_counter()
            fit = ns.identify(
                case.predict, data, case.guess, bounds=case.bounds, horizons=horizons, num_starts=32, num_iters=60,
                key=jax.random.key(1),
            )  # fmt: skip
            seconds = time.perf_counter() - begin
            errors = relative_errors(fit.starts.params, case.truth)
            share = float(np.mean(np.all([e <= 0.01 for e in errors.values()], axis=0)))
            label = f"{name}, {'early samples first' if len(horizons) > 1 else 'all at once'}"
            print(f"ball, {label}: {share:.0%} of 32 starts within 1 %, {seconds:.1f} s")
            print("   " + str(fit).replace("\n", "\n   "))
            results[f"ball, {label}: share"] = share
    return results


def standard_errors() -> dict[str, float]:
    """Stated standard errors against the spread over 200 noise draws."""
    case = ball_case(EVENT, 0.035, 1, (1.0,))
    clean = np.asarray(jax.jit(case.predict)(case.truth))
    sigma = NOISE * np.std(clean)
    draws = jnp.asarray(clean + sigma * np.random.default_rng(5).standard_normal((200, *clean.shape)))
    begin = time.perf_counter()
    fits = jax.jit(jax.vmap(lambda d: ns.identify(case.predict, d, case.truth, bounds=case.bounds, num_iters=15)))(
        draws
    )
    print(f"200 fits in one batch: {time.perf_counter() - begin:.1f} s with compilation")
    results = {}
    for name in case.truth:
        spread, stated = np.std(fits.params[name]), np.mean(fits.standard_errors[name])
        print(f"    {name}: spread {spread:.3e}, stated {stated:.3e}, ratio {stated / spread:.3f}")
        results[f"standard error of {name}: stated / spread"] = float(stated / spread)
    return results


def main() -> None:
    warnings.filterwarnings("ignore", message="coupled contacts")
    wanted = sys.argv[1:]
    results: dict[str, Any] = {}
    if not wanted or "ball" in wanted:
        results |= ball()
    if not wanted or "errors" in wanted:
        results |= standard_errors()
    for name, make in cases().items():
        if wanted and name not in wanted:
            continue
        case = make()
        fit, seconds = fit_case(name, case)
        errors = relative_errors(fit.params, case.truth)
        print(f"{name}: {seconds:.1f} s\n   " + str(fit).replace("\n", "\n   "))
        for parameter, error in errors.items():
            print(f"    {parameter}: {float(error):.3%} from the truth {case.truth[parameter]}")
            results[f"{name}, {parameter}: % from the truth"] = 100.0 * float(error)
        results[f"{name}: s"] = seconds
    report("identification", results, update=bool(wanted))


if __name__ == "__main__":
    main()
