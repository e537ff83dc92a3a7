"""Rigid bodies: all formulations give the motion of the same body."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.model.rotation import quaternion_product, rotation_matrix

THETA = np.array([1.0, 2.0, 2.6])
PARAMS = {"m": 1.5, "Theta": jnp.asarray(THETA)}
OMEGA = jnp.array([0.3, 2.0, 0.5])
UPRIGHT = jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
TURNING = jnp.cross(jnp.broadcast_to(OMEGA, (3, 3)), jnp.eye(3)).reshape(-1)  # ḋ_i = ω × d_i
BODIES = {  # arguments of System, q0, u0
    "affine": (
        ns.bodies.affine_body(),
        jnp.concatenate([jnp.zeros(3), jnp.eye(3).reshape(-1)]),
        jnp.concatenate([jnp.ones(3), TURNING]),
    ),
    "scalable": (ns.bodies.scalable_body(), UPRIGHT, jnp.concatenate([jnp.ones(3), jnp.zeros(1), OMEGA])),
    "quaternion": (ns.bodies.quaternion_body(), UPRIGHT, jnp.concatenate([jnp.ones(3), OMEGA])),
}
SCHEMES = {
    "affine, constant mass": ("affine", ns.EnergyConstantMass(tol=1e-12), 2),
    "affine, two steps": ("affine", ns.EnergyTwoStep(tol=1e-12), 2),
    "affine, Rattle": ("affine", ns.Rattle(tol=1e-12), 2),
    "scalable, midpoint": ("scalable", ns.EnergyDecomposedMass(tol=1e-12), 2),
    "scalable, two steps": ("scalable", ns.EnergyTwoStep(tol=1e-12), 2),
    "scalable, begin": ("scalable", ns.EnergyDecomposedMass(tol=1e-12, midpoint=False), 1),
    "quaternion, one step": ("quaternion", ns.EnergyQuaternion(tol=1e-12), 2),
    "quaternion, two steps": ("quaternion", ns.EnergyQuaternionTwoStep(tol=1e-12), 2),
}


SYSTEMS = {name: ns.System(PARAMS, **arguments) for name, (arguments, _, _) in BODIES.items()}


def run(body, scheme, num_steps, end=2.0):
    (_, q0, u0), system = BODIES[body], SYSTEMS[body]
    traj = ns.simulate(system, scheme, q0, u0, dt=end / num_steps, num_steps=num_steps)
    return system, traj


def attitude(body, q):
    return np.asarray(q[3:].reshape(3, 3).T if body == "affine" else rotation_matrix(q[3:]))


@pytest.fixture(scope="module")
def exact():
    """A Lobatto run of order six."""
    _, traj = run("quaternion", ns.Lobatto(stages=4, tol=1e-13), 200)
    return attitude("quaternion", traj.q[-1])


def test_a_full_tensor_of_inertia_is_that_of_the_same_body_in_another_basis():
    """The same energy and, turned, the same acceleration as with principal moments."""
    R = rotation_matrix(jnp.array([0.8, 0.1, -0.5, 0.3]) / jnp.sqrt(0.99))
    turned = {"m": 1.5, "Theta": R.T @ jnp.diag(PARAMS["Theta"]) @ R}
    omega, axes = R.T @ OMEGA, jnp.cross(OMEGA, R.T).reshape(-1)
    velocities = {
        "affine": jnp.concatenate([jnp.ones(3), axes]),
        "scalable": jnp.concatenate([jnp.ones(3), jnp.zeros(1), omega]),
        "quaternion": jnp.concatenate([jnp.ones(3), omega]),
    }
    energy = 0.5 * 1.5 * 3.0 + 0.5 * np.sum(THETA * np.square(OMEGA))
    for body, (arguments, q, _) in BODIES.items():
        M, u = arguments["mass"](0.0, q, turned), velocities[body]
        np.testing.assert_allclose(0.5 * u @ M @ u, energy, rtol=1e-12)
    (arguments, q, u), change = BODIES["quaternion"], {}
    for name, params, v in (("principal", PARAMS, u), ("full", turned, velocities["quaternion"])):
        change[name] = jnp.linalg.solve(arguments["mass"](0.0, q, params), arguments["force"](0.0, q, v, params))[3:]
    np.testing.assert_allclose(change["full"], R.T @ change["principal"], rtol=1e-12)


SLOW = ("affine, two steps", "affine, Rattle", "scalable, two steps", "scalable, begin", "quaternion, two steps")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in SCHEMES])
def test_force_free_asymmetric_top(exact, name):
    """The same attitude, with the order of the scheme; energy constant; the centre of mass moves on a straight line."""
    body, scheme, order = SCHEMES[name]
    errors = []
    for end, row in ((4.0, 100), (2.0, 200)):  # with as many steps, so that one program serves both
        system, traj = run(body, scheme, 200, end)
        errors.append(np.abs(attitude(body, traj.q[row]) - exact).max())
        np.testing.assert_allclose(traj.q[row, :3], 2.0, atol=1e-9)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)
    assert errors[-1] < 5e-3
    if name != "affine, Rattle":
        E = np.asarray(ns.energy(system, traj).total)
        assert np.abs(np.diff(E)).max() <= 1e-11 * E[0]


def test_constraint_force_of_the_scalable_body():
    """λ = −ωᵀΘω keeps its size, up to the error of the midpoint; without the constraint it grows."""
    _, traj = run("scalable", ns.EnergyDecomposedMass(tol=1e-12), 400)
    dt = float(traj.t[1])
    u = np.asarray(traj.u)
    omega = 0.5 * (u[1:, 4:] + u[:-1, 4:])
    np.testing.assert_allclose(traj.P_g[1:, 0] / dt, -np.sum(omega * THETA * omega, axis=1), rtol=2e-5)
    free = ns.System(PARAMS, **ns.bodies.scalable_body(rigid=False))
    _, q0, u0 = BODIES["scalable"]
    loose = ns.simulate(free, ns.EnergyDecomposedMass(tol=1e-12), q0, u0, dt=0.01, num_steps=100)
    assert float(jnp.linalg.norm(loose.q[-1, 3:])) > 1.2
    E = np.asarray(ns.energy(free, loose).total)
    assert np.abs(np.diff(E)).max() <= 1e-11 * E[0]


@pytest.mark.parametrize("scheme", [ns.EnergyQuaternion(tol=1e-14), ns.EnergyQuaternionTwoStep(tol=1e-14)])
def test_quaternions_keep_their_length_without_projection(scheme):
    _, traj = run("quaternion", scheme, 50)
    np.testing.assert_allclose(jnp.linalg.norm(traj.q[:, 3:], axis=1), 1.0, rtol=0.0, atol=1e-14)


def test_planar_body_and_point_mass_fall():
    for arguments, n, extra in ((ns.bodies.planar_body(), 3, {"J": 0.2}), (ns.bodies.point_mass(2), 2, {})):
        system = ns.System({"m": 2.0, **extra}, **arguments, potential=lambda t, q, p: 9.81 * p["m"] * q[1])
        traj = ns.simulate(system, ns.EnergyConstantMass(), jnp.zeros(n), jnp.ones(n), dt=0.1, num_steps=10)
        np.testing.assert_allclose(traj.q[-1, :2], [1.0, 1.0 - 0.5 * 9.81], rtol=1e-9)


# Gyroscopic forces of square kinematics --------------------------------------------------------------------------------


@pytest.mark.parametrize("A", [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.3, -0.5, 0.7, 0.4]])
def test_gyroscopic_forces_of_the_scalable_body(A):
    """−ω × Θω, and ωᵀΘω against the constraint, whatever the attitude."""
    q, omega = jnp.concatenate([jnp.ones(3), jnp.asarray(A) / np.linalg.norm(A)]), np.array([1.0, 5.0, 0.5])
    h = SYSTEMS["scalable"].h(0.0, q, jnp.concatenate([jnp.ones(3), jnp.zeros(1), omega]))
    np.testing.assert_allclose(h[:3], 0.0, atol=1e-12)
    np.testing.assert_allclose(h[3], omega @ (THETA * omega), rtol=1e-12)
    np.testing.assert_allclose(h[4:], -np.cross(omega, THETA * omega), rtol=1e-12)


def test_gyroscopic_forces_do_not_depend_on_the_choice_of_velocities(rng):
    """M(t, q) q̈ = h by Lagrange's equations, and the same motion in u with q̇ = B(t, q) u."""

    def B(t, q):
        return jnp.array([[1.0 + q[1] ** 2, 0.3 * q[0]], [jnp.sin(q[0] + t), 2.0 + q[1] * t]])

    def mass(t, q, p):
        return jnp.array([[2.0 + t + jnp.cos(q[1]), q[0] * q[1]], [q[0] * q[1], 3.0 + q[0] ** 2]])

    def potential(t, q, p):
        return jnp.sin(q[0]) * q[1]

    plain = ns.System(None, mass, potential)
    other = ns.System(
        None, lambda t, q, p: B(t, q).T @ mass(t, q, p) @ B(t, q), potential, kinematics=lambda t, q, u, p: B(t, q) @ u
    )
    for _ in range(5):
        t, q, u = jnp.asarray(rng.normal()), jnp.asarray(0.5 * rng.normal(size=2)), jnp.asarray(rng.normal(size=2))
        q_dot = B(t, q) @ u
        q_ddot = np.linalg.solve(plain.M(t, q), plain.h(t, q, q_dot))
        B_dot = jax.jvp(B, (t, q), (jnp.ones(()), q_dot))[1]
        u_dot = np.linalg.solve(B(t, q), q_ddot - B_dot @ u)
        np.testing.assert_allclose(other.h(t, q, u), other.M(t, q) @ u_dot, rtol=1e-9, atol=1e-9)


def test_gyroscopic_forces_in_a_turning_frame():
    """q is seen from a frame that turns with Ω, u is the velocity at rest: a free particle keeps it, u̇ = −Ω × u."""
    spin = jnp.array([0.3, -0.2, 0.7])
    particle = ns.System(None, lambda t, q, p: 2.0 * jnp.eye(3), kinematics=lambda t, q, u, p: u - jnp.cross(spin, q))
    u = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(particle.h(0.0, jnp.ones(3), u), -2.0 * jnp.cross(spin, u), rtol=1e-12)


FREE = {"Theta": jnp.array([1.0, 2.0, 3.0]), "m": 1.0}
FREE_TOP = ns.System(FREE, **ns.bodies.scalable_body())
EULER = np.array([1.28442991, 4.93459622, -0.68307154])  # Θω̇ = −ω × Θω after 1 s from (1, 5, 0.5), by scipy's solve_ivp
TOP_SCHEMES = [
    *((ns.Moreau(), 1), (ns.GGLDecoupled(), 1), (ns.GGLUnified(), 2), (ns.Rattle(), 2), (ns.Lobatto(stages=3), 4)),
    *((ns.GeneralizedAlpha(), 2), (ns.EnergyDecomposedMass(), 2), (ns.EnergyTwoStep(), 2)),
]


def spinning(integrator, dt):
    u0 = jnp.array([0.0, 0.0, 0.0, 0.0, 1.0, 5.0, 0.5])
    traj = ns.simulate(FREE_TOP, integrator, UPRIGHT, u0, dt=dt, num_steps=round(1.0 / dt))
    return np.abs(np.asarray(traj.u[-1, 4:]) - EULER).max()


@pytest.mark.parametrize(("scheme", "order"), [pytest.param(*s, id=type(s[0]).__name__) for s in TOP_SCHEMES])
def test_free_top_as_scalable_body_turns_as_eulers_equations_say(scheme, order):
    scheme = type(scheme)(tol=1e-12)
    steps = (0.02, 0.01) if order == 4 else (0.004, 0.002)
    errors = [spinning(scheme, dt) for dt in steps]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25), errors
    assert errors[1] < 0.03


def test_free_top_as_scalable_body_event_driven():
    assert spinning(ns.EventDriven(), 0.1) < 1e-6


@pytest.mark.parametrize("scheme", [ns.EnergyQuaternion(tol=1e-12), ns.EnergyQuaternionTwoStep(tol=1e-12)])
def test_quaternion_schemes_derive_the_gyroscopic_forces_of_square_kinematics(scheme):
    """A top that may also stretch, q̇ = ½ q ∘ u with u ∈ R⁴, beside a Lobatto run; the energy is constant."""
    system = ns.System(
        None,
        lambda t, q, p: jnp.diag(jnp.array([1.5, 1.0, 2.0, 3.0])),
        kinematics=lambda t, q, u, p: 0.5 * quaternion_product(q, u),
    )
    q0, u0 = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([0.1, 0.5, 1.0, 0.2])
    exact = ns.simulate(system, ns.Lobatto(stages=3, tol=1e-12), q0, u0, dt=0.02, num_steps=50).u[-1]
    runs = [ns.simulate(system, scheme, q0, u0, dt=dt, num_steps=round(1.0 / dt)) for dt in (0.02, 0.01)]
    errors = [np.abs(run.u[-1] - exact).max() for run in runs]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1), errors
    E = np.asarray(ns.energy(system, runs[0]).total)
    np.testing.assert_allclose(E, E[0], rtol=1e-10)
