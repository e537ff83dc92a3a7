"""The nearest admissible state, against closed forms and differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import jaxns as ns


@pytest.fixture(scope="module")
def sled() -> ns.System:
    return ns.System(
        dict(m=2.0, l=0.8, floor=0.2),
        mass=lambda t, q, p: p["m"] * jnp.eye(5),
        constraint=lambda t, q, p: jnp.stack([jnp.sqrt((q[3] - q[0]) ** 2 + (q[4] - q[1]) ** 2) - p["l"]]),
        velocity_constraint=lambda t, q, u, p: jnp.stack([jnp.cos(q[2]) * u[1] - jnp.sin(q[2]) * u[0]]),
        contacts=ns.Contacts(lambda t, q, p: q[jnp.array([1, 4])] - p["floor"]),
    )


Q, U = jnp.array([0.0, 0.0, 0.3, -0.7, 0.5]), jnp.array([1.0, -0.3, 1.0, 0.2, 0.0])


def test_it_is_the_nearest_of_all_admissible_states(sled):
    q, u = ns.consistent(sled, Q, U)
    rules = [
        {"type": "eq", "fun": lambda x: np.asarray(sled.g(0.0, jnp.asarray(x)))},
        {"type": "ineq", "fun": lambda x: np.asarray(sled.g_N(0.0, jnp.asarray(x)))},
    ]
    best = optimize.minimize(lambda x: np.sum((x - Q) ** 2), Q, constraints=rules, options=dict(ftol=1e-15))
    assert np.allclose(q, best.x, atol=1e-6)
    assert np.allclose(sled.g_N(0.0, q)[0], 0.0, atol=1e-12)  # it was below the floor
    assert np.allclose(sled.g_dot(0.0, q, u), 0.0, atol=1e-12)
    assert np.allclose(sled.gamma(0.0, q, u), 0.0, atol=1e-12)
    assert sled.g_N_dot(0.0, q, u)[0] > -1e-12  # nor does it go there


def test_derivatives_in_both_modes_are_those_of_differences(sled):
    def state(p, q, u):
        return jnp.concatenate(ns.consistent(sled.with_params(**p), q, u))

    at = dict(l=jnp.asarray(0.8), floor=jnp.asarray(0.2)), Q, U
    forward = jax.jit(jax.jacfwd(state, argnums=(0, 1, 2)))(*at)
    reverse = jax.jit(jax.jacrev(state, argnums=(0, 1, 2)))(*at)
    for a, b in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
        assert np.allclose(a, b, atol=1e-10)
    h = 1e-6
    for key in ("l", "floor"):
        ends = [state({**at[0], key: at[0][key] + s * h}, Q, U) for s in (1.0, -1.0)]
        assert np.allclose(forward[0][key], (ends[0] - ends[1]) / (2 * h), atol=1e-6), key
    for k, x in ((1, Q), (2, U)):
        for i in range(5):
            e = h * jnp.eye(5)[i]
            ends = [state(*(y + s * e if n == k else y for n, y in enumerate(at))) for s in (1.0, -1.0)]
            assert np.allclose(forward[k][:, i], (ends[0] - ends[1]) / (2 * h), atol=1e-6), (k, i)
        assert x.shape == (5,)


def test_quaternions_keep_their_length_and_redundant_constraints_are_fine():
    """A door on two points, given a little off."""
    turn = np.array([1.0, 0.02, 0.03, 0.0]) / np.linalg.norm([1.0, 0.02, 0.03, 0.0])
    door = ns.Mechanism(
        ns.Body("door", 5.0, (1.0, 0.5, 0.5), position=(0.5, 0.01, 0.02), orientation=turn, spin=(0.1, 0.0, 1.0)),
        ns.Spherical("ground", "door", point_a=(0, 0, 1), point_b=(-0.5, 0, 1), name="upper"),
        ns.Spherical("ground", "door", point_a=(0, 0, -1), point_b=(-0.5, 0, -1), name="lower"),
        gravity=(0.0, 0.0, -9.81),
    )
    assert np.abs(door.system.g(0.0, door.q0)).max() < 1e-10
    assert np.abs(door.system.g_dot(0.0, door.q0, door.u0)).max() < 1e-10
    assert np.isclose(np.linalg.norm(door.q0[3:]), 1.0, atol=1e-12)
    assert np.abs(door.q0[:3] - jnp.array([0.5, 0.0, 0.0])).max() < 0.05
    assert door.degrees_of_freedom == 1


def test_what_has_no_solution_is_an_error(sled):
    system = ns.System(
        dict(), mass=lambda t, q, p: jnp.eye(1), constraint=lambda t, q, p: jnp.stack([q[0], q[0] - 1.0])
    )
    with pytest.raises(ValueError, match="no admissible state"):
        ns.consistent(system, [0.3], [0.0])
    traced = jax.jit(lambda q: ns.consistent(system, q, jnp.zeros(1))[0])(jnp.array([0.3]))
    assert np.isnan(traced).all()
