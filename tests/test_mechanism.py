"""Mechanisms from parts against models written by hand, closed forms and differences; errors that name the part."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxns as ns

L1, L2 = 0.153, 0.306


def slider_crank() -> ns.Mechanism:
    law = dict(e_N=0.4, mu=0.01)
    return ns.Mechanism(
        ns.Body("crank", 0.038, 7.4e-5, position=(L1 / 2, 0), velocity=(0, 75 * L1), spin=150.0),
        ns.Body("rod", 0.038, 5.9e-4, position=(L1 + L2 / 2, 0), velocity=(0, 75 * L1), spin=-75.0),
        ns.Body("slider", 0.076, 2.7e-6, position=(L1 + L2, 0), angle=0.017, shape=ns.shapes.Box(0.1, 0.05)),
        ns.Body("top", fixed=True, position=(0, 0.026), angle=np.pi, shape=ns.shapes.HalfSpace()),
        ns.Body("bottom", fixed=True, position=(0, -0.026), shape=ns.shapes.HalfSpace()),
        ns.Revolute("ground", "crank", at=(0, 0)),
        ns.Revolute("crank", "rod", at=(L1, 0)),
        ns.Revolute("rod", "slider", at=(L1 + L2, 0)),
        ns.Touch("slider", "top", points=(3, 2), **law),
        ns.Touch("slider", "bottom", points=(0, 1), **law),
    )


@pytest.fixture(scope="module")
def crank() -> ns.Mechanism:
    return slider_crank()


def test_slider_crank_moves_as_the_model_written_by_hand(crank):
    hand = ns.models.slider_crank()
    assert np.array_equal(crank.q0, hand.q0) and np.array_equal(crank.u0, hand.u0)
    motions = [ns.simulate(x.system, ns.Rattle(), x.q0, x.u0, dt=1e-4, t1=0.05) for x in (hand, crank)]
    assert float(motions[0].P_N.sum()) > 0.1  # there are impacts
    assert np.abs(motions[0].q - motions[1].q).max() < 1e-9


def test_two_mechanisms_of_one_structure_share_their_programs(crank):
    twin = slider_crank().system
    assert jax.tree.structure(twin) == jax.tree.structure(crank.system)
    assert hash(twin.constraint) == hash(crank.system.constraint)


def test_description_lists_the_parts(crank):
    text = repr(crank)
    assert "3 degrees of freedom" in text and "2 of slider-top" in text and "Revolute 'crank-rod'" in text
    assert crank.contacts == ("slider-top",) * 2 + ("slider-bottom",) * 2
    assert crank.constraints == ("ground-crank",) * 2 + ("crank-rod",) * 2 + ("rod-slider",) * 2


def test_animation_takes_the_mechanism_with_its_own_drawing(crank):
    traj = ns.simulate(crank.system, ns.Rattle(), crank.q0, crank.u0, dt=1e-4, num_steps=20)
    film = ns.animate(crank, traj)
    assert film.contact_points.shape[1:] == (4, 2)
    problem = crank.problem(dt=1e-4, t1=0.1)
    assert problem.draw is crank.draw and problem.t1 == 0.1


def residuals(mechanism: ns.Mechanism, q: jax.Array, u: jax.Array):
    """All that a system consists of, as one vector of its parameters."""

    def value(params):
        s = mechanism.system.with_tree(params)
        rows = s.rows(0.2, q, u)
        parts = [s.M(0.2, q).ravel(), s.h(0.2, q, u), s.g(0.2, q), s.g_N(0.2, q), s.velocities(0.2, q, u)]
        return jnp.concatenate([*parts, *s.coefficients(rows, q.dtype)])

    return value


def planar_parts() -> ns.Mechanism:
    return ns.Mechanism(
        ns.Body("box", 1.0, 0.02, position=(0.0, 0.5), angle=0.3, shape=ns.shapes.Box(0.3, 0.2)),
        ns.Body("disk", 0.5, position=(0.6, 0.4), shape=ns.shapes.Disk(0.1)),
        ns.Body("floor", fixed=True, angle=0.1, position=(0.0, -0.1), shape=ns.shapes.HalfSpace()),
        ns.Distance("box", "disk", at_a=(0.1, 0.5)),
        ns.Spring("ground", "disk", at_a=(1.0, 1.0), stiffness=5.0, rest=0.2, damping=0.3, name="spring"),
        ns.TorsionSpring("ground", "box", stiffness=2.0, rest=0.1, damping=0.1),
        ns.Force("box", ns.Signal([0.0, 1.0], [[0.0, 1.0], [2.0, 3.0]]), at=(0.1, 0.6)),
        ns.Torque("disk", 0.4),
        ns.Touch("box", "floor", e_N=0.3, e_F=0.1, mu=0.2),
        ns.Touch("disk", "floor", e_N=0.3, mu=0.2),
        ns.Touch("disk", "box", mu=0.4),
    )


def spatial_parts() -> ns.Mechanism:
    turn = np.array([0.9, 0.1, -0.3, 0.2]) / np.linalg.norm([0.9, 0.1, -0.3, 0.2])
    tensor = np.array([[0.02, 0.003, 0.0], [0.003, 0.03, 0.001], [0.0, 0.001, 0.04]])
    return ns.Mechanism(
        ns.Body("box", 1.0, tensor, position=(0.0, 0.0, 0.5), orientation=turn, shape=ns.shapes.Box(0.3, 0.2, 0.1)),
        ns.Body("can", 0.5, position=(0.5, 0.1, 0.6), shape=ns.shapes.Cylinder(0.1, 0.2)),
        ns.Body("ball", 0.5, position=(0.0, 0.6, 0.6), shape=ns.shapes.Ellipsoid(0.1, 0.2, 0.15)),
        ns.Body("floor", fixed=True, position=(0.0, 0.0, -0.1), shape=ns.shapes.HalfSpace()),
        ns.Universal("box", "can", at=(0.3, 0.1, 0.5), axis=(1.0, 0.0, 0.0), axis_b=(0.0, 1.0, 0.0)),
        ns.Cylindrical("box", "ball", at=(0.0, 0.3, 0.5), axis=(0.0, 1.0, 0.2)),
        ns.Fixed("ground", "ball", at=(0.0, 0.0, 0.0)),
        ns.TorsionSpring("ground", "box", stiffness=2.0, axis=(0.0, 0.0, 1.0)),
        ns.Touch("box", "floor", e_N=0.3, mu=0.2),
        ns.Touch("can", "floor", mu=(0.2, 0.2, 0.01), law=ns.Contensou("sphere")),
        ns.Touch("ball", "floor"),
        gravity=(0.0, 0.0, -9.81),
    )


@pytest.mark.parametrize("build", [planar_parts, spatial_parts])
def test_derivatives_with_respect_to_every_parameter(build, rng):
    mechanism = build()
    q = mechanism.q0 + 0.03 * rng.normal(size=mechanism.q0.shape)
    u = mechanism.u0 + rng.normal(size=mechanism.u0.shape)
    value = jax.jit(residuals(mechanism, q, u))
    params = mechanism.system.params
    y, push = jax.linearize(value, params)
    pull = jax.linear_transpose(push, params)
    weights = jnp.asarray(rng.normal(size=y.shape))
    (reverse,) = pull(weights)
    h = 1e-6
    for key, leaf in params.items():
        way = jnp.asarray(rng.normal(size=leaf.shape))
        tangent = {**jax.tree.map(jnp.zeros_like, params), key: way}
        forward = push(tangent)
        ends = [value({**params, key: leaf + s * h * way}) for s in (1.0, -1.0)]
        difference = (ends[0] - ends[1]) / (2.0 * h)
        assert np.allclose(forward, difference, rtol=1e-5, atol=1e-6), key
        assert np.isclose(jnp.sum(reverse[key] * way), weights @ forward, rtol=1e-9, atol=1e-9), key
        moves = key.rsplit(".", 1)[-1] not in ("axis_a", "axis_b")  # whose length does not count
        assert not moves or np.abs(forward).max() > 0.0, key


def test_every_slip_is_the_velocity_of_one_body_along_the_other(rng):
    """Against differences of the world coordinates of material points."""
    mechanism = planar_parts()
    system, q = mechanism.system, mechanism.q0
    u = jnp.asarray(rng.normal(size=q.shape))
    slip = system.gamma_F(0.0, q, u)
    scene = mechanism.draw(0.0, q, system.params)
    for k, name in enumerate(mechanism.contacts):
        a = name.split("-")[0]
        x, _ = mechanism.pose(a, q)
        i = {"box": 0, "disk": 3}[a]
        arm = scene.contact_points[k] - x
        v = u[i : i + 2] + u[i + 2] * jnp.array([-arm[1], arm[0]])
        if name == "disk-box":
            arm = scene.contact_points[k] - q[:2]
            v = v - u[:2] - u[2] * jnp.array([-arm[1], arm[0]])
        assert np.isclose(slip[k], scene.tangents[k, 0] @ v)
        assert np.isclose(jnp.linalg.norm(scene.normals[k]), 1.0)


BOX = ns.Body("box", 1.0, 0.1)
WALL = ns.Body("wall", fixed=True, shape=ns.shapes.HalfSpace())
BAD = {
    "there is no body 'bax'": lambda: ns.Mechanism(BOX, ns.Revolute("ground", "bax", at=(0, 0))),
    "several bodies named 'box'": lambda: ns.Mechanism(BOX, BOX),
    "at must have 2 entries": lambda: ns.Mechanism(BOX, ns.Revolute("ground", "box", at=(0, 0, 0))),
    "axis must have a direction": lambda: ns.Mechanism(BOX, ns.Prismatic("ground", "box", at=(0, 0), axis=(0, 0))),
    "give its axis": lambda: ns.Mechanism(BOX, ns.Prismatic("ground", "box", at=(0, 0))),
    "no such joint in the plane": lambda: ns.Mechanism(BOX, ns.Spherical("ground", "box", at=(0, 0))),
    "overlap at the beginning by 2.0": lambda: ns.Mechanism(
        ns.Body("disk", 1.0, position=(0, 0.08), shape=ns.shapes.Disk(0.1)), WALL, ns.Touch("disk", "wall")
    ),
    "cannot be assembled": lambda: ns.Mechanism(
        BOX,
        ns.Revolute("ground", "box", point_a=(0, 0), point_b=(0, 0), name="one"),
        ns.Revolute("ground", "box", point_a=(1, 0), point_b=(0.5, 0), name="two"),
    ),
    "'ground-box.point_a' is there twice": lambda: ns.Mechanism(
        BOX, ns.Revolute("ground", "box", at=(0, 0)), ns.Revolute("ground", "box", at=(1, 0))
    ),
    "'box' has no shape": lambda: ns.Mechanism(BOX, WALL, ns.Touch("box", "wall")),
    "no contact between Ellipse and Box": lambda: ns.Mechanism(
        ns.Body("egg", 1.0, shape=ns.shapes.Ellipse(0.2, 0.1)),
        ns.Body("box", 1.0, shape=ns.shapes.Box(1.0, 1.0), position=(2, 0)),
        ns.Touch("egg", "box"),
    ),
    "mass must be positive": lambda: ns.Mechanism(ns.Body("box", 0.0, 0.1)),
    "inertia must be a number": lambda: ns.Mechanism(ns.Body("box", 1.0, (0.1, 0.1, 0.1))),
    "positive definite": lambda: ns.Mechanism(ns.Body("box", 1.0, (0.1, 0.1, -0.1)), gravity=(0, 0, 0)),
    "give mass and inertia": lambda: ns.Mechanism(ns.Body("box")),
    "orientation is for spatial": lambda: ns.Mechanism(ns.Body("box", 1.0, 0.1, orientation=(1, 0, 0, 0))),
    "gravity must have two entries": lambda: ns.Mechanism(BOX, gravity=9.81),
    "is no part": lambda: ns.Mechanism(BOX, "wall"),
    "e_N must be in": lambda: ns.Mechanism(
        ns.Body("disk", 1.0, position=(0, 1), shape=ns.shapes.Disk(0.1)), WALL, ns.Touch("disk", "wall", e_N=2.0)
    ),
    "joins 'box' to itself": lambda: ns.Mechanism(BOX, ns.Revolute("box", "box", at=(0, 0))),
    "neither 'ground' nor 'wall' can move": lambda: ns.Mechanism(BOX, WALL, ns.Fixed("ground", "wall", at=(0, 0))),
    "no body that moves": lambda: ns.Mechanism(WALL),
    "at the same point": lambda: ns.Mechanism(BOX, ns.Spring("ground", "box", stiffness=1.0)),
    "side lengths must be positive": lambda: ns.Mechanism(ns.Body("box", 1.0, 0.1, shape=ns.shapes.Box(1.0, -1.0))),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_parts_are_named(message):
    with pytest.raises(ns.MechanismError, match=message.replace("(", r"\(")):
        BAD[message]()
