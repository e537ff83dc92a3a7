"""The overbalanced wheel: levers between stops, a perpetual motion machine that is none."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import e_N as restitution


def overbalanced_wheel(
    n: int = 12,
    e_N: float = 0.0,
    theta: float = 0.16,
    a: float = 0.4,
    l: float = 0.2,
    m: float = 0.1,
    gravity: float = 9.81,
    speed: float = -2.0,
) -> Problem:
    """A wheel with n levers, q = (φ, x_1..x_n, y_1..y_n) (Möller 2011, §6.3).

    Mass i hangs on a rod of length l from the rim at angle φ + α_i, α_i = 2πi/n, between a radial and a tangential stop.
    The wheel starts with every lever where gravity holds it, turning as a rigid body with `speed`, in rad/s.
    """
    params = dict(e_N=e_N, theta=theta, a=a, l=l, m=m, gravity=gravity)
    system = System(params, _mass, potential=_potential, constraint=_rods, contacts=Contacts(_stops, e_N=restitution))
    alpha = 2.0 * np.pi * np.arange(n) / n
    # The lever angle β in [0, π/2] that puts the mass lowest: its direction α + β as near to straight down as it can be.
    candidates = np.stack([
        np.zeros(n),
        np.full(n, 0.5 * np.pi),
        np.clip(np.mod(-0.5 * np.pi - alpha, 2 * np.pi), 0, 0.5 * np.pi),
    ])
    beta = np.take_along_axis(candidates, np.argmin(np.sin(alpha + candidates), axis=0)[None], axis=0)[0]
    x = a * np.cos(alpha) + l * np.cos(alpha + beta)
    y = a * np.sin(alpha) + l * np.sin(alpha + beta)
    q0, u0 = np.concatenate([[0.0], x, y]), speed * np.concatenate([[1.0], -y, x])
    return Problem(system, jnp.asarray(q0), jnp.asarray(u0), t1=2.0, dt=1e-4)


def _arms(q: Array) -> tuple[Array, Array, Array]:
    """Angles of the levers' joints, and the masses' coordinates."""
    n = (q.shape[0] - 1) // 2
    return q[0] + 2.0 * jnp.pi * jnp.arange(n) / n, q[1 : n + 1], q[n + 1 :]


def _mass(t: Array, q: Array, p: Any) -> Array:
    n = q.shape[0] - 1
    return jnp.diag(jnp.concatenate([p["theta"][None], jnp.broadcast_to(p["m"], (n,))]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * jnp.sum(_arms(q)[2])


def _rods(t: Array, q: Array, p: Any) -> Array:
    angle, x, y = _arms(q)
    return 0.5 * ((x - p["a"] * jnp.cos(angle)) ** 2 + (y - p["a"] * jnp.sin(angle)) ** 2 - p["l"] ** 2)


def _stops(t: Array, q: Array, p: Any) -> Array:
    angle, x, y = _arms(q)
    radial = x * jnp.cos(angle) + y * jnp.sin(angle) - p["a"]
    return jnp.concatenate([radial, -x * jnp.sin(angle) + y * jnp.cos(angle)])
