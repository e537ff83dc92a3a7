"""Redundant contacts: the Delassus matrix is singular, positions and velocities and their derivatives are unique."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrators import ALPHA, STEADY, rests_below_zero

import jaxns as ns

# Generalized-α is slow to compile with its rows on three levels.
INTEGRATORS = [pytest.param(replace(p.values[0], tol=1e-12), id=p.id) for p in STEADY if p.values[0] != ALPHA]
STEPS = 10
SLOW = pytest.mark.slow

# A block flat on four corners ---------------------------------------------------------------------------------------

LENGTH, WIDTH, HEIGHT, MASS = 0.3, 0.2, 0.1, 2.0
CORNERS = 0.5 * np.array([[LENGTH, WIDTH], [LENGTH, -WIDTH], [-LENGTH, WIDTH], [-LENGTH, -WIDTH]])


def block_mass(t, q, p):
    a, b, c = LENGTH**2, WIDTH**2, HEIGHT**2
    return MASS * jnp.diag(jnp.array([1.0, 1.0, 1.0, (b + c) / 12.0, (a + c) / 12.0, (a + b) / 12.0]))


def block_potential(t, q, p):
    return MASS * p["gravity"] * q[2]


def block_push(t, q, u, p):
    return p["push"] * jnp.eye(6)[0]


def corner_gap(t, q, p):
    """Lowest corners of q = (x, y, z, small rotations about x, y, z)."""
    return q[2] - HEIGHT / 2 + CORNERS[:, 1] * q[3] - CORNERS[:, 0] * q[4]


def corner_slip(t, q, u, p):
    x, y, z = CORNERS[:, 0], CORNERS[:, 1], -HEIGHT / 2
    return jnp.stack([u[0] + z * u[4] - y * u[5], u[1] - z * u[3] + x * u[5]], axis=1)


BLOCK = ns.System(
    {"gravity": 9.81, "mu": 0.3, "push": 0.0},
    block_mass,
    potential=block_potential,
    force=block_push,
    contacts=ns.Contacts(corner_gap, corner_slip, mu=lambda p: p["mu"]),
)
BLOCK_Q0 = jnp.zeros(6).at[2].set(HEIGHT / 2)
PRESSED = 1e-9  # a velocity-level scheme closes a contact by the sign of its gap, so no gap may be a rounded zero
BLOCK_DT = 1e-2
BLOCK_END = STEPS * BLOCK_DT


def run_block(integrator, gravity, mu, push, u0=np.zeros(6)):  # noqa: B008
    system = BLOCK.with_params(gravity=gravity, mu=mu, push=push)
    q0 = BLOCK_Q0.at[2].add(-PRESSED) if rests_below_zero(integrator) else BLOCK_Q0
    return ns.simulate(system, integrator, q0, jnp.asarray(u0), dt=BLOCK_DT, num_steps=STEPS)


def test_the_blocks_contacts_are_redundant():
    """Twelve rows on six coordinates."""
    W = BLOCK.W(0.0, BLOCK_Q0, jnp.zeros(6))
    assert W.shape == (6, 12)
    assert np.linalg.matrix_rank(W.T @ W) == 6


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("push", [0.0, 3.0, 10.0], ids=["rest", "held by friction", "pushed"])
def test_block_moves_as_friction_allows_and_forces_balance(integrator, push):
    """Held below μmg = 5.9 N, else a = push/m − μg; ΣP_N = m g Δt, the corners' pressures carry the moment."""
    traj = run_block(integrator, 9.81, 0.3, push)
    assert bool(traj.ok)
    acceleration = max(push / MASS - 0.3 * 9.81, 0.0)
    end = np.asarray(traj.u[-1])
    np.testing.assert_allclose(end, acceleration * BLOCK_END * np.eye(6)[0], atol=1e-9)
    np.testing.assert_allclose(traj.q[-1] - traj.q[0], 0.5 * acceleration * BLOCK_END**2 * np.eye(6)[0], atol=1e-9)
    P_N, P_F = np.asarray(traj.P_N[1:]), np.asarray(traj.P_F[1:])
    np.testing.assert_allclose(P_N.sum(axis=1), MASS * 9.81 * BLOCK_DT, rtol=1e-8)
    friction = -min(push, 0.3 * MASS * 9.81) * BLOCK_DT
    np.testing.assert_allclose(P_F.sum(axis=1), np.stack([np.full(STEPS, friction), np.zeros(STEPS)], 1), atol=1e-9)
    assert np.all(np.linalg.norm(P_F, axis=2) <= 0.3 * P_N + 1e-9)
    # Friction acts at the floor, a lever of height/2 below the centre: the front corners press harder.
    moment = P_N @ CORNERS[:, 0]
    np.testing.assert_allclose(moment, -HEIGHT / 2 * friction, atol=1e-9)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_spinning_block_slows_down_in_place(integrator):
    """Pure spin: by symmetry the centre stays, and friction takes spin away."""
    traj = run_block(integrator, 9.81, 0.3, 0.0, u0=5.0 * np.eye(6)[5])
    assert bool(traj.ok)
    assert np.abs(np.asarray(traj.u[:, :5])).max() <= 1e-9
    spin = np.asarray(traj.u[:, 5])
    assert np.all(np.diff(spin) < 0.0)
    assert spin[-1] > 0.0


# The slider pressed flat against its guide --------------------------------------------------------------------------

CRANK = ns.models.slider_crank(mu=0.1, gravity=500.0)
CRANK_DT = 1e-4


def flat_start():
    """The slider lies on the lower wall, φ_3 = 0; the crank turns at 5 rad/s and the slider moves along the wall."""
    p = {k: float(v) for k, v in CRANK.system.params.items()}
    l1, l2, phi1, speed = p["l1"], p["l2"], 1.0, 5.0
    y3 = p["b"] - p["d"] / 2
    phi2 = np.arcsin((y3 - l1 * np.sin(phi1)) / l2)
    c1, s1, c2, s2 = np.cos(phi1), np.sin(phi1), np.cos(phi2), np.sin(phi2)
    q = np.array([l1 / 2 * c1, l1 / 2 * s1, phi1, l1 * c1 + l2 / 2 * c2, l1 * s1 + l2 / 2 * s2, phi2,
                  l1 * c1 + l2 * c2, y3, 0.0])  # fmt: skip
    g_q = np.asarray(jax.jacfwd(CRANK.system.g, argnums=1)(0.0, jnp.asarray(q)))
    u = np.linalg.solve(np.concatenate([g_q, np.eye(9)[[2, 7, 8]]]), np.append(np.zeros(6), [speed, 0.0, 0.0]))
    return jnp.asarray(q), jnp.asarray(u)


FLAT_START = flat_start()


def run_crank(integrator, gravity, mu, m3):
    system = CRANK.system.with_params(gravity=gravity, mu=mu, m3=m3)
    return ns.simulate(system, integrator, *FLAT_START, dt=CRANK_DT, num_steps=STEPS)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_slider_stays_flat_on_both_corners(integrator):
    traj = run_crank(integrator, 500.0, 0.1, 0.076)
    assert bool(traj.ok)
    assert np.abs(np.asarray(traj.q[:, 8])).max() <= 1e-9
    assert np.abs(np.asarray(traj.q[:, 7] - traj.q[0, 7])).max() <= 1e-9
    P_N, P_F = np.asarray(traj.P_N[1:]), np.asarray(traj.P_F[1:, :, 0])
    assert np.all(P_N[:, 2:].sum(axis=1) > 0.0)
    np.testing.assert_allclose(P_N[:, :2], 0.0, atol=1e-12)
    # Vertical balance of the slider, whose joint with the rod is constraint 5: P_N + P_g = m_3 g Δt.
    lift = P_N[:, 2:].sum(axis=1) - np.asarray(traj.P_g[1:, 5])
    np.testing.assert_allclose(lift, 0.076 * 500.0 * CRANK_DT, rtol=1e-6)
    slides = np.sign(np.asarray(traj.u[1:, 6]))
    np.testing.assert_allclose(P_F.sum(axis=1), -0.1 * slides * P_N.sum(axis=1), rtol=1e-6)


# Derivatives --------------------------------------------------------------------------------------------------------

DIFFERENTIATED = {
    "block": (run_block, (9.81, 0.3, 10.0)),  # gravity, mu, push
    "slider": (run_crank, (500.0, 0.1, 0.076)),  # gravity, mu, m3
}
QUICK = {("block", ns.Moreau), ("block", ns.Rattle)}
CASES = [
    pytest.param((name, p.values[0]), id=f"{name}-{p.id}", marks=() if (name, type(p.values[0])) in QUICK else SLOW)
    for name in DIFFERENTIATED
    for p in INTEGRATORS
]


@pytest.fixture(scope="module", params=CASES)
def derivatives(request):
    """Parameters, forward derivatives and central differences of the final state, and one reverse derivative."""
    name, integrator = request.param
    simulate, parameters = DIFFERENTIATED[name]
    parameters = jnp.array(parameters)

    def final(parameters):
        traj = simulate(integrator, *parameters)
        return jnp.concatenate([traj.q[-1], traj.u[-1]])

    forward = jax.jit(jax.jacfwd(final))(parameters)
    weights = jnp.cos(jnp.arange(forward.shape[0]))
    reverse = jax.jit(jax.grad(lambda x: weights @ final(x)))(parameters)
    steps = 1e-4 * parameters
    points = parameters + jnp.concatenate([jnp.diag(steps), -jnp.diag(steps)])
    states = jnp.stack([final(point) for point in points])
    differences = ((states[:3] - states[3:]) / (2.0 * steps[:, None])).T
    return name, *(np.asarray(v) for v in (forward, weights @ forward, reverse, differences))


def test_forward_derivatives_equal_central_differences(derivatives):
    _, forward, _, _, differences = derivatives
    assert np.all(np.isfinite(forward))
    scale = np.abs(differences).max(axis=0)
    assert np.all(scale > 0.0)
    assert np.abs((forward - differences) / scale).max() <= 1e-6


def test_reverse_derivatives_equal_forward_derivatives(derivatives):
    _, _, forward, reverse, _ = derivatives
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-12)


def test_derivatives_of_the_block_have_their_closed_form(derivatives):
    """u_x = (push/m − μg) T: redundancy leaves no trace in it."""
    name, forward, *_ = derivatives
    if name == "block":
        expected = np.array([-0.3, -9.81, 1.0 / MASS]) * BLOCK_END
        np.testing.assert_allclose(forward[6], expected, rtol=1e-9)
        np.testing.assert_allclose(forward[0], 0.5 * BLOCK_END * expected, rtol=1e-9)
