"""Loads that redundant contacts share in event-driven motion: how is not determined, and must not decide what happens."""

from __future__ import annotations

from functools import partial

import hard_systems
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns


def test_boxes_that_slide_on_each_other_stop_together():
    """Two boxes on a floor, the same μ everywhere: the upper one needs all the friction that its two corners can give.

    Both slow down with μ g and rest after v² / (2 μ g). Corners that reached their limit one before the other let go and
    held again without end: this took more steps than any bound.
    """
    system, _, _, _ = hard_systems.stack(boxes=2, lanes=1, half=(0.5, 0.2))
    speed, mu = 0.4, 0.5
    q0 = jnp.array([0.0, 0.2, 0.0, 0.1, 0.6, 0.0])
    u0 = jnp.zeros(6).at[jnp.array([0, 3])].set(speed)
    traj = ns.simulate(system, ns.EventDriven(), q0, u0, dt=0.01, num_steps=12, progress=False)
    way = speed**2 / (2 * mu * hard_systems.G)
    np.testing.assert_allclose(traj.q[-1], q0.at[jnp.array([0, 3])].add(way), atol=1e-9)
    np.testing.assert_allclose(traj.u[-1], 0.0, atol=1e-9)
    stick = traj.events.kind == ns.EventKind.STICK
    np.testing.assert_allclose(traj.events.t[stick], speed / (mu * hard_systems.G), rtol=1e-8)


CASES = {
    "three boxes": (partial(hard_systems.stack, boxes=3, lanes=4), 60),
    "five boxes": (partial(hard_systems.stack, lanes=16), 100),
    "cube": (partial(hard_systems.cube, lanes=16), 200),
}


@pytest.mark.parametrize("case", CASES)
def test_every_lane_comes_to_its_end(case):
    make, steps = CASES[case]
    system, q0, u0, dt = make()

    def one(start):
        return ns.simulate(system, ns.EventDriven(), *start, dt=dt, num_steps=steps).status

    np.testing.assert_array_equal(jax.jit(partial(jax.lax.map, one))((q0, u0)), ns.Status.OK)
