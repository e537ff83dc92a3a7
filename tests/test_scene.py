"""Drawings agree with the models they show: gaps in the picture are the gaps of the model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns
from jaxns import scene
from jaxns.pictures.animate import _nearest as nearest_point

# Positions near q0, for a drawing that is right only where the motion starts.
SHIFT = {name: 0.02 for name in ns.models.__all__} | {"tippe_top": 0.003, "tippedisk": 0.003, "woodpecker": 0.003}


def drawn(name: str, **parameters) -> tuple[ns.Problem, jax.Array, ns.Scene]:
    """A problem, two positions (2, nq), and the scenes there, from one compiled call."""
    problem = getattr(ns.models, name)(**parameters)
    shift = SHIFT[name] * np.random.default_rng(1).standard_normal(problem.q0.shape)
    q = jnp.stack([problem.q0, problem.q0 + shift])
    draw = jax.jit(jax.vmap(problem.draw, (0, 0, None)))
    return problem, q, draw(jnp.zeros(2), q, problem.system.params)


@pytest.fixture(scope="module")
def scenes() -> dict[str, tuple[ns.Problem, jax.Array, ns.Scene]]:
    return {name: drawn(name) for name in ns.models.__all__}


def gaps(problem: ns.Problem, q: jax.Array) -> np.ndarray:
    return np.asarray(jax.vmap(lambda q: problem.system.g_N(0.0, q))(q))


@pytest.mark.parametrize("name", ns.models.__all__)
def test_every_model_has_a_finite_drawing_that_fits_its_rows(scenes, name):
    problem, _, s = scenes[name]
    rows = problem.system.rows(0.0, problem.q0, problem.u0)
    d = 3 if name in ("tippe_top", "tippedisk") else 2
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(s))
    assert all(path.points.shape[-1] == d for path in s.paths)
    assert s.contact_points.shape == s.normals.shape == (2, rows.n_N, d)
    f = max((f for _, f, _ in rows.groups), default=0)
    assert s.tangents.shape == (2, rows.n_N, min(f, d - 1), d)  # no drilling moments


def test_models_of_other_sizes_are_drawn():
    assert drawn("ball_chain", n=3)[2].contact_points.shape == (2, 4, 2)
    assert drawn("ball_chain", n=1)[2].contact_points.shape == (2, 2, 2)
    assert drawn("overbalanced_wheel", n=40)[2].contact_points.shape == (2, 80, 2)
    assert drawn("rocking_block", held=True)[2].contact_points.shape == (2, 0, 2)


ON_THE_GROUND = {  # how many of the first contacts touch a fixed surface, and which path it is
    "ball_chain": (1, 0),
    "bouncing_ball": (1, 0),
    "double_pendulum": (2, 0),
    "rocking_block": (2, 0),
    "woodpecker": (3, 0),
}


@pytest.mark.parametrize("name", ON_THE_GROUND)
def test_contact_points_are_as_far_from_the_drawn_ground_as_the_gaps_say(scenes, name):
    problem, q, s = scenes[name]
    count, which = ON_THE_GROUND[name]
    ground = s.paths[which]
    assert ground.ground
    for k, g_N in enumerate(gaps(problem, q)):
        surface = scene.Path(np.asarray(ground.points)[k][None, None], closed=True)
        for point, gap in zip(np.asarray(s.contact_points)[k, :count], g_N, strict=False):
            distance = np.linalg.norm(point - nearest_point(surface, point))
            assert distance == pytest.approx(abs(gap), abs=1e-12)


@pytest.mark.parametrize("name", ["slider_crank", "slider_crank_minimal"])
def test_corners_of_the_drawn_slider_are_as_far_from_the_drawn_walls_as_the_gaps_say(scenes, name):
    problem, q, s = scenes[name]
    walls, slider = np.asarray(s.paths[0].points), np.asarray(s.paths[2].points)
    assert s.paths[2].color == "orange"
    upper, lower = walls[:, 0, :, 1].min(axis=1), walls[:, 1, :, 1].max(axis=1)
    (bottom_left, bottom_right, top_right, top_left) = slider[:, :, 1].T
    drawn_gaps = [upper - top_left, upper - top_right, bottom_left - lower, bottom_right - lower]
    np.testing.assert_allclose(np.stack(drawn_gaps, axis=1), gaps(problem, q), atol=1e-12)
    points = np.asarray(s.contact_points)
    np.testing.assert_allclose(points, slider[:, [3, 2, 0, 1]], atol=1e-12)


def test_the_lowest_point_of_the_drawn_ball_is_as_high_as_its_gap(scenes):
    problem, q, s = scenes["bouncing_ball"]
    disk = np.asarray(s.paths[1].points)
    assert disk[0, :, 1].min() == pytest.approx(
        gaps(problem, q)[0, 0], abs=1e-12
    )  # φ = 0: a corner is the lowest point
    turned = float(q[1, 2] - q[0, 2])
    spoke = disk[:, 0] - disk[:, -1]
    assert np.arctan2(*spoke[1, ::-1]) == pytest.approx(turned, abs=1e-12)


def test_drawn_balls_are_as_far_from_each_other_as_the_gaps_say(scenes):
    problem, q, s = scenes["ball_chain"]
    balls = np.zeros((2, 8, 32, 2))
    balls[:, ::2], balls[:, 1::2] = s.paths[3].points, s.paths[4].points
    ceiling = np.asarray(s.paths[1].points)[:, 0, 1]
    tops, bottoms = balls[..., 1].max(axis=2), balls[..., 1].min(axis=2)
    surfaces = np.concatenate([np.zeros((2, 1)), tops], axis=1)
    np.testing.assert_allclose(
        np.concatenate([bottoms, ceiling[:, None]], axis=1) - surfaces, gaps(problem, q), atol=1e-12
    )


def test_drawn_masses_touch_each_other_when_the_gap_closes(scenes):
    problem, q, s = scenes["impact_oscillator"]
    plate, heavy = (np.asarray(s.paths[k].points)[..., 1] for k in (2, 3))
    np.testing.assert_allclose(heavy.min(axis=1) - plate.max(axis=1), gaps(problem, q)[:, 0], atol=1e-12)
    problem, q, s = scenes["sprag_clutch"]
    left, right = (np.asarray(s.paths[k].points)[..., 0] for k in (1, 3))
    np.testing.assert_allclose(right.min(axis=1) - left.max(axis=1), gaps(problem, q)[:, 0], atol=1e-12)


def test_masses_of_the_wheel_are_as_far_from_the_drawn_stops_as_the_gaps_say(scenes):
    problem, q, s = scenes["overbalanced_wheel"]
    stops = [np.asarray(p.points) for p in s.paths if p.width == 2.5]
    points, normals = np.asarray(s.contact_points), np.asarray(s.normals)
    start, end = (np.concatenate([stop[:, :, k] for stop in stops], axis=1) for k in (0, 1))
    across = np.sum((end - start) * normals, axis=-1)
    np.testing.assert_allclose(across, 0.0, atol=1e-12)  # a stop is a line at right angles to its normal
    np.testing.assert_allclose(np.sum((points - start) * normals, axis=-1), gaps(problem, q), atol=1e-12)


def test_bodies_in_space_touch_the_floor_when_the_gap_closes(scenes):
    for name in ("tippe_top", "tippedisk"):
        problem, q, s = scenes[name]
        np.testing.assert_allclose(s.contact_points[..., 2], gaps(problem, q), atol=1e-15)
    _, q, s = scenes["tippedisk"]
    rim = np.asarray(s.paths[3].points)
    distances = np.linalg.norm(np.asarray(s.contact_points) - rim.mean(axis=1, keepdims=True), axis=-1)
    np.testing.assert_allclose(distances, 0.045, rtol=1e-12)  # the contact is a point of the rim
    sagitta = 0.045 * (1.0 - np.cos(np.pi / 48))  # of the polygon that shows the rim
    assert np.all(np.abs(rim[..., 2].min(axis=1) - s.contact_points[:, 0, 2]) <= sagitta)


MOVING_POINTS = [
    "bouncing_ball",
    "double_pendulum",
    "edge_sphere",
    "rocking_block",
    "slider_crank",
    "slider_crank_minimal",
]
MOVING_POINTS += ["tippe_top", "tippedisk", "woodpecker"]
MATERIAL_POINTS = ("slider_crank", "slider_crank_minimal", "woodpecker")  # the drawn point is a point of the body


@pytest.mark.parametrize("name", MOVING_POINTS)
def test_normals_and_tangents_are_derivatives_of_gaps_and_slips(scenes, name):
    """ġ_N = n · v_C, and γ_F = t · v_C: so the forces of the scene do the work of the percussions."""
    problem, q, s = scenes[name]
    system, u = problem.system, problem.u0 + 0.3

    @jax.jit
    def rates(q):
        moving = lambda q: problem.draw(0.0, q, system.params).contact_points  # noqa: E731
        return (
            jax.jvp(moving, (q,), (system.q_dot(0.0, q, u),))[1],
            system.g_N_dot(0.0, q, u),
            system.gamma_F(0.0, q, u),
        )

    v_C, g_N_dot, gamma_F = rates(q[1])
    np.testing.assert_allclose(np.sum(s.normals[1] * v_C, axis=-1), g_N_dot, atol=1e-10)
    if name in MATERIAL_POINTS:
        np.testing.assert_allclose(np.sum(s.tangents[1, :, 0] * v_C, axis=-1), gamma_F, atol=1e-10)


def test_normal_and_tangent_of_the_slope_are_those_of_its_curve():
    problem = ns.models.mass_on_slope()
    on_slope = jnp.array([0.7, np.exp(-0.7)])
    s = problem.draw(0.0, on_slope, problem.system.params)
    gradient = jax.grad(lambda q: problem.system.g_N(0.0, q)[0])(on_slope)
    np.testing.assert_allclose(s.normals[0], gradient, atol=1e-12)
    velocity = jnp.array([0.3, -0.8])
    assert s.tangents[0, 0] @ velocity == pytest.approx(problem.system.gamma_F(0.0, on_slope, velocity)[0])


def test_shapes_broadcast_and_are_differentiable():
    centers = jnp.arange(6.0).reshape(3, 2)
    for shape in (scene.disk(centers, 0.1), scene.circle(centers, 0.1), scene.box(centers, 0.2, 0.1)):
        assert shape.points.shape[0] == 3
    assert scene.bar(centers, centers + 1.0, 0.1).points.shape == (3, 26, 2)
    assert scene.spring(centers, centers + 1.0, 0.1).points.shape[0] == 3
    right = jax.grad(lambda angle: scene.box(jnp.zeros(2), 2.0, 1.0, angle).points[1, 1])(0.0)
    assert right == pytest.approx(2.0)


def test_unknown_colours_and_wrong_scenes_are_named():
    with pytest.raises(ValueError, match=r"color must be .*; got 'blau'"):
        scene.line([[0.0, 0.0], [1.0, 0.0]], color="blau")
    with pytest.raises(TypeError, match=r"at least one jaxns\.scene\.Path"):
        ns.Scene([])
    with pytest.raises(TypeError, match="need normals"):
        ns.Scene([scene.disk([0.0, 0.0], 1.0)], contact_points=[[0.0, -1.0]])
