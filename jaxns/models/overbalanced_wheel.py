"""The overbalanced wheel: levers between stops, a perpetual motion machine that is none."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
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
    return Problem(system, jnp.asarray(q0), jnp.asarray(u0), t1=2.0, dt=1e-4, draw=_draw)


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


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """The masses as balls of radius r, and the stops that far behind the lines where the gaps vanish."""
    angle, x, y = _arms(q)
    n, a, l = angle.shape[0], p["a"], p["l"]
    r = min(0.16, 4.0 / n) * l
    radial = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    tangential = jnp.stack([-radial[:, 1], radial[:, 0]], axis=1)
    joints, masses, middle = a * radial, jnp.stack([x, y], axis=1), jnp.zeros(2)

    def segment(out: tuple[Any, Any], along: tuple[Any, Any]) -> Array:
        """Lines (n, 2, 2) on the wheel, each between two points (radial, tangential)."""
        ends = [out[k] * radial + along[k] * tangential for k in (0, 1)]
        return jnp.stack(ends, axis=1)

    stop_in = segment((a - r, a - r), (0.8 * l, 1.15 * l))
    stop_out = segment((a + 0.8 * l, a + 1.15 * l), (-r, -r))
    holders = [segment((a - r, 0.8 * a), (0.95 * l, 0.8 * l)), segment((0.97 * a, a + 0.8 * l), (-r, -r))]
    return scene.Scene(
        [
            scene.support(middle, 0.4 * a),
            scene.line(jnp.stack([jnp.zeros_like(joints), joints], axis=1), color="ground"),
            scene.Path(scene.circle(middle, a, corners=96).points, closed=True, color="grey", width=3.0),
            *(scene.line(h, color="ground") for h in holders),
            *(scene.line(s, color="grey", width=2.5) for s in (stop_in, stop_out)),
            scene.line(jnp.stack([joints, masses], axis=1), width=2.0),
            scene.circle(joints, 0.35 * r, color="paper"),
            scene.circle(middle, 0.08 * a, color="grey"),
            scene.circle(masses[:1], r, color="orange"),  # one of them has a colour of its own, to see the wheel turn
            scene.circle(masses[1:], r),
        ],
        contact_points=jnp.concatenate([masses - r * radial, masses - r * tangential]),
        normals=jnp.concatenate([radial, tangential]),
    )
