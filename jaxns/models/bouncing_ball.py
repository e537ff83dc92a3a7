"""A planar sphere that falls on a plane, with friction."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import FRICTIONAL


def bouncing_ball(
    omega: float = 0.0,
    e_N: float = 0.5,
    e_F: float = 0.0,
    mu: float = 0.2,
    m: float = 1.0,
    R: float = 0.1,
    gravity: float = 9.81,
) -> Problem:
    """Rotating bouncing ball, q = (x, y, φ), J = 2/5 m R² (Breuling et al. 2024, §5.1).

    Case 1: ω = 0, e_N = 0.5 (Zeno); case 2: ω = 50, e_N = 0 (slides, then rolls); case 3: ω = 10, e_N = 0 (rolls at once).
    Rolling speed in cases 2 and 3: |u_x| = 2/7 R |ω|.
    """
    params = dict(omega=omega, e_N=e_N, e_F=e_F, mu=mu, m=m, R=R, gravity=gravity)
    floor = Contacts(_gap, _slip, **FRICTIONAL)
    system = System(params, _mass, potential=_potential, contacts=floor)
    return Problem(system, jnp.array([0.0, 1.0, 0.0]), jnp.array([0.0, 0.0, 1.0]) * omega, t1=1.5, dt=1e-2, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.diag(jnp.stack([jnp.ones_like(p["R"]), jnp.ones_like(p["R"]), 0.4 * p["R"] ** 2]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * q[1]


def _gap(t: Array, q: Array, p: Any) -> Array:
    return jnp.stack([q[1] - p["R"]])


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    return jnp.stack([u[0] + p["R"] * u[2]])[:, None]


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    lowest = q[:2] - jnp.stack([jnp.zeros_like(p["R"]), p["R"]])
    return scene.Scene(
        [scene.floor(0.0, 1e3 * p["R"]), scene.disk(q[:2], p["R"], q[2])],
        contact_points=lowest[None],
        normals=jnp.array([[0.0, 1.0]]),
        tangents=jnp.array([[[1.0, 0.0]]]),
    )
