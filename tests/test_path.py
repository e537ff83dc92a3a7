"""Contact problems that Newton's method alone does not solve: redundant contacts, large friction, no solution at all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hard_systems import walled_disk

import jaxns as ns


def violation(G, c, mu, d, P_N, P_F):
    """The largest violation of the laws, from their definition, relative to the size of c; no code of the solver."""
    n = len(mu)
    xi = G @ np.concatenate([P_N, P_F.ravel()]) + c
    xi_N, xi_F = xi[:n], xi[n:].reshape(n, d)
    slip, force = np.linalg.norm(xi_F, axis=1), np.linalg.norm(P_F, axis=1)
    opposed = np.einsum("ij,ij->i", xi_F, P_F) + slip * mu * P_N  # zero where P_F is on the edge, against the slip
    scale = np.max(np.abs(c))
    length = max(1.0, np.max(P_N) / scale)
    parts = [
        -xi_N,
        -P_N / length,
        np.minimum(xi_N, P_N / length),
        (force - mu * P_N) / length,
        opposed / (scale * length),
    ]
    return max(float(np.max(part)) for part in parts) / scale


def problems(rng, number, n, d, rank):
    """Directions of n contacts of given rank, shifted so that one velocity opens all contacts faster than they slide."""
    out = []
    for _ in range(number):
        W = rng.normal(size=(n * (1 + d), rank)) * np.exp(rng.uniform(-2, 2, rank))
        mu = rng.uniform(0.0, 1.5, n)
        v = rng.normal(size=rank)
        v /= np.linalg.norm(v)
        slide = np.linalg.norm((W[n:] @ v).reshape(n, d), axis=1)
        W[:n] += np.outer(mu * slide + rng.uniform(0.1, 1.0, n) - W[:n] @ v, v)
        e = rng.choice([0.0, 0.5])
        velocity = W @ rng.normal(size=rank)
        c = velocity + np.concatenate([e * np.minimum(velocity[:n], 0.0), np.zeros(n * d)])
        out.append((W @ W.T, c, mu))
    return tuple(map(np.stack, zip(*out, strict=True)))


@pytest.mark.parametrize(("n", "d", "rank"), [(2, 1, 3), (6, 1, 4), (4, 2, 6), (8, 2, 6)])
def test_random_problems_with_a_solution_are_solved(rng, n, d, rank):
    G, c, mu = problems(rng, 150, n, d, rank)
    solution = jax.jit(jax.vmap(lambda G, c, mu: ns.solve_contacts(G, c, mu, d=d)))(G, c, mu)
    assert np.all(np.asarray(solution.status) == ns.Status.OK)
    worst = [
        violation(*each, d, P_N, P_F) for *each, P_N, P_F in zip(G, c, mu, solution.P_N, solution.P_F, strict=True)
    ]
    assert max(worst) < 1e-8


def test_two_walls_that_close_have_no_solution():
    """ξ_1 = P_1 − P_2 − a and ξ_2 = P_2 − P_1 + b: both can be at least zero only for a ≤ b."""
    G = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
    solve = jax.jit(jax.vmap(lambda a, b: ns.solve_contacts(G, jnp.stack([-a, b]), 0.0, d=0)))
    a, b = jnp.array([1.0, 1.0, -1.0, 2.0]), jnp.array([2.0, -0.5, -2.0, 1.9])
    expected = [ns.Status.OK, ns.Status.INFEASIBLE, ns.Status.INFEASIBLE, ns.Status.INFEASIBLE]
    assert solve(a, b).status.tolist() == expected


def test_a_hard_lane_leaves_the_others_alone(rng):
    """The iterations of a lane are its own, whoever shares the batch."""
    G, c, mu = problems(rng, 12, 4, 2, 6)
    easy = np.abs(c)
    easy[:, 4:] = 0.0  # all contacts open

    def solve(G, c, mu):
        return ns.solve_contacts(G, c, mu, d=2)

    alone = jax.jit(jax.vmap(solve))(G, easy, mu)
    easy[5] = c[5]
    together = jax.jit(jax.vmap(solve))(G, easy, mu)
    others = np.arange(12) != 5
    assert together.status.tolist() == [0] * 12
    assert together.iterations[5] > 0
    np.testing.assert_array_equal(together.iterations[others], alone.iterations[others])
    np.testing.assert_array_equal(together.xi[others], alone.xi[others])


@pytest.mark.parametrize("solver", ["newton", "path"])
def test_stacked_boxes_rest(solver):
    """Four boxes on each other, two contacts at each face: a singular matrix in every step. The weights add up."""
    boxes, width, g = 4, 0.5, 9.81

    def gaps(t, q, p):
        y, angle = q[0::2], q[1::2]
        below_y, below_angle = jnp.append(0.0, y[:-1]), jnp.append(0.0, angle[:-1])
        left, right = (y - below_y + side * width * (angle - below_angle) - 0.5 for side in (-1.0, 1.0))
        return jnp.concatenate([left, right]) + jnp.where(jnp.tile(jnp.arange(boxes) == 0, 2), 0.0, -0.5)

    stack = ns.System(
        dict(),
        mass=lambda t, q, p: jnp.diag(jnp.tile(jnp.array([1.0, 0.1]), boxes)),
        potential=lambda t, q, p: g * jnp.sum(q[0::2]),
        contacts=ns.Contacts(gaps, e_N=0.5),
    )
    q0 = jnp.zeros(2 * boxes).at[0::2].set(0.5 + jnp.arange(boxes)).at[0].add(0.01)
    q0 = q0.at[2::2].add(0.01 + 0.01 * jnp.arange(boxes - 1))
    traj = ns.simulate(stack, ns.Moreau(solver=solver), q0, jnp.zeros(2 * boxes), dt=0.01, t1=3.0)
    weights = traj.P_N[-1].reshape(2, boxes).sum(axis=0) / 0.01
    np.testing.assert_allclose(weights, g * np.arange(boxes, 0, -1), rtol=1e-6)


@pytest.mark.parametrize("integrator", [ns.Moreau(), ns.Rattle()], ids=lambda i: type(i).__name__)
def test_the_error_names_the_contacts_that_wedge(integrator):
    floor = ns.Contacts(lambda t, q, p: q[1:2] + 9.0, e_N=lambda p: p["e"])  # contact 2, far away
    disk = walled_disk(1.2, 0.4, floor)
    start = jnp.array([0.0063, 1.0, 0.0]), jnp.array([-0.132, -2.0, 12.81])

    def run(e):
        return ns.simulate(disk.with_params(e=e), integrator, *start, dt=1e-3, t1=0.5)

    with pytest.raises(ns.SimulationError, match=r"contacts 0, 1 hold each other in balance.*smaller e_N") as failure:
        run(0.4)
    status = np.asarray(failure.value.trajectory.status)
    assert status[np.argmax(status != ns.Status.OK)] == ns.Status.INFEASIBLE
    assert run(0.0).ok  # without restitution the same disk wedges, and rests
