"""Geometries of MJCF: shapes, their places and masses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Shape, Sphere
from .elements import Element
from .meshes import Mesh, checked, mesh
from .mjcf_settings import Compiler, Defaults, to_z
from .model import Geom, Inertia, Place
from .names import Names
from .sources import Source
from .turns import rotation_of

SIZES = {"plane": 0, "sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3, "mesh": 0}
TYPES = (*SIZES, "hfield", "sdf")
SOFT = ("solref", "solimp", "solmix")  # of a softness that there is not
DENSITY = 1000.0


class Geoms:
    """Reads geometries, each with its inertia in the frame of its body."""

    def __init__(self, source: Source, compiler: Compiler, defaults: Defaults, names: Names, max_vertices: int):
        self.source, self.compiler, self.defaults, self.names = source, compiler, defaults, names
        self.max_vertices = max_vertices
        self.meshes: dict[str, Element] = {}
        self.colors: dict[str, str] = {}
        self.by_name: dict[str, Geom] = {}

    def read_assets(self, assets: Element) -> None:
        for element in assets.all("texture", "skin"):
            element.skip()
        for element in assets.all("material"):
            self.defaults.apply(element, "main")
            if element.has("rgba"):
                self.colors[element.text("name")] = element.color("rgba")
            element.skip()
        for element in assets.all("mesh"):
            self.defaults.apply(element, "main")
            given = element.text("file", "").replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
            name = element.text("name", given)
            if not name or name in self.meshes:
                raise element.error("a mesh needs a name of its own." if not name else f"mesh {name!r} is there twice.")
            self.meshes[name] = element
            element.hidden = True  # until it is used

    def read(self, element: Element, childclass: str, body: str, around: Place) -> tuple[Geom | None, Inertia]:
        """The geometry of an element in a frame of its body, and its inertia."""
        self.defaults.apply(element, childclass)
        element.skip("group", "user", "fitscale", *SOFT)
        kind = element.choice("type", TYPES, "mesh" if element.has("mesh") else "sphere")
        if kind not in SIZES or (kind != "mesh" and element.has("mesh")):
            self.source.note(f"type {kind!r} of <geom>" + " fitted to a mesh" * (kind in SIZES), element)
            element.skip()
            return None, Inertia()
        solid: Mesh | None = None
        if kind == "mesh":
            solid, place = self._mesh(element), self.compiler.place(element)
            shape: Shape = solid.shape(self.max_vertices)
        else:
            shape, place = self._shape(element, kind)
        place = around @ place
        geom = Geom(self._name(element, body), shape, place, element)
        self._surface(geom, element)
        if element.has("name"):
            self.by_name[element.text("name")] = geom
        return geom, self._inertia(element, shape, solid).seen(place)

    def _name(self, element: Element, body: str) -> str:
        if element.has("name"):
            return self.names.given(element.text("name"), element)
        return self.names.free(f"{body}:geom")

    def _surface(self, geom: Geom, element: Element) -> None:
        """What it meets, and how it looks."""
        geom.type_bits, geom.meets_bits = element.whole("contype", 1), element.whole("conaffinity", 1)
        geom.collides = bool(geom.type_bits or geom.meets_bits)
        geom.priority, dimension = element.whole("priority", 0), element.whole("condim", 3)
        geom.mu, geom.rough = friction(element, dimension, self.source)
        color = self.colors.get(element.text("material", ""))
        if element.has("rgba"):
            geom.visible = bool(element.numbers("rgba", (4,))[3] > 0.0)
            color = element.color("rgba")
        geom.color = color

    # Shapes ---------------------------------------------------------------------------------------------------------

    def _shape(self, element: Element, kind: str) -> tuple[Shape, Place]:
        sizes = element.numbers("size", (), np.zeros(0))
        if kind == "plane":
            return HalfSpace(), self.compiler.place(element)
        place, needed, half = None, SIZES[kind], None
        if element.has("fromto"):
            if kind == "sphere":
                raise element.error("fromto is for capsules, cylinders, ellipsoids and boxes.")
            ends = element.numbers("fromto", (6,))
            span = ends[:3] - ends[3:]
            half = 0.5 * float(np.linalg.norm(span))
            if half < 1e-10:
                raise element.error("fromto must be two different points.")
            place, needed = Place(0.5 * (ends[:3] + ends[3:]), to_z(0.5 * span / half)), needed - 1
        if len(sizes) < (1 if half is not None else needed) or not np.all(sizes[:needed] > 0.0):
            raise element.error(
                f"size of a {kind} must be {needed} positive numbers, got {element.text('size', '')!r}."
            )
        if half is not None:
            wide = sizes[:needed] if len(sizes) >= needed else np.repeat(sizes[0], needed)
            sizes = np.append(wide, half)
            element.skip("pos")
        return _made(kind, sizes), place if place is not None else self.compiler.place(element)

    def _mesh(self, element: Element) -> Mesh:
        name = element.text("mesh")
        if name not in self.meshes:
            raise element.error(f"there is no mesh {name!r}; there are {', '.join(map(repr, self.meshes)) or 'none'}.")
        asset = self.meshes[name]
        asset.hidden = False
        asset.skip("smoothnormal", "texcoord", "normal", "maxhullvert", "material", "content_type", "inertia")
        scale = asset.numbers("scale", (3,), np.ones(3))
        if not np.all(scale != 0.0):
            raise asset.error("scale must not be zero.")
        if asset.has("vertex"):
            points, faces = asset.numbers("vertex"), asset.numbers("face", (), np.zeros(0))
            if len(points) % 3 or len(faces) % 3 or np.any(faces != np.round(faces)):
                raise asset.error("vertex and face must be numbers in threes.")
            return checked(points.reshape(-1, 3) * scale, faces.astype(int).reshape(-1, 3), self.source, asset)
        file = asset.text("file")
        if self.compiler.strip:
            file = file.replace("\\", "/").rsplit("/", 1)[-1]
        found = mesh(asset, self.source, file, scale, self.compiler.folder or self.compiler.assets)
        if asset.has("refpos", "refquat"):
            turn = rotation_of(asset.direction("refquat", (1.0, 0.0, 0.0, 0.0), size=4))
            found.points = (found.points - scale * asset.numbers("refpos", (3,), np.zeros(3))) @ turn
        return found

    def _inertia(self, element: Element, shape: Shape, solid: Mesh | None) -> Inertia:
        """In the frame of the geometry."""
        mass = element.number("mass", least=0.0) if element.has("mass") else None
        density = element.number("density", DENSITY, least=0.0)
        if not shape.solid or mass == 0.0 or (mass is None and density == 0.0):
            return Inertia()
        if solid is not None:
            one = solid.inertia()
        else:
            volume, moments = shape.inertia(3)
            one = Inertia(volume, np.zeros(3), np.diag(moments))
        factor = density if mass is None else mass / one.mass
        return Inertia(factor * one.mass, one.center, factor * one.tensor)


def _made(kind: str, sizes: np.ndarray) -> Shape:
    """A shape from half sizes."""
    s: list[Any] = sizes.tolist()
    if kind == "sphere":
        return Sphere(s[0])
    if kind == "ellipsoid":
        return Ellipsoid(*s[:3])
    if kind == "box":
        return Box(*(2.0 * x for x in s[:3]))
    return (Capsule if kind == "capsule" else Cylinder)(radius=s[0], length=2.0 * s[1])


def friction(element: Element, dimension: int, source: Source) -> tuple[float, bool]:
    """The sliding coefficient, and whether there is friction at all."""
    values = element.numbers("friction", (1, 2, 3, 4, 5), np.ones(1))
    if np.any(values < 0.0):
        raise element.error(f"friction must be at least 0, got {element.text('friction')!r}.")
    if dimension not in (1, 3, 4, 6):
        raise element.error(f"condim must be 1, 3, 4 or 6, got {dimension}.")
    if dimension > 3:
        source.note(f"torsional and rolling friction (condim {dimension}) of <{element.tag}>", element)
    return float(values[0]), dimension > 1
