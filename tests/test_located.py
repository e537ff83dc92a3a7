"""Impacts located inside fixed steps: values and derivatives beside closed forms and event-driven motion."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import located_cases as cases
import numpy as np
import pytest

import jaxns as ns

RATTLE = ns.Located(ns.Rattle())
BALL = ns.System(
    {"e_N": 0.9, "gravity": 9.81},
    mass=lambda t, q, p: jnp.eye(1),
    potential=lambda t, q, p: p["gravity"] * q[0],
    contacts=ns.Contacts(lambda t, q, p: q, e_N=lambda p: p["e_N"]),
)
THETA = jnp.array([1.0, 0.5, 0.9, 9.81])  # height, speed, e_N, gravity
IMPACTS, T1 = 10, 5.75


def closed_form(theta, impacts=IMPACTS, t1=T1):
    """Height at t1 and instants of the impacts of a ball thrown up."""
    height, speed, e, g = theta
    v = jnp.sqrt(speed**2 + 2.0 * g * height)
    t, instants = (speed + v) / g, []
    for _ in range(impacts):
        instants.append(t)
        v = e * v
        tau, t = t1 - t, t + 2.0 * v / g
    return v * tau - 0.5 * g * tau**2, jnp.stack(instants)


def thrown(theta, integrator=RATTLE, num_steps=230):
    system = BALL.with_params(e_N=theta[2], gravity=theta[3])
    traj = ns.simulate(
        system, integrator, theta[:1], theta[1:2], dt=T1 / num_steps, num_steps=num_steps, save_every=num_steps
    )
    return traj.q[-1, 0], traj.events.t[:IMPACTS]


@pytest.fixture(scope="module")
def batch():
    """Balls from four heights: (value, gradient by reverse mode) in one program."""

    def value_and_gradient(theta):
        (height, instants), pull = jax.vjp(thrown, theta)
        return height, instants, pull((jnp.ones(()), jnp.zeros_like(instants)))[0]

    thetas = THETA + jnp.linspace(0.0, 0.01, 4)[:, None] * jnp.array([1.0, 0.0, 0.0, 0.0])
    return thetas, value_and_gradient, jax.jit(jax.vmap(value_and_gradient))(thetas)


def test_ball_has_the_values_instants_and_gradients_of_the_closed_form(batch):
    """RATTLE's flights are exact parabolas, so that nothing but the instants can be wrong."""
    thetas, _, (heights, instants, gradients) = batch
    exact, exact_instants = jax.vmap(closed_form)(thetas)
    exact_gradients = jax.vmap(jax.jacfwd(lambda theta: closed_form(theta)[0]))(thetas)
    np.testing.assert_allclose(heights, exact, atol=1e-8)
    np.testing.assert_allclose(instants, exact_instants, atol=1e-8)
    np.testing.assert_allclose(gradients, exact_gradients, atol=1e-7)


def test_forward_mode_is_reverse_mode_and_single_runs_are_the_batch(batch):
    thetas, _, (heights, _, gradients) = batch
    J, J_instants = jax.jit(jax.jacfwd(thrown))(thetas[1])
    np.testing.assert_allclose(J, gradients[1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(thrown(thetas[1])[0], heights[1], atol=1e-12)
    exact = jax.jacfwd(lambda theta: closed_form(theta)[1])(thetas[1])
    np.testing.assert_allclose(J_instants, exact, atol=1e-8)  # of all instants


@pytest.mark.slow
def test_second_derivatives_of_the_ball():
    """Forward over forward; the closed form has them."""
    end = lambda theta: thrown(theta, num_steps=230)[0]  # noqa: E731
    H = jax.jit(jax.jacfwd(jax.jacfwd(end)))(THETA)
    exact = jax.jacfwd(jax.jacfwd(lambda theta: closed_form(theta)[0]))(THETA)
    np.testing.assert_allclose(H, exact, rtol=1e-6, atol=1e-6 * float(jnp.abs(exact).max()))


@pytest.mark.slow
def test_second_order_with_spring_and_damping():
    errors = cases.errors(cases.ball(1), RATTLE, 1)
    orders = np.log2(errors[:, 0] / errors[:, 1])
    assert np.all(orders >= 1.8), orders
    assert errors[1, 1] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(make, id=name)
        for name, make in {
            "ball, 3 impacts": lambda: cases.ball(3),
            "ball, 10 impacts": lambda: cases.ball(10),
            "two balls, 1 impact": lambda: cases.two_balls(1),
            "two balls, 3 impacts": lambda: cases.two_balls(3),
            "pendulum": cases.pendulum,
            "sliding impact": lambda: cases.disc(0.1),
            "sticking impact": lambda: cases.disc(2.0),
            "slider-crank": cases.slider_crank,
        }.items()
    ],
)
def test_second_order_in_value_and_derivative(case):
    errors = cases.errors(case(), RATTLE, 2)
    orders = np.log2(errors[:, 1] / errors[:, 2])
    assert np.all(orders >= 1.8), orders


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme, order",
    [(ns.Moreau(), 0.8), (ns.Lobatto(3), 3.0), (ns.GGLUnified(), 1.8), (ns.EnergyTwoStep(), 1.8)],
    ids=lambda x: type(x).__name__,
)
def test_order_of_other_schemes(scheme, order):
    errors = cases.errors(cases.ball(1), ns.Located(scheme), 1)
    orders = np.log2(errors[:, 0] / errors[:, 1])
    assert np.all((orders >= order) | (errors[:, 1] < 1e-9)), (orders, errors)  # or at the tolerance


def test_elastic_impacts_keep_the_energy():
    """A thousand impacts on a spring: no trend beyond the square of the step."""
    system = cases.ball(1).system.with_params(e_N=1.0, damping=0.0)
    traj = ns.simulate(system, RATTLE, jnp.array([1.0]), jnp.zeros(1), dt=0.02, t1=900.0)
    E = np.asarray(ns.energy(system, traj).total)
    E, tenth = E / E[0] - 1.0, len(E) // 10
    assert int(traj.events.count) > 1000
    assert not np.any(traj.captured)
    assert np.abs(E).max() < 2e-3
    assert abs(E[-tenth:].mean() - E[:tenth].mean()) < 1e-5


def test_without_an_impact_it_is_the_plain_scheme():
    problem = ns.models.mass_on_slope()
    runs = [
        ns.simulate(problem.system, integrator, problem.q0, problem.u0, dt=0.02, num_steps=20)
        for integrator in (ns.Rattle(), RATTLE)
    ]
    for name in ("q", "u", "P_N", "P_F"):
        np.testing.assert_allclose(getattr(runs[0], name), getattr(runs[1], name), atol=1e-9)
    assert not np.any(runs[1].captured)


@pytest.mark.parametrize("scheme", [ns.GGLUnified(), ns.EnergyTwoStep()], ids=lambda x: type(x).__name__)
def test_other_schemes_have_the_values_and_instants_of_the_closed_form(scheme):
    """They follow parabolas exactly, too."""
    height, instants = thrown(THETA, ns.Located(scheme))
    exact, exact_instants = closed_form(THETA)
    np.testing.assert_allclose(height, exact, atol=1e-7)
    np.testing.assert_allclose(instants, exact_instants, atol=1e-8)


def test_zeno_sequence_ends_by_capture():
    system = BALL.with_params(e_N=0.5)
    traj = ns.simulate(system, RATTLE, jnp.array([1.0]), jnp.zeros(1), dt=0.01, t1=1.6)
    t_rest = np.sqrt(2.0 / 9.81) * (1.0 + 2.0 * 0.5 / (1.0 - 0.5))
    captured = np.flatnonzero(np.asarray(traj.captured))
    assert len(captured) >= 1
    assert abs(float(traj.t[1 + captured[0]]) - t_rest) < 0.03
    np.testing.assert_allclose(traj.q[-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(traj.u[-1], 0.0, atol=1e-9)
    assert float(jnp.min(traj.q)) > -1e-9


def test_a_contact_that_approaches_at_the_start():
    """Its gap is rounding, but the instant of the impact depends on the height all the same."""

    def height(theta):
        system = BALL.with_params(e_N=theta[2], gravity=theta[3])
        return ns.simulate(system, RATTLE, theta[:1], theta[1:2], dt=0.01, num_steps=40, save_every=40).q[-1, 0]

    run = jax.jit(jax.vmap(jax.jacfwd(height)))
    thetas = jnp.array([[gap, -3.0, 0.9, 9.81] for gap in (0.0, 1e-13, 1e-5)])
    exact = jax.jacfwd(lambda theta: closed_form(theta, impacts=1, t1=0.4)[0])(thetas[2])
    for J in run(thetas):
        np.testing.assert_allclose(J, exact, rtol=1e-4)


def test_simultaneous_impacts_and_events():
    """Two balls that hit two walls at once, and one of them a little later: the earlier one is located first."""
    system = ns.System(
        {"e_N": 0.5},
        mass=lambda t, q, p: jnp.eye(2),
        contacts=ns.Contacts(lambda t, q, p: jnp.stack([q[0], 1.0 - q[1]]), e_N=lambda p: p["e_N"]),
    )
    q0, u0 = jnp.array([0.25, 0.75]), jnp.array([-1.0, 1.0])
    for delay, instants in ((0.0, [0.25, 0.25]), (0.003, [0.25, 0.253])):
        traj = ns.simulate(system, RATTLE, q0 - jnp.array([0.0, delay]), u0, dt=0.02, num_steps=20)
        np.testing.assert_allclose(traj.events.t, instants, atol=1e-9)
        assert traj.events.contact.tolist() == [0, 1]
        np.testing.assert_allclose(traj.events.before[:, 0], -1.0, atol=1e-12)
        np.testing.assert_allclose(traj.events.after[:, 0], 0.5, atol=1e-12)
        ends = 0.5 * (0.4 - np.array(instants))
        np.testing.assert_allclose(traj.q[-1], [ends[0], 1.0 - ends[1]], atol=1e-9)


def test_more_impacts_than_a_step_may_locate_are_captured():
    """A ball between two walls that are 0.1 apart: five impacts in each step of 0.5 s, two of which are located."""
    walls = ns.System(
        None,
        mass=lambda t, q, p: jnp.eye(1),
        contacts=ns.Contacts(lambda t, q, p: jnp.concatenate([q, 0.1 - q]), e_N=1.0),
    )
    traj = ns.simulate(walls, ns.Located(ns.Rattle(), impacts=2), jnp.array([0.05]), jnp.ones(1), dt=0.5, num_steps=1)
    assert bool(traj.ok)
    assert traj.captured.tolist() == [1]
    assert traj.events.t.tolist() == pytest.approx([0.05, 0.15], abs=1e-9)


def test_what_cannot_be_wrapped_is_named():
    with pytest.raises(TypeError, match="GeneralizedAlpha cannot be divided"):
        ns.Located(ns.GeneralizedAlpha())
    with pytest.raises(TypeError, match="Located cannot be divided"):
        ns.Located(RATTLE)
    with pytest.raises(ValueError, match="restitution"):
        ns.Located(ns.Rattle(restitution="reduce"))
    with pytest.raises(ValueError, match="impacts must be a whole number"):
        ns.Located(ns.Rattle(), impacts=0)


@pytest.mark.slow
def test_gradient_report_trusts_located_schemes():
    report = ns.gradient_report(
        BALL, THETA[:1], jnp.zeros(1), ["gravity"], dt=5e-3, num_steps=100, capturing=[ns.Moreau(), RATTLE]
    )
    assert report.verdict == {"gravity": "located"}
    assert "Located(Rattle)" in str(report)
