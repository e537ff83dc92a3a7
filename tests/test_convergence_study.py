"""Convergence studies: their runs, errors and orders against numpy, transformations, and what they say when they fail."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.analysis.convergence import NORMS, QUANTITIES, _hausdorff
from jaxns.simulation.loop import simulate_each_dt

# Runs and errors of the ball ----------------------------------------------------------------------------------------

BALL = ns.models.bouncing_ball(omega=50.0, e_N=0.5)
START = (BALL.q0, BALL.u0)
RATTLE = ns.Rattle(tol=1e-12)
DTS, STEPS, RATIOS, DT_REF = (0.01, 0.015, 0.04), (60, 40, 15), (2, 3, 8), 0.005  # up to t = 0.6, past an impact
STUDY = {"t1": 0.6, "dts": DTS, "dt_ref": DT_REF}


def head(traj, steps):
    """The first rows of a run."""
    rows = {name: getattr(traj, name)[: steps + 1] for name in ("t", "q", "u", "P_g", "P_gamma", "P_N", "P_F")}
    return {**rows, "status": traj.status[:steps], "stage_iterations": traj.stage_iterations[:steps]}


@pytest.fixture(scope="module")
def reference():
    return ns.simulate(BALL.system, RATTLE, *START, dt=DT_REF, num_steps=120)


@pytest.fixture(scope="module")
def separate():
    """One call for each step size; all are 120 steps long, so that they share a compiled loop."""
    runs = (ns.simulate(BALL.system, RATTLE, *START, dt=dt, num_steps=120) for dt in DTS)
    return [head(run, steps) for run, steps in zip(runs, STEPS, strict=True)]


@pytest.fixture(scope="module")
def study():
    return ns.convergence_study(BALL.system, RATTLE, *START, **STUDY)


def test_batched_step_sizes_equal_separate_runs(separate):
    together = jax.jit(lambda q0, u0: simulate_each_dt(BALL.system, RATTLE, q0, u0, jnp.array(DTS), STEPS))(*START)
    for one, run, steps in zip(separate, together, STEPS, strict=True):
        assert np.any(np.asarray(run.P_N) > 0.0)
        for name, rows in head(run, steps).items():
            assert getattr(run, name).shape == one[name].shape, name
            np.testing.assert_allclose(rows, one[name], atol=1e-10, err_msg=name)


def values(rows, name):
    """A quantity as (rows, components), with percussions summed up to each row."""
    x = np.asarray(rows[name])
    x = x.reshape(len(x), -1)
    return x if name in ("q", "u") else np.cumsum(x, axis=0)


@pytest.mark.parametrize("name", QUANTITIES)
def test_errors_equal_those_computed_by_hand(study, separate, reference, name):
    """Sum: Δt Σ_n Σ_k |·|, max: max_k Δt Σ_n |·|, and Hausdorff distances between the graphs."""
    exact = values(head(reference, 120), name)
    for k, (run, dt, ratio) in enumerate(zip(separate, DTS, RATIOS, strict=True)):
        x = values(run, name)
        e = dt * np.abs(x - exact[::ratio]).sum(axis=0)
        assert float(study.error(name, "sum")[k]) == pytest.approx(e.sum(), abs=1e-12)
        assert float(study.error(name, "max")[k]) == pytest.approx(e.max(initial=0.0), abs=1e-12)
        if x.shape[1]:
            distance = brute_force(np.column_stack([run["t"], x]), np.column_stack([reference.t, exact]))
            assert float(study.error(name, "hausdorff")[k]) == pytest.approx(distance, abs=1e-10)
    assert set(study.errors) == set(NORMS)
    np.testing.assert_array_equal(study.error_q, study.error("q", "sum"))
    np.testing.assert_array_equal(study.error_u, study.error("u", "sum"))


def test_short_names_follow_the_norm(study):
    other = replace(study, norm="hausdorff")
    np.testing.assert_array_equal(other.error_q, study.error("q", "hausdorff"))
    assert float(other.order_u) == float(study.order("u", "hausdorff"))


def test_reference_may_be_a_trajectory(study, reference):
    given = ns.convergence_study(BALL.system, RATTLE, *START, **STUDY, reference=reference)
    for norm in NORMS:
        for name in QUANTITIES:
            np.testing.assert_allclose(given.error(name, norm), study.error(name, norm), atol=1e-12)


# Hausdorff distance -------------------------------------------------------------------------------------------------


def brute_force(a, b):
    """Distances from each corner of one polygon to each side of the other, one after the other."""

    def to_side(point, begin, end):
        side = end - begin
        along = np.clip((point - begin) @ side / (side @ side), 0.0, 1.0) if side @ side else 0.0
        return np.linalg.norm(point - begin - along * side)

    def one_sided(points, polygon):
        return max(min(to_side(p, *side) for side in pairwise(polygon)) for p in points)

    return max(one_sided(a, b), one_sided(b, a))


def jump(at):
    """A unit jump as a graph with a vertical side."""
    return jnp.stack([jnp.stack([t, x]) for t, x in ((0.0, 0.0), (at, 0.0), (at, 1.0), (1.0, 1.0))])


def test_hausdorff_distance_of_a_late_jump_is_its_delay():
    """However high the jump: for the pointwise error it counts in full."""
    for delay in (0.1, 0.01, 0.0):
        assert float(_hausdorff(jump(0.5), jump(0.5 + delay))) == pytest.approx(delay, abs=1e-15)
        assert float(_hausdorff(jump(0.5 + delay), jump(0.5))) == pytest.approx(delay, abs=1e-15)


def test_hausdorff_distance_of_shifted_lines_and_of_a_missing_peak():
    line = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert float(_hausdorff(line, line + jnp.array([0.0, 0.3, 0.4]))) == pytest.approx(0.5, abs=1e-15)
    peak = jnp.array([[0.0, 0.0], [0.5, 2.0], [1.0, 0.0]])
    assert float(_hausdorff(line[:, :2], peak)) == pytest.approx(2.0, abs=1e-15)


def test_hausdorff_distance_equals_brute_force(rng):
    distance = jax.jit(_hausdorff)
    for _ in range(20):
        a = np.column_stack([np.linspace(0.0, 1.0, 90), rng.normal(size=(90, 2))])
        b = np.column_stack([np.sort(rng.uniform(size=30)), rng.normal(size=(30, 2))])
        assert float(distance(a, b)) == pytest.approx(brute_force(a, b), rel=1e-12)


def test_hausdorff_distance_forgives_a_late_impact():
    """The second impact of the coarse run comes a row late, a pointwise error of a whole jump."""
    coarse, fine = (ns.simulate(BALL.system, RATTLE, *START, dt=dt, num_steps=120) for dt in (0.016, 0.008))
    a, b = (np.column_stack([run.t, run.u]) for run in (coarse, fine))
    assert np.abs(a[:61] - b[::2]).max() >= 2.5
    assert float(_hausdorff(jnp.array(a[:61]), jnp.array(b))) <= 0.3


def test_hausdorff_distance_sees_the_step_that_an_impact_takes():
    """Rows of a ball that stays down are those of the fine run, but its graph jumps over a whole step: first order."""
    system = BALL.system.with_params(e_N=0.0)
    dts = 5e-4 * np.array([17, 24, 35, 49, 70, 101])  # no common divisor: the whole reference counts
    study = ns.convergence_study(system, RATTLE, *START, t1=1.01, dts=dts, dt_ref=5e-4)
    assert float(study.error_u.max()) <= 1e-9
    assert float(study.order("q", "hausdorff")) == pytest.approx(1.0, abs=0.3)
    assert float(study.order("u", "hausdorff")) == pytest.approx(1.0, abs=0.3)


# Orders -------------------------------------------------------------------------------------------------------------


def synthetic(errors, floor=0.0, ok=True):
    """A study with given errors of q at steps 0.1, 0.2, 0.4, …"""
    errors = jnp.asarray(errors)
    dts = 0.1 * 2.0 ** jnp.arange(len(errors))
    ok = jnp.broadcast_to(jnp.asarray(ok), errors.shape)
    return ns.ConvergenceStudy(dts, ok, {"sum": {"q": errors}}, {"q": jnp.asarray(floor)})


@pytest.mark.parametrize("order", [1.0, 2.5, 6.0])
def test_order_is_the_exact_slope(order):
    study = synthetic(3.0 * (0.1 * 2.0 ** np.arange(5)) ** order)
    assert float(study.order_q) == pytest.approx(order, rel=1e-12)
    np.testing.assert_allclose(study.local_orders("q"), order, rtol=1e-12)


def test_order_of_scattered_errors_is_the_median_of_all_pairs(rng):
    errors, dts = np.exp(rng.normal(size=6)), 0.1 * 2.0 ** np.arange(6)
    slopes = [np.log(errors[j] / errors[i]) / np.log(dts[j] / dts[i]) for i, j in combinations(range(6), 2)]
    assert float(synthetic(errors).order_q) == pytest.approx(np.median(slopes), rel=1e-12)


def test_order_does_not_follow_one_step_that_is_too_coarse():
    errors = (0.1 * 2.0 ** np.arange(6)) ** 2
    assert float(synthetic([*errors, 1e3]).order_q) == pytest.approx(2.0, rel=1e-12)


def test_order_ignores_errors_below_the_floor_and_failed_runs():
    errors = np.array([1e-13, 2e-13, 0.01, 0.04, 0.16, np.nan])
    study = synthetic(errors, floor=1e-10, ok=[True, True, True, True, True, False])
    assert float(study.order_q) == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("errors", [[0.0, 0.0, 0.0], [1e-12, 1e-12, 0.1]], ids=["none left", "one left"])
def test_order_of_fewer_than_two_errors_is_nan(errors):
    assert np.isnan(float(synthetic(errors, floor=1e-10).order_q))


# Transformations ----------------------------------------------------------------------------------------------------

floor = ns.Contacts(lambda t, q, p: q[1:], lambda t, q, u, p: u[None, :1], mu=lambda p: p["mu"])
traces = []


def spring(t, q, p):
    """Gravity, and a spring along the floor; counts how often it is traced."""
    traces.append(None)
    return 9.81 * q[1] + 0.5 * p["k"] * q[0] ** 2


SLIDER = ns.System({"mu": 0.2, "k": 20.0}, mass=lambda t, q, p: jnp.eye(2), potential=spring, contacts=floor)


def slide(mu, speed):
    """A study of a mass that slides on the floor all the time."""
    system, u0 = SLIDER.with_params(mu=mu), speed * jnp.array([1.0, 0.0])
    return ns.convergence_study(
        system, ns.Rattle(tol=1e-13), jnp.zeros(2), u0, t1=0.2, dts=(0.01, 0.02, 0.04), dt_ref=0.001
    )


def test_new_values_are_not_traced_again():
    """Parameters and initial states are arguments of one compiled program; only the check of shapes traces."""
    assert float(slide(0.2, 2.0).order_q) == pytest.approx(2.0, abs=0.1)
    before = len(traces)
    other = slide(0.3, 1.8)
    assert len(traces) - before <= 1
    assert float(other.order_q) == pytest.approx(2.0, abs=0.1)


def test_vmap_over_parameters_and_initial_states_equals_single_studies():
    mus, speeds = jnp.array([0.1, 0.2, 0.4]), jnp.array([2.0, 1.9, 2.2])
    batch = jax.jit(jax.vmap(slide))(mus, speeds)
    assert batch.error_q.shape == (3, 3)
    for k in range(3):
        single = slide(mus[k], speeds[k])
        for norm in NORMS:
            for name in ("q", "u", "P_N", "P_F"):
                one = batch.error(name, norm)[k]
                np.testing.assert_allclose(one, single.error(name, norm), atol=1e-11, err_msg=f"{norm} {name}")


@pytest.mark.slow
def test_gradient_of_errors_equals_central_differences():
    """Both the runs and their reference depend on the parameter."""

    def total(mu):
        study = slide(mu, 2.0)
        return jnp.sum(study.error_q) + jnp.sum(study.error("u", "max"))

    reverse = float(jax.jit(jax.grad(total))(0.2))
    h = 1e-4
    difference = float(total(0.2 + h) - total(0.2 - h)) / (2.0 * h)
    assert abs(difference) > 0.0
    assert reverse == pytest.approx(difference, rel=1e-5)


def test_gradient_of_the_hausdorff_distance_of_a_late_jump_is_one():
    gradient = jax.grad(lambda at: _hausdorff(jump(at), jump(0.5)))
    assert float(gradient(0.6)) == pytest.approx(1.0)


# Bad input and failed runs ------------------------------------------------------------------------------------------


def bounded_spring(t, q, u, p):
    """A unit oscillator that is undefined beyond q = 3, where only an unstable step leads."""
    return jnp.where(jnp.abs(q) > 3.0, jnp.nan, -q)


OSCILLATOR = ns.System({}, mass=lambda t, q, p: jnp.eye(1), force=bounded_spring)


def oscillate(**changes):
    arguments = {"t1": 10.0, "dts": (0.1, 0.2), "dt_ref": 0.05, **changes}
    return ns.convergence_study(OSCILLATOR, ns.Rattle(), jnp.ones(1), jnp.zeros(1), **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dts": (0.1, 0.12)}, r"dt = 0\.12 is not a multiple of dt_ref = 0\.05"),
        ({"dt_ref": 0.2}, r"dt = 0\.1 is not a multiple of dt_ref = 0\.2"),
        ({"dts": (0.1, 12.0)}, r"dt = 12 is longer than the time span 10"),
        ({"dts": ()}, r"dts and dt_ref must be positive, got \(\)"),
        ({"dts": (-0.1,)}, r"dts and dt_ref must be positive, got \(-0\.1,\)"),
        ({"dt_ref": 0.0}, r"dts and dt_ref must be positive, got .* and 0\.0"),
        ({"norm": "l2"}, r"norm must be one of sum, max, hausdorff, got 'l2'"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=f"convergence_study: {message}"):
        oscillate(**changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[:-10], r"at least 120 steps long; it has 110 rows 0\.005 s apart"),
        (lambda t: 2.0 * t, r"step dt_ref = 0\.005.*120 rows 0\.01 s apart"),
        (lambda t: t + 1.0, r"must start at t0 = 0"),
    ],
    ids=["too short", "another step", "another start"],
)
def test_reference_that_does_not_fit_is_an_error(reference, change, message):
    with pytest.raises(ValueError, match=message):
        ns.convergence_study(BALL.system, RATTLE, *START, **STUDY, reference=replace(reference, t=change(reference.t)))


FAILING = {"dts": (0.1, 0.2, 2.5)}  # steps above 2 are unstable


def test_failed_run_raises_and_is_named():
    with pytest.raises(ns.SimulationError, match=r"the runs with dt = 2\.5 failed.*throw=False"):
        oscillate(**FAILING)


def test_failed_run_is_left_out_of_the_orders():
    study = oscillate(**FAILING, throw=False)
    np.testing.assert_array_equal(study.ok, [True, True, False])
    for norm in NORMS:
        for name in ("q", "u"):
            np.testing.assert_array_equal(np.isfinite(study.error(name, norm)), [True, True, False])
            assert np.isfinite(float(study.order(name, norm)))
    assert float(study.order_q) == pytest.approx(float(study.local_orders("q")[0]), rel=1e-9)


def test_failed_reference_raises_and_is_named():
    with pytest.raises(ns.SimulationError, match=r"the reference run with dt = 2\.5 failed; try a smaller dt_ref"):
        oscillate(dts=(2.5,), dt_ref=2.5)


def test_hausdorff_distance_does_not_depend_on_the_other_step_sizes():
    """Each run is compared with the same reference, whatever else is in the list."""
    two, three = oscillate(t1=0.6), oscillate(t1=0.6, dts=(0.1, 0.2, 0.15))
    np.testing.assert_allclose(two.error("q", "hausdorff"), three.error("q", "hausdorff")[:2], rtol=1e-9)


def test_without_a_valid_reference_no_run_is_ok():
    """A reference whose steps failed makes every error meaningless, and says so."""
    study = oscillate(throw=False)
    assert np.all(study.ok)
    reference = ns.simulate(OSCILLATOR, ns.Rattle(), jnp.ones(1), jnp.zeros(1), dt=0.05, num_steps=200)
    failed = replace(reference, status=reference.status.at[3].set(ns.Status.NOT_CONVERGED))
    study = oscillate(reference=failed, throw=False)
    assert not np.any(study.ok)
    assert np.all(np.isnan(study.error_q))
    with pytest.raises(ns.SimulationError, match="reference"):
        oscillate(reference=failed)
