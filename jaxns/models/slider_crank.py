"""A slider-crank mechanism whose slider has clearance in its guide."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import FRICTIONAL


def slider_crank(
    e_N: float = 0.4,
    e_F: float = 0.0,
    mu: float = 0.01,
    l1: float = 0.153,
    l2: float = 0.306,
    a: float = 0.05,
    b: float = 0.025,
    d: float = 0.052,
    m1: float = 0.038,
    m2: float = 0.038,
    m3: float = 0.076,
    J1: float = 7.4e-5,
    J2: float = 5.9e-4,
    J3: float = 2.7e-6,
    gravity: float = 9.81,
) -> Problem:
    """Slider-crank in maximal coordinates q = (x_i, y_i, φ_i), i = 1, 2, 3 (Breuling et al. 2024, §5.2).

    Six bilateral equations (47) join crank, rod and slider; the four corners of the slider touch the guide (48) with the
    tangential velocities (49). The crank starts stretched, at 150 rad/s, with the slider tilted by 0.017 rad.
    """
    params = dict(
        e_N=e_N, e_F=e_F, mu=mu, l1=l1, l2=l2, a=a, b=b, d=d, m1=m1, m2=m2, m3=m3, J1=J1, J2=J2, J3=J3, gravity=gravity
    )
    corners = Contacts(_gap, _slip, **FRICTIONAL)
    system = System(params, _mass, potential=_potential, constraint=_joints, contacts=corners)
    q0 = jnp.array([l1 / 2, 0.0, 0.0, l1 + l2 / 2, 0.0, 0.0, l1 + l2, 0.0, 0.017], float)
    speed = 150.0
    fall = -speed * l1 / l2
    u0 = jnp.array([0.0, l1 / 2 * speed, speed, 0.0, l1 * speed + l2 / 2 * fall, fall, 0.0, 0.0, 0.0], float)
    return Problem(system, q0, u0, t1=0.15, dt=1e-4, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return jnp.diag(jnp.stack([p[k] for k in ("m1", "m1", "J1", "m2", "m2", "J2", "m3", "m3", "J3")]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["gravity"] * (p["m1"] * q[1] + p["m2"] * q[4] + p["m3"] * q[7])


def _joints(t: Array, q: Array, p: Any) -> Array:
    x1, y1, phi1, x2, y2, phi2, x3, y3, _ = q
    c1, s1 = p["l1"] / 2 * jnp.cos(phi1), p["l1"] / 2 * jnp.sin(phi1)
    c2, s2 = p["l2"] / 2 * jnp.cos(phi2), p["l2"] / 2 * jnp.sin(phi2)
    return jnp.stack([x1 - c1, y1 - s1, x1 + c1 - (x2 - c2), y1 + s1 - (y2 - s2), x2 + c2 - x3, y2 + s2 - y3])


def _gap(t: Array, q: Array, p: Any) -> Array:
    return corner_gaps(q[7], q[8], p)


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    return corner_slips(q[8], u[6], u[8], p)


def corner_gaps(y: Array, phi: Array, p: Any) -> Array:
    """Gaps (4,) between the corners of the slider, at height y and tilted by φ, and the walls of its guide."""
    a_sin, b_cos, half = p["a"] * jnp.sin(phi), p["b"] * jnp.cos(phi), p["d"] / 2
    return jnp.stack([
        half - (y - a_sin + b_cos),
        half - (y + a_sin + b_cos),
        half + (y - a_sin - b_cos),
        half + (y + a_sin - b_cos),
    ])


def corner_slips(phi: Array, u_x: Array, u_phi: Array, p: Any) -> Array:
    """Velocities (4, 1) of the corners along the walls."""
    a_sin, b_cos = p["a"] * jnp.sin(phi), p["b"] * jnp.cos(phi)
    return jnp.stack([
        u_x + u_phi * (a_sin - b_cos),
        u_x - u_phi * (a_sin + b_cos),
        u_x + u_phi * (a_sin + b_cos),
        u_x - u_phi * (a_sin - b_cos),
    ])[:, None]


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    return draw_with_clearance(_ends(q[:3], p["l1"]), _ends(q[3:6], p["l2"]), q[6:8], q[8], p)


def _ends(bar: Array, length: Array) -> tuple[Array, Array]:
    half = 0.5 * length * jnp.stack([jnp.cos(bar[2]), jnp.sin(bar[2])])
    return bar[:2] - half, bar[:2] + half


def draw_with_clearance(
    crank: tuple[Array, Array], rod: tuple[Array, Array], slider: Array, phi: Array, p: Any
) -> scene.Scene:
    """Crank and rod with the given ends (2,), the slider tilted by φ, and its corners as contacts."""
    paths = draw_mechanism(crank, rod, slider, phi, {k: p[k] for k in ("l1", "l2", "a", "b", "d")})
    corners = scene.box(slider, p["a"], p["b"], phi).points[jnp.array([3, 2, 0, 1])]
    inwards = jnp.array([[0.0, -1.0], [0.0, -1.0], [0.0, 1.0], [0.0, 1.0]])
    return scene.Scene(paths, corners, inwards, tangents=jnp.broadcast_to(jnp.array([1.0, 0.0]), (4, 1, 2)))


def draw_mechanism(
    crank: tuple[Array, Array], rod: tuple[Array, Array], slider: Array, phi: Array, p: dict[str, Array]
) -> list[scene.Path]:
    """Guide, slider, rod and crank."""
    first, last = p["l2"] - p["l1"] - 1.5 * p["a"], p["l2"] + p["l1"] + 1.5 * p["a"]
    wall = 0.4 * p["b"]
    height = 0.5 * p["d"] + 0.5 * wall
    middles = jnp.stack([jnp.stack([0.5 * (first + last), s * height]) for s in (1.0, -1.0)])
    thickness = 0.08 * p["l1"]
    joints = jnp.stack([crank[0], crank[1], rod[1]])
    return [
        scene.box(middles, 0.5 * (last - first), 0.5 * wall, color="ground"),
        scene.support(jnp.zeros(2), 0.25 * p["l1"]),
        scene.box(slider, p["a"], p["b"], phi, color="orange"),
        scene.bar(*rod, thickness, color="grey"),
        scene.bar(*crank, 1.4 * thickness),
        scene.circle(joints, 0.35 * thickness, color="paper"),
    ]
