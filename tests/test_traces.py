"""Reading traces: the table of primitives beside the installed JAX, checked rules, and the twin on public functions."""

import jax
import jax.extend.core.primitives as known
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxns as ns
from jaxns.solve.lanes import on_lanes
from jaxns.trace import pattern, primitives, vectorise
from jaxns.trace.dependence import depends_on
from jaxns.trace.digest import digest
from jaxns.trace.distinct import distinct

LANES = 4


def names_in(function, *arguments):
    return {e.primitive.name for e in jax.make_jaxpr(function)(*arguments).eqns}


def test_every_primitive_of_the_table_is_one_of_the_installed_jax():
    x = jnp.ones((2, 2))
    installed = {getattr(known, name).name for name in dir(known) if name.endswith("_p")}
    installed |= names_in(lambda x: (lax.optimization_barrier(x), lax.split(x, (1, 1)), jnp.stack([x, x])), x)
    installed |= names_in(lambda x: jnp.unstack(x), x)
    table = primitives.CALLS | primitives.ELEMENTWISE | primitives.KEEPS_ZERO
    assert table | set(vectorise._RULES) | set(pattern._MOVES) | set(pattern._PRODUCTS) <= installed


def test_the_installed_jax_is_one_whose_traces_are_read():
    assert primitives.reads_traces()


def with_own_derivative(function):
    """The same function, with a derivative of its own."""
    called = jax.custom_jvp(function)
    called.defjvp(lambda primals, tangents: jax.jvp(function, primals, tangents))
    return called


@pytest.mark.parametrize("call", [jax.jit, jax.checkpoint, with_own_derivative])
def test_a_call_hides_neither_zeros_nor_independence(call):
    def differences(x):
        return x[1:] * x[:-1]

    diagonal = pattern.nonzeros(lambda x: jnp.diag(call(lambda x: 2.0 * x)(x)), jnp.ones(4))
    np.testing.assert_array_equal(diagonal, np.eye(4, dtype=bool))
    np.testing.assert_array_equal(
        pattern.jacobian(call(differences), jnp.ones(5)), np.eye(4, 5, dtype=bool) | np.eye(4, 5, 1, dtype=bool)
    )
    pair = call(lambda x, y: (x, y))
    assert not depends_on(lambda x, y: pair(x, y)[0], (1.0, 2.0), 1)


def test_axes_of_length_one_spread_as_elementwise_operations_spread_them():
    def rows(x):
        return jnp.sum(jax.vmap(lambda k: jnp.where(k, x, 0.0))(jnp.eye(3, dtype=bool)) * jnp.ones((3, 1)), axis=1)

    np.testing.assert_array_equal(pattern.jacobian(rows, jnp.ones(3)), np.eye(3, dtype=bool))


def test_a_product_in_another_precision_is_one_in_lanes(rng):
    def product(a, b):
        return lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float64)

    a, b = (jnp.asarray(rng.normal(size=(3, 3, LANES)), jnp.float32) for _ in range(2))
    expected = jax.vmap(product, -1, -1)(a, b)
    actual = vectorise.vectorise(product, (True, True), LANES)(a, b)
    assert actual.dtype == expected.dtype == jnp.float64
    np.testing.assert_allclose(actual, expected, rtol=1e-15)


@pytest.mark.parametrize("lie", [lambda x: x[:1], lambda x: x.astype(jnp.float32)])
def test_a_rule_that_does_not_keep_the_promise_of_the_trace_is_not_believed(monkeypatch, rng, lie):
    x = jnp.asarray(rng.normal(size=(5, LANES)))
    monkeypatch.setitem(vectorise._RULES, "rev", lambda instruction, inputs, size: lie(inputs[0]))
    np.testing.assert_array_equal(vectorise.vectorise(lambda x: x[::-1], (True,), LANES)(x), x[::-1])


def test_with_an_unknown_release_public_functions_serve(monkeypatch):
    monkeypatch.setattr(primitives, "TESTED", ("0.0",))
    assert not primitives.reads_traces()
    assert pattern.nonzeros(lambda x: jnp.diag(x), jnp.ones(2)).all()
    monkeypatch.setenv("JAXNS_TRACES", "read")
    assert primitives.reads_traces()
    monkeypatch.setenv("JAXNS_TRACES", "sometimes")
    with pytest.raises(ValueError, match='must be "read" or "public"'):
        primitives.reads_traces()


def test_a_batch_by_public_functions_is_the_same(monkeypatch):
    p = ns.models.bouncing_ball(omega=10.0)

    def run():
        def end(e_N):
            traj = ns.simulate(p.system.with_params(e_N=e_N), ns.Rattle(), p.q0, p.u0, dt=p.dt, num_steps=80)
            return traj.q[-1], traj.u[-1], traj.status

        return jax.jit(jax.vmap(end))(jnp.linspace(0.2, 0.9, LANES))

    read = run()
    monkeypatch.setenv("JAXNS_TRACES", "public")
    for a, b in zip(read, run(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_a_digest_depends_on_the_program_alone():
    """Traces that are made on the way must not lend their addresses to one another."""

    def solve(power):
        def raised(lift, x):
            return lift.values(lambda v: v**power, 1)(x)

        return lambda x: on_lanes(raised, x, rows=1)

    square, cube = solve(2), solve(3)

    def hashed(*solves):
        return digest(jax.make_jaxpr(lambda x: [solve(x) for solve in solves])(1.0))

    assert len({hashed(square, cube, square, cube) for _ in range(20)}) == 1
    assert len({hashed(square, square), hashed(square, cube), hashed(cube, square), hashed(cube, cube)}) == 4


def test_constants_that_print_alike_are_two():
    """Numbers are told apart by their bits: printed to eight digits these are one, and their difference was zero."""

    def difference(x):
        return x * np.array(1.00000000001) - x * np.array(1.00000000002)

    assert distinct(difference)(1.0) == difference(1.0) != 0.0
    with np.printoptions(precision=1):
        assert distinct(lambda x: x * 9.81 - x * 9.79)(1.0) == pytest.approx(0.02)
