"""Forces after the fact, against closed forms and against the percussions of the steps."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns


@pytest.fixture(scope="module")
def slope():
    problem = ns.models.mass_on_slope(case=2)
    traj = ns.simulate(problem.system, ns.Rattle(tol=1e-12), problem.q0, problem.u0, dt=0.01, t1=1.0)
    return problem.system, traj, ns.contact_forces(problem.system, traj)


def test_forces_of_sliding_are_those_of_the_curved_path(slope):
    """λ_N = m (g cos α + κ v²) and λ_F = −μ λ_N along f(x) = e^{−x}, of the state alone."""
    system, traj, forces = slope
    fall = np.exp(-np.asarray(traj.q[:, 0]))
    length = np.sqrt(1.0 + fall**2)
    expected = 10.0 / length + fall / length**3 * np.sum(np.asarray(traj.u) ** 2, axis=1)
    assert np.all(forces.status == ns.Status.OK)
    assert np.allclose(forces.lambda_N[:, 0], expected, rtol=1e-8)
    slip = np.asarray(system.gamma_F(traj.t[5], traj.q[5], traj.u[5]))[0]
    assert np.allclose(forces.lambda_F[:, 0, 0], -np.sign(slip) * 0.3 * expected, rtol=1e-8)


def test_percussions_are_their_means_over_a_step(slope):
    _, traj, forces = slope
    mean = 0.5 * (forces.lambda_N[1:, 0] + forces.lambda_N[:-1, 0])
    assert np.abs(np.asarray(traj.P_N[1:, 0] / 0.01 - mean)).max() < 1e-2 * np.asarray(mean).max()


def test_open_contacts_carry_nothing_and_joints_carry_the_weight():
    ball = ns.models.bouncing_ball()
    traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    forces = ns.contact_forces(ball.system, traj)
    assert not np.any(np.asarray(forces.lambda_N))
    assert np.allclose(forces.u_dot[:, 1], -9.81)
    rod = ns.System(
        {},
        mass=lambda t, q, p: 2.0 * jnp.eye(2),
        potential=lambda t, q, p: 2.0 * 9.81 * q[1],
        constraint=lambda t, q, p: 0.5 * (q @ q - 1.0)[None],
    )
    swing = ns.simulate(rod, ns.Rattle(), jnp.array([1.0, 0.0]), jnp.zeros(2), dt=1e-3, t1=0.4)
    tension = ns.contact_forces(rod, swing).lambda_g[:, 0]  # −m (3 g (−y)): v² = −2 g y on a unit circle
    assert np.allclose(tension, 2.0 * 3.0 * 9.81 * np.asarray(swing.q[:, 1]), atol=1e-2)
