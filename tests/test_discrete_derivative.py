"""Discrete derivatives: their defining property, midpoint for quadratic functions, and all modes of differentiation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxns.integrators.energy.discrete_derivative import discrete_derivative, discrete_gradient


def curved(x):
    return jnp.stack([jnp.sin(x[0]) * x[1] ** 3 + x[2], jnp.exp(0.3 * x[0] * x[2]), x @ x * x[1]])


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-7, 1e-12])
def test_difference_is_the_product(rng, size):
    """Df(a, b)(b − a) = f(b) − f(a) for points far and near, in a batch."""
    a = jnp.asarray(rng.normal(size=(200, 3)))
    b = a + size * jnp.asarray(rng.normal(size=(200, 3)))
    D = jax.vmap(lambda a, b: discrete_derivative(curved, a, b))(a, b)
    product = jnp.einsum("bij,bj->bi", D, b - a)
    difference = jax.vmap(curved)(b) - jax.vmap(curved)(a)
    assert np.max(np.abs(product - difference) / (1.0 + np.abs(jax.vmap(curved)(a)))) <= 1e-14
    midpoint = jax.vmap(jax.jacfwd(curved))(0.5 * (a + b))
    assert np.max(np.abs(D - midpoint) / (1.0 + np.abs(midpoint))) <= 20.0 * size**2 + 1e-13


def test_quadratic_functions_have_the_derivative_of_the_midpoint(rng):
    A = rng.normal(size=(4, 4))

    def f(x):
        return x @ A @ x + x[0]

    a, b = (jnp.asarray(rng.normal(size=4)) for _ in range(2))
    np.testing.assert_array_equal(discrete_gradient(f, a, b), jax.jacfwd(f)(0.5 * (a + b)))


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivatives_with_respect_to_both_points(rng, mode):
    a, b = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=3))
    h = 1e-5
    for k in range(2):
        J = mode(lambda a, b: discrete_derivative(curved, a, b), argnums=k)(a, b)
        for i in range(3):
            step = h * jnp.eye(3)[i]
            plus, minus = (discrete_derivative(curved, *((a + s, b) if k == 0 else (a, b + s))) for s in (step, -step))
            np.testing.assert_allclose(J[..., i], (plus - minus) / (2 * h), atol=1e-7)


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_coincident_points(rng, mode):
    """At b = a: the derivative itself, and half the second derivative when b moves."""
    a = jnp.asarray(rng.normal(size=3))
    np.testing.assert_allclose(discrete_derivative(curved, a, a), jax.jacfwd(curved)(a), rtol=1e-14)
    J = mode(lambda b: discrete_derivative(curved, a, b))(a)
    np.testing.assert_allclose(J, 0.5 * jax.hessian(curved)(a), rtol=1e-12, atol=1e-12)
    second = jax.jacfwd(mode(lambda b: discrete_derivative(curved, a, b)))(a)
    assert np.all(np.isfinite(second))
