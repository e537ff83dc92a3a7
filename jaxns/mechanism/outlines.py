"""What shapes look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from .shapes import Box, Capsule, ConvexPolygon, Cylinder, Disk, Ellipse, Ellipsoid, HalfSpace, Shape, Sphere
from .shapes.base import Values
from .shapes.flat import corner_signs
from .shapes.polyhedron import PolyhedronKind

FACES = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]])  # of a cuboid
FAR = 20.0  # reach of a half-space, in sizes of the mechanism


def outlines(kind: Any, v: Values, position: Array, rotation: Array, color: str, size: float) -> list[scene.Path]:
    """Paths of a shape whose body is at a position (d,) with the rotation matrix (d, d)."""
    d = position.shape[0]
    if kind is HalfSpace:
        return _plane(position, rotation, size) if d == 2 else [_tiles(position, rotation, size)]
    if d == 2:
        points = _PLANE[kind](v) if kind in _PLANE else None
        return [] if points is None else [scene.polygon(position + points @ rotation.T, color=color)]
    if kind is Box:
        corners = position + (0.5 * v["size"] * corner_signs(3)) @ rotation.T
        return [scene.polygon(corners[FACES], color=color, width=1.0)]
    if isinstance(kind, PolyhedronKind):
        corners = position + v["corners"] @ rotation.T
        return [scene.polygon(corners[np.asarray(kind.faces)], color=color, width=0.5)]
    profile = _SPACE[kind](v) if kind in _SPACE else None
    if profile is None:
        return []
    if kind is Ellipsoid:
        rotation = rotation * v["semi_axes"]
    return list(scene.revolution(profile, position, rotation, (color, "paper")))


def reach(shape: Shape) -> float:
    """How far a shape extends from its origin, about."""
    values = [np.abs(np.asarray(x, float)).max() for x in shape.parameters().values()]
    return float(max(values, default=0.0))


def _plane(position: Array, rotation: Array, size: float) -> list[scene.Path]:
    along, up = FAR * size * rotation[:, 0], FAR * size * rotation[:, 1]
    return [scene.ground(jnp.stack([position - along, position + along]), -up)]


def _tiles(position: Array, rotation: Array, size: float) -> scene.Path:
    grid = scene.grid(size)
    return scene.Path(position + grid.points @ rotation.T, color="ground", width=0.75, ground=True)


def _circle(number: int = 33) -> np.ndarray:
    angles = np.linspace(0.0, 2.0 * np.pi, number)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _disk(v: Values) -> Array:
    return v["radius"] * np.concatenate([_circle(), np.zeros((1, 2))])  # the spoke shows that it turns


def _stadium(v: Values) -> Array:
    half = _circle(33)[:17]  # the upper half, turned to the right
    right = half @ np.array([[0.0, -1.0], [1.0, 0.0]])
    shift = 0.5 * v["length"] * np.array([1.0, 0.0])
    return jnp.concatenate([v["radius"] * right + shift, -v["radius"] * right - shift])


def _ellipse(v: Values) -> Array:
    return v["semi_axes"] * np.concatenate([_circle(), np.zeros((1, 2))])


_PLANE: dict[Any, Callable[[Values], Array]] = {
    Disk: _disk,
    Capsule: _stadium,
    Box: lambda v: 0.5 * v["size"] * corner_signs(2),
    Ellipse: _ellipse,
    ConvexPolygon: lambda v: v["corners"],
}


def _arc() -> np.ndarray:
    polar = np.pi * np.arange(11) / 10
    return np.column_stack([np.sin(polar), np.cos(polar)])


def _pill(v: Values) -> Array:
    shift = np.sign(np.linspace(1.0, -1.0, 12))[:, None] * np.array([0.0, 0.5]) * v["length"]
    arc = np.concatenate([_arc()[:6], _arc()[5:]])
    return v["radius"] * arc + shift


def _can(v: Values) -> Array:
    r, h = v["radius"], 0.5 * v["length"]
    zero = jnp.zeros_like(r)
    return jnp.stack([jnp.stack([zero, h]), jnp.stack([r, h]), jnp.stack([r, -h]), jnp.stack([zero, -h])])


_SPACE: dict[Any, Callable[[Values], Array]] = {
    Sphere: lambda v: v["radius"] * _arc(),
    Capsule: _pill,
    Cylinder: _can,
    Ellipsoid: lambda v: jnp.asarray(_arc()),
}
