"""Error against cost of all time-stepping schemes, on the mass on a slope and on the slider-crank.

    python benchmarks/work_precision.py [--out FOLDER]

For each scheme and problem: microseconds per step of one trajectory, errors of all step sizes from one compiled study
against a fine Lobatto run, and the error at equal cost, interpolated between step sizes. Writes a table, a figure
`work_precision.png` and the results as JSON.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from measuring import measure, report  # first: it sets up XLA

import numpy as np

import jaxns as ns
from jaxns import plot

SCHEMES = {
    "Moreau": ns.Moreau(tol=1e-11),
    "GGL decoupled": ns.GGLDecoupled(tol=1e-11),
    "GGL unified": ns.GGLUnified(tol=1e-11),
    "RATTLE": ns.Rattle(tol=1e-11),
    "Lobatto 3": ns.Lobatto(stages=3, tol=1e-11),
    "generalized-α": ns.GeneralizedAlpha(tol=1e-11),
}
REFERENCE = ns.Lobatto(stages=3, tol=1e-13)


class Case(NamedTuple):
    problem: ns.Problem
    t1: float
    dts: np.ndarray
    dt_ref: float


CASES = {
    "slope, sliding": Case(ns.models.mass_on_slope(case=1), 1.6, 3.2e-3 * 2.0 ** np.arange(6), 4e-4),
    "slope, impact": Case(ns.models.mass_on_slope(case=4), 1.6, 3.2e-3 * 2.0 ** np.arange(6), 1e-4),
    "slider-crank": Case(ns.models.slider_crank(), 0.012, 2.5e-5 * 2.0 ** np.arange(5), 2.5e-6),
}


def study(case: Case, reference: ns.Trajectory) -> dict[str, tuple[float, ns.ConvergenceStudy]]:
    """Microseconds per step, and the errors, of each scheme."""
    p, steps = case.problem, 500
    results = {}
    for name, scheme in SCHEMES.items():

        def run(q0: Any, u0: Any, scheme: Any = scheme) -> Any:
            return ns.simulate(p.system, scheme, q0, u0, dt=case.dts[0], num_steps=steps, save_every=steps).q[-1]

        _, seconds, _ = measure(run, p.q0, p.u0)
        errors = ns.convergence_study(
            p.system, scheme, p.q0, p.u0, t1=case.t1, dts=case.dts, dt_ref=case.dt_ref, reference=reference, throw=False
        )
        results[name] = (1e6 * seconds / steps, errors)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    table: dict[str, Any] = {}
    curves: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for case_name, case in CASES.items():
        p = case.problem
        steps = round(case.t1 / case.dt_ref)
        reference = ns.simulate(p.system, REFERENCE, p.q0, p.u0, dt=case.dt_ref, num_steps=steps)
        results = study(case, reference)
        curves[case_name] = {
            name: (us * 1e-6 * case.t1 / case.dts, np.asarray(errors.error_q)) for name, (us, errors) in results.items()
        }
        budget = 1e-6 * results["RATTLE"][0] * case.t1 / float(np.sqrt(case.dts[1] * case.dts[2]))
        table[f"{case_name}: equal cost, ms"] = 1e3 * budget
        for name, (us, errors) in results.items():
            cost, error = curves[case_name][name]
            table[f"{case_name}, {name}: us per step"] = us
            table[f"{case_name}, {name}: order q"] = float(errors.order_q)
            equal = np.exp(np.interp(np.log(budget), np.log(cost[::-1]), np.log(error[::-1])))
            table[f"{case_name}, {name}: log10 error q at equal cost"] = float(np.log10(equal))
    report("work_precision", table)
    figure = plot.work_precision(curves)
    figure.savefig(options.out / "work_precision.png")
    print("wrote", options.out / "work_precision.png")


if __name__ == "__main__":
    main()
