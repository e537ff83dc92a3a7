"""Derivatives of every integrator on every problem: forward mode, reverse mode and central differences agree."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from integrators import ALL, ALPHA, DECOUPLED, EVENT, LOBATTO, MOREAU, RATTLE, UNIFIED, rests_below_zero
from small_problems import rolling_pendulum

import jaxns as ns

# Horizons away from switches: sliding on the slope, one impact of the ball, the rolling disk, the first
# millisecond of the mechanism with its first contact, the spinning disk.
PROBLEMS: dict[str, tuple[ns.Problem, float, int]] = {
    "ball": (ns.models.bouncing_ball(omega=50.0, e_N=0.3), 1e-2, 50),
    "slope": (ns.models.mass_on_slope(case=2), 5e-3, 60),
    "rolling": (rolling_pendulum(), 1e-2, 20),
    "slider_crank": (ns.models.slider_crank(mu=0.1), 1e-4, 20),
    "tippedisk": (ns.models.tippedisk(), 1e-3, 15),
}

# On velocity level the sign of a gap decides whether its contact is closed, so contacts at rest start below zero.
DOWN = {
    "ball": jnp.zeros(3),
    "slope": jnp.array([0.0, 1.0]),
    "rolling": jnp.array([0.0, 1.0, 0.0, 0.0, 0.0, 1.0]),
    "slider_crank": jnp.zeros(9),
    "tippedisk": jnp.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
}


def tight(integrator: Any) -> Any:
    """The same integrator with a tolerance that leaves room for differences."""
    return replace(integrator, tol=1e-13)


def end_state_functional(problem: ns.Problem, integrator: Any, dt: float, steps: int) -> Callable[..., jax.Array]:
    weights_q = jnp.linspace(0.5, 1.5, problem.q0.shape[0])
    weights_u = jnp.linspace(1.0, 0.2, problem.u0.shape[0]) / (1.0 + jnp.abs(problem.u0))

    def functional(params: Any, q0: jax.Array, u0: jax.Array) -> jax.Array:
        traj = ns.simulate(problem.system.with_tree(params), integrator, q0, u0, dt=dt, num_steps=steps)
        return traj.q[-1] @ weights_q + traj.u[-1] @ weights_u

    return functional


def covered(integrator: Any, name: str) -> bool:
    """What compiles slowly is left to the oldest schemes. In closed contact the decoupled GGL scheme sits on a switch: its
    projection sets the gap to zero, and the sign of the gap decides whether the contact is closed."""
    if integrator == RATTLE or (integrator == MOREAU and name == "slider_crank"):
        return True
    return name == "ball" or (name == "rolling" and integrator != DECOUPLED)


SLOW = {(RATTLE, "tippedisk"), (MOREAU, "slider_crank")} | {(i, "rolling") for i in (ALPHA, UNIFIED, LOBATTO, EVENT)}
CASES = [
    pytest.param((i, name), id=f"{p.id}-{name}", marks=pytest.mark.slow if (i, name) in SLOW else ())
    for p in ALL
    for i in p.values
    for name in PROBLEMS
    if covered(i, name)
]


@pytest.fixture(scope="module", params=CASES)
def compiled(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Function with forward mode, and reverse mode, of one integrator on one problem, each compiled once."""
    integrator, name = request.param
    problem, dt, steps = PROBLEMS[name]
    f = end_state_functional(problem, tight(integrator), dt, steps)
    q0 = problem.q0 - 1e-4 * DOWN[name] if rests_below_zero(integrator) else problem.q0
    point = (problem.system.params, q0, problem.u0)
    return {
        "system": problem.system,
        "point": point,
        "forward": jax.jit(lambda point, direction: jax.jvp(f, point, direction)),
        "gradient": jax.jit(jax.grad(f, argnums=(0, 1, 2)))(*point),
    }


def random_direction(system: ns.System, point: Any, part: int) -> Any:
    """Relative changes of all parameters (part 0), or admissible changes of positions (1) or velocities (2).

    Positions and velocities move along the constraints and the closed contacts: off them lies a switch.
    """
    rng = np.random.default_rng(part)
    params, q0, u0 = point
    nothing = jax.tree.map(jnp.zeros_like, point)
    if part == 0:
        return (jax.tree.map(lambda v: jnp.abs(v) * rng.normal(), params), *nothing[1:])
    t, u = jnp.zeros(()), rng.normal(size=u0.shape)
    closed = np.asarray(system.g_N(t, q0)) < 1e-3
    rows = jax.jacfwd(lambda u: jnp.concatenate([system.g_dot(t, q0, u), system.g_N_dot(t, q0, u)[closed]]))(u0)
    along = jnp.asarray(u - np.linalg.pinv(rows) @ (rows @ u) if rows.shape[0] else u)
    if part == 2:
        return (*nothing[:2], along)
    return (nothing[0], system.q_dot(t, q0, along) - system.q_dot(t, q0, 0.0 * u0), nothing[2])


@pytest.mark.parametrize("part", [0, 1, 2], ids=["parameters", "positions", "velocities"])
def test_forward_reverse_and_differences_agree(compiled: dict[str, Any], part: int) -> None:
    point = compiled["point"]
    direction = random_direction(compiled["system"], point, part)
    forward = float(compiled["forward"](point, direction)[1])
    products = jax.tree.map(lambda g, d: jnp.sum(g * d), compiled["gradient"], direction)
    reverse = float(sum(jax.tree.leaves(products)))

    def along(h: float) -> float:
        moved = jax.tree.map(lambda x, d: x + h * d, point, direction)
        return float(compiled["forward"](moved, direction)[0])

    h = 1e-5
    # Fourth-order central differences: their own error is far below 1e-6 at this step.
    difference = (8.0 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12.0 * h)
    assert np.isfinite(forward) and abs(forward) > 0.0
    assert reverse == pytest.approx(forward, rel=1e-9)
    assert forward == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize(
    "integrator", [ns.Moreau(tol=1e-13), pytest.param(ns.Rattle(tol=1e-13), marks=pytest.mark.slow)]
)
def test_second_derivative_matches_differences_of_the_first(integrator: Any) -> None:
    problem, dt, _ = PROBLEMS["slope"]
    q0 = problem.q0 - 1e-4 * DOWN["slope"] if rests_below_zero(integrator) else problem.q0

    def functional(mu: jax.Array) -> jax.Array:
        system = problem.system.with_params(mu=mu)
        traj = ns.simulate(system, integrator, q0, problem.u0, dt=dt, num_steps=10)
        return traj.q[-1, 0]

    mu = jnp.asarray(0.3)
    second = jax.jit(jax.jacfwd(jax.jacfwd(functional)))(mu)
    first = jax.jit(jax.jacfwd(functional))
    h = 1e-4
    assert float(second) == pytest.approx(float((first(mu + h) - first(mu - h)) / (2 * h)), rel=1e-6)


@pytest.mark.slow
def test_batched_gradient_equals_single_gradients() -> None:
    problem, dt, steps = PROBLEMS["slope"]

    def functional(mu: jax.Array) -> jax.Array:
        traj = ns.simulate(
            problem.system.with_params(mu=mu),
            ns.Rattle(),
            problem.q0,
            problem.u0,
            dt=dt,
            num_steps=steps,
            save_every=steps,
        )
        return traj.q[-1, 0]

    mus = jnp.array([0.1, 0.2, 0.3])
    batched = jax.jit(jax.vmap(jax.grad(functional)))(mus)
    single = jax.jit(jax.grad(functional))
    np.testing.assert_allclose(batched, [single(mu) for mu in mus], rtol=1e-10)


@pytest.mark.parametrize("integrator", [MOREAU, RATTLE])
def test_a_body_without_constraints_and_contacts(integrator):
    """No rows at all: u = u0 exp(−c t) with drag c, whose discrete derivative is near the true one."""
    system = ns.System({"c": 0.5}, lambda t, q, p: jnp.eye(1), force=lambda t, q, u, p: -p["c"] * u)

    def speed(c):
        return ns.simulate(system.with_params(c=c), integrator, jnp.zeros(1), jnp.ones(1), dt=1e-3, num_steps=1000).u[
            -1, 0
        ]

    for derivative in (jax.jacfwd, jax.grad):
        assert float(derivative(speed)(0.5)) == pytest.approx(-np.exp(-0.5), rel=1e-3)


def test_derivative_of_a_batch_without_constraints_and_contacts():
    """Forward mode over a batch: tangents of empty arrays must not get lost."""
    system = ns.System({"c": 0.5}, lambda t, q, p: jnp.eye(1), force=lambda t, q, u, p: -p["c"] * u)

    def speeds(c):
        run = system.with_params(c=c)
        starts = jnp.array([[1.0], [2.0]])
        return jax.vmap(lambda u0: ns.simulate(run, RATTLE, jnp.zeros(1), u0, dt=1e-2, num_steps=100).u[-1, 0])(starts)

    np.testing.assert_allclose(jax.jacfwd(speeds)(0.5), -np.exp(-0.5) * np.array([1.0, 2.0]), rtol=1e-3)


# Failed runs --------------------------------------------------------------------------------------------------------


def press(a, integrator, **arguments):
    """A block that is pushed while two plates close: no position is left after 0.075 s, and the step there fails."""
    return ns.simulate(PRESS.with_params(a=a), integrator, jnp.zeros(1), jnp.zeros(1), dt=0.02, **arguments)


PRESS = ns.System(
    {"a": 1.0},
    lambda t, q, p: jnp.eye(1),
    force=lambda t, q, u, p: p["a"] * jnp.ones(1),
    contacts=ns.Contacts(lambda t, q, p: jnp.stack([q[0] + 0.05, 0.1 - 2.0 * t - q[0]])),
)


@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_a_failed_run_has_no_derivative(derivative):
    """Rows before the failure keep theirs, 0.5 t²; what a failed step leaves behind has none, and its cotangents of zero
    do no harm."""
    status = np.asarray(press(1.0, RATTLE, num_steps=6, throw=False).status)
    assert list(status) == [0, 0, 0, ns.Status.INFEASIBLE, ns.Status.STOPPED, ns.Status.STOPPED]

    def rows(a):
        traj = press(a, RATTLE, num_steps=6)
        return {"q": traj.q[:, 0], "u": traj.u[:, 0], "P_N": traj.P_N[:, 0]}

    by_row = jax.jit(derivative(rows))(1.0)
    np.testing.assert_allclose(by_row["q"][:3], [0.0, 0.0002, 0.0008], atol=1e-12)
    for name in by_row:
        np.testing.assert_array_equal(np.isfinite(by_row[name]), [True] * 4 + [False] * 3, err_msg=name)


def test_a_failed_run_has_no_derivative_in_a_batch_and_with_few_rows():
    def end(a, num_steps):
        return press(a, RATTLE, num_steps=num_steps, save_every=2).q[-1, 0]

    gradients = jax.vmap(jax.grad(end), in_axes=(0, None))
    assert np.all(np.isnan(gradients(jnp.array([0.5, 1.0]), 6)))
    np.testing.assert_allclose(gradients(jnp.array([0.5, 1.0]), 2), 0.0008, atol=1e-12)


def test_a_run_that_fails_at_once_has_no_derivative():
    """Its rows are the initial state, which knows nothing of the parameter."""
    traj = ns.simulate(PRESS, RATTLE, jnp.zeros(1), jnp.zeros(1), dt=0.1, num_steps=1, throw=False)
    assert not traj.ok
    for derivative in (jax.jacfwd, jax.jacrev):
        slope = derivative(lambda a: press(a, RATTLE, num_steps=1, t0=0.06).q[1, 0])(1.0)
        assert np.isnan(slope)
