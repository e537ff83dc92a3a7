"""Shapes on bodies, several on one and anywhere on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import MechanismError, direction, number, vector
from .frames import GROUND
from .parts import Assembly, Body, matrix_of, quaternion_of
from .shapes import Shape


@dataclass(frozen=True)
class Geometry:
    """A shape on a body or on the ground, besides that of the body itself, by a name of its own: for `Touch`, for drawings.

    - at: its origin, in the world and the initial configuration, by default the body's centre of mass
    - angle in the plane; orientation in space, a unit quaternion (w, x, y, z): of its axes in the world, by default those
      of the body
    - visible: whether drawings show it

    It may have the name of a body that has no shape itself.

    Parameters: "name.point" and "name.turn", its place on the body (an angle in the plane, a quaternion in space), and the
    sizes of its shape, such as "name.radius".

    >>> import jaxns as ns
    >>> dumbbell = ns.Mechanism(
    ...     ns.Body("rod", mass=1.0, inertia=0.1, position=(0.0, 0.3)),
    ...     ns.Geometry("left", "rod", ns.shapes.Disk(0.1), at=(-0.5, 0.3)),
    ...     ns.Geometry("right", "rod", ns.shapes.Disk(0.1), at=(0.5, 0.3)),
    ...     ns.Body("floor", fixed=True, shape=ns.shapes.HalfSpace()),
    ...     ns.Touch("left", "floor"),
    ...     ns.Touch("right", "floor"),
    ... )
    >>> [round(float(gap), 12) for gap in dumbbell.system.g_N(0.0, dumbbell.q0)]
    [0.2, 0.2]
    """

    name: str
    body: str
    shape: Shape
    at: Any = None
    angle: Any = None
    orientation: Any = None
    visible: bool = True
    color: str | None = None

    @property
    def owner(self) -> str:
        return f"Geometry {self.name!r}"

    def read(self, assembly: Assembly) -> None:
        """Check it and add its parameters."""
        d = assembly.d
        body = assembly.bodies.get(self.name)
        if (body is not None and body.shape is not None) or self.name in assembly.geometries or self.name == GROUND:
            raise MechanismError(f"{self.owner}: this name belongs to another shape already.")
        assembly.index(self.owner, self.body)
        Body(self.name, shape=self.shape, angle=self.angle, orientation=self.orientation).check(d)
        position, rotation = assembly.pose(self.body)
        at = position if self.at is None else vector(self.owner, "at", self.at, (d,))
        if d == 2:
            own = assembly.angle(self.body)
            turn: Any = 0.0 if self.angle is None else number(self.owner, "angle", self.angle) - own
        else:
            given = None if self.orientation is None else direction(self.owner, "orientation", self.orientation, 4)
            turn = quaternion_of(np.eye(3) if given is None else rotation.T @ matrix_of(given))
        point = assembly.fixed_to(self.body, at)
        assembly.add(self.owner, self.name, {"point": point, "turn": turn, **self.shape.parameters()})
        assembly.geometries[self.name] = self


class Solid(NamedTuple):
    """A shape on a body: the name under which its sizes are parameters, and the keys of its place if it has one."""

    body: str
    shape: Shape
    label: str
    point: str | None
    turn: str | None


def solid_of(assembly: Assembly, owner: str, name: str) -> Solid:
    """A shape by its own name or that of its body."""
    geometry = assembly.geometries.get(name)
    if geometry is not None:
        return Solid(geometry.body, geometry.shape, name, f"{name}.point", f"{name}.turn")
    assembly.index(owner, name)
    shape = assembly.bodies[name].shape if name in assembly.bodies else None
    if shape is None:
        raise MechanismError(
            f"{owner}: {name!r} has no shape; give it shape=…"
            + (", on a fixed body of its own." if name not in assembly.bodies else ".")
        )
    return Solid(name, shape, name, None, None)
