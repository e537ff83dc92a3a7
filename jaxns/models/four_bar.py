"""A four-bar linkage that a constant torque drives."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.system import Problem, System


def four_bar(
    torque: float = 6.0,
    l1: float = 1.0,
    l2: float = 4.0,
    l3: float = 2.0,
    m1: float = 1.0,
    m2: float = 1.0,
    m3: float = 1.0,
    gravity: float = 0.0,
) -> Problem:
    """Uniform bars with the angles q = (φ1, φ2, φ3); bar 1 turns about the origin, bar 3 about (d1, 0), bar 2 joins them.

    The loop closes by two constraints on position level. The torque acts on bar 1; the motion starts from rest at
    q = (π/2, 0, π/6), which d1 = l2 − l3 cos(π/6) makes admissible for l1 = l3/2. The paper prints no lengths and masses:
    those here are ours. (Event-driven paper, §3.1, eq. 12.)
    """
    if not math.isclose(2.0 * l1, l3):
        raise ValueError(f"four_bar: the initial state needs l3 = 2 l1, got l1 = {l1}, l3 = {l3}.")
    params = dict(torque=torque, l1=l1, l2=l2, l3=l3, d1=l2 - l3 * math.cos(math.pi / 6), m1=m1, m2=m2, m3=m3)
    system = System({**params, "gravity": gravity}, _mass, potential=_potential, force=_force, constraint=_closure)
    q0 = jnp.array([math.pi / 2, 0.0, math.pi / 6])
    return Problem(system, q0, jnp.zeros(3), t1=2.0, dt=1e-2, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    l1, l2 = p["l1"], p["l2"]
    coupling = 0.5 * p["m2"] * l1 * l2 * jnp.cos(q[0] - q[1])
    zero = jnp.zeros_like(coupling)
    return jnp.stack([
        jnp.stack([(p["m1"] / 3.0 + p["m2"]) * l1**2, coupling, zero]),
        jnp.stack([coupling, p["m2"] * l2**2 / 3.0, zero]),
        jnp.stack([zero, zero, p["m3"] * p["l3"] ** 2 / 3.0]),
    ])


def _potential(t: Array, q: Array, p: Any) -> Array:
    s = jnp.sin(q)
    bar_2 = p["l1"] * s[0] + 0.5 * p["l2"] * s[1]
    return p["gravity"] * (0.5 * p["m1"] * p["l1"] * s[0] + p["m2"] * bar_2 + 0.5 * p["m3"] * p["l3"] * s[2])


def _force(t: Array, q: Array, u: Array, p: Any) -> Array:
    return p["torque"] * jnp.array([1.0, 0.0, 0.0], q.dtype)


def _closure(t: Array, q: Array, p: Any) -> Array:
    c, s = jnp.cos(q), jnp.sin(q)
    return jnp.stack([
        p["l1"] * c[0] + p["l2"] * c[1] - p["l3"] * c[2] - p["d1"],
        p["l1"] * s[0] + p["l2"] * s[1] - p["l3"] * s[2],
    ])


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    lengths = jnp.stack([p["l1"], p["l2"], p["l3"]])
    bars = lengths[:, None] * jnp.stack([jnp.cos(q), jnp.sin(q)], axis=1)
    left, right = jnp.zeros(2), jnp.stack([p["d1"], jnp.zeros_like(p["d1"])])
    crank, rocker = bars[0], right + bars[2]
    joints = jnp.stack([left, right, crank, rocker])
    width = 0.14 * p["l1"]
    return scene.Scene([
        scene.support(left, 2.0 * width),
        scene.support(right, 2.0 * width),
        scene.bar(crank, crank + bars[1], width, color="grey"),
        scene.bar(left, crank, width, color="blue"),
        scene.bar(right, rocker, width, color="orange"),
        scene.circle(joints, 0.3 * width, color="paper"),
    ])
