"""Shapes with flat faces: half-space, box, convex polygon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import MechanismError, vector
from ..frames import Vector, columns, dot, minus, norm, times, wide
from .base import Points, Shape, Values

MARGIN = 1e-6  # how far beyond the rim of a face, in sizes of its shape, a corner still counts as opposite to it


@dataclass(frozen=True)
class HalfSpace(Shape):
    """All below the origin of its body, y ≤ 0 or z ≤ 0; a floor, a wall, a belt.

    >>> import jaxns as ns
    >>> wall = ns.Body("wall", fixed=True, position=(1.0, 0.0), angle=jnp.pi / 2, shape=ns.shapes.HalfSpace())  # x ≥ 1
    """

    solid: ClassVar[bool] = False

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        return x[-1] - r


@dataclass(frozen=True, init=False)
class Box(Shape):
    """A rectangle or a cuboid with the given side lengths, along the axes of the body.

    Two boxes touch with the corners of both. Edges that cross in space do not touch.

    >>> Box(0.2, 0.1).parameters()["size"].tolist()
    [0.2, 0.1]
    """

    size: tuple[float, ...]
    pointed: ClassVar[str] = "anywhere"

    def __init__(self, *size: Any):
        size = tuple(size[0]) if len(size) == 1 and np.ndim(size[0]) == 1 else size
        object.__setattr__(self, "size", size)

    @property
    def dimensions(self) -> tuple[int, ...]:  # type: ignore[override]
        return (len(self.size),)

    def parameters(self) -> dict[str, Any]:
        size = vector("Box", "the side lengths", self.size, (2, 3))
        if not np.all(size > 0.0):
            raise MechanismError(f"Box: side lengths must be positive, got {self.size}.")
        return {"size": size}

    def inertia(self, d: int) -> tuple[float, Any]:
        square = np.asarray(self.size, float) ** 2
        volume = float(np.prod(self.size))
        moments = volume / 12.0 * (np.sum(square) - square)
        return volume, (volume / 12.0 * float(np.sum(square)) if d == 2 else tuple(moments))

    @classmethod
    def points(cls, v: Values, d: int) -> Points:
        signs = corner_signs(d)
        return tuple(wide(0.5 * v["size"][k : k + 1], (len(signs),)) * signs[:, k] for k in range(d)), np.zeros(
            len(signs), v["size"].dtype
        )

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        half = tuple(wide(0.5 * v["size"][k : k + 1], r.shape) for k in range(len(x)))
        sides = list(enumerate(x))
        faces = [y - half[k] for k, y in sides] + [-y - half[k] for k, y in sides]
        return boxed(faces, [jnp.abs(y) - half[k] for k, y in sides], r, MARGIN * half[0])


def corner_signs(d: int) -> np.ndarray:
    """Signs of the corners (2^d, d); in the plane (−, −), (+, −), (+, +), (−, +), in space first those below."""
    plane = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    if d == 2:
        return plane
    return np.concatenate([np.column_stack([plane, np.full(4, s)]) for s in (-1.0, 1.0)])


def boxed(faces: Sequence[Array], beyond: Sequence[Array], r: Array, margin: Array) -> Array:
    """Signed distances from a box. `faces`, 2d arrays (k,), are signed distances from its planes, first those of the
    positive sides, and `beyond`, d arrays (k,), tells how far a point is out of each slab.

    The distance from a corner of a box has no normal there, and corners of stacked boxes lie on each other. So one face
    serves all points of a body: the one that separates the two best. Opposite to it the distance is that from its plane,
    up to a margin beyond its rim, farther out that from the nearest point.
    """
    d = len(beyond)
    best = jnp.argmax(jnp.stack([jnp.min(face - r) for face in faces]))
    plane, opposite = faces[0], jnp.ones(r.shape, bool)
    for k, face in enumerate(faces[1:], 1):
        plane = jnp.where(jnp.broadcast_to(best == k, r.shape), face, plane)
    for k, out in enumerate(beyond):
        across = jnp.broadcast_to(
            best % d == k, r.shape
        )  # a point beyond the other side of the box is opposite to that one
        opposite &= jnp.where(across, (out <= 0.0) | (plane > 0.0), out <= margin)
    return jnp.where(opposite, plane, norm(tuple(jnp.maximum(out, 0.0) for out in beyond))) - r


@dataclass(frozen=True, init=False)
class ConvexPolygon(Shape):
    """A convex polygon in the plane with the given corners, counter-clockwise, about the centre of mass.

    >>> ConvexPolygon([[-0.1, -0.1], [0.2, -0.1], [-0.1, 0.2]]).parameters()["corners"].shape
    (3, 2)
    """

    corners: tuple[tuple[float, float], ...]
    pointed: ClassVar[str] = "anywhere"
    dimensions: ClassVar[tuple[int, ...]] = (2,)

    def __init__(self, corners: Sequence[Sequence[Any]]):
        object.__setattr__(self, "corners", tuple(tuple(map(float, c)) for c in corners))

    def parameters(self) -> dict[str, Any]:
        x = np.asarray(self.corners, float)
        if x.ndim != 2 or x.shape[1] != 2 or len(x) < 3:
            raise MechanismError(f"ConvexPolygon: corners must be at least three points (x, y), got {self.corners}.")
        sides = np.roll(x, -1, axis=0) - x
        turns = sides[:, 0] * np.roll(sides, -1, axis=0)[:, 1] - sides[:, 1] * np.roll(sides, -1, axis=0)[:, 0]
        if not np.all(turns > 0.0):
            raise MechanismError("ConvexPolygon: corners must be convex and in counter-clockwise order.")
        return {"corners": x}

    def inertia(self, d: int) -> tuple[float, Any]:
        x = np.asarray(self.corners, float)
        y = np.roll(x, -1, axis=0)
        cross = x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0]
        area = 0.5 * float(np.sum(cross))
        middle = np.sum((x + y) * cross[:, None], axis=0) / (6.0 * area)
        if np.linalg.norm(middle) > 1e-9 * np.sqrt(area):
            raise MechanismError(
                f"ConvexPolygon: its centre of mass is at {middle}, but the origin of a body is its centre of mass. "
                "Shift the corners by that, or give mass and inertia."
            )
        return area, float(np.sum(cross * np.sum(x * x + x * y + y * y, axis=1))) / 12.0

    @classmethod
    def points(cls, v: Values, d: int) -> Points:
        return columns(v["corners"]), jnp.zeros_like(v["corners"][:, 0])

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        a = columns(v["corners"])
        side = tuple(jnp.roll(y, -1) - y for y in a)
        size = norm(side)
        along = times(1.0 / size, side)
        arm = tuple(y[:, None] - corner for y, corner in zip(x, a, strict=True))  # (k, sides)
        faces = arm[0] * along[1] - arm[1] * along[0]
        run = dot(arm, along)
        chosen = jnp.arange(size.shape[0]) == jnp.argmax(jnp.min(faces - r[:, None], axis=0))
        margin = MARGIN * jnp.max(size)
        above = (faces > -margin) & (run >= -margin) & (run <= size + margin)
        opposite = jnp.any(chosen & above, axis=1) | jnp.all(faces <= margin, axis=1)
        around = jnp.min(norm(minus(arm, times(jnp.clip(run, 0.0, size), along))), axis=1)
        return jnp.where(opposite, jnp.sum(jnp.where(chosen, faces, 0.0), axis=1), around) - r
