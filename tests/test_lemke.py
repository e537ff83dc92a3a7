"""Lemke's method: random and infeasible linear complementarity problems, inside `jit` and `vmap`, and its derivatives."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

NUMBER, N = 1000, 8


@pytest.fixture(scope="module")
def batched():
    return jax.jit(jax.vmap(ns.lemke))


def positive_definite(rng, number, n):
    A = rng.normal(size=(number, n, n + 2)) * 10.0 ** rng.uniform(-2, 2, (number, 1, 1))
    skew = rng.normal(size=(number, n, n))
    return A @ A.transpose(0, 2, 1) + 0.3 * (skew - skew.transpose(0, 2, 1))  # positive definite, not symmetric


def by_enumeration(M, q):
    """The only z with z_b = −M_bb⁻¹ q_b ≥ 0 and w ≥ 0, over all 2ⁿ sets b of basic variables."""
    n = q.shape[1]
    best, worst = np.zeros_like(q), np.full(len(q), np.inf)
    for basic in itertools.product((False, True), repeat=n):
        b = np.asarray(basic)
        A = np.where(b[:, None], np.where(b, M, 0.0), np.eye(n))
        z = np.linalg.solve(A, np.where(b, -q, 0.0)[..., None])[..., 0]
        defect = np.abs(np.minimum(z, np.einsum("bij,bj->bi", M, z) + q)).max(axis=1)
        better = defect < worst
        best, worst = np.where(better[:, None], z, best), np.minimum(defect, worst)
    return best


def test_random_problems_against_enumeration(batched, rng):
    M, q = positive_definite(rng, NUMBER, N), rng.normal(size=(NUMBER, N)) * 10.0 ** rng.uniform(-3, 3, (NUMBER, 1))
    solution = batched(jnp.asarray(M), jnp.asarray(q))
    assert np.all(np.asarray(solution.status) == ns.Status.OK)
    z, w = np.asarray(solution.z), np.einsum("bij,bj->bi", M, np.asarray(solution.z)) + q
    size = np.abs(q).max(axis=1, keepdims=True)
    assert np.all(z >= 0.0)
    assert np.all(w >= -1e-9 * size)
    assert np.max(np.abs(z * w) / (size * (1e-300 + z.max(axis=1, keepdims=True)))) <= 1e-9
    other = by_enumeration(M, q)
    assert np.max(np.abs(z - other).max(axis=1) / (1e-3 * size[:, 0] + other.max(axis=1))) <= 1e-9
    assert np.mean(z == 0.0) > 0.2 and np.mean(z > 0.0) > 0.2


def test_infeasible_problems_are_reported(batched, rng):
    """A row of zeros with negative q has no solution; the other rows do not matter."""
    M, q = positive_definite(rng, 100, N), rng.normal(size=(100, N))
    row = rng.integers(0, N, 100)
    M[np.arange(100), row] = 0.0
    q[np.arange(100), row] = -1.0
    solution = batched(jnp.asarray(M), jnp.asarray(q))
    assert np.all(np.asarray(solution.status) != ns.Status.OK)
    symmetric = np.zeros((100, N, N))
    solution = batched(jnp.asarray(symmetric), jnp.asarray(q))
    assert np.all(np.asarray(solution.status) == ns.Status.RAY)
    assert np.all(np.asarray(solution.z) == 0.0)


def test_degenerate_problems_do_not_cycle(batched, rng):
    """Small whole numbers make many ties; twice the same contact makes M singular."""
    A = rng.integers(-1, 2, (200, N // 2, N // 2)).astype(float)
    half = A @ A.transpose(0, 2, 1)
    M = np.tile(half, (1, 2, 2))
    q = np.tile(rng.integers(-2, 3, (200, N // 2)).astype(float), (1, 2))
    solution = batched(jnp.asarray(M), jnp.asarray(q))
    status = np.asarray(solution.status)
    assert set(np.unique(status)) <= {ns.Status.OK, ns.Status.RAY}
    ok = status == ns.Status.OK
    z, w = np.asarray(solution.z), np.einsum("bij,bj->bi", M, np.asarray(solution.z)) + q
    assert ok.sum() > 50 and np.all(np.abs(np.minimum(z, w))[ok] <= 1e-9)


def test_not_a_number_is_reported():
    assert ns.lemke(jnp.full((2, 2), jnp.nan), jnp.array([-1.0, 1.0])).status == ns.Status.NONFINITE


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"M must be \(n, n\)"):
        ns.lemke(jnp.eye(3), jnp.zeros(2))


def test_derivatives(rng):
    M, q = positive_definite(rng, 20, 5), rng.normal(size=(20, 5))
    M_dot, q_dot = rng.normal(size=M.shape), rng.normal(size=q.shape)

    def functional(M, q):
        return ns.lemke(M, q).z @ jnp.arange(1.0, 6.0)

    M, q, M_dot, q_dot = (jnp.asarray(x) for x in (M, q, M_dot, q_dot))
    forward = jax.vmap(lambda M, q, a, b: jax.jvp(functional, (M, q), (a, b))[1])(M, q, M_dot, q_dot)
    dM, dq = jax.vmap(jax.grad(functional, argnums=(0, 1)))(M, q)
    reverse = jnp.sum(dM * M_dot, axis=(1, 2)) + jnp.sum(dq * q_dot, axis=1)
    value, h = jax.vmap(functional), 1e-7
    difference = (value(M + h * M_dot, q + h * q_dot) - value(M - h * M_dot, q - h * q_dot)) / (2 * h)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10, atol=1e-10)
    error = np.abs(np.asarray(forward - difference)) / (1.0 + np.abs(np.asarray(difference)))
    assert np.quantile(error, 0.9) <= 1e-5
