"""Second derivatives through the solves of a step: right where they begin with forward mode, else an error."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

SLOPE = ns.models.mass_on_slope(case=2)  # slides down, in contact from the first step to the last
POINT = jnp.array([0.3, 10.0, 1.0])  # mu, gravity, speed


def height(integrator, point):
    system = SLOPE.system.with_params(mu=point[0], gravity=point[1])
    traj = ns.simulate(system, integrator, SLOPE.q0, SLOPE.u0 * point[2], dt=0.01, num_steps=4)
    return traj.q[-1, 1] * traj.u[-1, 0]


@pytest.mark.parametrize(
    ("integrator", "outer"),
    [
        pytest.param(ns.Moreau(), jax.jacrev, id="Moreau"),
        pytest.param(ns.Rattle(), jax.jacfwd, id="Rattle", marks=pytest.mark.slow),
    ],
)
def test_second_derivatives_from_forward_mode_are_those_of_differences(integrator, outer):
    def f(point):
        return height(integrator, point)

    gradient = jax.jit(jax.vmap(jax.grad(f)))
    steps = 1e-5 * np.eye(3)
    there = np.asarray(gradient(jnp.concatenate([POINT + steps, POINT - steps])))
    differences = (there[:3] - there[3:]) / 2e-5
    assert np.min(np.abs(differences)) > 1e-6
    np.testing.assert_allclose(jax.jit(outer(jax.jacfwd(f)))(POINT), differences, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("integrator", [ns.Moreau(), ns.Rattle()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("second", [jax.hessian, lambda f: jax.jacrev(jax.jacrev(f))], ids=["hessian", "reverse twice"])
def test_a_derivative_of_a_reverse_pass_says_what_to_write_instead(integrator, second):
    with pytest.raises(NotImplementedError, match=r"jax\.jacfwd\(jax\.jacfwd\(f\)\)"):
        second(lambda point: height(integrator, point))(POINT)
