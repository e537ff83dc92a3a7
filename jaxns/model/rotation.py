"""Rotations by quaternions p = (p_0, p_x, p_y, p_z), scalar first."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def rotation_matrix(p: Array) -> Array:
    """A_IK (3, 3): I + 2 (p_0 p̃ + p̃p̃) for a unit quaternion, and the same rotation for any other length of p.

    >>> rotation_matrix(jnp.array([1.0, 0.0, 0.0, 0.0])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    p0, x, y, z = p
    s = 2.0 / (p0 * p0 + x * x + y * y + z * z)
    return jnp.stack([
        jnp.stack([1.0 - s * (y * y + z * z), s * (x * y - p0 * z), s * (x * z + p0 * y)]),
        jnp.stack([s * (x * y + p0 * z), 1.0 - s * (x * x + z * z), s * (y * z - p0 * x)]),
        jnp.stack([s * (x * z - p0 * y), s * (y * z + p0 * x), 1.0 - s * (x * x + y * y)]),
    ])


def quaternion_rate(p: Array, omega: Array) -> Array:
    """ṗ = ½ p ∘ (0, ω) (4,), with the angular velocity ω in the body-fixed basis.

    >>> quaternion_rate(jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.array([2.0, 0.0, 0.0]))[1:].tolist()
    [1.0, 0.0, 0.0]
    """
    p0, x, y, z = p
    a, b, c = omega
    return 0.5 * jnp.stack([
        -x * a - y * b - z * c,
        p0 * a + y * c - z * b,
        p0 * b + z * a - x * c,
        p0 * c + x * b - y * a,
    ])


def quaternion_product(p: Array, q: Array) -> Array:
    """p ∘ q (4,).

    >>> quaternion_product(jnp.array([0.0, 1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0, 0.0])).tolist()  # i j = k
    [0.0, 0.0, 0.0, 1.0]
    """
    return q[0] * p + 2.0 * quaternion_rate(p, q[1:])
