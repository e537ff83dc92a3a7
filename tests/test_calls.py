"""User functions through `trace.calls`: the same values and derivatives as called directly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxns.trace import pattern
from jaxns.trace.calls import call


def entries(q, p):
    x, y, *_ = q
    return jnp.stack([x * q[3] + p["a"], q[1:4] @ q[5:8], y**2, q[-1] * q[2:9][3], q[::2].sum(), q[4:4].sum()])


def inner(q, p):
    return jax.jit(lambda q: q[0] * jnp.sin(q[10]))(q) + jnp.clip(q[2:5], -p["a"], p["a"])


@jax.custom_jvp
def cube(x):
    return x**3


cube.defjvp(lambda primals, tangents: (cube(*primals), 5.0 * tangents[0]))  # wrong on purpose: it must be this one


@jax.custom_vjp
def square(x):
    return x**2


square.defvjp(lambda x: (x**2, None), lambda _, g: (7.0 * g,))


def own_derivative(q, p):
    return jax.nn.relu(q[0]) * q[1] + cube(q[2]) * p["a"]


def control_flow(q, p):
    chosen = jax.lax.cond(q[0] > 0.0, jnp.sin, jnp.cos, q[1])
    jax.debug.callback(lambda x: None, q[2])  # an operation without a result
    return jax.lax.fori_loop(0, 3, lambda _, x: x * q[3], chosen) + jax.checkpoint(jnp.sin)(q[4])


def untouched(q, p):
    return q * p["a"]


def nothing(q, p):
    return {"constant": jnp.ones(2), "scalar": p["a"]}


@pytest.mark.parametrize("function", [entries, inner, own_derivative, control_flow, untouched, nothing])
def test_values_and_derivatives_of_a_call_are_those_of_the_function(rng, function):
    q, p = jnp.asarray(rng.normal(size=12)), {"a": jnp.asarray(0.7)}

    def called(q, p):
        return call(function, q, p)

    for transform in (jax.jit, jax.jacrev, jax.jacfwd, lambda f: jax.jacfwd(jax.jacrev(f, argnums=1))):
        expected, actual = transform(function)(q, p), transform(called)(q, p)
        assert jax.tree.structure(expected) == jax.tree.structure(actual)
        for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-15)
    batch = jnp.asarray(rng.normal(size=(3, 12)))
    for a, b in zip(*(jax.tree.leaves(jax.vmap(f, (0, None))(batch, p)) for f in (function, called)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15, atol=1e-15)


def test_a_derivative_for_reverse_mode_alone_stays():
    q = jnp.array([0.5, 2.0])
    np.testing.assert_array_equal(jax.grad(lambda q: call(lambda q: square(q[0]) * q[1], q))(q), [14.0, 0.25])


def test_a_vector_of_many_entries_has_no_pads_in_its_gradient():
    def gradient(q):
        return jax.grad(lambda q: call(lambda q: sum(q[k] * q[k + 1] for k in range(29)), q))(q)

    assert " pad[" not in str(jax.make_jaxpr(gradient)(jnp.ones(30)))


def test_functions_that_close_over_traced_values_are_called_as_they_are():
    def loss(a):
        return call(lambda q: a * q[0] * q[1], jnp.array([2.0, 3.0]) + 0.0 * a)

    assert float(jax.grad(loss)(1.0)) == 6.0
    assert float(jax.jit(jax.grad(loss))(5.0)) == 6.0  # a trace that was kept would still hold the first `a`


def test_zeros_of_the_mass_matrix_are_seen_through_a_call():
    seen = pattern.nonzeros(lambda m: call(lambda m: jnp.diag(jnp.stack([m[0], m[1], m[0]])), m), jnp.ones(2))
    np.testing.assert_array_equal(seen, np.eye(3, dtype=bool))
