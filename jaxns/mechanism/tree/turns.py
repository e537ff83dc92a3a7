"""Rotations of links: by how much the frame b of a joint has turned, seen from a, for all members of one kind at once.

Seen from a, b has the axes A Z Bᵀ: A and B are axes of the joint fixed to a and to b, Z turns with the coordinates and is
the identity at zero. Rotations are the columns of their matrices, `axes` as in `Poses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ...model.rotation import quaternion_product
from ..frames import Vector, columns, cross, dot, minus, perpendicular, plus, space_axes, stack, times, unit
from .links import Link, keys

Axes = tuple[Vector, ...]


def product(a: Axes, b: Axes) -> Axes:
    """The columns of AB."""
    return tuple(tuple(dot(row, column) for row in zip(*a, strict=True)) for column in b)


def transposed(a: Axes) -> Axes:
    return tuple(zip(*a, strict=True))


def read(p: Any, links: Sequence[Link], name: str) -> Vector:
    return columns(stack(p, keys(links, name)))


def _square(side: Vector, axis: Vector) -> Vector:
    """The unit vector nearest to `side` at a right angle to a unit vector."""
    return unit(minus(side, times(dot(side, axis), axis)))


def joint_axes(kind: str, links: Sequence[Link], p: Any) -> tuple[Axes, Axes | None]:
    """A and B of links in space; None for B where the joint's axes are those of b."""
    if kind in ("revolute", "cylindrical"):  # about the third axis
        axis_a, axis_b = unit(read(p, links, "axis_a")), unit(read(p, links, "axis_b"))
        side = _square(read(p, links, "side_b"), axis_b)
        return (*perpendicular(axis_a), axis_a), (side, cross(axis_b, side), axis_b)
    if kind == "universal":  # about the first axis, then the second one
        first, second = unit(read(p, links, "axis_a")), unit(read(p, links, "axis_b"))
        side_a, side_b = _square(read(p, links, "side_a"), first), _square(read(p, links, "side_b"), second)
        return (first, side_a, cross(first, side_a)), (side_b, second, cross(side_b, second))
    return space_axes(read(p, links, "turn")), None


def relative(kind: str, links: Sequence[Link], x: Vector, p: Any) -> Axes:
    """The axes of b in the basis of a, for coordinates x (entries of q, each of all members)."""
    if kind == "free":
        return space_axes(x[3:])
    A, B = joint_axes(kind, links, p)
    if kind == "spherical":
        return product(A, space_axes(x))
    if B is None:  # no rotation at all
        return A
    return product(_turned(kind, A, x), transposed(B))


def _turned(kind: str, A: Axes, x: Vector) -> Axes:
    """A Z."""
    first, second, third = A
    if kind == "universal":
        a, b = x
        side, up = _rotated(second, third, a)
        e_z, e_x = _rotated(up, first, b)
        return e_x, side, e_z
    return (*_rotated(first, second, x[0]), third)


def _rotated(first: Vector, second: Vector, angle: Array) -> tuple[Vector, Vector]:
    """Two axes after a turn in their plane, from the first towards the second."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return plus(times(c, first), times(s, second)), minus(times(c, second), times(s, first))


def coordinates(kind: str, links: Sequence[Link], axes: Axes, p: Any) -> Vector:
    """The angles of links whose frames b have these axes in the basis of a: the inverse of `relative`."""
    A, B = joint_axes(kind, links, p)
    if B is None:
        return ()
    Z = product(transposed(A), product(axes, B))  # Z[k][i] is the entry in row i and column k
    if kind == "universal":
        return jnp.arctan2(Z[1][2], Z[1][1]), jnp.arctan2(Z[2][0], Z[0][0])
    return (jnp.arctan2(Z[0][1], Z[0][0]),)


def quaternions(kind: str, links: Sequence[Link], x: Vector, p: Any) -> Array:
    """The same as `relative`, as quaternions (m, 4) of any length that change steadily with the coordinates."""
    if kind == "free":
        return jnp.stack(x[3:], axis=1)
    if kind not in ("revolute", "cylindrical", "universal"):
        rest = stack(p, keys(links, "turn"))
        return _after(rest, jnp.stack(x, axis=1)) if kind == "spherical" else rest
    A, B = joint_axes(kind, links, p)
    assert B is not None
    turn = _after(_about(0, x[0]), _about(1, x[1])) if kind == "universal" else _about(2, x[0])
    return _after(_after(of_axes(A), turn), conjugate(of_axes(B)))


_after = jax.vmap(quaternion_product)


def conjugate(quaternions: Array) -> Array:
    """The inverse of unit quaternions (…, 4)."""
    return jnp.concatenate([quaternions[..., :1], -quaternions[..., 1:]], axis=-1)


def _about(axis: int, angle: Array) -> Array:
    """Turns about a basis vector (m, 4)."""
    entries = [jnp.cos(0.5 * angle)] + [jnp.zeros_like(angle)] * 3
    entries[1 + axis] = jnp.sin(0.5 * angle)
    return jnp.stack(entries, axis=1)


def of_axes(axes: Axes) -> Array:
    """Quaternions of rotations, not of unit length (m, 4): of four that are the same up to their length, all columns of
    Bar-Itzhack's matrix, the longest."""
    (xx, yx, zx), (xy, yy, zy), (xz, yz, zz) = axes
    four = jnp.stack([
        jnp.stack([1.0 + xx + yy + zz, zy - yz, xz - zx, yx - xy]),
        jnp.stack([zy - yz, 1.0 + xx - yy - zz, yx + xy, xz + zx]),
        jnp.stack([xz - zx, yx + xy, 1.0 - xx + yy - zz, zy + yz]),
        jnp.stack([yx - xy, xz + zx, zy + yz, 1.0 - xx - yy + zz]),
    ])  # (4, 4, m)
    longest = jnp.argmax(jnp.stack([four[k, k] for k in range(4)]), axis=0)
    return jnp.take_along_axis(four, longest[None, None], axis=0)[0].T
