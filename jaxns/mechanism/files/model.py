"""What both formats say: links with their inertias, joints and geometries, as plain data in the frames of links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..shapes import Shape
from .elements import Element


@dataclass
class Place:
    """Position (3,) and rotation matrix (3, 3) of a frame, seen from another one."""

    position: np.ndarray = field(default_factory=lambda: np.zeros(3))
    rotation: np.ndarray = field(default_factory=lambda: np.eye(3))

    def __matmul__(self, other: Place) -> Place:
        return Place(self.position + self.rotation @ other.position, self.rotation @ other.rotation)

    def point(self, x: np.ndarray) -> np.ndarray:
        return self.position + self.rotation @ x


@dataclass
class Inertia:
    """Mass, centre of mass (3,) and inertia about it (3, 3), in the axes of one frame."""

    mass: float = 0.0
    center: np.ndarray = field(default_factory=lambda: np.zeros(3))
    tensor: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))

    def seen(self, place: Place) -> Inertia:
        """The same, seen from the frame in which its own frame has a place."""
        R = place.rotation
        return Inertia(self.mass, place.point(self.center), R @ self.tensor @ R.T)

    def __add__(self, other: Inertia) -> Inertia:
        mass = self.mass + other.mass
        if mass == 0.0:
            return Inertia()
        center = (self.mass * self.center + other.mass * other.center) / mass
        return Inertia(mass, center, sum((one.about(center) for one in (self, other)), np.zeros((3, 3))))

    def about(self, point: np.ndarray) -> np.ndarray:
        """Inertia about a point (3, 3)."""
        r = self.center - point
        return self.tensor + self.mass * (r @ r * np.eye(3) - np.outer(r, r))


def check_tensor(element: Element, tensor: np.ndarray) -> None:
    """Complain about inertia that no body has."""
    moments = np.linalg.eigvalsh(tensor)
    if not moments[0] > 0.0:
        raise element.error(f"inertia must be positive definite; its principal moments are {moments.tolist()}.")
    if moments[0] + moments[1] < moments[2] * (1.0 - 1e-6):
        raise element.error(
            f"of principal moments of inertia none exceeds the sum of the others; they are {moments.tolist()}."
        )


@dataclass
class Geom:
    """A shape on a link; mu is None where it has no friction."""

    name: str
    shape: Shape
    place: Place
    element: Element
    collides: bool = True
    visible: bool = True
    color: str | None = None
    mu: float = 0.0
    rough: bool = True  # whether it has friction at all
    priority: int = 0
    type_bits: int = 1  # it meets shapes whose bits it has among those of its own
    meets_bits: int = 1

    def meets(self, other: Geom) -> bool:
        return bool(self.type_bits & other.meets_bits or other.type_bits & self.meets_bits)


@dataclass
class JointData:
    """A joint by which a link moves against what carries it. `start` is its coordinate in the given configuration."""

    name: str
    kind: str  # "hinge", "slide", "ball" or "free"
    element: Element
    point: np.ndarray = field(default_factory=lambda: np.zeros(3))
    axis: np.ndarray = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    start: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)  # limits, stiffness, rest, damping, armature, friction

    @property
    def sizes(self) -> tuple[int, int]:
        """Its entries in q and u."""
        return {"free": (7, 6), "ball": (4, 3)}.get(self.kind, (1, 1))


@dataclass
class LinkData:
    """A link; its place is that of its frame, seen from its parent, the world if there is none."""

    name: str
    parent: LinkData | None
    place: Place
    element: Element
    inertia: Inertia = field(default_factory=Inertia)
    joints: list[JointData] = field(default_factory=list)
    geoms: list[Geom] = field(default_factory=list)

    @property
    def moves(self) -> bool:
        return bool(self.joints) or (self.parent is not None and self.parent.moves)

    @property
    def in_world(self) -> Place:
        return self.place if self.parent is None else self.parent.in_world @ self.place

    @property
    def rigid(self) -> LinkData:
        """The link whose joints it moves with."""
        return self if self.joints or self.parent is None else self.parent.rigid


PartMaker = Callable[[Callable[[LinkData | None], str]], Any]  # a part, given the body that carries a link


@dataclass
class ModelData:
    """A whole file: links, parents before children; further parts of the mechanism with their elements."""

    links: list[LinkData]
    gravity: np.ndarray
    world: list[Geom] = field(default_factory=list)  # shapes on the ground
    parts: list[tuple[PartMaker, Element]] = field(
        default_factory=list
    )  # couplings, actuators, joints that close loops
    pairs: list[tuple[Geom, Geom, float | None]] = field(default_factory=list)  # what can touch, with its mu
    state: tuple[np.ndarray, np.ndarray] | None = None  # in the coordinates of joints, as the format has them

    @property
    def joints(self) -> list[JointData]:
        return [joint for link in self.links for joint in link.joints]
