"""Patterns read from traces, elimination that follows them, and large systems that use both."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns.integrators.base import Theta, law_table
from jaxns.integrators.levels import large, velocity_level
from jaxns.solve import sparse
from jaxns.trace import pattern

# Patterns -----------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "differences": lambda x: x[1:] - x[:-1] ** 2,
    "gather": lambda x: x[jnp.array([3, 1, 1, 0])] * jnp.sin(x[2]),
    "scatter": lambda x: jnp.zeros(6).at[jnp.array([4, 1])].set(x[:2]).at[jnp.array([1, 1])].add(x[2:4]),
    "dynamic slice": lambda x: jax.lax.dynamic_slice(x, (2,), (3,)),
    "matrix of known zeros": lambda x: jnp.triu(jnp.ones((6, 6))) @ x,
    "matrix of unknown entries": lambda x: jnp.diag(x) @ x[::-1],
    "stack and reshape": lambda x: jnp.stack([x[:3], x[3:] * x[0]], axis=1).reshape(-1),
    "select by index": lambda x: jnp.where(jnp.arange(6) < 3, x, x[::-1]),
    "select by value": lambda x: jnp.where(x > 0.0, x, x[::-1]),
    "norms": lambda x: jnp.linalg.norm(x.reshape(3, 2), axis=1),
    "inner function": lambda x: jax.jit(jnp.cumsum)(x) / (1.0 + x[0] ** 2),
    "vmapped": lambda x: jax.vmap(lambda pair: jnp.cross(jnp.append(pair, 0.0), jnp.ones(3)))(x.reshape(3, 2)).reshape(
        -1
    ),
    "unknown operation": lambda x: jnp.sort(x[:3]),
    "loop with a counter": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y + x[0] * y[::-1], x),
    "scan": lambda x: jax.lax.scan(lambda c, xi: (c + xi, c * xi), 0.0, x)[1],
    "branch": lambda x: jax.lax.cond(x[0] > 0.0, lambda x: x, lambda x: x[::-1], x),
    "clipped": lambda x: jnp.clip(x, -0.5, 0.5),
    "with a derivative of its own": lambda x: jax.nn.relu(x) + jax.nn.softplus(x[::-1]),
    "derivative": jax.grad(lambda x: jnp.sum(x[1:] * x[:-1] ** 2)),
}
EXACT = {"differences", "gather", "scatter", "dynamic slice", "matrix of known zeros", "stack and reshape", "clipped"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pattern_of_a_jacobian_holds_all_entries(name: str, rng: np.random.Generator) -> None:
    function = FUNCTIONS[name]
    x = jnp.zeros(6)
    found = pattern.jacobian(function, x)
    entries = sum(np.abs(jax.jacfwd(function)(jnp.asarray(rng.normal(size=6)))) for _ in range(20))
    assert not np.any((entries != 0) & ~found)
    if name in EXACT:
        np.testing.assert_array_equal(found, entries != 0)


@pytest.mark.parametrize("name", [n for n in ns.models.__all__ if n != "four_bar"])
def test_patterns_of_the_benchmark_problems(name: str, rng: np.random.Generator) -> None:
    problem = getattr(ns.models, name)()
    system, t = problem.system, jnp.zeros(())
    M = pattern.nonzeros(lambda s, t, q: s.M(t, q), system, t, problem.q0)
    W = pattern.jacobian(lambda s, t, q, u: s.velocities(t, q, u), system, t, problem.q0, problem.u0, wrt=3)
    for _ in range(3):
        q = problem.q0 + rng.normal(size=problem.q0.shape)
        assert not np.any((np.asarray(system.M(t, q)) != 0) & ~M)
        assert not np.any((np.asarray(system.W(t, q, problem.u0)).T != 0) & ~W)


def test_pattern_of_the_wheel_is_that_of_its_levers() -> None:
    problem = ns.models.overbalanced_wheel(n=30)
    velocities = pattern.jacobian(
        lambda s, q, u: s.velocities(0.0, q, u), problem.system, problem.q0, problem.u0, wrt=2
    )
    assert velocities.sum() == 3 * 90  # three rows for each lever, each with φ, x and y
    assert pattern.nonzeros(lambda s, q: s.M(0.0, q), problem.system, problem.q0).sum() == 61


# Elimination --------------------------------------------------------------------------------------------------------


def random_matrix(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    i, j = np.indices((n, n))
    masks = {
        "chain": abs(i - j) <= 1,
        "band": abs(i - j) <= 3,
        "arrow": (i == j) | (i == 0) | (j == 0),
        "tree": (i == j) | (i == (j - 1) // 2) | (j == (i - 1) // 2),
        "scattered": (i == j) | (rng.random((n, n)) < 1.5 / n),
    }
    return np.where(masks[kind], rng.normal(size=(n, n)), 0.0) + 6.0 * np.eye(n)


def plans(mask: np.ndarray, late: np.ndarray | None = None) -> tuple[sparse.Plan, sparse.Plan]:
    late = np.zeros(len(mask), bool) if late is None else late
    found = sparse.Pattern.of(mask)
    return sparse.Plan.of(found, late), sparse.Plan.of(found.T, late)


@pytest.mark.parametrize("kind", ["chain", "band", "arrow", "tree", "scattered"])
def test_solution(kind: str, rng: np.random.Generator) -> None:
    A, b = random_matrix(kind, 60, rng), rng.normal(size=60)
    plan, _ = plans(A != 0)
    assert kind == "scattered" or (plan.core.shape[0] <= 8 and len(plan.levels) <= 8)
    entries = A[plan.pattern.rows, plan.pattern.columns]
    x = jax.jit(partial(sparse.solve_lanes, plan))(entries, b)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=0, atol=1e-12)
    np.testing.assert_allclose(plan.pattern.multiply(jnp.asarray(entries), jnp.asarray(b)), A @ b, rtol=0, atol=1e-12)


def test_derivatives_and_batches_of_solutions(rng: np.random.Generator) -> None:
    A, b, c = random_matrix("band", 24, rng), rng.normal(size=24), rng.normal(size=24)
    plan, transposed = plans(A != 0)
    entries = jnp.asarray(A[plan.pattern.rows, plan.pattern.columns])

    def solve(entries: jax.Array, b: jax.Array) -> jax.Array:
        return sparse.solve(plan, transposed, entries, b)

    x, y = np.linalg.solve(A, b), np.linalg.solve(A.T, c)
    by_entries, by_b = jax.jit(jax.grad(lambda *a: solve(*a) @ c, argnums=(0, 1)))(entries, jnp.asarray(b))
    np.testing.assert_allclose(by_b, y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(by_entries, -y[plan.pattern.rows] * x[plan.pattern.columns], rtol=0, atol=1e-12)
    batch = jax.jit(jax.vmap(solve))(jnp.stack([entries, 2.0 * entries]), jnp.stack([b, b]))
    np.testing.assert_allclose(batch, [x, 0.5 * x], rtol=0, atol=1e-12)


def test_singular_and_consistent_system_gets_a_solution(rng: np.random.Generator) -> None:
    """The Delassus matrix of a chain between two walls, all contacts closed: one more contact than bodies."""
    W = np.eye(40, 41) - np.eye(40, 41, 1)
    G = W.T @ W
    plan, _ = plans(G != 0)
    b = G @ rng.normal(size=41)
    x = jax.jit(partial(sparse.solve_lanes, plan))(G[plan.pattern.rows, plan.pattern.columns], b)
    np.testing.assert_allclose(G @ x, b, rtol=0, atol=1e-11)


def test_where_diagonal_pivots_fail_rows_are_exchanged(rng: np.random.Generator) -> None:
    n = 24
    A = np.kron(np.eye(n // 2), np.array([[0.0, 1.0], [2.0, 0.0]])) + 0.1 * np.eye(n, k=2)
    plan, _ = plans(A != 0)
    b = rng.normal(size=n)
    x = jax.jit(partial(sparse.solve_lanes, plan))(A[plan.pattern.rows, plan.pattern.columns], b)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=0, atol=1e-12)


def test_jacobian_takes_one_derivative_for_each_colour() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sin(x[1:]) * x[:-1] * x[0]

    x = jnp.linspace(0.3, 2.0, 50)
    found = sparse.Pattern.of(pattern.jacobian(function, x))
    assert found.colours.max() + 1 == 3
    entries = found.jacobian(jax.linearize(function, x)[1], x.dtype)
    np.testing.assert_allclose(entries, jax.jacfwd(function)(x)[found.rows, found.columns], rtol=1e-14)


# Large systems ------------------------------------------------------------------------------------------------------


def blocks_on_a_belt(n: int = 16) -> ns.Problem:
    """Blocks that fall on a moving belt with friction; springs and a common inertia couple neighbours, q = (x, y)."""

    def mass(t, q, p):
        neighbours = jnp.eye(n, k=1) + jnp.eye(n, k=-1)
        return p["m"] * (jnp.eye(2 * n) + jnp.pad(0.2 * neighbours, (0, n)))

    def potential(t, q, p):
        x, y = q[:n], q[n:]
        return 0.5 * p["c"] * jnp.sum((x[1:] - x[:-1] - 0.1) ** 2) + p["m"] * 9.81 * jnp.sum(y)

    belt = ns.Contacts(
        lambda t, q, p: q[n:],
        lambda t, q, u, p: (u[:n] - p["belt"])[:, None],
        e_N=lambda p: p["e_N"],
        mu=lambda p: p["mu"],
    )
    system = ns.System(dict(m=1.0, c=100.0, belt=0.3, mu=0.4, e_N=0.3), mass, potential=potential, contacts=belt)
    q0 = jnp.concatenate([0.11 * jnp.arange(n), 1e-3 * (1.0 + jnp.sin(jnp.arange(n)))])
    return ns.Problem(system, q0, jnp.zeros(2 * n).at[0].set(1.0), t1=0.1, dt=2e-3)


def wheel_in_air(n: int = 12) -> ns.Problem:
    """The overbalanced wheel with drag: its forces depend on velocities."""
    wheel = ns.models.overbalanced_wheel(n=n)
    s = wheel.system
    drag = lambda t, q, u, p: -0.1 * u * jnp.abs(u)  # noqa: E731
    system = ns.System(
        s.params, s.mass, potential=s.potential, force=drag, constraint=s.constraint, contacts=s.contacts
    )
    return replace(wheel, system=system)


LARGE = {
    "wheel": (ns.models.overbalanced_wheel(n=12), ns.Rattle(), dict(m=0.11, e_N=0.4)),
    "chain": (ns.models.ball_chain(n=30), ns.Moreau(), dict(gravity=8.0, e_N=0.3)),
    "blocks": (blocks_on_a_belt(), ns.Rattle(), dict(mu=0.3, c=120.0)),
    "wheel in air": (wheel_in_air(), ns.Rattle(), dict(m=0.11, e_N=0.4)),
    "chain in three stages": (ns.models.ball_chain(n=30), ns.Lobatto(stages=3), dict(gravity=8.0, e_N=0.3)),
}


@pytest.fixture(
    scope="module",
    params=[name if name == "chain" else pytest.param(name, marks=pytest.mark.slow) for name in LARGE],
)
def both(request: pytest.FixtureRequest) -> list:
    """The motion of a large problem with its derivatives in sparse and in dense form, and a batch in sparse form."""
    problem, integrator, parameters = LARGE[request.param]

    def end(values: dict) -> tuple[jax.Array, jax.Array]:
        system = problem.system.with_params(**values)
        traj = ns.simulate(system, integrator, problem.q0, problem.u0, dt=problem.dt, num_steps=50)
        return jnp.concatenate([traj.q[-1], traj.u[-1]]), (traj.ok, jnp.sum(traj.P_N))

    def everything(values: dict) -> tuple:
        state, pull, aux = jax.vjp(end, values, has_aux=True)
        _, rate = jax.jvp(lambda v: end(v)[0], (values,), (jax.tree.map(jnp.ones_like, values),))
        return state, aux, pull(jnp.cos(jnp.arange(state.shape[0])))[0], rate

    values = jax.tree.map(jnp.asarray, parameters)
    batch = jax.tree.map(lambda v: v * jnp.array([1.0, 0.9, 1.1]), values)
    results, batches = [], []
    for smallest in (large.SMALLEST, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large, "SMALLEST", smallest)
            jax.clear_caches()  # so that the choice is made anew
            results.append(jax.jit(everything)(values))
            batches.append(jax.jit(jax.vmap(end))(batch) if smallest < 10**9 else None)
    jax.clear_caches()
    return [*results, batches[0]]


def test_large_systems_choose_the_sparse_form() -> None:
    for problem, _, _ in LARGE.values():
        system, q, u = problem.system, problem.q0, problem.u0
        laws = law_table(system.rows(0.0, q, u))
        assert large.structure(system, laws, velocity_level.rows, jnp.zeros(()), q, u) is not None
    crank = ns.models.slider_crank()
    laws = law_table(crank.system.rows(0.0, crank.q0, crank.u0))
    rows = velocity_level.rows
    assert large.structure(crank.system, laws, rows, jnp.zeros(()), crank.q0, crank.u0) is None


@pytest.mark.parametrize("name", ["wheel in air", "chain in three stages"])
def test_velocities_as_unknowns_have_a_sparse_form(name: str) -> None:
    """The entries of Newton's matrix grow with the number of bodies, and so does the work of its elimination."""
    work = []
    for n in (20, 40):
        problem = wheel_in_air(n) if name == "wheel in air" else ns.models.ball_chain(n)
        system, t, q, u = problem.system, jnp.zeros(()), problem.q0, problem.u0
        statement = LARGE[name][1].first_solve(system, t, q, u)
        P = jnp.zeros((statement.layout.laws.size,))
        form = statement.problem(Theta(system, t, t + 1e-3, q, u, P, t)).sparse
        assert form is not None and form.plans[0].pattern.shape == (statement.n_z + P.shape[0],) * 2
        work.append(form.plans[0].work)
    assert work[1] < 2.2 * work[0]


def test_sparse_and_dense_form_are_the_same_motion(both) -> None:
    (state, (ok, P_N), _, _), dense, (states, (oks, _)) = both
    assert ok
    assert jnp.all(oks)
    assert P_N > 0.0
    np.testing.assert_allclose(state, dense[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(states[0], state, rtol=0, atol=1e-9)


def test_sparse_and_dense_form_have_the_same_derivatives(both) -> None:
    (_, _, gradient, rate), (_, _, expected_gradient, expected_rate), _ = both
    np.testing.assert_allclose(rate, expected_rate, rtol=1e-7, atol=1e-8)
    for name, value in gradient.items():
        np.testing.assert_allclose(value, expected_gradient[name], rtol=1e-7, atol=1e-8)
