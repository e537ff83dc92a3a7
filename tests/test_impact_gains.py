"""Impacts that raise the energy are counted, and only those."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

PAIR = ns.Contacts(  # one contact of a particle of unit mass in R³, with oblique directions
    lambda t, q, p: (p["W"][:, 0] @ q)[None],
    lambda t, q, u, p: (p["W"][:, 1] @ u)[None, None],
    e_N=lambda p: p["e_N"],
    e_F=lambda p: p["e_F"],
    mu=0.5,
)


def random_impacts(e_N: float, e_F: float, count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Gains of single impacts as `impact_gains` tells them, and those of ½ u·u."""
    rng = np.random.default_rng(7)
    W, u0 = rng.normal(size=(count, 3, 2)), rng.normal(size=(count, 3))
    u0 = u0 * -np.sign(np.sum(W[:, :, 0] * u0, axis=1, keepdims=True))  # towards the wall
    system = ns.System(dict(W=W[0], e_N=e_N, e_F=e_F), mass=lambda t, q, p: jnp.eye(3), contacts=PAIR)

    def one(W, u0):
        with_W = system.with_params(W=W)
        traj = ns.simulate(with_W, ns.Moreau(), jnp.zeros(3), u0, dt=1e-3, num_steps=1)
        return ns.impact_gains(with_W, traj), traj.ok, traj.u[-1]

    gains, ok, after = jax.jit(jax.vmap(one))(W, u0)
    assert np.all(ok) and np.all(gains.impact)
    return np.asarray(gains.gain[:, 0]), 0.5 * np.sum(np.asarray(after) ** 2 - u0**2, axis=1)


def test_oblique_impacts_without_tangential_restitution_raise_the_energy():
    told, true = random_impacts(e_N=0.8, e_F=0.0)
    assert 20 < np.sum(true > 1e-6) < 400  # some do, most do not
    clear = np.abs(true) > 1e-5  # far from the threshold of the count
    np.testing.assert_array_equal((told > 0.0)[clear], (true > 0.0)[clear])
    np.testing.assert_allclose(told[told > 0.0], true[told > 0.0], atol=1e-12)


def test_one_coefficient_for_both_directions_never_raises_it():
    told, true = random_impacts(e_N=0.8, e_F=0.8)
    assert np.all(told == 0.0) and np.all(true < 1e-12)


@pytest.mark.parametrize("dt", [1e-2, 1e-3])
def test_captured_elastic_impacts_of_the_pendulum_are_counted(dt):
    wall = ns.models.double_pendulum()
    traj = ns.simulate(wall.system, ns.Rattle(), wall.q0, wall.u0, dt=dt, t1=2.0)
    gains, total = ns.impact_gains(wall.system, traj), np.asarray(ns.energy(wall.system, traj).total)
    impacts = np.flatnonzero(gains.impact)
    assert len(impacts) == 3 and int(gains.number) == 2
    change = total[impacts + 1] - total[impacts]
    np.testing.assert_allclose(np.asarray(gains.gain)[impacts], np.maximum(change, 0.0), rtol=1e-9)
    assert np.sum(change) == pytest.approx(total[-1] - total[0], rel=0.05)  # nothing else changes the energy as much


def test_a_ball_that_loses_energy_gains_none():
    ball = ns.models.bouncing_ball(e_N=0.5)
    traj = ns.simulate(ball.system, ns.Moreau(), ball.q0, ball.u0, dt=1e-3, t1=1.5)
    gains = ns.impact_gains(ball.system, traj)
    assert int(jnp.sum(gains.impact)) >= 3 and int(gains.number) == 0
