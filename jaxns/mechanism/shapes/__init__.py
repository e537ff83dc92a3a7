"""Shapes of bodies: their sizes are parameters, and they know points of theirs and the signed distance of other points."""

from .base import Shape
from .flat import Box, ConvexPolygon, HalfSpace
from .polyhedron import ConvexPolyhedron
from .round import Bore, Capsule, Cylinder, Disk, Ellipse, Ellipsoid, Sphere
from .surface import Surface

__all__ = [
    "Bore",
    "Box",
    "Capsule",
    "ConvexPolygon",
    "ConvexPolyhedron",
    "Cylinder",
    "Disk",
    "Ellipse",
    "Ellipsoid",
    "HalfSpace",
    "Shape",
    "Sphere",
    "Surface",
]
