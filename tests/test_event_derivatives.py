"""Derivatives through impacts, stick and slip: those of the motion, against closed forms and differences."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reference_motions import bounces
from small_problems import falling_ball

import jaxns as ns

EVENT = ns.EventDriven(max_steps=40, max_events=16)


def _mass(t, q, p):
    return jnp.eye(q.shape[0])


def _weight(t, q, p):
    return p["gravity"] * q[-1]


def _height(t, q, p):
    return q[-1:]


def _slip(t, q, u, p):
    return u[:-1][None]


def _mu(p):
    return p["mu"]


# A ball after 1, 3 and 10 impacts -----------------------------------------------------------------------------------

BALL = falling_ball()
THETA = {"height": 1.0, "speed": 0.5, "e": 0.9, "gravity": 9.81, "dt": 0.25}
ROWS = {1: 3, 3: 9, 10: 23}  # a row of spacing 0.25 after so many impacts
IMPACTS = 11


def ball(theta):
    system = BALL.with_params(e_N=theta["e"], gravity=theta["gravity"])
    q0, u0 = theta["height"] * jnp.ones(1), theta["speed"] * jnp.ones(1)
    traj = ns.simulate(system, EVENT, q0, u0, dt=theta["dt"], num_steps=24)
    rows = jnp.array(list(ROWS.values()))
    return {
        "q": traj.q[rows, 0],
        "u": traj.u[rows, 0],
        "t": traj.events.t[:IMPACTS],
        "v": traj.events.after[:IMPACTS, 0],
    }


def closed_form(theta):
    h, v0, e, g = (theta[k] for k in ("height", "speed", "e", "gravity"))
    times, speeds = bounces(h, v0, e, g, IMPACTS, xp=jnp)
    q, u = [], []
    for count, row in ROWS.items():
        tau = theta["dt"] * row - times[count - 1]
        q.append(speeds[count - 1] * tau - 0.5 * g * tau**2)
        u.append(speeds[count - 1] - g * tau)
    return {"q": jnp.stack(q), "u": jnp.stack(u), "t": jnp.stack(times), "v": jnp.stack(speeds)}


def assert_close(found, expected, tol):
    for path, x in jax.tree.leaves_with_path(expected):
        y = np.asarray(dict(jax.tree.leaves_with_path(found))[path])
        np.testing.assert_allclose(y, x, rtol=tol, atol=1e-9, err_msg=str(path))


def test_rows_lie_after_the_impacts_they_claim():
    times, _ = bounces(*list(THETA.values())[:4], IMPACTS + 1)
    assert [int(np.searchsorted(times, 0.25 * row)) for row in ROWS.values()] == list(ROWS)
    assert_close(ball(THETA), closed_form(THETA), 1e-9)


@pytest.fixture(scope="module")
def true_derivatives():
    return jax.jacfwd(closed_form)(THETA)


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_ball_after_1_3_and_10_impacts(jacobian, true_derivatives):
    """States, instants and rebound speeds with respect to height, speed, restitution, gravity and the spacing of rows."""
    assert_close(jacobian(ball)(THETA), true_derivatives, 1e-6)


@pytest.mark.parametrize("dt", [0.05, pytest.param(0.1, marks=pytest.mark.slow)])
def test_an_impact_at_the_instant_of_a_row(dt):
    """From 1.25 m at g = 10 the ball lands at t = 0.5, with e = 0.5: after it q = e √(2gh) τ − g τ²/2, τ = t − √(2h/g)."""

    def height(h):
        system = BALL.with_params(e_N=0.5, gravity=10.0)
        return ns.simulate(system, EVENT, h * jnp.ones(1), jnp.zeros(1), dt=dt, num_steps=12).q[round(0.6 / dt), 0]

    assert float(jax.jit(jax.jacfwd(height))(1.25)) == pytest.approx(-0.2, abs=1e-9)


# Detachment ---------------------------------------------------------------------------------------------------------


def _distance(t, q, p):
    return jnp.stack([jnp.sqrt(q @ q) - p["R"]])


CYLINDER = ns.System({"R": 1.0, "gravity": 9.81}, _mass, potential=_weight, contacts=ns.Contacts(_distance))


def slide_off(theta):
    """A mass slides down a cylinder and leaves it: where it is then, and when that was."""
    u0 = theta["v"] * jnp.array([1.0, 0.0])
    q0 = theta["R"] * jnp.array([0.0, 1.0])
    system = CYLINDER.with_params(R=theta["R"], gravity=theta["gravity"])
    traj = ns.simulate(system, EVENT, q0, u0, dt=0.1, num_steps=6)
    return traj.q[-1, 0], traj.events.t[0]


def test_detachment_compiled_in_reverse_mode():
    """It leaves at the height (2 + v²/(gR)) R/3, in closed form by the energy; derivatives against differences."""
    theta = {"v": 1.5, "R": 1.0, "gravity": 9.81}
    jacobian = jax.jit(jax.jacrev(slide_off))(theta)
    run = jax.jit(slide_off)
    h = 1e-5
    for k in range(2):
        for name, value in theta.items():
            difference = (run({**theta, name: value + h})[k] - run({**theta, name: value - h})[k]) / (2 * h)
            assert float(jacobian[k][name]) == pytest.approx(float(difference), rel=1e-6), (k, name)


# Stopping distance --------------------------------------------------------------------------------------------------

BLOCK = ns.System({"mu": 0.3, "gravity": 9.81}, _mass, potential=_weight, contacts=ns.Contacts(_height, _slip, mu=_mu))


def stop(mu, v):
    q0, u0 = jnp.zeros(2), v * jnp.array([1.0, 0.0])
    return ns.simulate(BLOCK.with_params(mu=mu), EVENT, q0, u0, dt=0.25, num_steps=4).q[-1, 0]


@pytest.fixture(scope="module")
def stop_gradient():
    return jax.jit(jax.value_and_grad(stop, argnums=(0, 1)))


def test_stopping_distance(stop_gradient):
    """v²/(2μg), stopped well before the end."""
    mu, v, g = 0.3, 1.5, 9.81
    distance, (d_mu, d_v) = stop_gradient(mu, v)
    assert float(distance) == pytest.approx(v**2 / (2 * mu * g), rel=1e-9)
    assert float(d_mu) == pytest.approx(-(v**2) / (2 * mu**2 * g), rel=1e-8)
    assert float(d_v) == pytest.approx(v / (mu * g), rel=1e-8)


@pytest.mark.slow
def test_batches_of_derivatives_equal_single_ones(stop_gradient):
    """Lanes with different numbers of events: a block that stops early, late, or not at all."""
    speeds = jnp.array([0.3, 1.5, 2.8, 4.0])
    _, batch = jax.vmap(stop_gradient, (None, 0))(0.3, speeds)
    for k, v in enumerate(speeds):
        np.testing.assert_allclose([b[k] for b in batch], stop_gradient(0.3, v)[1], rtol=1e-10)


# Reversal, impact and stop on the slope, against differences --------------------------------------------------------

SLOPE = ns.models.mass_on_slope()
SHORT = ns.EventDriven(max_steps=80, max_events=8)


def on_slope(theta, q0, u0):
    """x and ẋ at rows before and after the stop, for μ, gravity, and a factor on the initial velocity."""
    system = SLOPE.system.with_params(mu=theta[0], gravity=theta[1])
    traj = ns.simulate(system, SHORT, q0, theta[2] * u0, dt=0.6, num_steps=4)
    return jnp.concatenate([traj.q[jnp.array([1, 2, 4]), 0], traj.u[1:3, 0]])


@pytest.mark.slow
def test_slope_with_reversal_impact_and_stop():
    theta, h = jnp.array([0.3, 10.0, 1.0]), 1e-5
    jacobian = jax.jit(jax.jacfwd(on_slope))
    for case in (3, 4):
        start = ns.models.mass_on_slope(case=case)

        def motion(theta, start=start):
            return on_slope(theta, start.q0, start.u0)

        differences = np.stack([(motion(theta + h * e) - motion(theta - h * e)) / (2 * h) for e in jnp.eye(3)], axis=1)
        np.testing.assert_allclose(jacobian(theta, start.q0, start.u0), differences, rtol=1e-5, atol=1e-6)


def height_after(impacts, x, t):
    """Height at t of a ball thrown from height x[0] with speed x[1], restitution x[2] and gravity x[3]."""
    height, speed, e_N, g = x
    t_hit = (speed + jnp.sqrt(speed**2 + 2.0 * g * height)) / g
    up = e_N * (g * t_hit - speed)
    for _ in range(impacts - 1):
        t_hit, up = t_hit + 2.0 * up / g, e_N * up
    return up * (t - t_hit) - 0.5 * g * (t - t_hit) ** 2


def test_second_derivatives_of_a_bouncing_ball():
    """After one impact and after three, forward over reverse; the closed form has no instants to get wrong."""

    def heights(x):
        system = falling_ball(x[2]).with_params(gravity=x[3])
        return ns.simulate(system, EVENT, x[:1], x[1:2], dt=0.73, num_steps=3).q[jnp.array([1, 3]), 0]

    x = jnp.array([1.0, 0.3, 0.8, 9.81])
    found = jax.jit(jax.hessian(heights))(x)
    for H, impacts, t in ((found[0], 1, 0.73), (found[1], 3, 2.19)):
        expected = jax.hessian(partial(height_after, impacts))(x, t)
        np.testing.assert_allclose(H, expected, rtol=1e-9, atol=1e-9 * np.max(np.abs(expected)))


@pytest.mark.slow
def test_second_derivatives_of_two_balls():
    """Two unequal balls above each other, forward over forward: the lower one meets the floor, then the upper one."""

    def gaps(t, q, p):
        return jnp.stack([q[0], q[1] - q[0]])

    def system(x):
        parameters = dict(m=jnp.stack([x[0], jnp.ones_like(x[0])]), e=x[1:3])
        contacts = ns.Contacts(gaps, e_N=lambda p: p["e"])
        mass, weight = (lambda t, q, p: jnp.diag(p["m"])), (lambda t, q, u, p: -9.81 * p["m"])
        return ns.System(parameters, mass, force=weight, contacts=contacts)

    def motion(x):
        traj = ns.simulate(system(x), EVENT, x[3:], jnp.zeros(2), dt=0.6, num_steps=1, check=False)
        return traj.q[-1, 1]

    def closed_form(x):
        m, e_0, e_1, low, high = x
        t_0 = jnp.sqrt(2.0 * low / 9.81)
        v = e_0 * 9.81 * t_0
        distance, approach = high - low, v + 9.81 * t_0  # both fall with g from t_0 on
        t_1 = t_0 + distance / approach
        v_low, v_high = v - 9.81 * (t_1 - t_0), -9.81 * t_1
        after = v_high + (1.0 + e_1) * m / (m + 1.0) * (v_low - v_high)
        y = high - 0.5 * 9.81 * t_1**2
        return y + after * (0.6 - t_1) - 0.5 * 9.81 * (0.6 - t_1) ** 2

    x = jnp.array([3.0, 0.9, 0.7, 0.5, 0.8])
    np.testing.assert_allclose(motion(x), closed_form(x), rtol=1e-9)
    expected = jax.hessian(closed_form)(x)
    np.testing.assert_allclose(
        jax.jit(jax.jacfwd(jax.jacfwd(motion)))(x), expected, rtol=1e-8, atol=1e-8 * np.max(np.abs(expected))
    )


@pytest.mark.parametrize("gap", [1e-13, 0.0, -1e-13])
def test_a_gap_that_is_about_to_close_decides_on_the_instant(gap):
    """A ball that starts at the floor with 3 m/s downwards hits it later the higher it is."""

    def height(h):
        return ns.simulate(BALL, EVENT, h[None], jnp.array([-3.0]), dt=0.1, num_steps=1).q[-1, 0]

    expected = jax.grad(partial(height_after, 1))(jnp.array([1e-13, -3.0, 0.7, 9.81]), 0.1)[0]
    np.testing.assert_allclose(jax.jacfwd(height)(jnp.asarray(gap)), expected, rtol=1e-8)


def test_a_failed_run_has_no_derivative():
    """Rows may take two steps alone, and the second one has a sequence of impacts in it."""

    def height(g):
        system = falling_ball(0.2).with_params(gravity=g)
        integrator = ns.EventDriven(max_steps=2)
        return ns.simulate(system, integrator, jnp.ones(1), jnp.zeros(1), dt=0.4, num_steps=2, throw=False).q[:, 0]

    value, slope = height(9.81), jax.jacfwd(height)(9.81)
    np.testing.assert_allclose(value[1], 1.0 - 0.5 * 9.81 * 0.4**2, rtol=1e-9)
    np.testing.assert_allclose(slope[:2], [0.0, -0.08], rtol=1e-9, atol=1e-12)
    assert value[2] == value[1] and np.isnan(slope[2])
    assert np.isnan(jax.grad(lambda g: height(g)[2])(9.81))


def test_derivatives_without_contacts():
    """An oscillator, q = cos(√k t)."""
    system = ns.System({"k": 4.0}, mass=_mass, potential=lambda t, q, p: 0.5 * p["k"] * q[0] ** 2)

    def end(k):
        q0, u0 = jnp.ones(1), jnp.zeros(1)
        return ns.simulate(system.with_params(k=k), ns.EventDriven(max_steps=40), q0, u0, dt=0.5, num_steps=2).q[-1, 0]

    k = jnp.asarray(4.0)
    np.testing.assert_allclose(jax.jacfwd(end)(k), -0.25 * np.sin(2.0), rtol=1e-8)
    np.testing.assert_allclose(jax.grad(end)(k), -0.25 * np.sin(2.0), rtol=1e-8)
