"""A double pendulum of two point masses beside a wall."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import e_N as restitution


def double_pendulum(e_N: float = 1.0, m: float = 0.2, l: float = 0.5, gravity: float = 9.81) -> Problem:
    """Cartesian coordinates q = (x1, y1, x2, y2), y downwards; two rods, and the wall x ≥ 0 for both masses.

    (Möller 2011, §6.2.) With e_N = 1 the total energy is constant.
    """
    params = dict(e_N=e_N, m=m, l=l, gravity=gravity)
    wall = Contacts(_distances, e_N=restitution)
    system = System(params, _mass, potential=_potential, constraint=_rods, contacts=wall)
    q0, u0 = jnp.array([0.0, l, 0.0, 2.0 * l]), jnp.array([2.5, 0.0, 5.0, 0.0])
    return Problem(system, q0, u0, t1=2.0, dt=0.01, draw=_draw)


def _distances(t: Array, q: Array, p: Any) -> Array:
    return q[::2]


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.eye(4)


def _potential(t: Array, q: Array, p: Any) -> Array:
    return -p["m"] * p["gravity"] * (q[1] + q[3])


def _rods(t: Array, q: Array, p: Any) -> Array:
    first, second = q[:2], q[2:] - q[:2]
    return 0.5 * jnp.stack([first @ first - p["l"] ** 2, second @ second - p["l"] ** 2])


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """The masses as balls of radius r; the wall stands at −r, so that a ball is as far from it as its gap says."""
    r, l = 0.08 * p["l"], p["l"]
    masses = q.reshape(2, 2) * jnp.array([1.0, -1.0])  # y points downwards
    joints = jnp.concatenate([jnp.zeros((1, 2)), masses])
    wall = jnp.stack([jnp.stack([-r, -99.0 * l]), jnp.stack([-r, 99.0 * l])])
    return scene.Scene(
        [
            scene.ground(wall, jnp.array([-99.0, 0.0]) * l),
            scene.bar(joints[:-1], joints[1:], 0.5 * r, color="grey"),
            scene.circle(joints[0], 0.5 * r, color="paper"),
            scene.circle(masses, r),
        ],
        contact_points=masses - jnp.array([1.0, 0.0]) * r,
        normals=jnp.array([[1.0, 0.0], [1.0, 0.0]]),
    )
