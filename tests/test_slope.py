"""The mass on a slope: order of convergence and Newton iterations (Breuling et al. 2024, §5.3)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

CASES = (1, 2, 3, 4)
RATTLE = ns.Rattle(tol=1e-12)
FINEST, REFINEMENT = 3.2e-3, 32  # the reference runs with a step 32 times smaller than the finest of the study
DTS = FINEST * 2.0 ** np.arange(4)  # part of the paper's list
STEPS = 480  # of the finest step: t = 1.536, still sliding in all cases
NEWTON_DT = 1.28e-2
NEWTON_TABLE = {1: (1.2774, 0.6463), 2: (1.1737, 0.5945), 3: (1.3628, 0.6859), 4: (1.2469, 0.6737)}  # paper 003
SYSTEM = ns.models.mass_on_slope().system
Q0 = jnp.stack([ns.models.mass_on_slope(case=c).q0 for c in CASES])
U0 = jnp.stack([ns.models.mass_on_slope(case=c).u0 for c in CASES])


def run(q0, u0, dt, **arguments):
    return ns.simulate(SYSTEM, RATTLE, q0, u0, dt=dt, **arguments)


@pytest.fixture(scope="module")
def coarse():
    """All cases (axis 0) with all steps (axis 1); coarse steps run on past the common end."""
    over_dt = jax.vmap(lambda q0, u0, dt: run(q0, u0, dt, num_steps=STEPS), (None, None, 0))
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(over_dt, (0, 0, None)))(Q0, U0, jnp.asarray(DTS)))


@pytest.fixture(scope="module")
def reference():
    """All cases with the small step, at the grid points of the finest step."""
    steps, every = STEPS * REFINEMENT, REFINEMENT
    over_cases = jax.vmap(lambda q0, u0: run(q0, u0, FINEST / every, num_steps=steps, save_every=every))
    return jax.tree.map(np.asarray, jax.jit(over_cases)(Q0, U0))


@pytest.fixture(scope="module")
def orders(coarse, reference):
    """Observed orders in q and u of each case: slope of log error over log Δt."""
    assert np.all(coarse.status == ns.Status.OK)
    assert np.all(reference.status == ns.Status.OK)

    def order(name, case):
        errors = [error(getattr(coarse, name)[case, k], getattr(reference, name)[case], k) for k in range(len(DTS))]
        return np.polyfit(np.log(DTS), np.log(errors), 1)[0]

    return {c: (order("q", i), order("u", i)) for i, c in enumerate(CASES)}


def error(rows, reference_rows, k):
    """Δt Σ_n |x_n − x_ref(t_n)|, the largest over the components."""
    count = STEPS // 2**k
    difference = np.abs(rows[1 : count + 1] - reference_rows[2**k :: 2**k][:count])
    return DTS[k] * difference.sum(axis=0).max()


@pytest.mark.parametrize("case", [1, 2])
def test_second_order_in_persistent_contact(orders, case):
    assert orders[case][0] == pytest.approx(2.0, abs=0.2)
    assert orders[case][1] == pytest.approx(2.0, abs=0.2)


@pytest.mark.parametrize("case", [3, 4])
def test_first_order_across_a_slip_reversal_or_an_impact(orders, case):
    """The switching time is known to within a step only; the error is not monotone, so the bounds are wide."""
    assert 0.6 <= orders[case][0] <= 1.6
    assert 0.6 <= orders[case][1] <= 1.6


def test_nothing_penetrates(coarse):
    g_N = jax.vmap(lambda q: SYSTEM.g_N(0.0, q))(coarse.q.reshape(-1, 2))
    assert float(jnp.min(g_N)) >= -1e-12


def test_case_1_comes_to_rest_where_friction_holds(coarse):
    """Rest near t = 2.1, on a part of the slope with inclination below atan μ."""
    t, u, q = coarse.t[0, 1], coarse.u[0, 1], coarse.q[0, 1]
    speed = np.linalg.norm(u, axis=1)
    rests = t[np.argmax((speed < 1e-10) & (t > 0.1))]
    assert rests == pytest.approx(2.1, abs=0.1)
    assert speed[t > rests].max() <= 1e-10
    assert np.exp(-q[-1, 0]) < 0.3


def test_friction_law_of_case_2_while_sliding(coarse):
    """P_F = −μ P_N sign(γ_F) at every row that slides."""
    sliding = coarse.t[1, 0] <= 1.5
    P_N, P_F = coarse.P_N[1, 0, sliding, 0][1:], coarse.P_F[1, 0, sliding, 0, 0][1:]
    assert P_N.min() > 0.0
    np.testing.assert_allclose(P_F, -0.3 * P_N, rtol=1e-9)


@pytest.fixture(scope="module")
def newton_average():
    """Average iterations of both stages to t = 3.2768 at dt = 1.28e-2, one run for each case."""
    runs = {c: run(q0, u0, NEWTON_DT, num_steps=256) for c, q0, u0 in zip(CASES, Q0, U0, strict=True)}
    return {c: np.asarray(traj.stage_iterations).mean(axis=0) for c, traj in runs.items()}


@pytest.mark.parametrize("case", CASES)
def test_newton_iterations_meet_the_papers_table(newton_average, case):
    """The paper does not say which step of its list the table is for; this one has its share of sliding steps."""
    assert np.all(newton_average[case] <= NEWTON_TABLE[case]), newton_average[case]


@pytest.mark.parametrize("case", CASES)
def test_newton_iterations_of_both_stages_together_at_the_default_step(coarse, case):
    dt = ns.models.mass_on_slope(case=case).dt
    k = int(np.argmin(np.abs(DTS - dt)))
    assert DTS[k] == pytest.approx(dt)
    total = coarse.stage_iterations[CASES.index(case), k].mean(axis=0).sum()
    assert total <= sum(NEWTON_TABLE[case]), total
