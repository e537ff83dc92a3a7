"""Rigid bodies: all formulations give the motion of the same body."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.model.rotation import rotation_matrix

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
