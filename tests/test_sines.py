"""Sines of lanes beside the mathematical library in extended precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxns.trace import sines
from jaxns.trace.vectorise import vectorise


@pytest.mark.parametrize("ours, exact", [(sines.sin, np.sin), (sines.cos, np.cos)], ids=["sin", "cos"])
@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0, 100.0, 1e6, 1e9])
def test_they_are_exact_to_the_rounding_of_the_angle(ours, exact, size):
    x = size * np.random.default_rng(0).uniform(-1.0, 1.0, 20_000)
    error = np.abs(np.asarray(ours(jnp.asarray(x))) - exact(x.astype(np.longdouble)))
    assert np.all(error <= 3e-16 + np.spacing(np.abs(x)) * (size > 1e6))


def test_quarter_turns_and_what_is_no_angle():
    quarters = 0.5 * np.pi * np.arange(-8, 9)
    np.testing.assert_allclose(sines.sin(jnp.asarray(quarters)), np.sin(quarters), atol=3e-16)
    np.testing.assert_allclose(sines.cos(jnp.asarray(quarters)), np.cos(quarters), atol=3e-16)
    assert np.all(np.isnan(sines.sin(jnp.array([np.nan, np.inf, -np.inf]))))
    assert np.all(np.abs(sines.sin(jnp.array([1e20, 1e200]))) <= 1.0)
    assert float(sines.sin(jnp.array(1e-300))) == 1e-300


def test_functions_on_lanes_use_them():
    angles = jnp.linspace(-3.0, 3.0, 24).reshape(2, 12)
    evaluate = vectorise(lambda q: jnp.stack([jnp.sin(q[0]) * q[1], jnp.cos(q[0])]), (True,), 12)
    expected = np.stack([np.sin(angles[0]) * angles[1], np.cos(angles[0])])
    np.testing.assert_allclose(evaluate(angles), expected, atol=1e-15)
    names = {str(equation.primitive) for equation in jax.make_jaxpr(evaluate)(angles).eqns}
    assert jax.default_backend() != "cpu" or not names & {"sin", "cos"}
