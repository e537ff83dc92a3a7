"""Two masses and a freewheel, struck from both sides: restitution coefficients that differ can make energy."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from ..laws.friction import SpragClutch
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import e_N as restitution


def sprag_clutch(e_N: float = 1.0, m: float = 1.0, u1: float = 1.0, u2: float = -1.0) -> Problem:
    """Masses q = (x1, x2) in contact; a freewheel lets x1 grow only (Möller 2011, §3.9).

    With e_N = 1 and u = (u1 > 0, u2 < 0) the impact ends with u⁺ = (0, u1 − u2), and the energy rises by −m u1 u2.
    """
    contact, freewheel = Contacts(_gap, e_N=restitution), Contacts(None, _turning, law=SpragClutch())
    system = System(dict(e_N=e_N, m=m), _mass, contacts=(contact, freewheel))
    return Problem(system, jnp.zeros(2), jnp.array([u1, u2]), t1=0.1, dt=1e-2, draw=_draw)


def _gap(t: Array, q: Array, p: Any) -> Array:
    return q[1:] - q[:1]


def _turning(t: Array, q: Array, u: Array, p: Any) -> Array:
    return u[:1, None]


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.eye(2)


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """Mass 1 ends at x1 on its right, mass 2 begins at x2; a pawl of mass 1 slides over a rack."""
    half, tooth = 0.04, 0.02
    left, right = jnp.stack([q[0] - half, half]), jnp.stack([q[1] + half, half])
    steps = np.repeat(np.arange(-400, 401), 2) * tooth
    teeth = np.stack([steps, -np.tile([0.0, 0.6 * tooth], 801)], axis=1)  # rises slowly, falls at once
    pawl = jnp.stack([q[0] - half, 0.0]) + np.array([[-0.6, 0.0], [0.0, -0.5], [0.3, 0.0]]) * tooth
    return scene.Scene(
        [
            scene.ground(teeth, jnp.array([0.0, -9.0])),
            scene.box(left, half, half),
            scene.polygon(pawl, color="ink"),
            scene.box(right, half, half, color="orange"),
        ],
        contact_points=jnp.stack([jnp.stack([q[1], half]), pawl[1]]),
        normals=jnp.array([[1.0, 0.0], [0.0, 0.0]]),  # the freewheel has no normal force
        tangents=jnp.array([[[0.0, 0.0]], [[1.0, 0.0]]]),
    )
