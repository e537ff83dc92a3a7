"""The woodpecker toy: it pecks its way down a pole, by impacts, stick and slip."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from . import coefficients


def woodpecker(
    mu: float = 0.3,
    e_N1: float = 0.5,
    e_N2: float = 0.0,
    e_N3: float = 0.0,
    e_F: float = 0.0,
    c: float = 0.0056,
    gravity: float = 9.81,
    r_O: float = 0.0025,
    r_M: float = 0.0031,
    h_M: float = 0.0058,
    l_M: float = 0.010,
    l_G: float = 0.015,
    h_S: float = 0.02,
    l_S: float = 0.0201,
    m_M: float = 0.0003,
    m_S: float = 0.0045,
    J_M: float = 5e-9,
    J_S: float = 7e-7,
) -> Problem:
    """Woodpecker toy with linear kinematics, q = (y, α, φ): height, angle of the sleeve, angle of the bird.

    Contacts: beak and pole, upper and lower end of the sleeve and pole. The initial state lies on its limit cycle.
    (Glocker 1995; Möller 2011, §6.4, Table 6.4.)
    """
    params = dict(
        mu=mu, e_N1=e_N1, e_N2=e_N2, e_N3=e_N3, e_F=e_F, c=c, gravity=gravity, r_O=r_O, r_M=r_M, h_M=h_M, l_M=l_M,
        l_G=l_G, h_S=h_S, l_S=l_S, m_M=m_M, m_S=m_S, J_M=J_M, J_S=J_S,
    )  # fmt: skip
    system = System(
        params,
        _mass,
        potential=_potential,
        contacts=Contacts(_gap, _slip, e_N=_e_N, e_F=coefficients.e_F, mu=coefficients.mu),
    )
    alpha = max(-0.1036, -(r_M - r_O) / h_M)  # the rounded angle of the table would penetrate by a micrometre
    q0 = jnp.array([0.0, alpha, -0.2788])
    return Problem(system, q0, jnp.array([-0.3411, 0.0, -7.4583]), t1=0.5, dt=1e-5, draw=_draw)


def _e_N(p: Any) -> Array:
    return jnp.stack([p["e_N1"], p["e_N2"], p["e_N3"]])


def _mass(t: Array, q: Array, p: Any) -> Array:
    m_S, l_M, l_G = p["m_S"], p["l_M"], p["l_G"]
    return jnp.stack([
        jnp.stack([m_S + p["m_M"], m_S * l_M, m_S * l_G]),
        jnp.stack([m_S * l_M, p["J_M"] + m_S * l_M**2, m_S * l_M * l_G]),
        jnp.stack([m_S * l_G, m_S * l_M * l_G, p["J_S"] + m_S * l_G**2]),
    ])


def _potential(t: Array, q: Array, p: Any) -> Array:
    return 0.5 * p["c"] * (q[1] - q[2]) ** 2 + p["gravity"] * (_mass(t, q, p)[0] @ q)


def _gap(t: Array, q: Array, p: Any) -> Array:
    clearance = p["r_M"] - p["r_O"]
    beak = p["l_M"] + p["l_G"] - p["l_S"] - p["r_O"] - p["h_S"] * q[2]
    return jnp.stack([beak, clearance + p["h_M"] * q[1], clearance - p["h_M"] * q[1]])


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    sleeve = u[0] + p["r_M"] * u[1]
    beak = u[0] + p["l_M"] * u[1] + (p["l_G"] - p["l_S"]) * u[2]
    return jnp.stack([beak, sleeve, sleeve])[:, None]


# The outlines of the bird, seen from its centre of mass, in units of (l_S, h_S). The tip of its beak is (−1, 1); all but
# the beak are rounded.
BIRD = {
    "tail": [[0.12, -0.75], [0.42, -0.62], [0.42, -1.55], [0.3, -1.6], [0.18, -1.55]],
    "body": [
        [-0.3, 0.7], [-0.42, 0.45], [-0.5, 0.1], [-0.45, -0.3], [-0.25, -0.65], [0.05, -0.9], [0.3, -1.0], [0.47, -0.95],
        [0.5, -0.6], [0.5, -0.2], [0.4, 0.3], [0.25, 0.65], [0.2, 0.85], [0.2, 1.05], [0.1, 1.22], [-0.1, 1.32],
        [-0.32, 1.3], [-0.48, 1.18], [-0.53, 1.0], [-0.48, 0.85],
    ],
    "wing": [[0.1, 0.5], [-0.12, 0.2], [-0.15, -0.2], [0.05, -0.6], [0.4, -1.2], [0.42, -0.7], [0.38, -0.1], [0.25, 0.35]],
    "crest": [[-0.5, 1.17], [-0.35, 1.4], [-0.05, 1.47], [0.2, 1.42], [0.42, 1.2], [0.2, 1.08], [0, 1.15], [-0.25, 1.22]],
    "beak": [[-0.5, 1.1], [-1.0, 1.0], [-0.51, 0.92]],
    "eye": [[-0.3, 1.07], [-0.25, 1.12], [-0.2, 1.07], [-0.25, 1.02]],
}  # fmt: skip
COLORS = {"tail": "ink", "body": "grey", "wing": "ink", "crest": "red", "beak": "orange", "eye": "ink"}


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """Sleeve in section, and bird, turned by the linear kinematics of the model, which makes the gaps exact."""
    y, alpha, phi = q
    r_M, h_M, l_M, l_G = p["r_M"], p["h_M"], p["l_M"], p["l_G"]
    size, zero = jnp.stack([p["l_S"], p["h_S"]]), jnp.zeros_like(y)

    def on_sleeve(points: Any) -> Array:
        return _turned(jnp.stack([zero, y]), jnp.asarray(points), alpha)

    def on_bird(points: Any) -> Array:
        """The bird turns about the spring."""
        return _turned(jnp.stack([l_M, y + l_M * alpha]), jnp.asarray(points) * size + jnp.stack([l_G, zero]), phi)

    corners = jnp.array([[0.0, -1.0], [1.0, -1.0], [1.0, 1.0], [0.0, 1.0]])
    right = corners * jnp.stack([0.5 * r_M, h_M]) + jnp.stack([r_M, zero])
    arm = corners * jnp.stack([l_M - 1.5 * r_M, 0.15 * h_M]) + jnp.stack([1.5 * r_M, zero])
    walls = [scene.polygon(on_sleeve(part)) for part in (right, right * jnp.array([-1.0, 1.0]), arm)]
    pole = jnp.array([[0.0, -99.0], [0.0, 99.0]]) * p["h_S"] - jnp.stack([p["r_O"], zero])
    spring = scene.spring(on_sleeve(jnp.stack([l_M, zero])[None])[0], on_bird([[-0.48, 0.0]])[0], 0.6 * h_M, coils=4)
    outlines = {part: points if part == "beak" else scene.rounded(points) for part, points in BIRD.items()}
    bird = {part: scene.polygon(on_bird(line), color=COLORS[part], width=1.0) for part, line in outlines.items()}
    ends = on_sleeve(jnp.stack([jnp.stack([r_M, -h_M]), jnp.stack([r_M, h_M])]))
    return scene.Scene(
        [scene.ground(pole, jnp.stack([2.0 * p["r_O"], zero])), *walls, spring, *bird.values()],
        contact_points=jnp.concatenate([bird["beak"].points[1:2], ends]),
        normals=jnp.broadcast_to(jnp.array([1.0, 0.0]), (3, 2)),
        tangents=jnp.broadcast_to(jnp.array([0.0, 1.0]), (3, 1, 2)),
    )


def _turned(origin: Array, points: Array, angle: Array) -> Array:
    """Points (k, 2) turned by a small angle, to first order."""
    x, y = points[:, 0], points[:, 1]
    return origin + jnp.stack([x - angle * y, y + angle * x], axis=1)
