"""What every integrator of `integrators.ALL` promises: shapes, dtypes, saving, tracing, batching, and failure."""

from __future__ import annotations

import importlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrators import ALL, ALPHA, CONSISTENT, EVENT, LOBATTO, MOREAU, RATTLE, UNIFIED
from small_problems import rolling_pendulum

import jaxns as ns

BALL = ns.models.bouncing_ball(omega=50.0, e_N=0.3)
ROLLING = rolling_pendulum()
PROBLEMS = {  # problem, dt, steps, parameters that a batch changes
    "ball": (BALL, 1e-2, 60, {"mu": (0.1, 0.2, 0.4), "e_N": (0.0, 0.3, 0.9)}),
    "rolling": (ROLLING, 1e-2, 30, {"mu": (0.1, 0.2, 0.4), "m": (0.8, 1.0, 1.5)}),
}
SIZES = {"ball": (3, 3, 0, 1, 1), "rolling": (6, 5, 1, 1, 1)}  # nq, nu, n_g, n_N, d
compiled_loop = importlib.import_module("jaxns.simulation.loop").chunk


def run(name, integrator, **changes):
    """A short run of one problem; `system`, `q0`, `u0`, `dt` and the arguments of `simulate` can be replaced."""
    problem, dt, steps, _ = PROBLEMS[name]
    arguments = {"dt": dt, "num_steps": steps, **changes}
    system, q0, u0 = (arguments.pop(k, getattr(problem, k)) for k in ("system", "q0", "u0"))
    return ns.simulate(system, integrator, q0, u0, **arguments)


@pytest.fixture(scope="module", params=PROBLEMS)
def name(request):
    return request.param


@pytest.fixture(scope="module", params=ALL)
def integrator(request):
    return request.param


@pytest.fixture(scope="module")
def full(name, integrator):
    """The plain run of each problem with each integrator."""
    return run(name, integrator)


def assert_same(a, b, tol=1e-10):
    """Equal positions, velocities and percussions, relative to their size above one."""
    for field in ("t", "q", "u", "P_g", "P_gamma", "P_N", "P_F"):
        x, y = np.asarray(getattr(a, field)), np.asarray(getattr(b, field))
        assert x.shape == y.shape
        scale = max(1.0, np.abs(y).max(initial=0.0))
        assert np.abs(x - y).max(initial=0.0) <= tol * scale, field
    np.testing.assert_array_equal(a.status, b.status)


def lane(trajectory, *index):
    return jax.tree.map(lambda v: v[index], trajectory)


def test_every_public_integrator_is_listed():
    """Whatever jaxns exports with `start` and `step` is in ALL or CONSISTENT, so that no integrator escapes these tests.

    `Located` wraps one of them, and has a file of its own (test_located.py).
    """
    exported = {n for n in ns.__all__ if hasattr(getattr(ns, n), "start") and hasattr(getattr(ns, n), "step")}
    assert exported - {"Located"} == {p.id for p in ALL + CONSISTENT}


# Shapes, dtypes, rows -----------------------------------------------------------------------------------------------


def test_shapes_and_dtypes(full, name):
    nq, nu, n_g, n_N, d = SIZES[name]
    steps = PROBLEMS[name][2]
    rows = steps + 1
    shapes = {"t": (rows,), "q": (rows, nq), "u": (rows, nu), "P_g": (rows, n_g), "P_gamma": (rows, 0),
              "P_N": (rows, n_N), "P_F": (rows, n_N, d),
              "status": (steps,), "iterations": (steps,), "residual": (steps,)}  # fmt: skip
    for field, shape in shapes.items():
        assert getattr(full, field).shape == shape, field
    for field in ("t", "q", "u", "P_g", "P_gamma", "P_N", "P_F", "residual"):
        assert getattr(full, field).dtype == jnp.float64, field
    for field in ("status", "iterations"):
        assert jnp.issubdtype(getattr(full, field).dtype, jnp.integer), field
    assert full.ok.shape == ()
    assert bool(full.ok)


def test_row_zero_is_the_initial_state_without_percussions(full, name):
    problem, dt, steps, _ = PROBLEMS[name]
    np.testing.assert_array_equal(full.q[0], problem.q0)
    np.testing.assert_array_equal(full.u[0], problem.u0)
    np.testing.assert_allclose(full.t, dt * np.arange(steps + 1), atol=1e-14)
    for field in ("P_g", "P_gamma", "P_N", "P_F"):
        assert not np.any(np.asarray(getattr(full, field)[0])), field


def test_runs_hold_contact_percussions_and_finite_numbers(full):
    """Each of the small problems touches something, else the comparisons below would be empty."""
    assert np.any(np.asarray(full.P_N) > 0.0)
    assert np.any(np.asarray(full.P_F) != 0.0)
    for path, leaf in jax.tree.leaves_with_path(full):
        assert np.all(np.isfinite(np.asarray(leaf))), path


def test_percussions_explain_the_momentum_of_the_ball(integrator):
    """m Δu = P_N − m g Δt (vertical) and m Δu = P_F (horizontal), summed over the run."""
    traj = run("ball", integrator)
    _, dt, steps, _ = PROBLEMS["ball"]
    change = np.asarray(traj.u[-1] - traj.u[0])
    assert change[1] == pytest.approx(float(traj.P_N.sum()) - 9.81 * dt * steps, abs=1e-9)
    assert change[0] == pytest.approx(float(traj.P_F.sum()), abs=1e-9)


@pytest.mark.parametrize("integrator", ALL)
def test_save_every_keeps_every_kth_row_with_the_percussions_of_all_its_steps(integrator):
    every = run("ball", integrator)
    some = run("ball", integrator, save_every=20)
    assert some.status.shape == (3,)
    for field in ("t", "q", "u"):
        np.testing.assert_array_equal(getattr(some, field), getattr(every, field)[::20], err_msg=field)
    for field in ("P_g", "P_gamma", "P_N", "P_F"):
        steps = np.asarray(getattr(every, field))[1:]
        sums = steps.reshape(3, 20, *steps.shape[1:]).sum(axis=1)
        np.testing.assert_allclose(getattr(some, field)[1:], sums, atol=1e-12, err_msg=field)
    np.testing.assert_array_equal(some.iterations, np.asarray(every.iterations).reshape(3, 20).sum(axis=1))
    np.testing.assert_allclose(some.residual, np.asarray(every.residual).reshape(3, 20).max(axis=1), atol=1e-12)


@pytest.mark.parametrize("integrator", ALL)
def test_start_time_shifts_time_alone_and_end_time_means_steps(integrator):
    """The ball's equations do not know the time."""
    plain, late = run("ball", integrator), run("ball", integrator, t0=3.0)
    np.testing.assert_allclose(late.t, np.asarray(plain.t) + 3.0, atol=1e-14)
    np.testing.assert_allclose(late.q, plain.q, atol=1e-12)
    ended = run("ball", integrator, num_steps=None, t0=3.0, t1=3.6)
    np.testing.assert_array_equal(ended.q, late.q)
    assert ended.t.shape == (61,)


# Tracing and batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", [MOREAU, RATTLE])
def test_jit_equals_eager(integrator):
    jitted = jax.jit(lambda q0, u0, dt: run("ball", integrator, q0=q0, u0=u0, dt=dt))
    assert_same(jitted(BALL.q0, BALL.u0, 1e-2), run("ball", integrator), tol=1e-12)


def test_new_values_never_compile_anew(full, name, integrator):
    """Parameters, initial states, step size and start time are arguments of the compiled loop."""
    problem, dt, _, changes = PROBLEMS[name]
    before = compiled_loop._cache_size()
    for values in zip(*changes.values(), strict=True):
        run(name, integrator, system=problem.system.with_params(**dict(zip(changes, values, strict=True))))
    run(name, integrator, dt=0.5 * dt)
    run(name, integrator, t0=1.0)
    run(name, integrator, u0=0.9 * problem.u0)
    run(name, integrator, q0=np.asarray(problem.q0))
    assert compiled_loop._cache_size() == before


@pytest.mark.parametrize("integrator", [MOREAU, RATTLE, ALPHA])
def test_user_functions_are_not_traced_again_for_new_values(integrator):
    calls = []

    def drag(t, q, u, p):
        calls.append(None)
        return -p["c"] * u

    floor = ns.Contacts(lambda t, q, p: q + 1.0)
    system = ns.System({"c": 0.1}, mass=lambda t, q, p: jnp.eye(1), force=drag, contacts=floor)

    def calls_of(c, u0):
        before = len(calls)
        ns.simulate(system.with_params(c=c), integrator, jnp.zeros(1), jnp.full(1, u0), dt=0.1, num_steps=3)
        return len(calls) - before

    assert calls_of(0.1, 1.0) >= 1
    assert calls_of(0.2, 2.0) == 0


@pytest.mark.parametrize("what", ["parameters", "states", "step sizes"])
def test_vmap_of_the_ball_equals_single_runs(what, integrator=RATTLE):
    """Through the impact, with lanes that slide, stick and bounce; the nested batches below do it for all integrators."""

    def one(value):
        if what == "parameters":
            return run("ball", integrator, system=BALL.system.with_params(mu=value[0], e_N=value[1]))
        if what == "states":
            return run("ball", integrator, q0=BALL.q0 + value[0] * jnp.eye(3)[1], u0=BALL.u0 * value[1])
        return run("ball", integrator, dt=value[0] * 1e-2)

    values = jnp.array([[0.1, 0.0], [0.5, 0.3], [1.0, 0.9]])
    batch = jax.vmap(one)(values)
    assert batch.ok.shape == (3,)
    for k in range(3):
        assert_same(lane(batch, k), one(values[k]))


MECHANISMS = {  # the same, with Rattle alone: they compile slowly
    "crank": (ns.models.slider_crank(), 1e-4, 30, {"mu": (0.0, 0.01, 0.3), "e_N": (0.1, 0.4, 0.5)}),
    "tippedisk": (ns.models.tippedisk(), 1e-3, 20, {"mu": (0.1, 0.2, 0.4), "m": (0.4, 0.435, 0.5)}),
}
CHEAPER = (ALPHA, EVENT, LOBATTO, UNIFIED)  # these compile slowly: the smaller problem
SELDOM = [*((i, "rolling") for i in (ALPHA, LOBATTO, UNIFIED)), (RATTLE, "tippedisk"), (RATTLE, "crank")]
NESTED = [
    *((i.values[0], "rolling") for i in ALL if i.values[0] not in CHEAPER),
    (UNIFIED, "ball"),
    *(pytest.param(i, "ball", marks=pytest.mark.slow) for i in CHEAPER if i is not UNIFIED),
    *(pytest.param(i, name, marks=pytest.mark.slow) for i, name in SELDOM),
]


@pytest.mark.parametrize(("integrator", "name"), NESTED, ids=lambda v: v if isinstance(v, str) else type(v).__name__)
def test_nested_vmap_equals_single_runs(integrator, name):
    """Step sizes outside; parameters and initial speeds inside."""
    problem, dt, steps, changes = {**PROBLEMS, **MECHANISMS}[name]

    def one(dt, change, factor):
        system, u0 = problem.system.with_params(**change), factor * problem.u0
        return ns.simulate(system, integrator, problem.q0, u0, dt=dt, num_steps=steps)

    dts, factors = jnp.array([dt, 0.6 * dt]), jnp.array([1.0, 0.9, 0.8])
    change = {k: jnp.array(v) for k, v in changes.items()}
    batch = jax.vmap(jax.vmap(one, (None, 0, 0)), (0, None, None))(dts, change, factors)
    assert batch.q.shape[:2] == (2, 3)
    for i in range(2):
        for k in range(3):
            single = one(dts[i], {key: v[k] for key, v in change.items()}, factors[k])
            assert_same(lane(batch, i, k), single)


# Failure ------------------------------------------------------------------------------------------------------------


def fading_force(t, q, u, p):
    """A constant force that is undefined once t exceeds the parameter `end`."""
    return jnp.where(t > p["end"], jnp.nan, 1.0) * jnp.ones_like(u)


FADING = ns.System(
    {"end": 0.05}, mass=lambda t, q, p: jnp.eye(1), force=fading_force, contacts=ns.Contacts(lambda t, q, p: q + 1.0)
)
CONFLICT = ns.System(  # two constraints on one coordinate, which agree until t = 0.05
    {"end": 0.05},
    mass=lambda t, q, p: jnp.eye(1),
    constraint=lambda t, q, p: jnp.stack([q[0], q[0] - jnp.maximum(t - p["end"], 0.0)]),
)
FAILURES = {"NaN force": (FADING, ns.Status.NONFINITE), "conflicting constraints": (CONFLICT, ns.Status.NOT_CONVERGED)}


def fail(system, integrator, **arguments):
    return ns.simulate(system, integrator, jnp.zeros(1), jnp.zeros(1), dt=0.01, num_steps=10, **arguments)


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("kind", FAILURES)
def test_failure_raises_and_names_step_and_time(integrator, kind):
    system, status = FAILURES[kind]
    with pytest.raises(ns.SimulationError, match=r"step \d+ failed at t = 0\.0[45]") as caught:
        fail(system, integrator)
    traj = caught.value.trajectory
    first = int(np.argmax(np.asarray(traj.status) != ns.Status.OK))
    assert first in (4, 5)
    assert f"step {first} failed at t = {0.01 * first:g}" in str(caught.value)
    assert status.message in str(caught.value)


@pytest.mark.parametrize("integrator", ALL)
@pytest.mark.parametrize("kind", FAILURES)
def test_failure_keeps_the_last_accepted_state_and_a_code(integrator, kind):
    system, status = FAILURES[kind]
    traj = fail(system, integrator, throw=False)
    codes = np.asarray(traj.status)
    first = int(np.argmax(codes != ns.Status.OK))
    assert first in (4, 5)
    assert codes[first] == status
    assert np.all(codes[:first] == ns.Status.OK)
    assert np.all(codes[first + 1 :] == ns.Status.STOPPED)
    assert not bool(traj.ok)
    for field in ("q", "u", "P_g", "P_N", "P_F"):
        assert np.all(np.isfinite(np.asarray(getattr(traj, field)))), field
    np.testing.assert_array_equal(traj.q[first + 1 :], np.broadcast_to(traj.q[first], traj.q[first + 1 :].shape))
    np.testing.assert_array_equal(traj.u[first + 1 :], np.broadcast_to(traj.u[first], traj.u[first + 1 :].shape))
    assert not np.any(np.asarray(traj.P_g[first + 1 :]))


@pytest.mark.parametrize("integrator", ALL)
def test_a_failing_lane_does_not_disturb_the_others(integrator):
    system, _ = FAILURES["NaN force"]

    def one(end):
        return fail(system.with_params(end=end), integrator, throw=False)

    ends = jnp.array([0.05, 1.0, 0.02, 2.0])
    batch = jax.vmap(one)(ends)
    np.testing.assert_array_equal(batch.ok, [False, True, False, True])
    for k in range(4):
        assert_same(lane(batch, k), one(ends[k]), tol=1e-12)


# Precision ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ALL)
def test_single_precision_stays_single(integrator):
    """No cast inside: float32 in, float32 out, close to the float64 run."""
    system, q0, u0 = jax.tree.map(lambda v: v.astype(jnp.float32), (BALL.system, BALL.q0, BALL.u0))
    traj = run("ball", integrator, system=system, q0=q0, u0=u0)
    for field in ("t", "q", "u", "P_g", "P_gamma", "P_N", "P_F", "residual"):
        assert getattr(traj, field).dtype == jnp.float32, field
    assert bool(traj.ok)
    np.testing.assert_allclose(traj.q, run("ball", integrator).q, atol=1e-3)


@pytest.mark.parametrize("integrator", ALL)
def test_tolerance_out_of_reach_of_the_dtype_is_an_error(integrator):
    with pytest.raises(ValueError, match="cannot be reached in float32"):
        run("ball", replace(integrator, tol=1e-9), q0=np.float32(BALL.q0), u0=np.float32(BALL.u0))
