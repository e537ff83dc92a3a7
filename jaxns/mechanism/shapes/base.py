"""What all shapes have in common.

The origin is the centre of mass of the body. What the methods of a shape's kind return is in the frame of the body, and `v`
has the values of the shape's parameters: numbers as arrays (1,), which broadcast under `vmap` where scalars do not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from jax import Array

from ..errors import MechanismError, number
from ..frames import Vector

Points = tuple[Vector, Any]  # points, by components (k,), and their radii (k,)
Values = dict[str, Array]


@dataclass(frozen=True)
class Shape:
    """What all shapes have in common. A kind is a hashable object with the class methods below; mostly the class itself."""

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    whole: ClassVar[bool] = False  # whether its points are all of its surface, so that no other point can touch
    solid: ClassVar[bool] = True  # whether it has a mass
    pointed: ClassVar[str] = ""  # where its points can touch: "anywhere", "planes" alone, or nowhere
    measured: ClassVar[bool] = True  # whether it knows distances of others

    @property
    def kind(self) -> Any:
        return type(self)

    def parameters(self) -> dict[str, Any]:
        """Positive sizes, by name."""
        owner = type(self).__name__
        return {f.name: number(owner, f.name, getattr(self, f.name), positive=True) for f in fields(self)}

    def inertia(self, d: int) -> tuple[float, Any]:
        """Volume (area in the plane) and moments of inertia, for density one."""
        raise MechanismError(f"{type(self).__name__} has no mass of its own: give mass and inertia.")

    @classmethod
    def points(cls, v: Values, d: int) -> Points:
        """Points that may touch, each the middle of a ball with its radius."""
        raise NotImplementedError

    @classmethod
    def lowest(cls, v: Values, normal: Vector) -> Points:
        """Points that may touch a plane with this normal, which points towards the body."""
        return cls.points(v, len(normal))

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        """Signed distances (k,) of balls with middles x, by components (k,), and radii r (k,)."""
        raise NotImplementedError
