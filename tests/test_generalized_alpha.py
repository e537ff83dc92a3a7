"""The nonsmooth generalized-α method: order, penetration, closed forms, and agreement with RATTLE."""

from __future__ import annotations

import hard_systems
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

ALPHA = ns.GeneralizedAlpha(rho_inf=0.9)


@pytest.fixture(scope="module")
def orders():
    """Observed orders in q and u on the slope, cases 1 and 2, part of the paper's step list."""
    result = {}
    for case in (1, 2):
        slope = ns.models.mass_on_slope(case=case)
        result[case] = ns.convergence_study(
            slope.system,
            ns.GeneralizedAlpha(rho_inf=0.9, tol=1e-12),
            slope.q0,
            slope.u0,
            t1=1.6,
            dts=3.2e-3 * 2.0 ** np.arange(5),
            dt_ref=1e-4,
        )
    return result


@pytest.mark.parametrize("case", [1, 2])
def test_second_order_in_persistent_contact(orders, case):
    assert float(orders[case].order_q) == pytest.approx(2.0, abs=0.1)
    assert float(orders[case].order_u) == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("omega", [0.0, 10.0, 50.0])
def test_ball(omega):
    """No penetration; rolling at 2/7 R ω, or a Zeno sequence of impacts that ends at rest."""
    ball = ns.models.bouncing_ball(omega=omega, e_N=0.0 if omega else 0.5)
    traj = ns.simulate(ball.system, ALPHA, ball.q0, ball.u0, dt=1e-2, t1=1.5)
    assert float(jnp.min(traj.q[:, 1])) >= 0.1 - 1e-9
    assert abs(float(traj.u[-1, 0])) == pytest.approx(2.0 / 7.0 * 0.1 * omega, abs=1e-8)
    assert abs(float(traj.u[-1, 1])) <= 1e-6


@pytest.fixture(scope="module")
def crank():
    p = ns.models.slider_crank()
    return ns.simulate(p.system, ALPHA, p.q0, p.u0, dt=1e-4, num_steps=1500, throw=False)


def test_slider_crank_neither_penetrates_nor_drifts(crank):
    system = ns.models.slider_crank().system
    assert bool(crank.ok)
    assert float(jax.vmap(system.g_N)(crank.t, crank.q).min()) >= -1e-9
    assert float(jnp.abs(jax.vmap(system.g)(crank.t, crank.q)).max()) <= 1e-9
    assert float(jnp.abs(jax.vmap(system.g_dot)(crank.t, crank.q, crank.u)).max()) <= 1e-7
    assert np.asarray(crank.P_N).max() > 0.0


@pytest.mark.slow
def test_tippedisk_agrees_with_rattle():
    """dt 1e-3: the height within 1e-4 m while the disk rises by 5e-3 m, positions within 1e-4 m for 0.3 s."""
    disk = ns.models.tippedisk()
    a, b = (ns.simulate(disk.system, i, disk.q0, disk.u0, dt=1e-3, num_steps=1000) for i in (ALPHA, ns.Rattle()))
    np.testing.assert_allclose(a.q[:, 2], b.q[:, 2], atol=1e-4)
    np.testing.assert_allclose(a.q[:300, :3], b.q[:300, :3], atol=1e-4)
    assert float(a.q[-1, 2]) >= 0.047
    np.testing.assert_allclose(np.linalg.norm(a.q[:, 3:], axis=1), 1.0, atol=1e-12)


def test_start_finds_the_forces_of_the_initial_state():
    """At rest on the slope (45°, μ = 0.3): λ_N = m g cos 45°, sliding down, friction against it."""
    slope = ns.models.mass_on_slope(case=1)
    memory = ALPHA.start(slope.system, jnp.zeros(()), slope.q0, slope.u0, jnp.asarray(1e-3))
    normal = 10.0 / np.sqrt(2.0)
    np.testing.assert_allclose(memory.past.force, [normal, -0.3 * normal], rtol=1e-9)
    down = np.array([1.0, -1.0]) / np.sqrt(2.0)
    np.testing.assert_allclose(memory.past.u_dot, 0.7 * normal * down, rtol=1e-9)


def test_damping_of_high_frequencies():
    """A stiff oscillator, ωΔt = 60: ρ∞ = 1 keeps its energy, ρ∞ = 0.5 loses it within a few steps."""
    stiff = ns.System(
        {"k": 3.6e5}, mass=lambda t, q, p: jnp.eye(1), potential=lambda t, q, p: 0.5 * p["k"] * jnp.sum(q * q)
    )

    def energy(rho):
        scheme = ns.GeneralizedAlpha(rho_inf=rho)
        traj = ns.simulate(stiff, scheme, jnp.array([1e-2]), jnp.zeros(1), dt=0.1, num_steps=60)
        return np.asarray(ns.energy(stiff, traj).total)

    undamped, damped = energy(1.0), energy(0.5)
    assert undamped[-5:].max() >= 0.5 * undamped[0]
    assert damped[-1] <= 1e-6 * damped[0]


@pytest.mark.parametrize("rho", [-0.1, 1.5])
def test_rho_outside_of_its_range_is_an_error(rho):
    with pytest.raises(ValueError, match="rho_inf must lie between 0 and 1"):
        ns.GeneralizedAlpha(rho_inf=rho)


# The laws on three levels ---------------------------------------------------------------------------------------------


def complementary(a, b, tol):
    return min(a, b) >= -tol and min(abs(a), abs(b)) <= tol


def test_laws_hold_on_three_levels_in_every_step():
    """A square with four corners thrown on a floor, e_N = e_F = 0.5: gaps, impacts, friction, forces and accelerations of
    every step by numpy, one corner after the other. With friction in the positions such steps may have no solution."""
    system, q0, u0, dt = hard_systems.square(lanes=8)
    M, mu, e, tol = np.diag([1.0, 1.0, 0.01 / 6]), 0.4, 0.5, 1e-8

    def one(q, u):
        def body(carry, t):
            q, u, memory = carry
            step = ALPHA.step(system, t, q, u, jnp.asarray(dt), memory, jnp.asarray(1e-10))
            status = jnp.max(jnp.stack([solve.status for solve in step.solves]))
            return (step.q, step.u, step.memory), (step.q, step.u, step.P, step.memory.past, status)

        start = (q, u, ALPHA.start(system, jnp.asarray(0.0), q, u, jnp.asarray(dt)))
        return jax.lax.scan(body, start, dt * jnp.arange(150))[1]

    q, u, P, past, status = jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(q0, u0))
    assert np.all(status == 0)
    seen = {"impact": 0, "slide": 0, "stick": 0}
    corner = 0.05 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    for lane in range(len(q0)):
        for k in range(1, 150):
            W, gap, bias = [], [], []
            for state in (q[lane, k - 1], q[lane, k]):
                cos, sin = np.cos(state[2]), np.sin(state[2])
                x, y = (corner @ np.array([[cos, sin], [-sin, cos]])).T
                none, one = np.zeros(4), np.ones(4)
                W.append(np.concatenate([np.stack([none, one, x], axis=1), np.stack([one, none, -y], axis=1)]))
                gap.append(state[1] + y)
                bias.append(np.concatenate([-y, -x]))
            xi = W[1] @ u[lane, k] + e * W[0] @ u[lane, k - 1]
            force, u_dot = past.force[lane, k], past.u_dot[lane, k]
            np.testing.assert_allclose(M @ u_dot, W[1].T @ force - [0.0, 9.81, 0.0], atol=1e-9)
            rate = dt * (W[1] @ u_dot + bias[1] * u[lane, k, 2] ** 2)
            for i in range(4):
                P_N, P_F, F_N, F_F = P[lane, k, i], P[lane, k, 4 + i], dt * force[i], dt * force[4 + i]
                assert gap[1][i] >= -1e-9 and (P_N == 0.0 or gap[1][i] <= 1e-9)
                if gap[1][i] > 1e-9:
                    assert P_N == P_F == F_N == F_F == 0.0
                    continue
                assert complementary(xi[i], P_N, tol) and abs(P_F) <= mu * P_N + tol
                slides = abs(xi[4 + i]) > tol
                assert not slides or abs(P_F + mu * P_N * np.sign(xi[4 + i])) <= tol
                if xi[i] > tol:
                    assert F_N == F_F == 0.0
                    continue
                assert complementary(rate[i], F_N, tol) and abs(F_F) <= mu * F_N + tol
                assert not slides or abs(F_F + mu * F_N * np.sign(xi[4 + i])) <= tol
                assert slides or abs(rate[4 + i]) <= tol or abs(F_F + mu * F_N * np.sign(rate[4 + i])) <= tol
                seen["impact"] += P_N > 5 * F_N
                seen["slide" if slides else "stick"] += 1
    assert min(seen.values()) >= 10


def test_a_freewheel_that_starts_backwards_is_stopped():
    """It cannot slide that way: its initial acceleration is that of a locked wheel, and the first step an impact."""
    clutch = ns.models.sprag_clutch()
    u0 = jnp.array([-1.0, -1.0])
    traj = ns.simulate(clutch.system, ALPHA, clutch.q0, u0, dt=clutch.dt, num_steps=3, check=False)
    expected = ns.simulate(clutch.system, ns.Moreau(), clutch.q0, u0, dt=clutch.dt, num_steps=3, check=False)
    np.testing.assert_allclose(traj.u, expected.u, atol=1e-9)
    assert np.all(np.asarray(clutch.system.gamma_F(0.0, traj.q[-1], traj.u[-1])) >= -1e-9)
