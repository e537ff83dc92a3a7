"""A chain of balls between two walls."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import e_N as restitution


def ball_chain(
    n: int = 8, e_N: float = 0.5, m: float = 1.0, R: float = 0.05, play: float = 0.02, gravity: float = 9.81
) -> Problem:
    """n balls of mass m and radius R on a vertical line between a floor and a ceiling, q = heights (n,).

    The n + 1 gaps are between floor and first ball, between neighbours, and between last ball and ceiling; at the start
    each is `play` wide and the first ball rises with 2 m/s. The balls collide, fall, and come to rest as a stack, in which
    every impact concerns all contacts below and above. The size n is a scaling benchmark.
    """
    params = dict(e_N=e_N, m=m, R=R, play=play, gravity=gravity)
    system = System(params, _mass, potential=_potential, contacts=Contacts(_gaps, e_N=restitution))
    q0 = (play + R) + (play + 2.0 * R) * np.arange(n)
    return Problem(system, jnp.asarray(q0), jnp.asarray(2.0 * (np.arange(n) == 0)), t1=1.0, dt=1e-3, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.eye(q.shape[0], dtype=q.dtype)


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * jnp.sum(q)


def _gaps(t: Array, q: Array, p: Any) -> Array:
    surfaces = jnp.concatenate([jnp.zeros_like(q[:1]), q + p["R"]])  # tops, that of the floor first
    bottoms = jnp.concatenate([q - p["R"], _ceiling(q, p)[None]])
    return bottoms - surfaces


def _ceiling(q: Array, p: Any) -> Array:
    return q.shape[0] * (p["play"] + 2.0 * p["R"]) + p["play"]


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """Every contact acts on the ball above it, the last one on the ball below the ceiling."""
    R, height = p["R"], _ceiling(q, p)
    centers = jnp.stack([jnp.zeros_like(q), q], axis=1)
    ceiling = jnp.stack([jnp.stack([-100.0 * R, height]), jnp.stack([100.0 * R, height])])
    sides = jnp.array([[[-1.0, 0.0], [-1.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]]) * jnp.stack([1.2 * R, height])
    normals = jnp.zeros((q.shape[0] + 1, 2)).at[:, 1].set(1.0).at[-1, 1].set(-1.0)
    return scene.Scene(
        [
            scene.floor(0.0, 100.0 * R),
            scene.ground(ceiling, jnp.array([0.0, 100.0]) * R),
            scene.line(sides, color="ground"),
            scene.circle(centers[::2], R),
            scene.circle(centers[1::2], R, color="orange"),
        ],
        contact_points=jnp.concatenate([centers, centers[-1:]]) - R * normals,
        normals=normals,
    )
