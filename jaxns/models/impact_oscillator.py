"""Two masses on a vertical line, the lower and light one on a stiff spring."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import e_N as restitution


def impact_oscillator(
    e_N: float = 0.0, m1: float = 10.0, m2: float = 1e-3, c: float = 4e5, l: float = 0.1, gravity: float = 9.81
) -> Problem:
    """Heights q = (x1, x2); m1 falls onto m2, which rests on a spring of stiffness c and length l (Möller 2011, §6.1).

    The mass ratio of 10⁴ makes it hard for explicit schemes.
    """
    params = dict(e_N=e_N, m1=m1, m2=m2, c=c, l=l, gravity=gravity)
    system = System(params, _mass, potential=_potential, contacts=Contacts(_gap, e_N=restitution))
    return Problem(system, jnp.array([0.11, 0.1]), jnp.zeros(2), t1=0.5, dt=1e-3, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return jnp.diag(jnp.stack([p["m1"], p["m2"]]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["gravity"] * (p["m1"] * q[0] + p["m2"] * q[1]) + 0.5 * p["c"] * (q[1] - p["l"]) ** 2


def _gap(t: Array, q: Array, p: Any) -> Array:
    return jnp.stack([q[0] - q[1]])


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """The heights are those of the lower side of m1, and of the upper side of the plate m2."""
    size, zero = 0.25 * p["l"], jnp.zeros_like(q[0])
    heavy, plate = jnp.stack([zero, q[0] + size]), jnp.stack([zero, q[1] - 0.1 * size])
    return scene.Scene(
        [
            scene.floor(0.0, 100.0 * p["l"]),
            scene.spring(jnp.zeros(2), plate, 0.8 * size),
            scene.box(plate, 0.8 * size, 0.1 * size, color="orange"),
            scene.box(heavy, size, size),
        ],
        contact_points=jnp.stack([zero, q[0]])[None],
        normals=jnp.array([[0.0, 1.0]]),
    )
