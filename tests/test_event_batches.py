"""Batches of event-driven runs, whose lanes do not wait for each other: each is the run that it would be alone."""

from __future__ import annotations

import hard_systems
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns


def same(batch, alone):
    """All that two runs report, but for what they cost, which rounding decides."""
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(batch), jax.tree.leaves(alone), strict=True):
        name = jax.tree_util.keystr(path)
        if not any(cost in name for cost in ("iterations", "effort", "residual")):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("save_every", [1, 3])
def test_lanes_are_the_runs_alone(save_every):
    """Bounces that end soon or never, one lane that fails on its way, and one that cannot begin."""
    ball = ns.models.bouncing_ball()
    e_N = jnp.array([0.0, 0.5, 0.7, 0.9, 1.5, 1.0])
    gravity = jnp.array([9.81, 5.0, 80.0, 9.81, 9.81, 20.0])
    integrator = ns.EventDriven(max_steps=25, max_events=12)

    def run(e_N, gravity):
        system = ball.system.with_params(e_N=e_N, gravity=gravity)
        return ns.simulate(system, integrator, ball.q0, ball.u0, dt=0.1, num_steps=12, save_every=save_every)

    batch = jax.jit(jax.vmap(run))(e_N, gravity)
    alone = jax.jit(run)
    for lane in range(len(e_N)):
        same(jax.tree.map(lambda x, lane=lane: x[lane], batch), alone(e_N[lane], gravity[lane]))
    ends = np.asarray(batch.status).max(axis=1)
    assert ends[4] == ns.Status.BAD_INPUT
    assert ns.Status.STOPPED in np.asarray(batch.status[2])
    assert ends[0] == ends[1] == ends[5] == ns.Status.OK
    assert len(set(np.asarray(batch.events.count))) > 3


def test_lanes_of_a_large_system_are_the_runs_alone():
    system, q0, u0, dt = hard_systems.stack(boxes=5, lanes=3)

    def run(q0, u0):
        return ns.simulate(system, ns.EventDriven(), q0, u0, dt=dt, num_steps=3)

    batch = jax.jit(jax.vmap(run))(q0, u0)
    same(batch, jax.jit(lambda *starts: jax.lax.map(lambda s: run(*s), starts))(q0, u0))


def test_derivatives_of_a_batch_are_those_of_its_lanes():
    ball = ns.models.bouncing_ball()
    e_N = jnp.linspace(0.5, 0.9, 3)

    def height(e_N):
        traj = ns.simulate(ball.system.with_params(e_N=e_N), ns.EventDriven(), ball.q0, ball.u0, dt=0.25, num_steps=5)
        return traj.q[-1, 1]

    together = jax.jit(jax.grad(lambda e_N: jnp.sum(jax.vmap(height)(e_N))))(e_N)
    step = 1e-6
    heights = jax.jit(jax.vmap(height))(jnp.concatenate([e_N + step, e_N - step]))
    np.testing.assert_allclose(together, (heights[:3] - heights[3:]) / (2 * step), rtol=1e-6)
