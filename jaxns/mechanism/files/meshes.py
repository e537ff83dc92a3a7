"""Meshes: STL and OBJ, and the convex hulls that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..errors import MechanismError
from ..shapes import ConvexPolyhedron
from ..shapes.polyhedron import hull_of, of_solid
from .elements import LARGEST, Element
from .model import Inertia
from .sources import Source

MAX_VERTICES = 32


@dataclass
class Mesh:
    """Points (n, 3) and triangles (m, 3), none if only the points are known."""

    points: np.ndarray
    triangles: np.ndarray
    source: Source
    element: Element

    def shape(self, max_vertices: int) -> ConvexPolyhedron:
        """The convex hull. If it has more vertices than that, those are left out that lie least outside of the others."""
        if max_vertices < 4:
            raise ValueError(f"max_vertices must be at least 4, got {max_vertices}.")
        corners, _ = self._hull()
        kept = corners
        if len(corners) > max_vertices:
            kept, depth = _fewer(corners, max_vertices)
            self.source.note(
                f"{len(corners) - max_vertices} of {len(corners)} vertices of a hull, up to {depth:.2g} m outside of it",
                self.element,
            )
        return ConvexPolyhedron(kept)

    def inertia(self) -> Inertia:
        """For density one: of the solid within the triangles, of the hull if they enclose none."""
        volume, center, tensor = (
            of_solid(self.points, self.triangles) if len(self.triangles) else of_solid(*self._hull())
        )
        if not volume > 0.0:
            volume, center, tensor = of_solid(*self._hull())
        return Inertia(volume, center, tensor)

    def _hull(self) -> tuple[np.ndarray, np.ndarray]:
        try:
            return hull_of(self.points)
        except MechanismError:
            raise self.element.error(f"the {len(self.points)} vertices of the mesh do not span a volume.") from None


def _fewer(corners: np.ndarray, number: int) -> tuple[np.ndarray, float]:
    """So many of the corners, the farthest one again and again, and how far outside of their hull the others lie."""
    spread = corners - corners.mean(axis=0)
    kept = [int(np.argmax(np.linalg.norm(spread, axis=1)))]
    span = np.zeros((0, 3))
    for _ in range(3):  # a tetrahedron to begin with
        arms = corners - corners[kept[0]]
        arms = arms - arms @ span.T @ span
        kept.append(int(np.argmax(np.linalg.norm(arms, axis=1))))
        span = np.vstack([span, arms[kept[-1]] / np.linalg.norm(arms[kept[-1]])])
    while True:
        points, triangles = hull_of(corners[kept])
        a, b, c = (points[triangles[:, k]] for k in range(3))
        normals = np.cross(b - a, c - a)
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        outside = np.max(corners @ normals.T - np.sum(a * normals, axis=1), axis=1)
        if len(kept) == number:
            return corners[kept], float(max(outside.max(), 0.0))
        kept.append(int(np.argmax(outside)))


def mesh(element: Element, source: Source, name: str, scale: np.ndarray, below: str = "") -> Mesh:
    """The mesh of a file."""
    suffix = name.lower().rsplit(".", 1)[-1]
    if suffix not in ("stl", "obj"):
        raise element.error(f"meshes are read from .stl and .obj files, got {name[:60]!r}.")
    data = source.bytes(name, element, below)
    try:
        points, triangles = _stl(data) if suffix == "stl" else _obj(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise element.error(f"{name[:60]!r} is no {suffix.upper()} file: {error}.") from None
    return checked(points * scale, triangles[:, ::-1] if np.prod(scale) < 0.0 else triangles, source, element)


def checked(points: np.ndarray, triangles: np.ndarray, source: Source, element: Element) -> Mesh:
    if len(points) < 4:
        raise element.error(f"a mesh has at least four vertices, got {len(points)}.")
    if not np.all(np.abs(points) <= LARGEST):
        raise element.error(f"vertices of the mesh must be finite numbers, at most {LARGEST:g}.")
    if triangles.size and not (triangles.min() >= 0 and triangles.max() < len(points)):
        raise element.error(f"faces of the mesh name vertices that are not there; there are {len(points)}.")
    return Mesh(points, triangles, source, element)


def _stl(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    if len(data) >= 84:
        number = int.from_bytes(data[80:84], "little")
        if len(data) == 84 + 50 * number:
            rows = np.frombuffer(data[84:], dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
            return _joined(rows["corners"].astype(float).reshape(-1, 3))
        if not data.lstrip().startswith(b"solid"):
            raise ValueError(
                f"its header announces {number} triangles, which take {84 + 50 * number} bytes; it has {len(data)}"
            )
    if not data.lstrip().startswith(b"solid"):
        raise ValueError("it begins neither with 'solid' nor with a binary header")
    lines = (line.split() for line in data.decode("utf-8", "replace").splitlines())
    corners = np.array([[float(x) for x in words[1:4]] for words in lines if words[:1] == ["vertex"]])
    if corners.ndim != 2 or corners.shape[1] != 3 or len(corners) % 3:
        raise ValueError("its triangles are not complete")
    return _joined(corners)


def _joined(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of triangles, three by three, as points that are there once."""
    points, index = np.unique(corners, axis=0, return_inverse=True)
    return points, index.reshape(-1, 3)


def _obj(text: str) -> tuple[np.ndarray, np.ndarray]:
    points: list[list[float]] = []
    triangles: list[tuple[int, int, int]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["v"]:
            if len(words) < 4:
                raise ValueError("a vertex has three coordinates")
            points.append([float(x) for x in words[1:4]])
        elif words[:1] == ["f"]:
            numbers = [int(word.split("/")[0]) for word in words[1:]]
            corners = [n - 1 if n > 0 else len(points) + n for n in numbers]
            triangles.extend((corners[0], *pair) for pair in pairwise(corners[1:]))
    return np.array(points).reshape(-1, 3), np.array(triangles, int).reshape(-1, 3)
