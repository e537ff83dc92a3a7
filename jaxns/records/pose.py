"""Residuals of poses: orientations differ by a rotation vector, not by the entries of their quaternions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array


def pose_residual(predicted: Any, measured: Any, length: float = 1.0) -> Array:
    """Difference of poses (…, 7), position and quaternion (w, x, y, z): (…, 6), position and `length` times rotation
    vector.

    The rotation vector leads from the measured to the predicted orientation, in radians, in the body's basis; both signs of
    a quaternion are the same orientation, and its length does not matter. `length` makes angles comparable with positions:
    say, half the size of the body. Derivatives are finite everywhere but at half a turn.

    Columns after the seventh (joint angles) are subtracted.

    >>> half = jnp.pi / 8
    >>> turned = jnp.array([0.1, 0.0, 0.0, jnp.cos(half), 0.0, 0.0, jnp.sin(half)])
    >>> [round(float(x), 4) for x in pose_residual(turned, jnp.array([0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0]))]
    [0.1, 0.0, 0.0, 0.0, 0.0, 0.7854]
    """
    predicted, measured = jnp.asarray(predicted), jnp.asarray(measured)
    for name, q in (("predicted", predicted), ("measured", measured)):
        if q.ndim == 0 or q.shape[-1] < 7:
            raise ValueError(f"pose_residual: {name} must have shape (…, 7), position and quaternion; got {q.shape}.")
    turn = rotation_between(measured[..., 3:7], predicted[..., 3:7])
    position, rest = predicted[..., :3] - measured[..., :3], predicted[..., 7:] - measured[..., 7:]
    return jnp.concatenate([position, length * turn, rest], axis=-1)


def rotation_between(a: Array, b: Array) -> Array:
    """The rotation vector of ā b for quaternions a, b (…, 4)."""
    w = jnp.sum(a * b, axis=-1)
    v = a[..., :1] * b[..., 1:] - b[..., :1] * a[..., 1:] - jnp.cross(a[..., 1:], b[..., 1:])
    sign = jnp.where(w < 0.0, -1.0, 1.0)
    w, v = sign * w, sign[..., None] * v
    square = jnp.sum(v * v, axis=-1)
    small = square < 1e-12 * (w * w)
    s = jnp.sqrt(jnp.where(small, 1.0, square))
    # 2 atan2(s, w) / s, and its limit for small angles; of quaternions of any length.
    safe_w = jnp.where(small, w, 1.0)
    factor = jnp.where(small, 2.0 / safe_w * (1.0 - square / (3.0 * safe_w * safe_w)), 2.0 * jnp.arctan2(s, w) / s)
    return factor[..., None] * v
