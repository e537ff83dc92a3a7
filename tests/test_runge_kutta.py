"""HEM5 and RKF45 alone: orders against a reduced equation, drift, and the errors they estimate."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from reference_motions import rk4

import jaxns as ns
from jaxns.integrators.base import law_table
from jaxns.integrators.event_driven.runge_kutta import HEM5_A, HEM5_C, RKF45_A, RKF45_B4, RKF45_B5, RKF45_C, Tolerance
from jaxns.integrators.levels.acceleration_level import Mode, Motion

GRAVITY = 9.81
FOUR_BAR = ns.models.four_bar()


def _mass(t, q, p):
    return jnp.eye(2)


def _potential(t, q, p):
    return GRAVITY * q[1]


def _circle(t, q, p):
    return jnp.stack([0.5 * (q @ q - 1.0)])


PENDULUM = ns.System({}, _mass, potential=_potential, constraint=_circle)
START = jnp.array([1.0, 0.0]), jnp.array([0.0, -1.0])


@partial(jax.jit, static_argnums=1)
def fixed_steps(system, smooth, q, u, h, count):
    """`count` steps of size h; the end, and the largest |g| and |ġ| on the way."""
    motion = Motion(system, Mode.open(law_table(system.rows(0.0, q, u)), q.dtype))
    tolerance = Tolerance(jnp.array(0.0), jnp.array(1.0))

    def step(n, carry):
        q, u, g, g_dot = carry
        t = n * h
        end = smooth.step(motion, t, q, u, h, tolerance)
        worst = jnp.max(jnp.abs(system.g(t, end.q))), jnp.max(jnp.abs(system.g_dot(t, end.q, end.u)))
        return end.q, end.u, jnp.maximum(g, worst[0]), jnp.maximum(g_dot, worst[1])

    return lax.fori_loop(0, count, step, (q, u, jnp.array(0.0), jnp.array(0.0)))


def errors(system, smooth, q, u, hs, t1, q_ref, u_ref):
    runs = [fixed_steps(system, smooth, q, u, h, round(t1 / h)) for h in hs]
    e_q = [float(jnp.max(jnp.abs(r[0] - q_ref))) for r in runs]
    e_u = [float(jnp.max(jnp.abs(r[1] - u_ref))) for r in runs]
    return np.array(e_q), np.array(e_u), [float(r[2]) for r in runs], [float(r[3]) for r in runs]


@pytest.fixture(scope="module")
def pendulum_end():
    """The same pendulum as an angle φ from the horizontal: φ̈ = −g cos φ."""
    y = np.array([0.0, -1.0])
    n = 10_000
    for _ in range(n):
        y = rk4(lambda t, y: np.array([y[1], -GRAVITY * np.cos(y[0])]), y, 0.0, 1.0 / n)
    c, s = np.cos(y[0]), np.sin(y[0])
    return np.array([c, s]), y[1] * np.array([-s, c])


def test_coefficients_satisfy_their_order_conditions():
    """Row sums are the nodes; the weights integrate polynomials of the degrees claimed; stages are explicit."""
    np.testing.assert_allclose(HEM5_A.sum(axis=1), HEM5_C, atol=2e-15)
    np.testing.assert_allclose(RKF45_A.sum(axis=1), RKF45_C, atol=1e-15)
    for k in range(6):
        assert HEM5_A[8] @ HEM5_C[:8] ** k == pytest.approx(1 / (k + 1), abs=2e-16)
    for b, order in ((RKF45_B4, 4), (RKF45_B5, 5)):
        for k in range(order):
            assert b @ RKF45_C**k == pytest.approx(1 / (k + 1), abs=2e-16)
    assert np.all(np.diag(HEM5_A, -1) != 0.0)


@pytest.mark.parametrize(
    ("smooth", "order"),
    [(ns.HEM5(), 5), (ns.RKF45(project=False), 4), (ns.RKF45(extrapolate=True, project=False), 5), (ns.RKF45(), 4)],
    ids=["HEM5", "RKF45", "RKF45 extrapolated", "RKF45 projected"],
)
def test_order_on_a_pendulum(smooth, order, pendulum_end):
    hs = 0.05 / 2.0 ** np.arange(4)
    e_q, e_u, g, g_dot = errors(PENDULUM, smooth, *START, hs, 1.0, *pendulum_end)
    for e in (e_q, e_u):
        orders = np.log2(e[:-1] / e[1:])
        assert np.all(orders >= order - 0.6), (e, orders)
        assert max(np.mean(orders), orders[-1]) >= order - 0.15, (e, orders)  # above or below it for coarse steps
    if isinstance(smooth, ns.HEM5):
        assert np.log2(e_q[-2] / e_q[-1]) >= 4.85
        assert np.log2(e_u[-2] / e_u[-1]) >= 4.85
        assert max(g_dot) <= 1e-14
        assert np.log2(g[0] / g[2]) / 2 >= 4.7  # positions drift with the order of the method
    if smooth == ns.RKF45():
        assert max(g) <= 1e-14
        assert max(g_dot) <= 1e-14
    if smooth == ns.RKF45(project=False):
        assert g_dot[-1] > 1e-12  # nothing holds it


def test_hem5_on_the_four_bar():
    """Order 5; and the torque's work is the kinetic energy: T = τ (φ1 − φ1(0))."""
    system, q0, u0 = FOUR_BAR.system, FOUR_BAR.q0, FOUR_BAR.u0
    q_ref, u_ref, _, _ = fixed_steps(system, ns.HEM5(), q0, u0, 1.0 / 640, 640)
    kinetic = float(system.kinetic_energy(0.0, q_ref, u_ref))
    assert kinetic == pytest.approx(6.0 * float(q_ref[0] - q0[0]), rel=1e-11)
    e_q, e_u, _, g_dot = errors(system, ns.HEM5(), q0, u0, 1.0 / np.array([20, 40, 80]), 1.0, q_ref, u_ref)
    for e in (e_q, e_u):
        assert np.all(np.log2(e[:-1] / e[1:]) >= 4.6), e
    assert max(g_dot) <= 1e-14


@pytest.mark.parametrize("smooth", [ns.HEM5(), ns.HEM5(sharp=False), ns.RKF45()], ids=["sharp", "paper", "RKF45"])
def test_estimated_errors_bound_the_local_error_and_have_their_order(smooth):
    motion = Motion(PENDULUM, Mode.open(law_table(PENDULUM.rows(0.0, *START)), START[0].dtype))
    tolerance = Tolerance(jnp.array(0.0), jnp.array(1.0))
    hs = jnp.array([0.04, 0.02, 0.01])
    steps = jax.vmap(lambda h: smooth.step(motion, jnp.array(0.0), *START, h, tolerance))(hs)
    for k, h in enumerate(hs):
        fine = fixed_steps(PENDULUM, smooth, *START, h / 64, 64)
        assert float(jnp.max(jnp.abs(steps.q[k] - fine[0]))) <= float(steps.error[k])
    orders = np.log2(np.asarray(steps.error[:-1] / steps.error[1:]))
    least = {"sharp": 5.5, "paper": 4.0, "RKF45": 4.7}
    name = "RKF45" if isinstance(smooth, ns.RKF45) else ("sharp" if smooth.sharp else "paper")
    assert np.all(orders >= least[name]), orders
