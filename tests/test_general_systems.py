"""Systems beyond the benchmark problems: explicit time, nonholonomic constraints, mixed contacts, general inertia."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrators import (
    ALL,
    FIRST_ORDER,
    NONHOLONOMIC_ORDER,
    POSITION_LEVEL,
    SECOND_ORDER,
    SMOOTH_ORDER,
    STEADY,
    rests_below_zero,
)

import jaxns as ns

# Explicit time ------------------------------------------------------------------------------------------------------

AMPLITUDE, FREQUENCY, GRAVITY = 0.01, 20.0, 9.81  # Aω² = 4 m/s² < g: what lies on the table stays there


def shaken_system():
    """q = (x, y): x is driven by a constraint with explicit t, y lies on a vibrating table."""

    def drive(t, q, p):
        return q[:1] - p["A"] * jnp.sin(p["w"] * t)

    def table(t, q, p):
        return q[1:] - p["A"] * jnp.sin(p["w"] * t)

    return ns.System(
        {"A": AMPLITUDE, "w": FREQUENCY},
        mass=lambda t, q, p: 2.0 * jnp.eye(2),
        potential=lambda t, q, p: 2.0 * GRAVITY * q[1],
        constraint=drive,
        contacts=ns.Contacts(table),
    )


SHAKEN = shaken_system()


@pytest.mark.parametrize("integrator", ALL)
def test_rheonomic_constraint_and_table(integrator):
    """Both coordinates follow A sin ωt; the table's force is m(g − Aω² sin ωt), the drive's −mAω² sin ωt."""
    dt, steps = 1e-3, 300
    on_table = -1e-9 if rests_below_zero(integrator) else 0.0
    q0, u0 = jnp.array([0.0, on_table]), jnp.full(2, AMPLITUDE * FREQUENCY)
    traj = ns.simulate(SHAKEN, integrator, q0, u0, dt=dt, num_steps=steps)
    t = np.asarray(traj.t)
    path = AMPLITUDE * np.sin(FREQUENCY * t)
    speed = AMPLITUDE * FREQUENCY * np.cos(FREQUENCY * t)
    half_step = 0.5 * dt * AMPLITUDE * FREQUENCY  # velocity-level schemes obey the rows at the middle of the step
    position_error = 3.0 * half_step if rests_below_zero(integrator) else 1e-5
    np.testing.assert_allclose(traj.q, np.stack([path, path], 1), atol=position_error)
    np.testing.assert_allclose(traj.u[:, 0], speed, atol=4.0 * dt)
    inertia = -2.0 * AMPLITUDE * FREQUENCY**2 * np.sin(FREQUENCY * (t[1:] - 0.5 * dt))
    np.testing.assert_allclose(np.asarray(traj.P_g)[2:, 0] / dt, inertia[1:], atol=0.2)
    if not rests_below_zero(integrator):
        np.testing.assert_allclose(traj.u[:, 1], speed, atol=4.0 * dt)
        np.testing.assert_allclose(np.asarray(traj.P_N)[2:, 0] / dt, 2.0 * GRAVITY + inertia[1:], atol=0.2)
    total = 2.0 * (GRAVITY * dt * steps + float(traj.u[-1, 1] - traj.u[0, 1]))
    assert float(traj.P_N.sum()) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("integrator", POSITION_LEVEL)
def test_rheonomic_rows_hold_on_both_levels(integrator):
    system = SHAKEN
    traj = ns.simulate(system, integrator, jnp.zeros(2), jnp.full(2, AMPLITUDE * FREQUENCY), dt=1e-3, num_steps=300)
    rows = (traj.t, traj.q, traj.u)
    assert float(jnp.abs(jax.vmap(system.g)(*rows[:2])).max()) <= 1e-9
    assert float(jnp.abs(jax.vmap(system.g_dot)(*rows)).max()) <= 1e-9
    gaps = jax.vmap(system.g_N)(*rows[:2])
    assert float(jnp.abs(gaps).max()) <= 1e-9


def test_ball_leaves_a_table_that_shakes_too_hard():
    """With Aω² = 16 m/s² > g the contact opens, at the phase sin ωt = g/(Aω²)."""
    system = SHAKEN.with_params(w=2.0 * FREQUENCY)
    u0 = jnp.full(2, AMPLITUDE * 2.0 * FREQUENCY)
    traj = ns.simulate(system, ns.Rattle(), jnp.zeros(2), u0, dt=1e-3, num_steps=300)
    g_N = np.asarray(jax.vmap(system.g_N)(traj.t, traj.q))[:, 0]
    opens = float(traj.t[np.argmax(g_N > 1e-9)])
    assert opens == pytest.approx(np.arcsin(GRAVITY / 16.0) / (2.0 * FREQUENCY), abs=2e-3)
    assert g_N.min() >= -1e-9


# Nonholonomic constraints -------------------------------------------------------------------------------------------


def knife_edge(t, q, u, p):
    """A skate q = (x, y, φ) moves only along its blade."""
    return jnp.stack([-jnp.sin(q[2]) * u[0] + jnp.cos(q[2]) * u[1]])


SPEED, TURN = 1.5, 2.0
SKATE = ns.System({}, mass=lambda t, q, p: jnp.diag(jnp.array([2.0, 2.0, 0.3])), velocity_constraint=knife_edge)


@pytest.fixture(scope="module")
def skate_runs():
    """For each integrator, 400 steps of two sizes."""
    dts = jnp.array([0.01, 0.005])
    u0 = jnp.array([SPEED, 0.0, TURN])

    def run(integrator):
        batch = jax.vmap(lambda dt: ns.simulate(SKATE, integrator, jnp.zeros(3), u0, dt=dt, num_steps=400))(dts)
        assert np.all(batch.ok)
        return np.asarray(dts), batch

    return {p.id: run(p.values[0]) for p in ALL}


@pytest.mark.parametrize("integrator", ALL)
def test_skate_runs_in_a_circle(skate_runs, integrator):
    """Speed v and turning rate ω stay, so the path is the circle of radius v/ω; errors fall with the step."""
    name = type(integrator).__name__
    dts, batch = skate_runs[name]
    assert batch.P_gamma.shape == (2, 401, 1)
    errors = []
    for k, dt in enumerate(dts):
        n = round(2.0 / dt) + 1
        t, q = np.asarray(batch.t[k, :n]), np.asarray(batch.q[k, :n])
        circle = SPEED / TURN * np.stack([np.sin(TURN * t), 1.0 - np.cos(TURN * t)], axis=1)
        errors.append(np.abs(q[:, :2] - circle).max())
        np.testing.assert_allclose(q[:, 2], TURN * t, atol=1e-9)
    assert errors[0] <= 0.1
    if name == "EventDriven":  # its own steps do not depend on dt
        assert max(errors) <= 1e-8
    else:
        assert np.log2(errors[0] / errors[1]) >= NONHOLONOMIC_ORDER[name] - 0.1, errors


@pytest.mark.parametrize("integrator", POSITION_LEVEL)
def test_skate_never_leaves_its_blade(skate_runs, integrator):
    _, batch = skate_runs[type(integrator).__name__]
    gamma = jax.vmap(jax.vmap(SKATE.gamma))(batch.t, batch.q, batch.u)
    assert float(jnp.abs(gamma).max()) <= 1e-9


def test_rattle_speeds_the_skate_up_as_its_equations_say(skate_runs):
    """Stage 1 asks for γ(q⁺, u_½) = 0 and pushes along W(q_n), so each step multiplies the speed by 1/cos ωΔt.

    RATTLE is therefore of first order for nonholonomic constraints: the energy rises at the relative rate ω²Δt.
    """
    dts, batch = skate_runs["Rattle"]
    for k, dt in enumerate(dts):
        speed = np.linalg.norm(np.asarray(batch.u[k, :, :2]), axis=1)
        np.testing.assert_allclose(speed, SPEED / np.cos(TURN * dt) ** np.arange(401), rtol=1e-8)


# Several contact groups ---------------------------------------------------------------------------------------------


def three_particles():
    """q = (z_a | x_b, z_b | x_c, y_c, z_c): without friction, with friction on a line, with friction in a plane."""
    smooth = ns.Contacts(lambda t, q, p: q[0:1], e_N=0.5)
    line = ns.Contacts(lambda t, q, p: q[2:3], lambda t, q, u, p: u[None, 1:2], mu=lambda p: p["mu"])
    plane = ns.Contacts(lambda t, q, p: q[5:6], lambda t, q, u, p: u[None, 3:5], mu=0.2)
    return ns.System(
        {"mu": 0.4},
        mass=lambda t, q, p: jnp.diag(jnp.array([1.0, 2.0, 2.0, 3.0, 3.0, 3.0])),
        potential=lambda t, q, p: 10.0 * (q[0] + 2.0 * q[2] + 3.0 * q[5]),
        contacts=(smooth, line, plane),
    )


@pytest.mark.parametrize("integrator", STEADY)
def test_contact_groups_of_different_dimension(integrator):
    """a drops on the floor and rebounds; b and c brake at μg, c along its direction of motion, until they rest."""
    on_floor = -1e-9 if rests_below_zero(integrator) else 0.0
    q0 = jnp.array([0.45, 0.0, on_floor, 0.0, 0.0, on_floor])
    u0 = jnp.array([0.0, 2.0, 0.0, 0.6, 0.8, 0.0])
    traj = ns.simulate(three_particles(), integrator, q0, u0, dt=1e-3, num_steps=700)
    assert traj.P_N.shape == (701, 3)
    assert traj.P_F.shape == (701, 3, 2)
    P_N, P_F = np.asarray(traj.P_N[1:]), np.asarray(traj.P_F[1:])
    assert not np.any(P_F[:, 0])  # no friction
    assert not np.any(P_F[:, 1, 1])  # no second direction
    np.testing.assert_allclose(P_N[:, 1:], np.broadcast_to([0.02, 0.03], (700, 2)), rtol=1e-6)
    t, u = np.asarray(traj.t), np.asarray(traj.u)
    np.testing.assert_allclose(u[:, 1], np.maximum(2.0 - 4.0 * t, 0.0), atol=1e-8)
    speed = np.maximum(1.0 - 2.0 * t, 0.0)
    np.testing.assert_allclose(u[:, 3:5], speed[:, None] * [0.6, 0.8], atol=1e-8)
    impact = int(np.argmax(P_N[:, 0] > 0.0))
    assert t[impact] == pytest.approx(0.3, abs=2e-3)
    assert P_N[:500, 0].sum() == pytest.approx(1.5 * 3.0, rel=0.01)  # (1 + e) m v, before the second impact
    assert q0[0] * 0.25 == pytest.approx(float(traj.q[impact:, 0].max()), rel=0.02)  # rises to e² of its height


# Position-dependent inertia -----------------------------------------------------------------------------------------

M1, M2, L1, L2 = 1.0, 0.5, 0.7, 0.4


def pendulum_mass(t, q, p):
    c = jnp.cos(q[0] - q[1])
    return jnp.stack([
        jnp.stack([(M1 + M2) * L1**2 + 0.0 * c, M2 * L1 * L2 * c]),
        jnp.stack([M2 * L1 * L2 * c, M2 * L2**2 + 0.0 * c]),
    ])


def pendulum_potential(t, q, p):
    return -p["gravity"] * ((M1 + M2) * L1 * jnp.cos(q[0]) + M2 * L2 * jnp.cos(q[1]))


PENDULUM = ns.System({"gravity": 9.81}, pendulum_mass, potential=pendulum_potential)
PENDULUM_START = (np.array([1.2, -0.5]), np.array([0.0, 2.0]))
PENDULUM_DTS = np.array([4e-3, 2e-3, 1e-3])
PENDULUM_END = 1.0


def pendulum_by_runge_kutta(steps=4000):
    """The textbook equations of motion of the double pendulum, in numpy."""

    def rate(y):
        a, b, u, v = y
        s, c = np.sin(a - b), np.cos(a - b)
        M = np.array([[(M1 + M2) * L1**2, M2 * L1 * L2 * c], [M2 * L1 * L2 * c, M2 * L2**2]])
        h = np.array([
            -M2 * L1 * L2 * v**2 * s - (M1 + M2) * GRAVITY * L1 * np.sin(a),
            M2 * L1 * L2 * u**2 * s - M2 * GRAVITY * L2 * np.sin(b),
        ])
        return np.concatenate([[u, v], np.linalg.solve(M, h)])

    y, h = np.concatenate(PENDULUM_START), PENDULUM_END / steps
    for _ in range(steps):
        k1 = rate(y)
        k2 = rate(y + 0.5 * h * k1)
        k3 = rate(y + 0.5 * h * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


def tight(integrator):
    """The same integrator with a tolerance below the smallest errors."""
    return replace(integrator, tol=1e-13)


def over_step_sizes(system, integrator, q0, u0, dts, end):
    """One batch over step sizes; for each, the rows up to the common end."""
    steps = round(end / dts.min())
    run = jax.vmap(lambda dt: ns.simulate(system, integrator, jnp.asarray(q0), jnp.asarray(u0), dt=dt, num_steps=steps))
    batch = jax.tree.map(np.asarray, run(jnp.asarray(dts)))
    assert np.all(batch.status == ns.Status.OK)
    return [(batch.q[k, : round(end / dt) + 1], batch.u[k, : round(end / dt) + 1]) for k, dt in enumerate(dts)]


def pendulum_errors(integrator):
    """Errors of the end state against Runge–Kutta, and largest changes of energy, for each step size."""
    exact = pendulum_by_runge_kutta()
    states, energies = [], []
    for q, u in over_step_sizes(PENDULUM, tight(integrator), *PENDULUM_START, PENDULUM_DTS, PENDULUM_END):
        states.append(np.abs(np.concatenate([q[-1], u[-1]]) - exact).max())
        kinetic = jax.vmap(lambda q, u: PENDULUM.kinetic_energy(0.0, q, u))(q, u)
        total = np.asarray(kinetic + jax.vmap(lambda q: PENDULUM.potential_energy(0.0, q))(q))
        energies.append(np.abs(total - total[0]).max())
    return np.array(states), np.array(energies)


def orders(errors):
    return np.log2(errors[:-1] / errors[1:])


@pytest.mark.parametrize("integrator", SECOND_ORDER)
def test_double_pendulum_second_order_or_higher(integrator):
    """Gyroscopic terms by autodiff give the textbook motion; state and energy have the order of the integrator."""
    order = SMOOTH_ORDER[type(integrator).__name__]
    states, energies = pendulum_errors(integrator)
    np.testing.assert_allclose(orders(states), order, atol=0.2, err_msg=str(states))
    np.testing.assert_allclose(orders(energies), order, atol=0.3, err_msg=str(energies))
    assert states[-1] <= 1e-3


@pytest.mark.parametrize("integrator", FIRST_ORDER)
def test_double_pendulum_first_order(integrator):
    states, _ = pendulum_errors(integrator)
    assert np.all(orders(states) >= 0.8), states
    assert states[-1] <= 0.05


# Kinematics with B ≠ I ----------------------------------------------------------------------------------------------

INERTIA = np.array([1.0, 2.0, 3.0])


def top_kinematics(t, q, u, p):
    p0, v = q[0], q[1:]
    return 0.5 * jnp.concatenate([-(v @ u)[None], p0 * u + jnp.cross(v, u)])


TOP = ns.System(
    {"inertia": INERTIA},
    mass=lambda t, q, p: jnp.diag(p["inertia"]),
    force=lambda t, q, u, p: -jnp.cross(u, p["inertia"] * u),
    kinematics=top_kinematics,
)


def angular_momentum(q, omega):
    """In the inertial frame: A(q) Θω, A v = v + 2 p × (p_0 v + p × v)/|q|²."""
    L, p0, p = INERTIA * omega, q[:, :1], q[:, 1:]
    return L + 2.0 * np.cross(p, p0 * L + np.cross(p, L)) / np.sum(q * q, axis=1, keepdims=True)


def top_errors(integrator):
    """Largest changes of the angular momentum and of the quaternion's length, for each step size."""
    q0, u0 = np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.3, 2.0, 0.1])
    momenta, lengths = [], []
    for q, u in over_step_sizes(TOP, tight(integrator), q0, u0, np.array([0.04, 0.02, 0.01]), 2.0):
        L = angular_momentum(q, u)
        momenta.append(np.abs(L - L[0]).max())
        lengths.append(np.abs(np.linalg.norm(q, axis=1) - 1.0).max())
        assert np.ptp(u[:, 0]) > 0.3  # it tumbles: spin about the middle axis is unstable
    return np.array(momenta), np.array(lengths)


@pytest.mark.parametrize("integrator", SECOND_ORDER)
def test_asymmetric_top_conserves_angular_momentum_to_second_order_or_higher(integrator):
    momenta, lengths = top_errors(integrator)
    order = SMOOTH_ORDER[type(integrator).__name__]
    np.testing.assert_allclose(orders(momenta), order, atol=0.2, err_msg=str(momenta))
    assert momenta[-1] <= 1e-3 * np.linalg.norm(INERTIA * [0.3, 2.0, 0.1])
    assert lengths.max() <= 1e-9


@pytest.mark.parametrize("integrator", FIRST_ORDER)
def test_asymmetric_top_conserves_angular_momentum_to_first_order(integrator):
    momenta, lengths = top_errors(integrator)
    assert np.all(orders(momenta) >= 0.8), momenta
    assert lengths.max() <= 1e-13


@pytest.mark.parametrize("integrator", FIRST_ORDER)
def test_quaternions_keep_their_length_in_fast_spin_and_contact(integrator):
    """A body that turns by 0.2 rad in a step, and the tippedisk on its floor, whose contact moves the quaternion, too."""
    body = ns.System({"m": 1.0, "Theta": jnp.asarray(INERTIA)}, **ns.bodies.quaternion_body())
    q0, u0 = jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 0.0, 1.0, 20.0, 1.0])
    free = ns.simulate(body, integrator, q0, u0, dt=1e-2, num_steps=100)
    disk = ns.models.tippedisk()
    rolling = ns.simulate(disk.system, integrator, disk.q0, disk.u0, dt=1e-3, num_steps=500)
    assert np.sum(np.asarray(rolling.P_N)) > 0.0
    for traj in (free, rolling):
        np.testing.assert_allclose(jnp.linalg.norm(traj.q[:, 3:], axis=1), 1.0, rtol=0.0, atol=1e-13)


# No rows at all -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrator", ALL)
def test_free_fall_without_constraints_and_contacts(integrator):
    """A system may have no rows; constant forces are integrated exactly."""
    system = ns.System({}, mass=lambda t, q, p: 2.0 * jnp.eye(1), potential=lambda t, q, p: 2.0 * 10.0 * q[0])
    traj = ns.simulate(system, integrator, jnp.ones(1), jnp.zeros(1), dt=0.1, num_steps=4)
    t = np.asarray(traj.t)
    np.testing.assert_allclose(traj.q[:, 0], 1.0 - 5.0 * t**2, atol=1e-12)
    np.testing.assert_allclose(traj.u[:, 0], -10.0 * t, atol=1e-12)
    assert traj.P_N.shape == (5, 0)
