"""Convex sets through their projections (proximal point functions). Arrays are (d, *lanes) unless stated."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def project_ball(x: Array, radius: Array) -> Array:
    """Nearest point of the ball of the given radius ≥ 0 around the origin; x is (d, *lanes).

    The derivative is finite everywhere, also at x = 0 and for radius 0.

    >>> project_ball(jnp.array([3.0, 4.0]), 1.0).tolist()
    [0.6..., 0.8...]
    """
    if x.shape[0] == 1:  # an interval: no square root, exact derivatives
        return jnp.where(jnp.abs(x) < radius, x, radius * jnp.sign(x))
    square = jnp.sum(x * x, axis=0)
    inside = square < radius * radius
    norm = jnp.sqrt(jnp.where(inside | (square == 0.0), 1.0, square))
    return jnp.where(inside, x, radius * x / norm)
