"""A point mass that slides on, or falls onto, an exponential slope."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from ..model.contacts import Contacts
from ..model.system import Problem, System
from .coefficients import FRICTIONAL


def mass_on_slope(
    case: int = 1, m: float = 1.0, mu: float = 0.3, gravity: float = 10.0, e_N: float = 0.0, e_F: float = 0.0
) -> Problem:
    """Point mass q = (x, y) on the slope f(x) = (x, exp(−x)) (Breuling et al. 2024, §5.3).

    Case 1 starts at rest on the slope, case 2 slides down at unit speed, case 3 slides up at unit speed and turns round,
    case 4 falls from (0, 1.5).
    """
    down = jnp.array([1.0, -1.0]) / jnp.sqrt(2.0)
    starts = {1: (1.0, 0.0 * down), 2: (1.0, down), 3: (1.0, -down), 4: (1.5, 0.0 * down)}
    if case not in starts:
        raise ValueError(f"mass_on_slope: case must be 1, 2, 3 or 4, got {case}.")
    height, u0 = starts[case]
    slope = Contacts(_gap, _slip, **FRICTIONAL)
    params = dict(m=m, mu=mu, gravity=gravity, e_N=e_N, e_F=e_F)
    system = System(params, _mass, potential=_potential, contacts=slope)
    return Problem(system, jnp.array([0.0, height]), u0, t1=3.2768, dt=6.4e-3, draw=_draw)


def _mass(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * jnp.eye(2)


def _potential(t: Array, q: Array, p: Any) -> Array:
    return p["m"] * p["gravity"] * q[1]


def _tangent(x: Array) -> tuple[Array, Array]:
    fall = jnp.exp(-x)
    length = jnp.sqrt(1.0 + fall * fall)
    return 1.0 / length, -fall / length


def _gap(t: Array, q: Array, p: Any) -> Array:
    x, y = q
    t_x, _ = _tangent(x)
    return jnp.stack([t_x * (y - jnp.exp(-x))])  # nᵀ(q − f(x)), n = (−t_y, t_x), and q − f(x) is vertical


def _slip(t: Array, q: Array, u: Array, p: Any) -> Array:
    t_x, t_y = _tangent(q[0])
    return jnp.stack([t_x * u[0] + t_y * u[1]])[:, None]


def _draw(t: Array, q: Array, p: Any) -> scene.Scene:
    """The mass is the point of the drawn ball that is nearest to the slope."""
    x = np.concatenate([np.linspace(-3.0, 6.0, 200), [10.0, 999.0]])
    surface = scene.ground(np.stack([x, np.exp(-x)], axis=1), jnp.array([0.0, -99.0]))
    t_x, t_y = _tangent(q[0])
    tangent, normal = jnp.stack([t_x, t_y]), jnp.stack([-t_y, t_x])
    return scene.Scene(
        [surface, scene.circle(q + 0.06 * normal, 0.06)],
        contact_points=q[None],
        normals=normal[None],
        tangents=tangent[None, None],
    )
