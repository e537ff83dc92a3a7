"""The tippedisk: an eccentric disk that turns upside down when spun."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..laws.friction import FrictionLaw
from ..model.contacts import Contacts
from ..model.rotation import quaternion_rate, rotation_matrix
from ..model.system import Problem, System
from .coefficients import FRICTIONAL


def tippedisk(
    mu: float = 0.3,
    e_N: float = 0.0,
    e_F: float = 0.0,
    m: float = 0.435,
    r: float = 0.045,
    a: float = 0.015,
    b: float = 0.02,
    Theta_x: float = 2.49e-4,
    Theta_y: float = 2.2972e-4,
    Theta_z: float = 4.7072e-4,
    R: float = 1e-3,
    gravity: float = 9.81,
    law: FrictionLaw | None = None,
) -> Problem:
    """Tippedisk with unit quaternion, q = (r_OS, p), u = (v_S, ω in the body basis) (Breuling et al. 2024, §5.4).

    Friction is a ball in (sliding, sliding, drilling velocity × 3πR/16), or another `law` such as
    `jaxns.Contensou("exact")` in the same variables. The disk spins at 60 rad/s about an in-plane axis
    with its centre of mass low, at r − e, and inverts within about a second (centre of mass at r + e).
    """
    params = dict(
        mu=mu, e_N=e_N, e_F=e_F, m=m, r=r, a=a, b=b, Theta_x=Theta_x, Theta_y=Theta_y, Theta_z=Theta_z, R=R,
        gravity=gravity,
    )  # fmt: skip
    rim = Contacts(_gap, _slip, law=law, **FRICTIONAL)
    system = System(params, _mass, potential=_potential, force=_gyroscopic, kinematics=_kinematics, contacts=rim)
    height = r - b * a**2 / (r**2 - a**2)
    p = jnp.array([0.5, 0.5, 0.5, -0.5])
    omega = jnp.array([-60.0, 0.0, 1.0])
    r_OS = jnp.array([0.0, 0.0, 1.0]) * height
    v_S = jnp.cross(rotation_matrix(p) @ omega, r_OS)
    return Problem(system, jnp.concatenate([r_OS, p]), jnp.concatenate([v_S, omega]), t1=2.0, dt=1e-3, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return jnp.diag(jnp.stack([p["m"], p["m"], p["m"], p["Theta_x"], p["Theta_y"], p["Theta_z"]]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * q[2]


def _gyroscopic(t: Array, q: Array, u: Array, p: Any) -> Array:
    """−ω × Θω, the only force besides gravity."""
    x, y, z = u[3:]
    Lx, Ly, Lz = p["Theta_x"] * x, p["Theta_y"] * y, p["Theta_z"] * z
    zero = jnp.zeros_like(x)
    return -jnp.stack([zero, zero, zero, y * Lz - z * Ly, z * Lx - x * Lz, x * Ly - y * Lx])


def _kinematics(t: Array, q: Array, u: Array, p: Any) -> Array:
    return jnp.concatenate([u[:3], quaternion_rate(q[3:], u[3:])])


def _r_SC(q: Array, p: Any) -> tuple[Array, Array]:
    """From the centre of mass to the contact point, and A_IK; the grinding basis e^G follows the lowest rim point."""
    A = rotation_matrix(q[3:])
    e_x, e_z = A[:, 0], A[:, 2]
    slope = jnp.sqrt(e_z[0] ** 2 + e_z[1] ** 2)
    e_x_G = jnp.stack([-e_z[1], e_z[0], jnp.zeros_like(slope)]) / slope  # e_z^I × e_z^K, normalised
    e_y_G = jnp.cross(e_z, e_x_G)
    eccentricity = p["b"] * p["a"] ** 2 / (p["r"] ** 2 - p["a"] ** 2)
    return -eccentricity * e_x - p["r"] * e_y_G, A


def _gap(t: Array, q: Array, p: Any) -> Array:
    r_SC, _ = _r_SC(q, p)
    return jnp.stack([q[2] + r_SC[2]])


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    r_SC, A = _r_SC(q, p)
    omega = A @ u[3:]
    v_C = u[:3] + jnp.cross(omega, r_SC)
    return jnp.stack([v_C[0], v_C[1], 3.0 * jnp.pi * p["R"] / 16.0 * omega[2]])[None]


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """A thin disk with its hole, and a mark at the centre of mass."""
    r_SC, A = _r_SC(q, p)
    eccentricity = p["b"] * p["a"] ** 2 / (p["r"] ** 2 - p["a"] ** 2)
    middle = q[:3] - eccentricity * A[:, 0]
    hole = middle - p["b"] * A[:, 0]
    turned = A @ jnp.diag(jnp.array([-1.0, -1.0, 1.0]))  # rings start where the rim is nearest to the hole
    rim, edge = (scene.ring(c, r, turned) for c, r in ((middle, p["r"]), (hole, p["a"])))
    around = [rim.points, rim.points[:1], edge.points[:1], edge.points[::-1]]
    face = scene.polygon(jnp.concatenate(around), width=0.0)
    return scene.Scene(
        [scene.grid(4.0 * p["r"]), scene.shadow(face), face, rim, edge, scene.ring(q[:3], 0.08 * p["r"], A, width=3.0)],
        contact_points=(q[:3] + r_SC)[None],
        normals=jnp.array([[0.0, 0.0, 1.0]]),
        tangents=jnp.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]),
    )
