"""The tippe top: a spinning top of two spheres that turns onto its handle."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from ..laws.friction import Contensou, FrictionLaw
from ..model.contacts import Contacts
from ..model.rotation import quaternion_rate, rotation_matrix
from ..model.system import Problem, System
from . import coefficients


def tippe_top(
    mu: float = 0.3,
    R_bar: float = 2.945e-4,
    e_N: float = 0.0,
    e_F: float = 0.0,
    c1: float = 0.003,
    c2: float = 0.016,
    r1: float = 0.015,
    r2: float = 0.005,
    m: float = 0.006,
    J1: float = 8e-7,
    J3: float = 7e-7,
    gravity: float = 9.81,
    tilt: float = 0.1,
    spin: float = 180.0,
    law: FrictionLaw | None = None,
) -> Problem:
    """Tippe top with unit quaternion, q = (r_OC, p), u = (v_C, ω in the body basis) (Möller 2011, §6.5).

    Two spheres of radius r_i, with their middle at c_i on the axis of symmetry, touch the floor with Coulomb–Contensou
    friction: by default in the ellipsoid with the semi-axes μ, μ, μR̄, as a transformed sphere. It starts tilted, and at
    rest but for its spin, in rad/s, and inverts within a few seconds.
    """
    params = dict(
        mu=mu, R_bar=R_bar, e_N=e_N, e_F=e_F, c1=c1, c2=c2, r1=r1, r2=r2, m=m, J1=J1, J3=J3, gravity=gravity
    )  # fmt: skip
    spheres = Contacts(_gap, _slip, mu=_mu, law=law or Contensou("sphere"), e_N=coefficients.e_N, e_F=coefficients.e_F)
    system = System(params, _mass, potential=_potential, force=_gyroscopic, kinematics=_kinematics, contacts=spheres)
    p = jnp.array([jnp.cos(0.5 * tilt), jnp.sin(0.5 * tilt), 0.0, 0.0])
    height = r1 - c1 * jnp.cos(tilt)  # the main sphere touches the floor
    q0 = jnp.concatenate([jnp.stack([jnp.zeros(()), jnp.zeros(()), height]), p])
    return Problem(system, q0, jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, spin]), t1=4.0, dt=1e-4, draw=_draw)


def _mu(p: Any) -> Array:
    """Semi-axes (2, 3) of the friction sets."""
    return p["mu"] * jnp.stack([jnp.ones((2,)), jnp.ones((2,)), jnp.full((2,), p["R_bar"])], axis=1)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return jnp.diag(jnp.stack([p["m"], p["m"], p["m"], p["J1"], p["J1"], p["J3"]]))


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * q[2]


def _gyroscopic(t: Array, q: Array, u: Array, p: Any) -> Array:
    """−ω × Θω with Θ = diag(J1, J1, J3)."""
    x, y, z = u[3:]
    difference, zero = p["J3"] - p["J1"], jnp.zeros_like(x)
    return difference * jnp.stack([zero, zero, zero, -y * z, x * z, zero])


def _kinematics(t: Array, q: Array, u: Array, p: Any) -> Array:
    return jnp.concatenate([u[:3], quaternion_rate(q[3:], u[3:])])


def _gap(t: Array, q: Array, p: Any) -> Array:
    """(6.59), for quaternions of any length."""
    _, _, z, a0, a1, a2, a3 = q
    up, down = a0 * a0 + a3 * a3, a1 * a1 + a2 * a2
    upright = (up - down) / (up + down)  # cosine of the inclination
    return jnp.stack([z + p["c1"] * upright - p["r1"], z + p["c2"] * upright - p["r2"]])


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    """(v_x, v_y, Ω_z) of the lowest points of both spheres (6.63)."""
    A = rotation_matrix(q[3:])
    omega = A @ u[3:]
    up = jnp.array([0.0, 0.0, 1.0])

    def one(c: Array, r: Array) -> Array:
        v = u[:3] + jnp.cross(omega, c * A[:, 2] - r * up)
        return jnp.stack([v[0], v[1], omega[2]])

    return jnp.stack([one(c, r) for c, r in ((p["c1"], p["r1"]), (p["c2"], p["r2"]))])


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """The main sphere is cut off above the circle that touches the floor just when the handle does."""
    A, r1, r2 = rotation_matrix(q[3:]), p["r1"], p["r2"]
    cut = jnp.clip((r1 - r2) / (p["c2"] - p["c1"]), -1.0, 1.0)
    lid = p["c1"] + cut * r1 - p["c2"]  # its height above the middle of the small sphere

    def arc(c: Array, r: Array, below: Array, above: Array, steps: int) -> Array:
        polar = below + (above - below) * np.linspace(0.0, 1.0, steps)
        return jnp.stack([r * jnp.sin(polar), c + r * jnp.cos(polar)], axis=1)

    handle = arc(p["c2"], r2, jnp.arccos(jnp.clip(lid / r2, -1.0, 1.0)), jnp.zeros(()), 7)
    body = jnp.concatenate([arc(p["c1"], r1, jnp.asarray(jnp.pi), jnp.arccos(cut), 13), handle[:1]])
    parts = (*scene.revolution(body, q[:3], A), *scene.revolution(handle, q[:3], A, colors=("orange", "orange")))
    centers = q[:3] + jnp.stack([p["c1"], p["c2"]])[:, None] * A[:, 2]
    shadows = [scene.shadow(scene.ring(center, r)) for center, r in zip(centers, (r1, r2), strict=True)]
    return scene.Scene(
        [scene.grid(10.0 * r1, cells=20), *shadows, *parts],
        contact_points=centers - jnp.stack([r1, r2])[:, None] * jnp.array([0.0, 0.0, 1.0]),
        normals=jnp.array([[0.0, 0.0, 1.0]] * 2),
        tangents=jnp.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2),
    )
