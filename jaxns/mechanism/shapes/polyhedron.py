"""Convex polyhedra in space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import MechanismError
from ..frames import Vector, columns, cross, dot, minus, norm, times, unit
from .base import Points, Shape, Values
from .flat import MARGIN


@dataclass(frozen=True, init=False)
class ConvexPolyhedron(Shape):
    """The convex hull of points in space, about the centre of mass.

    Like a `Box` it touches with its corners, and others touch its faces; edges that cross do not touch.

    >>> tetrahedron = ConvexPolyhedron([[0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1], [-0.1, -0.1, -0.1]])
    >>> tetrahedron.parameters()["corners"].shape
    (4, 3)
    """

    corners: tuple[tuple[float, float, float], ...]
    faces: tuple[tuple[int, int, int], ...]  # corners of triangles, counter-clockwise from outside
    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def __init__(self, points: Any):
        x = np.asarray(points, float)
        if x.ndim != 2 or x.shape[1] != 3 or not np.all(np.isfinite(x)):
            raise MechanismError(f"ConvexPolyhedron: points must be finite numbers (n, 3), got shape {x.shape}.")
        corners, faces = hull_of(x)
        object.__setattr__(self, "corners", tuple(map(tuple, corners.tolist())))
        object.__setattr__(self, "faces", tuple(map(tuple, faces.tolist())))

    @property
    def kind(self) -> Any:
        return PolyhedronKind(self.faces)

    def parameters(self) -> dict[str, Any]:
        return {"corners": np.asarray(self.corners)}

    def inertia(self, d: int) -> tuple[float, Any]:
        corners = np.asarray(self.corners)
        volume, center, tensor = of_solid(corners, np.asarray(self.faces))
        if np.linalg.norm(center) > 1e-9 * volume ** (1 / 3):
            raise MechanismError(
                f"ConvexPolyhedron: its centre of mass is at {center}, but the origin of a body is its centre of mass. "
                "Shift the points by that, or give mass and inertia."
            )
        return volume, tensor


def hull_of(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the convex hull (n, 3) and its triangles (m, 3), counter-clockwise seen from outside."""
    from scipy.spatial import ConvexHull, QhullError  # a quarter of a second, which few need

    try:
        hull = ConvexHull(points)
    except (QhullError, ValueError):
        raise MechanismError("ConvexPolyhedron: the points do not span a volume.") from None
    place = np.full(len(points), -1)
    place[hull.vertices] = np.arange(len(hull.vertices))
    a, b, c = (points[hull.simplices[:, k]] for k in range(3))
    outward = np.sum(np.cross(b - a, c - a) * hull.equations[:, :3], axis=1) > 0.0
    triangles = np.where(outward[:, None], hull.simplices, hull.simplices[:, ::-1])
    return points[hull.vertices], place[triangles]


def of_solid(points: np.ndarray, triangles: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume, centre of mass and inertia about it, for density one: a sum over tetrahedra with the origin."""
    middle = points.mean(axis=0)  # close to them the sum loses no digits
    a, b, c = (points[triangles[:, k]] - middle for k in range(3))
    volumes = np.sum(a * np.cross(b, c), axis=1) / 6.0
    volume = float(volumes.sum())
    if volume == 0.0:
        return 0.0, middle, np.zeros((3, 3))
    center = (volumes[:, None] * (a + b + c)).sum(axis=0) / (4.0 * volume)
    sums = a + b + c
    squares = sum(np.einsum("ki,kj->kij", x, x) for x in (a, b, c, sums))
    second = np.einsum("k,kij->ij", volumes, squares) / 20.0 - volume * np.outer(center, center)
    return volume, middle + center, np.trace(second) * np.eye(3) - second


@dataclass(frozen=True)
class PolyhedronKind:
    """Polyhedra with the same triangles."""

    faces: tuple[tuple[int, int, int], ...]
    whole: ClassVar[bool] = False
    pointed: ClassVar[str] = "anywhere"
    measured: ClassVar[bool] = True

    def points(self, v: Values, d: int) -> Points:
        return columns(v["corners"]), jnp.zeros_like(v["corners"][:, 0])

    def lowest(self, v: Values, normal: Vector) -> Points:
        return self.points(v, 3)

    def distance(self, v: Values, x: Vector, r: Array) -> Array:
        """As of a box: the plane that separates both bodies best serves all points opposite to it; others have the
        distance from the nearest triangle or edge."""
        a, b, c = (columns(v["corners"][np.asarray(self.faces)[:, k]]) for k in range(3))
        normal = unit(cross(minus(b, a), minus(c, a)))
        from_corner = [
            tuple(y[:, None] - corner for y, corner in zip(x, corners, strict=True)) for corners in (a, b, c)
        ]
        above = dot(from_corner[0], normal)  # (points, faces)
        chosen = jnp.argmax(jnp.min(above - r[:, None], axis=0))
        picked = jnp.arange(above.shape[1]) == chosen
        plane = jnp.sum(jnp.where(picked, above, 0.0), axis=1)
        along = tuple(jnp.sum(jnp.where(picked, n, 0.0)) for n in normal)
        shadow = above - plane[:, None] * sum(n * m for n, m in zip(normal, along, strict=True))
        margin = MARGIN * jnp.max(jnp.abs(v["corners"]))
        opposite = jnp.all(shadow <= margin, axis=1) | jnp.all(above <= margin, axis=1)
        return jnp.where(opposite, plane, _around(from_corner, (a, b, c), normal, above)) - r


def _around(arms: Sequence[Vector], corners: Sequence[Vector], normal: Vector, above: Array) -> Array:
    """Distances (k,) from the nearest triangle, of points outside."""
    inside = jnp.ones(above.shape, bool)
    nearest = jnp.full(above.shape, jnp.inf)
    for k in range(3):
        arm, side = arms[k], minus(corners[(k + 1) % 3], corners[k])
        inside &= dot(cross(side, arm), normal) >= 0.0
        share = jnp.clip(dot(arm, side) / dot(side, side), 0.0, 1.0)
        nearest = jnp.minimum(nearest, norm(minus(arm, times(share, side))))
    return jnp.min(jnp.where(inside, jnp.abs(above), nearest), axis=1)
