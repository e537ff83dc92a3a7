"""Event-capturing schemes converge to the event-driven solution, with order about one in dt across impacts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.simulation.loop import simulate_each_dt

PROBLEMS = {  # problem, end, steps of the finest run
    "ball": (ns.models.bouncing_ball(omega=10.0, e_N=0.5), 1.0, 4096),
    "slope 4": (ns.models.mass_on_slope(case=4), 1.0, 4096),
    "rocking block": (ns.models.rocking_block(e_N=0.9), 0.5, 4096),
    "woodpecker": (ns.models.woodpecker(), 0.13, 16384),
}


@pytest.mark.filterwarnings("ignore:coupled contacts")
@pytest.mark.parametrize(
    "name", ["rocking block", *(pytest.param(n, marks=pytest.mark.slow) for n in ("woodpecker", "ball", "slope 4"))]
)
def test_event_capturing_converges_to_event_driven(name):
    problem, end, finest = PROBLEMS[name]
    exact = ns.simulate(problem.system, ns.EventDriven(), problem.q0, problem.u0, dt=end / 8, num_steps=8)
    assert int(exact.events.count) >= 1
    counts = tuple(finest // 4**k for k in range(3))
    runs = simulate_each_dt(problem.system, ns.Moreau(), problem.q0, problem.u0, end / jnp.array(counts, float), counts)
    size = np.abs(np.asarray(exact.q)).max(axis=0) + 1e-3
    errors = []
    for run, count in zip(runs, counts, strict=True):
        assert bool(run.ok)
        rows = slice(None, None, count // 8)
        errors.append(np.mean(np.abs(np.asarray(run.q[rows] - exact.q)) / size))
    order = np.log2(errors[-1] / errors[0]) / 4
    assert 0.7 <= order <= 1.5, (errors, order)
    assert errors[0] <= 5e-3, errors
