"""What a convergence study costs, relative to its finest run alone.

    python benchmarks/convergence_cost.py

The study of Capobianco et al. 2024, §6.3: the mass on a slope, case 1, on [0, 1.6] s, with eight step sizes 3.2e-3·2^k
and a reference with 5e-5. Two ratios, for two, three and four stages: all eight step sizes over the finest of them, and
the whole study over the reference run, which is the finest run in it.
"""

from __future__ import annotations

from typing import Any

from measuring import measure, report  # first: it sets up XLA

import jax.numpy as jnp
import numpy as np

import jaxns as ns
from jaxns.simulation.loop import simulate_each_dt

PROBLEM = ns.models.mass_on_slope(case=1)
T1, DTS, DT_REF = 1.6, 3.2e-3 * 2.0 ** np.arange(8), 5e-5
STEPS = tuple(int(T1 / dt + 1e-6) for dt in DTS)


def main() -> None:
    results: dict[str, Any] = {}
    for stages in (2, 3, 4):
        integrator = ns.Lobatto(stages=stages, tol=1e-14)

        def runs(q0: Any, u0: Any, integrator: ns.Lobatto = integrator) -> Any:
            return simulate_each_dt(PROBLEM.system, integrator, q0, u0, jnp.asarray(DTS), STEPS)

        def run(q0: Any, u0: Any, dt: Any, num_steps: int, integrator: ns.Lobatto = integrator) -> Any:
            return ns.simulate(PROBLEM.system, integrator, q0, u0, dt=dt, num_steps=num_steps)

        def study(q0: Any, u0: Any, integrator: ns.Lobatto = integrator) -> Any:
            return ns.convergence_study(PROBLEM.system, integrator, q0, u0, t1=T1, dts=DTS, dt_ref=DT_REF)

        state = (PROBLEM.q0, PROBLEM.u0)
        _, eight, _ = measure(runs, *state)
        _, finest, _ = measure(lambda q0, u0: run(q0, u0, DTS[0], STEPS[0]), *state)
        compile_study, whole, outcome = measure(study, *state)
        _, reference, _ = measure(lambda q0, u0: run(q0, u0, DT_REF, STEPS[0] * 64), *state)
        results[f"s = {stages}: eight step sizes / finest of them"] = eight / finest
        results[f"s = {stages}: study / reference run"] = whole / reference
        results[f"s = {stages}: study, s"] = whole
        results[f"s = {stages}: compile study, s"] = compile_study
        results[f"s = {stages}: order q"] = float(outcome.order_q)
        results[f"s = {stages}: order u"] = float(outcome.order_u)
    report("convergence_cost", results)


if __name__ == "__main__":
    main()
