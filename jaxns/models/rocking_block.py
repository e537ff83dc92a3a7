"""A block that rocks on its two lower corners."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import e_N as _e_N


def rocking_block(
    held: bool = False, e_N: float = 0.9, m: float = 1.0, L: float = 0.2, H: float = 0.1, gravity: float = 9.81
) -> Problem:
    """Frictionless block L × H in the plane, q = (x, z, θ) of its centre, on the ground z = 0.

    It starts tilted by π/10 on its corner A = (−L/2, −H/2), which is at rest, and turns at −0.1 rad/s. Contacts: corners A
    and B = (L/2, −H/2). With `held`, A is kept on the ground by a constraint and there are no contacts: the problem of the
    drift tables. (Event-driven paper, §3.1.1; the sizes are ours.)
    """
    params = dict(e_N=e_N, m=m, L=L, H=H, gravity=gravity)
    if held:
        system = System(params, _mass, potential=_potential, constraint=_height_of_A)
    else:
        system = System(params, _mass, potential=_potential, contacts=Contacts(_gaps, e_N=_e_N))
    theta, omega = math.pi / 10, -0.1
    # The centre seen from A; velocities are at right angles to it.
    x = 0.5 * (L * math.cos(theta) - H * math.sin(theta))
    z = 0.5 * (L * math.sin(theta) + H * math.cos(theta))
    q0, u0 = jnp.array([0.0, z, theta]), jnp.array([-omega * z, omega * x, omega])
    return Problem(system, q0, u0, t1=0.5 if held else 2.0, dt=1e-2, draw=_draw_held if held else _draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    J = (p["L"] ** 2 + p["H"] ** 2) / 12.0
    return p["m"] * jnp.diag(jnp.stack([jnp.ones_like(J), jnp.ones_like(J), J]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * q[1]


def _gaps(t: Array, q: Array, p: Any) -> Array:
    along, across = 0.5 * p["L"] * jnp.sin(q[2]), 0.5 * p["H"] * jnp.cos(q[2])
    return q[1] - across + jnp.stack([-along, along])


def _height_of_A(t: Array, q: Array, p: Any) -> Array:
    return _gaps(t, q, p)[:1]


def _paths(q: Array, p: Any) -> list[scene.Path]:
    """Ground and block; the first two points of the block are A and B."""
    size = jnp.maximum(p["L"], p["H"])
    return [scene.floor(0.0, 100.0 * size), scene.box(q[:2], 0.5 * p["L"], 0.5 * p["H"], q[2])]


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    paths = _paths(q, p)
    return scene.Scene(paths, contact_points=paths[1].points[:2], normals=jnp.array([[0.0, 1.0], [0.0, 1.0]]))


def _draw_held(t: Array, q: Array, p: Any) -> scene.Scene:
    paths = _paths(q, p)
    return scene.Scene([*paths, scene.circle(paths[1].points[0], 0.05 * p["H"], color="paper")])
