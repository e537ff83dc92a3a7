"""Contacts of mechanisms from parts: gaps against closed forms and distances by optimisation, and bodies at rest."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import jaxns as ns

S = ns.shapes
TURN = np.array([0.8, 0.3, -0.4, 0.2]) / np.linalg.norm([0.8, 0.3, -0.4, 0.2])


def gaps(mechanism: ns.Mechanism) -> np.ndarray:
    return np.asarray(mechanism.system.g_N(0.0, mechanism.q0))


def body(name: str, shape: S.Shape, position: tuple[float, ...], turn: object = None) -> ns.Body:
    planar = len(position) == 2
    turned = {} if turn is None else {"angle" if planar else "orientation": turn}
    return ns.Body(name, 1.0, 0.1 if planar else (0.1, 0.2, 0.3), position=position, shape=shape, **turned)


def pair(a: ns.Body, b: ns.Body) -> ns.Mechanism:
    return ns.Mechanism(a, b, ns.Touch(a.name, b.name), gravity=(0.0,) * len(a.position))


def rotation(q: np.ndarray) -> np.ndarray:
    w, v = q[0], q[1:]
    tilde = np.cross(v, np.eye(3)).T
    return np.eye(3) + 2 * (w * tilde + tilde @ tilde)


@pytest.mark.parametrize(
    "shape, lowest",
    [
        (S.Sphere(0.2), lambda n: 0.2),
        (S.Box(0.4, 0.3, 0.2), lambda n: np.abs(n) @ [0.2, 0.15, 0.1]),
        (S.Capsule(0.1, 0.5), lambda n: 0.1 + 0.25 * abs(n[2])),
        (S.Cylinder(0.1, 0.5), lambda n: 0.25 * abs(n[2]) + 0.1 * np.hypot(n[0], n[1])),
        (S.Ellipsoid(0.3, 0.2, 0.1), lambda n: np.linalg.norm(np.array([0.3, 0.2, 0.1]) * n)),
    ],
    ids=lambda x: type(x).__name__,
)
def test_lowest_point_above_a_plane_is_that_of_the_closed_form(shape, lowest):
    floor = ns.Body("floor", fixed=True, position=(0, 0, -0.1), shape=S.HalfSpace())
    mechanism = pair(body("it", shape, (0.3, 0.1, 0.9), TURN), floor)
    assert np.isclose(gaps(mechanism).min(), 1.0 - lowest(rotation(TURN)[2]), atol=1e-9)


def corners(shape: S.Shape, q: np.ndarray) -> np.ndarray:
    half = 0.5 * np.asarray(shape.size)
    c, s = np.cos(q[2]), np.sin(q[2])
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    return q[:2] + (half * signs) @ np.array([[c, s], [-s, c]])


def polygon_distance(x: np.ndarray, y: np.ndarray) -> float:
    """Between two convex polygons, by minimising over both (QP of the barycentric weights)."""

    def square(w):
        d = w[:4] @ x - w[4:] @ y
        return d @ d

    sums = [{"type": "eq", "fun": lambda w: w[:4].sum() - 1}, {"type": "eq", "fun": lambda w: w[4:].sum() - 1}]
    best = optimize.minimize(
        square,
        np.full(8, 0.25),
        bounds=[(0, 1)] * 8,
        constraints=sums,
        method="SLSQP",
        options=dict(ftol=1e-16, maxiter=500),
    )
    return float(np.sqrt(best.fun))


def test_boxes_in_the_plane_are_as_far_apart_as_their_polygons(rng):
    a, b = S.Box(0.4, 0.2), S.Box(0.3, 0.5)
    mechanism = pair(body("a", a, (0.0, 1.0)), body("b", b, (0.0, 0.0)))
    gap = jax.jit(lambda q: mechanism.system.g_N(0.0, q))
    for _ in range(20):
        angle = rng.uniform(0, 2 * np.pi)
        q = np.concatenate([
            0.9 * np.array([np.cos(angle), np.sin(angle)]),
            rng.uniform(-3, 3, 1),
            [0, 0],
            rng.uniform(-3, 3, 1),
        ])
        true = polygon_distance(corners(a, q[:3]), corners(b, q[3:]))
        assert np.isclose(gap(jnp.asarray(q)).min(), true, atol=1e-6)


def test_curved_pairs():
    disks = pair(body("a", S.Disk(0.1), (0.3, 0.4)), body("b", S.Disk(0.2), (0.0, 0.0)))
    assert np.allclose(gaps(disks), 0.5 - 0.3)
    on_box = pair(body("a", S.Disk(0.1), (0.5, 0.6)), body("b", S.Box(0.4, 0.4), (0.0, 0.0)))
    assert np.allclose(gaps(on_box), np.hypot(0.3, 0.4) - 0.1)
    crossed = pair(
        body("a", S.Capsule(0.1, 1.0), (0.1, 0.05, 0.5), (np.sqrt(0.5), 0, np.sqrt(0.5), 0)),
        body("b", S.Capsule(0.15, 1.0), (0.0, 0.0, 0.0), (np.sqrt(0.5), np.sqrt(0.5), 0, 0)),
    )
    assert np.isclose(gaps(crossed).min(), 0.25)
    axes, y = np.array([0.3, 0.2, 0.1]), np.array([0.3, -0.3, 0.4])
    egg = pair(body("a", S.Sphere(0.05), tuple(y)), body("b", S.Ellipsoid(*axes), (0.0, 0.0, 0.0)))
    nearest = optimize.minimize(
        lambda x: np.sum((x - y) ** 2),
        0.3 * y,
        constraints=[{"type": "eq", "fun": lambda x: np.sum((x / axes) ** 2) - 1}],
        options=dict(ftol=1e-15),
    )
    assert np.isclose(gaps(egg)[0], np.sqrt(nearest.fun) - 0.05, atol=1e-6)
    hill = S.Surface(lambda x, p: jnp.sqrt(x @ x) - p["radius"], radius=0.5)
    on_hill = pair(body("a", S.Disk(0.1), (0.6, 0.8)), ns.Body("b", fixed=True, position=(0.0, 0.0), shape=hill))
    assert np.allclose(gaps(on_hill), 1.0 - 0.6)
    triangle = S.ConvexPolygon([[-0.2, -0.1], [0.2, -0.1], [0.0, 0.2]])
    on_triangle = pair(body("a", S.Disk(0.1), (0.1, -0.5)), body("b", triangle, (0.0, 0.0)))
    assert np.allclose(gaps(on_triangle), 0.3)


def test_normals_are_the_derivatives_of_gaps(rng):
    """W_N from autodiff against differences of the gaps, for boxes in space."""
    mechanism = pair(
        body("a", S.Box(0.4, 0.3, 0.2), (0.1, 0.05, 0.5), TURN),
        body("b", S.Box(0.5, 0.6, 0.3), (0.0, 0.0, 0.0), TURN[::-1]),
    )
    system, q = mechanism.system, mechanism.q0
    u = jnp.asarray(rng.normal(size=12))
    h = 1e-6
    moved = [system.g_N(0.0, q + s * h * system.q_dot(0.0, q, u)) for s in (1.0, -1.0)]
    assert np.allclose(system.g_N_dot(0.0, q, u), (moved[0] - moved[1]) / (2 * h), atol=1e-7)


def stack(number: int) -> ns.Mechanism:
    boxes = [ns.Body(f"box{k}", 1.0, shape=S.Box(0.2, 0.1), position=(0.0, 0.05 + 0.1 * k)) for k in range(number)]
    below = ["floor", *(box.name for box in boxes)]
    touching = [ns.Touch(box.name, under, mu=0.5) for box, under in zip(boxes, below, strict=False)]
    return ns.Mechanism(*boxes, ns.Body("floor", fixed=True, shape=S.HalfSpace()), *touching)


@pytest.mark.parametrize("number", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_a_stack_of_boxes_whose_corners_meet_stays_where_it_is(number):
    mechanism = stack(number)
    traj = ns.simulate(mechanism.system, ns.Rattle(), mechanism.q0, mechanism.u0, dt=1e-2, t1=2.0)
    assert traj.ok
    assert np.abs(traj.q - mechanism.q0).max() < 1e-9


def test_box_falls_onto_a_box_in_space_and_stays_there():
    mechanism = ns.Mechanism(
        ns.Body("upper", 1.0, shape=S.Box(0.2, 0.2, 0.1), position=(0.02, 0.03, 0.1)),
        ns.Body("lower", fixed=True, shape=S.Box(0.4, 0.4, 0.1), position=(0.0, 0.0, -0.05)),
        ns.Touch("upper", "lower", mu=0.5),
        gravity=(0.0, 0.0, -9.81),
    )
    traj = ns.simulate(mechanism.system, ns.Moreau(), mechanism.q0, mechanism.u0, dt=2e-3, t1=0.4)
    assert traj.ok
    assert np.abs(traj.q[-1, :2] - mechanism.q0[:2]).max() < 1e-9
    assert abs(float(traj.q[-1, 2]) - 0.05) < 2e-3
    assert np.abs(traj.u[-1]).max() < 1e-9


def test_inertia_from_shapes(rng):
    """Against sums over random points."""
    inside = {
        S.Capsule(0.2, 0.5): lambda x: np.linalg.norm(x - np.clip(x, -0.25, 0.25) * [0, 0, 1], axis=1) <= 0.2,
        S.Cylinder(0.2, 0.5): lambda x: (np.hypot(x[:, 0], x[:, 1]) <= 0.2) & (np.abs(x[:, 2]) <= 0.25),
        S.Ellipsoid(0.4, 0.3, 0.2): lambda x: np.sum((x / [0.4, 0.3, 0.2]) ** 2, axis=1) <= 1,
        S.Box(0.4, 0.3, 0.2): lambda x: np.all(np.abs(x) <= [0.2, 0.15, 0.1], axis=1),
    }
    x = rng.uniform(-0.5, 0.5, (400_000, 3))
    for shape, f in inside.items():
        volume, moments = shape.inertia(3)
        chosen = f(x)
        square = x[chosen] ** 2
        assert np.isclose(volume, chosen.mean(), rtol=0.02)
        assert np.allclose(moments, (square.sum() - square.sum(axis=0)) / len(x), rtol=0.03)
    capsule = S.Capsule(0.2, 0.5)
    y = rng.uniform(-0.5, 0.5, (400_000, 2))
    chosen = np.linalg.norm(y - np.clip(y, -0.25, 0.25) * [1, 0], axis=1) <= 0.2
    assert np.allclose(capsule.inertia(2), [chosen.mean(), (y[chosen] ** 2).sum() / len(y)], rtol=0.02)
