"""Convex sets: every projection is idempotent, does not expand, and satisfies its variational inequality."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss

import jaxns as ns
from jaxns.laws import sets

# Each set as (dimension, number of sizes, project(x, sizes)); a size is a radius or a semi-axis.
SETS = {
    "nonpositive": (1, 1, lambda x, a: sets.project_nonpositive(x)),
    "interval": (1, 1, lambda x, a: sets.project_ball(x, a[0])),
    "disk": (2, 1, lambda x, a: sets.project_ball(x, a[0])),
    "ball": (3, 1, lambda x, a: sets.project_ball(x, a[0])),
    "cylinder": (3, 2, lambda x, a: sets.project_cylinder(x, a[0], a[1])),
    "box": (3, 3, lambda x, a: ns.Uncoupled((1, 1, 1)).project(x, a, jnp.ones(()))),
    "interval and disk": (3, 2, lambda x, a: ns.Uncoupled((1, 2)).project(x, a[jnp.array([0, 1, 1])], jnp.ones(()))),
    "ellipse": (2, 2, sets.project_ellipsoid),
    "ellipsoid": (3, 3, sets.project_ellipsoid),
    "contensou": (3, 2, lambda x, a: sets.project_contensou(x, a[0], a[1])),
}
NUMBER = 3000


@pytest.fixture(scope="module", params=SETS)
def drawn(request):
    """Random points and sizes of all scales, with some sizes zero or far apart, and their projections."""
    rng = np.random.default_rng(7)
    d, k, project = SETS[request.param]
    scale = 10.0 ** rng.uniform(-6, 6, NUMBER)
    sizes = scale * 10.0 ** rng.uniform(-0.5, 0.5, (k, NUMBER))
    sizes[:, 1000:1500] = scale[1000:1500] * 10.0 ** rng.uniform(-8, 0, (k, 500))  # huge aspect ratios
    sizes[:, 1500:1700] *= rng.integers(0, 2, (k, 200))  # some axes zero
    sizes[:, 1700:1800] = 0.0
    x, z = scale * 10.0 ** rng.uniform(-2, 2, (2, 1, NUMBER)) * rng.normal(size=(2, d, NUMBER))
    x[:, 1800:1900] *= rng.integers(0, 2, (d, 100))  # some components zero
    compiled = jax.jit(project)
    p, p_z = (np.asarray(compiled(jnp.asarray(v), jnp.asarray(sizes))) for v in (x, z))
    return {"x": x, "z": z, "p": p, "p_z": p_z, "scale": scale, "sizes": sizes, "project": compiled}


def norm(x):
    return np.sqrt(np.sum(x * x, axis=0))


def test_projections_are_finite_and_idempotent(drawn):
    again = np.asarray(drawn["project"](jnp.asarray(drawn["p"]), jnp.asarray(drawn["sizes"])))
    assert np.all(np.isfinite(drawn["p"]))
    assert np.all(norm(again - drawn["p"]) <= 1e-13 * (norm(drawn["p"]) + norm(drawn["x"]) * 1e-3))


def test_projections_do_not_expand(drawn):
    distance = norm(drawn["x"] - drawn["z"])
    assert np.all(norm(drawn["p"] - drawn["p_z"]) <= distance * (1 + 1e-12))


def test_variational_inequality(drawn):
    """(x − p)ᵀ(z − p) ≤ 0 for every z of the set; the projections of all points are such z."""
    product = np.sum((drawn["x"] - drawn["p"]) * (drawn["p_z"] - drawn["p"]), axis=0)
    size = norm(drawn["x"] - drawn["p"]) * (norm(drawn["p_z"]) + norm(drawn["p"]))
    assert np.all(product <= 1e-12 * size)
    assert np.any(product < -1e-3 * size) or drawn["x"].shape[0] == 1  # the inequality is not empty


def test_points_of_the_set_stay(drawn):
    """Halfway between the origin and a point of the set lies a point of the set."""
    inside = 0.5 * drawn["p"]
    stay = np.asarray(drawn["project"](jnp.asarray(inside), jnp.asarray(drawn["sizes"])))
    assert np.all(norm(stay - inside) <= 1e-13 * norm(inside))


@pytest.mark.parametrize("name", SETS)
def test_derivatives_against_differences(name):
    """With respect to the point and the sizes, inside and outside, away from the boundary."""
    rng = np.random.default_rng(3)
    d, k, project = SETS[name]
    project = jax.jit(project)
    x, sizes = 1.2 * rng.normal(size=(d, 400)), rng.uniform(0.5, 1.5, (k, 400))
    x_dot, sizes_dot = rng.normal(size=x.shape), rng.normal(size=sizes.shape)

    def along(h):
        return np.asarray(project(jnp.asarray(x + h * x_dot), jnp.asarray(sizes + h * sizes_dot)))

    away = norm(along(0.0) - x)
    away = (away > 1e-2) | (norm(along(0.0) / 0.98 - np.asarray(project(jnp.asarray(x / 0.98), sizes))) == 0.0)
    derivative = jax.jvp(project, (jnp.asarray(x), jnp.asarray(sizes)), (jnp.asarray(x_dot), jnp.asarray(sizes_dot)))[1]
    h = 1e-5
    difference = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    error = norm(np.asarray(derivative) - difference)
    assert np.mean(away) > 0.5
    assert np.quantile(error[away], 0.97) <= 1e-7  # a few points cross an edge of the set
    assert np.median(error[away]) <= 1e-10


@pytest.mark.parametrize("name", SETS)
def test_derivatives_are_finite_everywhere(name):
    """On the boundary, at the origin, on the axes, and for sets that are a point."""
    d, k, project = SETS[name]
    pulled = jax.jit(lambda x, a: jax.vjp(project, x, a)[1](jnp.ones_like(x)))
    x = np.concatenate([np.zeros((d, 1)), np.eye(d), 5.0 * np.eye(d), np.ones((d, 1)), 1e-9 * np.eye(d)], axis=1)
    for size in (1.0, 0.0, 1e-12):
        gradients = pulled(jnp.asarray(x), jnp.full((k, x.shape[1]), size))
        assert all(np.all(np.isfinite(g)) for g in gradients)


def test_contensou_boundary_is_the_integral_over_a_hertzian_contact():
    """Force and torque of a disk with p = 3/2 √(1−r²)/π that slides with u and drills with 1, by quadrature."""
    r, w_r = leggauss(200)
    r, w_r = 0.5 * (r + 1), 0.5 * w_r
    phi = (np.arange(2000) + 0.5) * 2 * np.pi / 2000
    R, PHI = np.meshgrid(r, phi, indexing="ij")
    weight = (w_r * r * 1.5 * np.sqrt(1 - r**2) / np.pi)[:, None] * (2 * np.pi / 2000)
    for u in (0.0, 0.3, 0.99, 1.7, 5.0, 40.0, 1000.0):
        v_x, v_y = u - R * np.sin(PHI), R * np.cos(PHI)
        speed = np.hypot(v_x, v_y)
        force = np.sum(weight * v_x / speed)
        torque = np.sum(weight * (-R * np.sin(PHI) * v_x + R * np.cos(PHI) * v_y) / speed)
        b_T, b_tau = sets.contensou_boundary(jnp.asarray(u))
        assert float(b_T) == pytest.approx(force, abs=2e-5)
        assert float(b_tau) == pytest.approx(torque / (3 * np.pi / 16), abs=2e-5)


def test_contensou_boundary_is_smooth_where_its_formulas_meet():
    for u in (1.0, 4.0):
        h = 1e-7
        below, above = (np.asarray(sets.contensou_boundary(jnp.asarray(u + s * h))) for s in (-1, 1))
        slope = np.asarray(jax.jvp(sets.contensou_boundary, (jnp.asarray(u),), (jnp.asarray(1.0),))[1])
        np.testing.assert_allclose(above - below, 2 * h * slope, atol=1e-13)


def test_an_interval_with_a_bound_that_is_no_number_has_no_projection():
    for x, radius in ((jnp.nan, 1.0), (0.5, jnp.nan), (jnp.nan, jnp.nan)):
        assert jnp.isnan(sets.project_ball(jnp.array([x]), jnp.array(radius)))[0]
