"""A sphere that passes from a plane onto a parabola: the curvature of the ground jumps."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System


def edge_sphere(speed: float = 1.0, m: float = 1.0, gravity: float = 9.81) -> Problem:
    """Point mass q = (x, z) on the ground z = 0 for x < 0 and z = x² for x > 0, frictionless, starting at (−0.5, 0).

    Two gap functions, z and z − max(x, 0)², agree up to the edge at x = 0 and have different curvature there: both contacts
    are closed when the mass arrives, and their accelerations contradict each other. (Event-driven paper, §4.)
    """
    params = dict(m=m, gravity=gravity)
    system = System(params, _mass, potential=_potential, contacts=Contacts(_gaps))
    return Problem(system, jnp.array([-0.5, 0.0]), jnp.array([1.0, 0.0]) * speed, t1=1.0, dt=1e-2, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.eye(2)


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * q[1]


def _gaps(t: Array, q: Array, p: Any) -> Array:
    return q[1] - jnp.stack([jnp.zeros_like(q[0]), jnp.maximum(q[0], 0.0) ** 2])


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """The mass is the lowest point of the ball that is drawn."""
    x = np.concatenate([[-99.0], np.linspace(0.0, 1.0, 60), np.linspace(1.1, 9.0, 60)])
    surface = scene.ground(np.stack([x, np.maximum(x, 0.0) ** 2], axis=1), jnp.array([0.0, -99.0]))
    flat, slope = jnp.zeros_like(q[0]), -2.0 * jnp.maximum(q[0], 0.0)
    gradients = jnp.stack([jnp.stack([flat, flat + 1.0]), jnp.stack([slope, flat + 1.0])])
    upwards = gradients[1] / jnp.sqrt(1.0 + slope**2)
    mark = scene.circle(jnp.array([0.0, 0.0]), 0.004, color="ink")  # where the curvature jumps
    return scene.Scene(
        [surface, mark, scene.circle(q + 0.03 * upwards, 0.03)],
        contact_points=jnp.stack([q, q]),
        normals=gradients,
    )
