"""Restitution and friction that depend on the speed of a contact, and rolling resistance, against closed forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import jaxns as ns

ALL = [
    ns.Moreau(),
    ns.GGLUnified(),
    ns.GeneralizedAlpha(rho_inf=0.9),
    ns.Rattle(),
    ns.Lobatto(stages=2),
    ns.Located(ns.Rattle()),
    ns.EventDriven(),
]
G = 10.0


def softening(v, p):
    """e_N = 1/(1 + v/v_0)."""
    return 1.0 / (1.0 + v / p["v_0"])


def stribeck(v, p):
    return p["mu_d"] + (p["mu_s"] - p["mu_d"]) * jnp.exp(-((v / p["v_s"]) ** 2))


ball = ns.System(
    dict(v_0=2.0, gravity=G),
    mass=lambda t, q, p: jnp.eye(1),
    potential=lambda t, q, p: p["gravity"] * q[0],
    contacts=ns.Contacts(lambda t, q, p: q, e_N=ns.BySpeed(softening)),
)
block = ns.System(  # q = (x, y) on the ground, pulled by F along x
    dict(mu_s=0.5, mu_d=0.2, v_s=0.3, F=0.0),
    mass=lambda t, q, p: jnp.eye(2),
    potential=lambda t, q, p: G * q[1] - p["F"] * q[0],
    contacts=ns.Contacts(lambda t, q, p: q[1:], lambda t, q, u, p: u[:1, None], mu=ns.BySpeed(stribeck)),
)


def name(integrator):
    return type(integrator).__name__


@pytest.mark.parametrize("integrator", ALL, ids=name)
def test_rebound_of_a_ball_follows_its_approach_speed(integrator):
    """From 0.2 m it arrives at 2 m/s and leaves at 1 m/s, arrives at 1 m/s, e_N = 2/3, and leaves at 2/3 m/s."""
    dt = 2e-4
    traj = ns.simulate(ball, integrator, jnp.array([0.2]), jnp.zeros(1), dt=dt, t1=0.5)
    t, u = np.asarray(traj.t), np.asarray(traj.u[:, 0])
    up = np.flatnonzero((u[1:] > 0.0) & (u[:-1] <= 0.0)) + 1
    expected = (1.0, 2.0 / 3.0)
    exact = isinstance(integrator, (ns.EventDriven, ns.Located))
    for k, speed in zip(up[:2], expected, strict=True):
        lost = G * (t[k] - (0.2 if speed == 1.0 else 0.4)) if exact else 0.0
        assert u[k] == pytest.approx(speed - lost, abs=1e-6 if exact else 6.0 * G * dt)


@pytest.mark.parametrize("integrator", [ns.EventDriven(), ns.Located(ns.Rattle())], ids=name)
def test_derivative_of_the_rebound_with_respect_to_its_parameter(integrator):
    """After the impact at 2 m/s: u⁺ = 2/(1 + 2/v_0), y = u⁺ τ − G τ²/2 with τ = 0.1 s: ∂y/∂v_0 = 4 τ/(v_0 + 2)²."""

    def height(v_0):
        system = ball.with_params(v_0=v_0)
        return ns.simulate(system, integrator, jnp.array([0.2]), jnp.zeros(1), dt=1e-2, num_steps=30).q[-1, 0]

    assert float(jax.jit(jax.jacfwd(height))(2.0)) == pytest.approx(4.0 * 0.1 / 16.0, rel=1e-6)


@pytest.mark.parametrize("integrator", ALL, ids=name)
def test_a_block_brakes_with_stribeck_friction(integrator):
    """v̇ = −g μ(v) from 1 m/s: fixed steps take μ at their beginning, which is Euler's method; events follow the motion."""
    p = {k: float(v) for k, v in block.params.items()}

    def rate(v):
        return -G * (p["mu_d"] + (p["mu_s"] - p["mu_d"]) * np.exp(-((v / p["v_s"]) ** 2)))

    dt, steps, v = 2e-3, 180, 1.0
    traj = ns.simulate(block, integrator, jnp.zeros(2), jnp.array([1.0, 0.0]), dt=dt, num_steps=steps)
    if isinstance(integrator, ns.EventDriven):
        v = integrate.solve_ivp(lambda t, v: rate(v), (0.0, dt * steps), [v], rtol=1e-10, atol=1e-12).y[0, -1]
    else:
        for _ in range(steps):
            v += dt * rate(v)
    assert 0.1 < v < 0.3  # where μ changes
    assert float(traj.u[-1, 0]) == pytest.approx(v, abs=1e-7)


def test_a_block_sticks_up_to_the_static_coefficient():
    for force, sticks in ((4.9, True), (5.1, False)):
        for integrator in (ns.Rattle(), ns.EventDriven()):
            pulled = block.with_params(F=force)
            traj = ns.simulate(pulled, integrator, jnp.zeros(2), jnp.zeros(2), dt=1e-2, num_steps=20)
            assert bool(abs(traj.u[-1, 0]) < 1e-9) == sticks


def test_values_outside_of_their_range_end_the_run():
    grows = ns.System(
        {"gravity": G},
        mass=lambda t, q, p: jnp.eye(1),
        potential=lambda t, q, p: p["gravity"] * q[0],
        contacts=ns.Contacts(lambda t, q, p: q, e_N=ns.BySpeed(lambda v, p: v)),
    )
    traj = ns.simulate(grows, ns.Moreau(), jnp.array([0.2]), jnp.zeros(1), dt=1e-2, num_steps=30, throw=False)
    assert int(traj.status[-1]) != 0 and bool(jnp.isfinite(traj.q).all())
    with pytest.raises(ValueError, match=r"e_N must be in \[0, 1\]"):
        ns.simulate(grows, ns.Moreau(), jnp.array([0.2]), jnp.array([-2.0]), dt=1e-2, num_steps=3)
    with pytest.raises(TypeError, match="at_speeds"):
        ball.coefficients(ball.rows(0.0, jnp.ones(1), jnp.ones(1)), float)


def test_new_values_compile_nothing_new():
    assert jax.tree.structure(ball) == jax.tree.structure(ball.with_params(v_0=3.0))
    settled = ball.at_speeds(0.0, jnp.ones(1), -jnp.ones(1))
    assert settled.contacts[0].e_N.tolist() == pytest.approx([2.0 / 3.0])


# Rolling resistance -----------------------------------------------------------------------------------------------------

R, J = 0.2, 0.03


def wheel(slope):
    """A disk of one kilogram on an inclined line, q = (x along it, y off it, φ); it rolls with ẋ = −R φ̇."""
    return ns.System(
        dict(mu=0.8, mu_r=0.01),
        mass=lambda t, q, p: jnp.diag(jnp.array([1.0, 1.0, J])),
        potential=lambda t, q, p: G * (np.cos(slope) * q[1] - np.sin(slope) * q[0]),
        contacts=ns.Contacts(
            lambda t, q, p: q[1:2] - R,
            lambda t, q, u, p: jnp.stack([u[0] + R * u[2], u[2]])[None],
            mu=lambda p: jnp.stack([p["mu"], p["mu_r"]])[None],
            law=ns.Uncoupled((1, 1)),
        ),
    )


def test_rolling_resistance_brakes_a_wheel_and_holds_it_on_a_slope():
    """On the level v̇ = −μ_r m g / (R (m + J/R²)); on a slope it stays where tan α < μ_r/R."""
    rolls = jnp.array([0.5, 0.0, -0.5 / R])
    brake = 0.01 * G / (R * (1.0 + J / R**2))
    for integrator in (ns.Rattle(), ns.Moreau(), ns.Lobatto(stages=2)):
        traj = ns.simulate(wheel(0.0), integrator, jnp.array([0.0, R, 0.0]), rolls, dt=1e-2, num_steps=100)
        assert float(traj.u[-1, 0]) == pytest.approx(0.5 - brake * 1.0, abs=1e-8)
    for tangent, stays in ((0.9 * 0.01 / R, True), (1.1 * 0.01 / R, False)):
        start = jnp.array([0.0, R, 0.0])
        traj = ns.simulate(wheel(np.arctan(tangent)), ns.Rattle(), start, jnp.zeros(3), dt=1e-2, num_steps=50)
        assert bool(abs(traj.u[-1, 0]) < 1e-9) == stays


def test_a_ball_with_rolling_resistance_in_space():
    """Four friction rows: sliding in both directions, and ω_x, ω_y; v̇ = −μ_r g/(R (1 + J/(m R²))) against its motion."""
    ball = ns.System(
        dict(mu_r=0.01),
        mass=lambda t, q, p: jnp.diag(jnp.array([1.0, 1.0, 1.0, J, J, J])),
        potential=lambda t, q, p: G * q[2],
        contacts=ns.Contacts(
            lambda t, q, p: q[2:3] - R,
            lambda t, q, u, p: jnp.stack([u[0] - R * u[4], u[1] + R * u[3], u[3], u[4]])[None],
            mu=lambda p: jnp.stack([0.8, 0.8, p["mu_r"], p["mu_r"]])[None],
            law=ns.Uncoupled((2, 2)),
        ),
    )
    v = np.array([0.3, 0.4])
    u0 = jnp.array([*v, 0.0, -v[1] / R, v[0] / R, 0.0])
    traj = ns.simulate(ball, ns.Rattle(), jnp.array([0.0, 0.0, R, 0.0, 0.0, 0.0]), u0, dt=1e-2, num_steps=50)
    brake = 0.01 * G / (R * (1.0 + J / R**2))
    np.testing.assert_allclose(traj.u[-1, :2], v * (1.0 - 0.5 * brake / 0.5), atol=1e-8)


def test_blocks_that_do_not_fit_are_explained():
    with pytest.raises(ValueError, match=r"need 3 friction rows, got 2"):
        ns.Uncoupled((1, 2)).project(jnp.ones(2), jnp.ones(2), jnp.ones(()))
    with pytest.raises(ValueError, match="blocks must be numbers"):
        ns.Uncoupled((0, 1))
