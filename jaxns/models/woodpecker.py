"""The woodpecker toy: it pecks its way down a pole, by impacts, stick and slip."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

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
    return Problem(system, q0, jnp.array([-0.3411, 0.0, -7.4583]), t1=0.5, dt=1e-5)


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
