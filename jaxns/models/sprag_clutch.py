"""Two masses and a freewheel, struck from both sides: restitution coefficients that differ can make energy."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

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
    return Problem(system, jnp.zeros(2), jnp.array([u1, u2]), t1=0.1, dt=1e-2)


def _gap(t: Array, q: Array, p: Any) -> Array:
    return q[1:] - q[:1]


def _turning(t: Array, q: Array, u: Array, p: Any) -> Array:
    return u[:1, None]


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.eye(2)
