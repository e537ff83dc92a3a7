"""The slider-crank mechanism in angles: with clearance, and with the slider held in its guide."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import FRICTIONAL
from .slider_crank import corner_gaps, corner_slips, draw_mechanism, draw_with_clearance

SPEED = 150.0  # rad/s of the crank at the start, from stretched position


def slider_crank_minimal(
    e_N: float = 0.1,
    mu: float = 0.0,
    e_F: float = 0.0,
    l1: float = 0.153,
    l2: float = 0.306,
    a: float = 0.05,
    b: float = 0.025,
    d: float = 0.052,
    m1: float = 0.038,
    m2: float = 0.038,
    m3: float = 0.076,
    J1: float = 7.4e-5,
    J2: float = 5.9e-4,
    J3: float = 2.7e-6,
    gravity: float = 9.81,
) -> Problem:
    """Slider-crank in absolute angles q = (θ1, θ2, θ3) of crank, rod and slider (Schoeder, Ulbrich, Schindler 2014, §1.2).

    The mass matrix is (19); the four corners of the slider touch the guide of width d = 2b + 2c, with clearance c = 1 mm,
    by the gaps (14)–(17). Without friction unless mu is given.
    """
    params = dict(
        e_N=e_N, mu=mu, e_F=e_F, l1=l1, l2=l2, a=a, b=b, d=d, m1=m1, m2=m2, m3=m3, J1=J1, J2=J2, J3=J3, gravity=gravity
    )
    system = System(params, _mass, potential=_potential, contacts=Contacts(_gap, _slip, **FRICTIONAL))
    u0 = jnp.stack([jnp.asarray(v, float) for v in (SPEED, -SPEED * l1 / l2, 0.0)])
    return Problem(system, jnp.zeros(3), u0, t1=0.15, dt=1e-5, draw=_draw)


def slider_crank_bilateral(
    l1: float = 0.153,
    l2: float = 0.306,
    m1: float = 0.038,
    m2: float = 0.038,
    m3: float = 0.076,
    J1: float = 7.4e-5,
    J2: float = 5.9e-4,
    gravity: float = 9.81,
) -> Problem:
    """Slider-crank in angles q = (θ1, θ2), with the slider held at y = 0 (Schoeder, Ulbrich, Schindler 2014, §2.1)."""
    params = dict(l1=l1, l2=l2, m1=m1, m2=m2, m3=m3, J1=J1, J2=J2, gravity=gravity)
    system = System(params, _mass_of_two, potential=_potential, constraint=_guide)
    u0 = jnp.stack([jnp.asarray(v, float) for v in (SPEED, -SPEED * l1 / l2)])
    return Problem(system, jnp.zeros(2), u0, t1=1.0, dt=1e-4, draw=_draw_held)


def _mass_of_two(t: Array, q: Array, p: Any) -> Array:
    m11 = p["J1"] + p["l1"] ** 2 * (p["m1"] / 4 + p["m2"] + p["m3"])
    m12 = p["l1"] * p["l2"] * jnp.cos(q[0] - q[1]) * (p["m2"] / 2 + p["m3"])
    m22 = p["J2"] + p["l2"] ** 2 * (p["m2"] / 4 + p["m3"])
    return jnp.stack([jnp.stack([m11, m12]), jnp.stack([m12, m22])])


def _mass(t: Array, q: Array, p: Any) -> Array:
    slider = jnp.zeros((3, 3), q.dtype).at[2, 2].set(p["J3"])
    return slider.at[:2, :2].set(_mass_of_two(t, q, p))


def _potential(t: Array, q: Array, p: Any) -> Array:
    crank, rod = p["l1"] * jnp.sin(q[0]), p["l2"] * jnp.sin(q[1])
    heights = p["m1"] * crank / 2 + p["m2"] * (crank + rod / 2) + p["m3"] * (crank + rod)
    return p["gravity"] * heights


def _guide(t: Array, q: Array, p: Any) -> Array:
    return jnp.stack([p["l1"] * jnp.sin(q[0]) + p["l2"] * jnp.sin(q[1])])


def _gap(t: Array, q: Array, p: Any) -> Array:
    return corner_gaps(_guide(t, q, p)[0], q[2], p)


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    u_x = -p["l1"] * jnp.sin(q[0]) * u[0] - p["l2"] * jnp.sin(q[1]) * u[1]
    return corner_slips(q[2], u_x, u[2], p)


def _joints(q: Array, p: Any) -> tuple[Array, Array]:
    """Ends of the crank and of the rod."""
    crank = p["l1"] * jnp.stack([jnp.cos(q[0]), jnp.sin(q[0])])
    return crank, crank + p["l2"] * jnp.stack([jnp.cos(q[1]), jnp.sin(q[1])])


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    crank, rod = _joints(q, p)
    return draw_with_clearance((jnp.zeros(2), crank), (crank, rod), rod, q[2], p)


def _draw_held(t: Array, q: Array, p: Any) -> scene.Scene:
    """The slider has no size in this model: it is drawn a sixth as long as the rod."""
    crank, rod = _joints(q, p)
    sizes = {"l1": p["l1"], "l2": p["l2"], "a": p["l2"] / 6, "b": p["l2"] / 12, "d": p["l2"] / 6}
    return scene.Scene(draw_mechanism((jnp.zeros(2), crank), (crank, rod), rod, jnp.zeros(()), sizes))
