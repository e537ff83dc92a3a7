"""Drawings of mechanisms: bodies with their shapes, bars between joints, springs, contacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import scene
from ..model.rotation import rotation_matrix
from .contacts import Gaps, frames_of_contacts, joined
from .forces import Damper, Spring
from .frames import GROUND, Frames, Poses, columns
from .geometry import Geometry
from .joints import Joint
from .outlines import outlines, reach
from .parts import Assembly, Body

COLORS = ("blue", "orange", "green", "purple", "red")


@dataclass(frozen=True)
class Drawing:
    """`draw(t, q, p) -> Scene` of a mechanism; `size` is its length at the beginning."""

    frames: Frames
    shapes: tuple[tuple[int, Any, tuple[tuple[str, str], ...], str, Any, Any], ...]  # frame, kind, sizes, color, place
    links: tuple[tuple[int, tuple[str, ...], str], ...]  # frame of a body without shape, keys of its points, color
    pins: tuple[tuple[int, str], ...]
    supports: tuple[str, ...]  # points of the ground
    springs: tuple[tuple[int, str, int, str], ...]
    gaps: tuple[Gaps, ...]
    size: float

    @classmethod
    def of(cls, frames: Frames, parts: Sequence[Any], assembly: Assembly, gaps: tuple[Gaps, ...]) -> Drawing:
        ends = _ends(frames, parts, assembly)
        shapes: list[Any] = []
        links, k, colors = [], 0, {}
        placed = {part.body for part in parts if isinstance(part, Geometry)}
        for body in (part for part in parts if isinstance(part, Body)):
            color = body.color or ("ground" if body.fixed else COLORS[k % len(COLORS)])
            k += not body.fixed
            colors[body.name] = color
            if body.shape is not None:
                sizes = tuple((name, f"{body.name}.{name}") for name in body.shape.parameters())
                shapes.append((frames.index(body.name), body.shape.kind, sizes, color, None, None))
            elif not body.fixed and body.name not in placed:
                own = tuple(key for name, key in ends if name == body.name)
                links.append((frames.index(body.name), own, color))
        for part in (part for part in parts if isinstance(part, Geometry) and part.visible):
            sizes = tuple((name, f"{part.name}.{name}") for name in part.shape.parameters())
            color = part.color or colors.get(part.body, "ground")
            place = f"{part.name}.point", f"{part.name}.turn"
            shapes.append((frames.index(part.body), part.shape.kind, sizes, color, *place))
        pins = tuple((frames.index(name), key) for name, key in ends if name != GROUND)
        springs = tuple(
            (frames.index(s.a), f"{s.label}.point_a", frames.index(s.b), f"{s.label}.point_b")
            for s in parts
            if isinstance(s, (Spring, Damper))
        )
        supports = tuple(key for name, key in ends if name == GROUND)
        return cls(frames, tuple(shapes), tuple(links), pins, supports, springs, gaps, _size(parts, assembly, ends))

    def __call__(self, t: Array, q: Array, p: Any) -> scene.Scene:
        poses = self.frames.poses(q, p)
        paths: list[scene.Path] = []
        ordered = sorted(self.shapes, key=lambda shape: shape[0] < len(self.frames.moving))  # what is fixed first
        for k, kind, sizes, color, point, turn in ordered:
            v = {name: p[key] for name, key in sizes}
            center, axes = poses.at(k)
            if point is not None:
                center = center + axes @ p[point]
                axes = axes @ _rotation(p[turn])
            paths.extend(outlines(kind, v, center, axes, color, self.size))
        thickness = 0.03 * self.size
        flat = self.frames.dimension == 2
        if flat:
            paths.extend(scene.support(p[key], 2.5 * thickness) for key in self.supports)
        for k, keys, color in self.links:
            points = self._points(poses, [(k, key) for key in keys], p)
            center, rotation = poses.at(k)
            if len(keys) == 2 and flat:
                paths.append(scene.bar(points[0], points[1], thickness, color=color))
            else:
                for point in points:
                    paths.append(scene.line(jnp.stack([center, point]), color=color, width=4.0))
                if flat:
                    paths.append(scene.circle(center, thickness, color=color))
                else:
                    paths.append(scene.ring(center, thickness, rotation, color=color))
        for a, key_a, b, key_b in self.springs:
            first, second = self._points(poses, [(a, key_a), (b, key_b)], p)
            spring = scene.spring(first, second, 2.0 * thickness) if flat else scene.line(jnp.stack([first, second]))
            paths.append(spring)
        if self.pins and flat:
            paths.append(scene.circle(self._points(poses, self.pins, p), 0.25 * thickness, color="paper"))
        if not self.gaps:
            return scene.Scene(paths)
        found = [frames_of_contacts(gaps, q, p) for gaps in self.gaps]
        return scene.Scene(paths, *(joined([f[k] for f in found]) for k in range(3)))

    @staticmethod
    def _points(poses: Poses, members: Sequence[tuple[int, str]], p: Any) -> Array:
        """Points of bodies in the world (n, d)."""
        if not members:
            return jnp.zeros((0, len(poses.position)))
        points = columns(jnp.stack([p[key] for _, key in members]))
        return jnp.stack(poses.pick([k for k, _ in members]).placed(points), axis=1)


def _rotation(turn: Array) -> Array:
    """The rotation matrix of an angle or a quaternion."""
    if turn.ndim == 1:
        return rotation_matrix(turn)
    c, s = jnp.cos(turn), jnp.sin(turn)
    return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])


def _ends(frames: Frames, parts: Sequence[Any], assembly: Assembly) -> list[tuple[str, str]]:
    """Bodies and keys of the points of joints."""
    found = []
    for part in parts:
        if isinstance(part, Joint):
            for name, side in ((part.a, "a"), (part.b, "b")):
                if f"{part.label}.point_{side}" in assembly.params:
                    found.append((name, f"{part.label}.point_{side}"))
    return found


def _size(parts: Sequence[Any], assembly: Assembly, ends: Sequence[tuple[str, str]]) -> float:
    """The extent of what moves at the beginning."""
    points = [assembly.in_world(name, np.asarray(assembly.params[key])) for name, key in ends]
    largest = 0.0
    for body in (part for part in parts if isinstance(part, Body) and not part.fixed):
        points.append(body.pose(assembly.d)[0])
        if body.shape is not None:
            largest = max(largest, reach(body.shape))
    for part in (part for part in parts if isinstance(part, Geometry) and part.shape.solid):
        if part.body in assembly.frames.moving:
            points.append(assembly.in_world(part.body, assembly.params[f"{part.name}.point"]))
            largest = max(largest, reach(part.shape))
    spread = np.ptp(np.asarray(points), axis=0).max() if points else 0.0
    return float(spread + 2.0 * largest) or 1.0
