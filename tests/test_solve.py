"""The parts below the integrators: dense linear systems, vectorisation on lanes, and force laws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxns.laws.friction import Coulomb
from jaxns.laws.sets import project_ball
from jaxns.laws.table import LawTable
from jaxns.solve import dense, lanes
from jaxns.trace import vectorise

# Dense linear systems -------------------------------------------------------------------------------------------------


def regular(rng, n, lanes=()):
    """Random matrices with singular values between 1 and 10, in no other way special."""
    left, _ = np.linalg.qr(rng.normal(size=(*lanes, n, n)))
    right, _ = np.linalg.qr(rng.normal(size=(*lanes, n, n)))
    return left * rng.uniform(1.0, 10.0, size=(*lanes, 1, n)) @ right


def definite(rng, n, lanes=(), rank=None):
    """Random symmetric positive (semi)definite matrices of the given rank."""
    factor = rng.normal(size=(*lanes, n, n if rank is None else rank))
    return factor @ np.swapaxes(factor, -1, -2) + (np.eye(n) if rank is None else 0.0)


def assert_close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20])
def test_batched_solve_agrees_with_numpy(rng, n):
    A, b = regular(rng, n, (4,)), rng.normal(size=(4, n, 3))
    assert_close(jax.jit(jax.vmap(dense.solve))(A, b), np.linalg.solve(A, b))


@pytest.mark.parametrize("n", [1, 6])
def test_single_solve_inverse_and_product_agree_with_numpy(rng, n):
    A, b, B = regular(rng, n), rng.normal(size=n), rng.normal(size=(n, 3))

    @jax.jit
    def all_of_them(A, b, B):
        return dense.solve(A, b), dense.solve(A, B), dense.inverse(A), dense.matmul(A, b), dense.matmul(A, B)

    expected = np.linalg.solve(A, b), np.linalg.solve(A, B), np.linalg.inv(A), A @ b, A @ B
    for value, right in zip(all_of_them(A, b, B), expected, strict=True):
        assert value.shape == right.shape
        assert_close(value, right)


@pytest.mark.parametrize("n", [1, 20])
def test_eliminations_agree_with_numpy_in_every_lane(rng, n):
    A, b = definite(rng, n, (5,)), rng.normal(size=(5, n, 2))
    laned = np.moveaxis(A, 0, -1), np.moveaxis(b, 0, -1)
    expected = np.moveaxis(np.linalg.solve(A, b), 0, -1)
    assert_close(jax.jit(dense.eliminate)(*laned), expected)
    assert_close(jax.jit(dense.eliminate_pivoted)(*laned), expected)


def test_pivoted_elimination_needs_no_structure(rng):
    A, b = regular(rng, 9, (5,)), rng.normal(size=(5, 9, 2))
    A[0] = np.eye(9)[::-1]
    laned = np.moveaxis(A, 0, -1), np.moveaxis(b, 0, -1)
    assert_close(jax.jit(dense.eliminate_pivoted)(*laned), np.moveaxis(np.linalg.solve(A, b), 0, -1))


def test_one_matrix_with_many_right_hand_sides(rng):
    A, b = regular(rng, 5), rng.normal(size=(7, 5, 2))
    assert_close(jax.jit(jax.vmap(dense.solve, in_axes=(None, 0)))(A, b), np.linalg.solve(A, b))


def test_many_matrices_with_one_right_hand_side(rng):
    A, b = regular(rng, 5, (7,)), rng.normal(size=5)
    assert_close(jax.jit(jax.vmap(dense.solve, in_axes=(0, None)))(A, b), np.linalg.solve(A, b))


@pytest.mark.parametrize("outer, inner", [("Ab", "b"), ("b", "Ab"), ("A", "Ab"), ("A", "b")])
def test_nested_batches(rng, outer, inner):
    def lanes(name):
        return 3 if name in outer else 1, 4 if name in inner else 1

    def without_dummies(v):
        return v.squeeze(tuple(i for i in (0, 1) if v.shape[i] == 1))

    A, b = regular(rng, 4, lanes("A")), rng.normal(size=(*lanes("b"), 4, 2))
    inner_axes, outer_axes = (tuple(0 if name in names else None for name in "Ab") for names in (inner, outer))
    solve = jax.jit(jax.vmap(jax.vmap(dense.solve, inner_axes), outer_axes))
    assert_close(solve(without_dummies(A), without_dummies(b)), np.linalg.solve(A, b))


def test_zero_diagonal_is_solved_by_the_pivoted_rescue(rng):
    A = np.eye(6)[[1, 2, 3, 4, 5, 0]] * rng.uniform(1.0, 2.0, size=(6, 1))
    B = rng.normal(size=(6, 2))
    assert not np.any(np.diag(A))
    assert (
        np.max(np.abs(A @ jax.jit(dense.eliminate)(A[..., None], B[..., None])[..., 0] - B)) > 0.1
    )  # the rescue is needed
    assert_close(dense.solve(A, B), np.linalg.solve(A, B))
    assert_close(jax.jit(dense.inverse)(A), np.linalg.inv(A))


def test_rescue_of_one_lane_leaves_the_others_alone(rng):
    A, b = definite(rng, 4, (3,)), rng.normal(size=(3, 4))
    solve = jax.jit(jax.vmap(dense.solve))
    alone = solve(A, b)
    A[1] = np.eye(4)[::-1]
    x = solve(A, b)
    assert_close(x[1], b[1, ::-1])
    np.testing.assert_array_equal(x[::2], alone[::2])


def test_not_a_number_in_one_lane_leaves_the_others_alone(rng):
    A, b = definite(rng, 4, (3,)), rng.normal(size=(3, 4))
    A[1, 2, 2] = np.nan
    x = np.asarray(jax.jit(jax.vmap(dense.solve))(A, b))
    assert not np.all(np.isfinite(x[1]))
    assert_close(x[::2], np.linalg.solve(A[::2], b[::2][..., None])[..., 0])


@pytest.mark.parametrize("n, rank", [(8, 5)])
def test_singular_consistent_systems_are_solved(rng, n, rank):
    A = definite(rng, n, (5,), rank)
    A /= np.max(np.abs(A), axis=(1, 2), keepdims=True)
    b = A @ rng.normal(size=(5, n, 2))
    x = jax.jit(jax.vmap(dense.solve))(A, b)
    assert np.max(np.abs(A @ x - b)) < 1e-10
    x = np.moveaxis(jax.jit(dense.eliminate_pivoted)(np.moveaxis(A, 0, -1), np.moveaxis(b, 0, -1)), -1, 0)
    assert np.max(np.abs(A @ x - b)) < 1e-10


def test_zero_matrix_and_empty_system():
    assert not np.any(dense.solve(np.zeros((3, 3)), np.zeros(3)))
    assert dense.solve(np.zeros((0, 0)), np.zeros(0)).shape == (0,)
    assert dense.matmul(np.zeros((2, 0)), np.zeros(0)).tolist() == [0.0, 0.0]


def central_differences(function, x, step=1e-5):
    """The Jacobian of a function of one array, shaped like that of `jax.jacfwd`."""
    columns = []
    for i in range(x.size):
        shift = step * np.eye(x.size)[i].reshape(x.shape)
        columns.append((function(x + shift) - function(x - shift)) / (2.0 * step))
    return np.moveaxis(np.array(columns), 0, -1).reshape(*columns[0].shape, *x.shape)


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_solve(rng, jacobian):
    A, b = regular(rng, 3, (4,)), rng.normal(size=(4, 3))
    A[1] = np.eye(3)[[1, 2, 0]] * rng.uniform(1.0, 2.0, size=(3, 1))  # zero diagonal
    derivative = jacobian(dense.solve, argnums=(0, 1))
    by_A, by_b = jax.jit(jax.vmap(derivative))(A, b)
    for k in range(4):
        assert_close(by_A[k], central_differences(lambda A, k=k: np.linalg.solve(A, b[k]), A[k]), 1e-7)
        assert_close(by_b[k], np.linalg.inv(A[k]))
    for single, batched in zip(jax.jit(derivative)(A[1], b[1]), (by_A, by_b), strict=True):
        assert_close(single, batched[1])


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_inverse(rng, jacobian):
    A = regular(rng, 3, (4,))
    derivative = jax.jit(jax.vmap(jacobian(dense.inverse)))(A)
    for k in range(4):
        assert_close(derivative[k], central_differences(np.linalg.inv, A[k]), 1e-7)
    assert_close(jax.jit(jacobian(dense.inverse))(A[0]), derivative[0])


# Vectorisation --------------------------------------------------------------------------------------------------------

LANES = 5


def many_reductions(x, y):
    flags = x > 0.0
    numbers = jnp.sum(x, axis=0), jnp.max(x), jnp.min(x, axis=1), jnp.prod(x, axis=0), jnp.cumsum(x, axis=1)
    return *numbers, jnp.all(flags, axis=0), jnp.any(flags), jnp.argmax(x, axis=1), jnp.argmin(x, axis=0)


def loop(x, y):
    return lax.fori_loop(0, 3, lambda i, z: 0.5 * z + jnp.sin(z) * i, x)


FUNCTIONS = {  # of x (3, 4) and y (4,), for one lane
    "arithmetic": lambda x, y: 2.0 * x + y - x / (1.0 + y**2) + jnp.maximum(x, 0.1) ** 3,
    "scalars": lambda x, y: x * y[0] + jnp.exp(y[1]),
    "costly": lambda x, y: jnp.arctan2(jnp.sin(x), jnp.sqrt(1.0 + jnp.cos(x) ** 2)) + jnp.log1p(y**2),
    "barrier": lambda x, y: lax.optimization_barrier(x * y) @ y,
    "sines of several values": lambda x, y: (
        jnp.sin(x),
        jnp.sin(2.0 * x) + jnp.cos(x[0]),
        jnp.sin(y) * jnp.cos(y),
        y[0] ** y[1],
    ),
    "materialise": lambda x, y: vectorise.materialise(x * y) @ y,
    "matrix product": lambda x, y: (x @ y, x @ x.T, jnp.outer(y, y), y @ y),
    "product with batch axes": lambda x, y: jnp.einsum("bij,bjk->bik", x.reshape(3, 2, 2), x.reshape(3, 2, 2) + 1.0),
    "product over two axes": lambda x, y: jnp.einsum("ij,kij->k", x, jnp.stack([x, 2.0 * x])),
    "product with a constant": lambda x, y: x @ np.arange(8.0).reshape(4, 2),
    "broadcast": lambda x, y: (jnp.broadcast_to(y, (2, 3, 4)), y[:, None] + y, x[:, None, :]),
    "reshape": lambda x, y: (x.reshape(2, 6), x.ravel(), y.reshape(2, 1, 2), y[:1].reshape(())),
    "slice": lambda x, y: (x[1:, ::2], y[2], x[0], x[::-1], x[:, 1:3]),
    "transpose": lambda x, y: (x.T, jnp.moveaxis(x.reshape(3, 2, 2), 0, 2)),
    "select": lambda x, y: jnp.where(x > y, x, 2.0 * y),
    "select by one flag": lambda x, y: (
        jnp.where(y[0] > 0.0, x, -x),
        jnp.where(True, x, y),
        jnp.where(y[0] > 0.0, x, 0),
    ),
    "select by an integer": lambda x, y: lax.select_n((x > 0).astype(jnp.int32) + (x > 1), x, 2.0 * x, 3.0 * x),
    "pad": lambda x, y: (jnp.pad(x, ((1, 2), (0, 1))), jnp.pad(y, 1, constant_values=7.0)),
    "pad by a value": lambda x, y: lax.pad(x, y[0], ((1, 0, 0), (0, 2, 0))),
    "pad between and cut": lambda x, y: lax.pad(x, y[0], ((0, 0, 1), (-1, 2, 0))),
    "stack": lambda x, y: (jnp.stack([y, x[0]]), jnp.stack([y, x[0]], axis=1), jnp.stack([y, np.ones(4)], axis=-1)),
    "unstack": lambda x, y: (jnp.unstack(x), jnp.unstack(x, axis=1)),
    "concatenate": lambda x, y: (jnp.concatenate([x, y[None]]), jnp.concatenate([x, np.ones((3, 2))], axis=1)),
    "split": lambda x, y: (jnp.split(x, 2, axis=1), jnp.split(x, [1])),
    "reductions": many_reductions,
    "no lanes at all": lambda x, y: jnp.arange(3.0) + 1.0,
    "derivative inside": lambda x, y: jax.jacfwd(lambda y: jnp.sin(x @ y) * y[0])(y),
    "reverse derivative inside": lambda x, y: jax.grad(lambda y: jnp.sum(jnp.tanh(x @ y) ** 2))(y),
    "jit inside": lambda x, y: jax.jit(lambda a, b: a @ b + 1.0)(x, y),
    "vmap inside": lambda x, y: jax.vmap(lambda row: jnp.sum(row * y))(x),
    "custom derivative inside": lambda x, y: jax.nn.relu(x) + dense.inverse(jnp.eye(3) + x @ x.T)[:, :1],
    "loop": loop,
    "condition": lambda x, y: lax.cond(y[0] > 0.0, jnp.sin, jnp.cos, x),
    "indices": lambda x, y: (x[jnp.argmax(y[:3])], y.at[1].set(x[0, 0]), jnp.sort(y)),
    "solve": lambda x, y: dense.solve(x @ x.T + jnp.eye(3), x @ y),
}


ALSO_MIXED = {  # compared also with lanes on one of x and y alone
    *("arithmetic", "scalars", "matrix product", "select", "select by one flag", "pad by a value", "stack"),
    *("concatenate", "jit inside", "derivative inside", "condition"),
}


def primitives(jaxpr):
    """Names of all operations of a trace, also inside inner calls."""
    inner = [getattr(v, "jaxpr", v) for e in jaxpr.eqns for v in jax.tree.leaves(list(e.params.values()))]
    names = {e.primitive.name for e in jaxpr.eqns}
    return names.union(*(primitives(v) for v in inner if hasattr(v, "eqns")))


def data(rng, *laned):
    """x and y, with lanes or without."""
    shapes = (3, 4), (4,)
    return [rng.normal(size=(*s, LANES) if has else s) for s, has in zip(shapes, laned, strict=False)]


def assert_same(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, e in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.shape == e.shape
        assert a.dtype == e.dtype
        np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


def by_vmap(function, *laned):
    return jax.vmap(function, tuple(-1 if has else None for has in laned), -1, axis_size=LANES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectorise_agrees_with_vmap(rng, name):
    function = FUNCTIONS[name]
    cases = [(True, True), *([(True, False), (False, True)] if name in ALSO_MIXED else [])]
    mixed = {laned: data(rng, *laned) for laned in cases}

    @jax.jit
    def compare(mixed):
        return {laned: vectorise.vectorise(function, laned, LANES)(*xy) for laned, xy in mixed.items()}

    expected = jax.jit(lambda mixed: {laned: by_vmap(function, *laned)(*xy) for laned, xy in mixed.items()})
    assert_same(compare(mixed), expected(mixed))


def test_every_rule_of_vectorise_is_exercised(rng):
    xy = data(rng, False, False)
    used = set().union(*(primitives(jax.make_jaxpr(f)(*xy).jaxpr) for f in FUNCTIONS.values()))
    assert set(vectorise._RULES) <= used


def test_vectorise_reshapes_with_permuted_axes(rng):
    (x,) = data(rng, True)

    def permuted(x):
        return lax.reshape(x, (12,), dimensions=(1, 0))

    assert_same(vectorise.vectorise(permuted, (True,), LANES)(x), by_vmap(permuted, True)(x))


def test_vectorise_understands_nested_arguments(rng):
    x, y = data(rng, True, False)

    def function(tree, z):
        return {"product": tree["x"] @ tree["y"], "z": z}

    result = vectorise.vectorise(function, ({"x": True, "y": False}, True), LANES)({"x": x, "y": y}, x)
    assert_same(result, {"product": np.einsum("ijl,j->il", x, y), "z": x})


def test_without_lanes_vectorise_only_stages(rng):
    x, y = data(rng, False, False)
    for name in ("costly", "materialise", "loop", "solve"):
        staged = vectorise.vectorise(FUNCTIONS[name], (False, False), None)
        assert_same(jax.jit(staged)(x, y), FUNCTIONS[name](x, y))


@pytest.mark.parametrize("bad_lane", [0, 3])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_a_number_stays_in_its_lane(rng, bad_lane, bad):
    x, _ = data(rng, True, True)
    clean = x.copy()
    x[0, 0, bad_lane] = bad

    def function(x):
        return jnp.exp(jnp.sin(x)) * jnp.cos(x[1, 1])

    staged = jax.jit(vectorise.vectorise(function, (True,), LANES))
    expected = np.array(staged(clean))
    expected[0, 0, bad_lane] = np.nan
    np.testing.assert_array_equal(staged(x), expected)


def cubic(x, y):
    return jnp.sin(x @ y) * y[0] + x[:, 1], jnp.sum(y)


def cubic_on_lanes(x, y):
    """The same in two pieces: of the arguments, and of values with lanes."""

    def evaluate(lift, x, y):
        product, total = lift.arguments(lambda x, y: (x @ y, jnp.sum(y)))(x, y)
        first, column = lift.arguments(lambda x, y: (y[0], x[:, 1]))(x, y)
        combine = lift.values(lambda product, first, column: jnp.sin(product) * first + column, 3)
        return combine(product, first, column), total

    return lanes.on_lanes(evaluate, x, y, rows=1)


@pytest.mark.parametrize(
    "axes",
    [
        [],
        [(0, 0)],
        [(0, None)],
        [(None, 0)],
        [(0, 0), (0, 0)],
        [(0, None), (None, 0)],
        [(None, 0), (0, None)],
        [(1, 0)] * 2,
    ],
    ids=str,
)
def test_nested_vmap_on_lanes(rng, axes):
    plain, laned = cubic, cubic_on_lanes
    x, y = data(rng, False, False)
    for size, (axis_x, axis_y) in zip((2, 3), axes, strict=False):  # the innermost first
        plain, laned = (jax.vmap(f, (axis_x, axis_y)) for f in (plain, laned))
        x, y = (
            v if axis is None else np.stack([v + k for k in rng.normal(size=size)], axis)
            for v, axis in ((x, axis_x), (y, axis_y))
        )
    assert_same(jax.jit(laned)(x, y), plain(x, y))


@pytest.mark.parametrize("number", [97, 150, 193])
def test_many_lanes_in_blocks(rng, number):
    """More lanes than a block holds, in blocks that the number does not fill."""
    x, y = data(rng, False, False)
    x = x + rng.normal(size=(number, *x.shape))
    axes = (0, None)
    loops = [jax.jit(jax.vmap(cubic_on_lanes, axes)).lower(some, y).as_text().count("while(") for some in (x[:3], x)]
    assert loops[1] > loops[0]  # over the blocks
    assert_same(jax.jit(jax.vmap(cubic_on_lanes, axes))(x, y), jax.vmap(cubic, axes)(x, y))


def test_chains_agree_with_reductions(rng):
    x, _ = data(rng, True, True)
    assert_close(lanes.largest(x), np.max(np.abs(x), axis=0), 1e-14)
    assert_close(lanes.total(x), np.sum(x, axis=0), 1e-14)
    assert_close(lanes.norm(x), np.linalg.norm(x, axis=0), 1e-14)


# Force laws -----------------------------------------------------------------------------------------------------------

POINTS = 200


@pytest.fixture(params=[1, 2, 3], ids="d={}".format)
def d(request):
    return request.param


@pytest.fixture(params=[0.0, 1.3, 1e6], ids="radius={}".format)
def radius(request):
    return request.param


def test_projection_onto_ball_is_idempotent_and_inside(rng, d, radius):
    p = project_ball(3.0 * rng.normal(size=(d, POINTS)), radius)
    assert np.all(np.linalg.norm(p, axis=0) <= radius * (1.0 + 1e-15))
    np.testing.assert_allclose(project_ball(p, radius), p, rtol=1e-15)


def test_projection_onto_ball_is_non_expansive(rng, d, radius):
    x, y = 3.0 * rng.normal(size=(2, d, POINTS))
    distance = np.linalg.norm(project_ball(x, radius) - project_ball(y, radius), axis=0)
    assert np.all(distance <= np.linalg.norm(x - y, axis=0) * (1.0 + 1e-12))


def test_projection_onto_ball_is_the_nearest_point(rng, d, radius):
    """(x − p)ᵀ(z − p) ≤ 0 for all z of the ball."""
    x = 3.0 * max(radius, 1.0) * rng.normal(size=(d, POINTS))
    z = rng.normal(size=(d, POINTS))
    z *= radius * rng.uniform(size=POINTS) ** 0.5 / np.linalg.norm(z, axis=0)
    p = np.asarray(project_ball(x, radius))
    for k in range(10):
        other = np.roll(z, k, axis=1)
        assert np.all(np.sum((x - p) * (other - p), axis=0) <= 1e-14 * max(radius, 1.0) ** 2)


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_derivative_of_projection_is_finite_and_at_most_one(jacobian, d):
    radii = np.repeat([0.0, 1.3, 1e6], 5)
    lengths = np.tile([0.0, 0.5, 1.0, 2.0, 0.0], 3) * radii + np.tile([0.0, 0.0, 0.0, 0.0, 1e-200], 3)
    inside = lengths < 0.9 * radii
    x = np.zeros((15, d))
    x[:, -1] = lengths  # along an axis, so that points on the boundary are exactly there
    by_x, by_radius = jax.jit(jax.vmap(jacobian(project_ball, argnums=(0, 1))))(x, radii)
    assert np.all(np.isfinite(by_x))
    assert np.all(np.isfinite(by_radius))
    np.testing.assert_array_equal(by_x[inside], np.broadcast_to(np.eye(d), (inside.sum(), d, d)))
    assert np.all(np.linalg.norm(by_x, 2, axis=(1, 2)) <= 1.0 + 1e-12)


# One constraint, then three contacts: frictionless, planar, spatial. Rows: bilateral; three normals; 1 + 2 of friction.
TABLE = LawTable(1, ((1, 0, Coulomb()), (1, 1, Coulomb()), (1, 2, Coulomb())))
MU = np.array([0.5, 0.5, 0.5])  # of the friction rows
CLOSED = np.array([True, True, True])
OPEN = np.array([False, False, False])
SOLUTIONS = {  # y, P, closed
    "open": ([0.0, -1.0, 0.5, -2.0, 3.0, 4.0, 5.0], [7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], OPEN),
    "separating": ([0.0, 1.0, 0.5, 2.0, 3.0, 4.0, 5.0], [-7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], CLOSED),
    "touching without load": ([0.0] * 7, [0.0] * 7, CLOSED),
    "stick": ([0.0] * 7, [1.0, 2.0, 2.0, 2.0, -0.9, 0.3, -0.6], CLOSED),
    "stick at the limit": ([0.0] * 7, [1.0, 2.0, 2.0, 2.0, 1.0, 0.0, -1.0], CLOSED),
    "slip": ([0.0, 0.0, 0.0, 0.0, -3.0, 3.0, 4.0], [1.0, 2.0, 2.0, 2.0, 1.0, -0.6, -0.8], CLOSED),
    "slip and open": (
        [0.0, 0.0, -1.0, 0.0, 8.0, 0.0, 2.0],
        [1.0, 2.0, 0.0, 4.0, 0.0, 0.0, -2.0],
        np.array([True, False, True]),
    ),
}
WRONG = {  # the solution that is changed, y or P, the row, its new value, and the rows that must object
    "constraint violated": ("stick", "y", 0, 0.1, [0]),
    "approaching without load": ("separating", "y", 1, -1.0, [1]),
    "adhesion": ("stick", "P", 1, -1.0, [1]),
    "load while separating": ("stick", "y", 2, 0.5, [2]),
    "load while open": ("open", "P", 3, 0.5, [3]),
    "friction while open": ("open", "P", 4, 0.5, [4]),
    "friction without load": ("separating", "P", 5, 0.1, [5]),
    "too much friction": ("stick", "P", 4, 1.1, [4]),
    "too much friction in the plane": ("stick", "P", 5, 0.9, [5, 6]),
    "too little friction for slip": ("slip", "P", 4, 0.9, [4]),
    "friction that drives": ("slip", "P", 4, -1.0, [4]),
    "friction across the slip": ("slip", "P", 5, 0.6, [5, 6]),
    "slip within the limit": ("stick", "y", 4, 0.2, [4]),
    "unloaded slip with friction": ("slip", "P", 2, 0.0, [4]),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_residual_vanishes_at_solutions(name):
    y, P, closed = (jnp.asarray(v) for v in SOLUTIONS[name])
    assert TABLE.size == y.size
    np.testing.assert_allclose(TABLE.residual(y, P, MU, closed), 0.0, atol=1e-15)


@pytest.mark.parametrize("name", WRONG)
def test_residual_objects_to_wrong_solutions(name):
    solution, which, row, value, rows = WRONG[name]
    y, P, closed = (np.array(v) for v in SOLUTIONS[solution])
    {"y": y, "P": P}[which][row] = value
    residual = np.abs(TABLE.residual(jnp.asarray(y), jnp.asarray(P), MU, closed))
    assert np.all(residual[rows] > 0.01)


def test_residual_treats_every_lane_alone():
    y, P, closed = (np.stack([np.asarray(s[k]) for s in SOLUTIONS.values()], axis=-1) for k in range(3))
    mu = np.broadcast_to(MU[:, None], closed.shape)
    np.testing.assert_allclose(TABLE.residual(jnp.asarray(y), jnp.asarray(P), mu, closed), 0.0, atol=1e-15)
    y[0, 2] = 1.0
    residual = np.array(TABLE.residual(jnp.asarray(y), jnp.asarray(P), mu, closed))
    assert residual[0, 2] == 1.0
    residual[0, 2] = 0.0
    np.testing.assert_allclose(residual, 0.0, atol=1e-15)
