"""The examples of docs/extending.md, as they stand there."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def page():
    """The names that the page's code defines."""
    names: dict = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)), names)
    return names


def test_the_integrator_of_the_page_is_first_order_until_the_impact_and_bounces(page):
    scheme, ball = page["SymplecticEuler"](), ns.models.bouncing_ball()
    fall = float(jnp.sqrt(2.0 * (ball.q0[1] - 0.1) / 9.81))

    def error(dt):
        traj = ns.simulate(ball.system, scheme, ball.q0, ball.u0, dt=dt, t1=0.3)
        return abs(float(traj.q[-1, 1] - (ball.q0[1] - 0.5 * 9.81 * 0.3**2)))

    assert 0.9 < np.log2(error(2e-3) / error(1e-3)) < 1.1
    assert fall > 0.3
    rebound = page["traj"].u[:, 1].max()  # e_N times the speed of the impact, to first order
    np.testing.assert_allclose(rebound, 0.5 * 9.81 * fall, rtol=1e-2)


def test_the_integrator_of_the_page_has_derivatives_and_batches(page):
    scheme, ball = page["SymplecticEuler"](), ns.models.bouncing_ball()

    def height(g):
        system = ball.system.with_params(gravity=g)
        return ns.simulate(system, scheme, ball.q0, ball.u0, dt=1e-2, num_steps=20).q[-1, 1]

    # q⁺ = q + Δt u⁺ falls by g Δt² (1 + … + 20)
    gradients = jax.vmap(jax.grad(height))(jnp.array([9.0, 10.0]))
    np.testing.assert_allclose(gradients, -1e-4 * 210 * np.ones(2), rtol=1e-12)


def test_the_disk_in_the_bowl_rolls_without_loss(page):
    traj, bowl = page["rolling"], page["bowl"]
    np.testing.assert_allclose(jnp.linalg.norm(traj.q[:, :2], axis=1), 0.9, atol=1e-8)
    slip = jax.vmap(lambda q, u: page["slip"](0.0, q, u, bowl.params)[0, 0])(traj.q, traj.u)
    total = ns.energy(bowl, traj).total
    sticking = np.abs(slip) < 1e-8
    assert sticking.sum() > 300
    # Friction works while the disk slides alone: sticking steps keep the energy to the order of the scheme.
    steps = np.abs(np.diff(total))[sticking[1:] & sticking[:-1]]
    assert steps.max() < 1e-5
