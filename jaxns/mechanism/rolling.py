"""Constraints on velocity level: blades that do not slip sideways, wheels that roll."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from .contacts import Slips
from .coordinates import columns
from .errors import MechanismError, direction, vector
from .forces import moved
from .frames import Frames, dot, perpendicular, stack, unit
from .parts import Assembly, Pair


@dataclass(frozen=True)
class Rolling(Pair):
    """A round body that stays on another one and rolls on it without slip: a disk, a sphere.

    Between the shapes of a and b, which must have a single contact; nothing lifts it off.

    >>> import jaxns as ns
    >>> wheel = ns.Mechanism(
    ...     ns.Body("wheel", mass=1.0, position=(0.0, 0.5), velocity=(1.0, 0.0), spin=-2.0, shape=ns.shapes.Disk(0.5)),
    ...     ns.Body("road", fixed=True, shape=ns.shapes.HalfSpace()),
    ...     ns.Rolling("wheel", "road"),
    ... )
    >>> wheel.degrees_of_freedom
    1
    """

    _: KW_ONLY
    points: Any = None


@dataclass(frozen=True)
class Skate:
    """In the plane: a blade on a body, whose point moves along the blade alone.

    - at: the point, direction: that of the blade, both in the initial configuration

    Parameters: "body-skate.point", "body-skate.direction", in the frame of the body.

    >>> Skate("sled", at=(0.0, 0.0), direction=(1.0, 0.0)).label
    'sled-skate'
    """

    body: str
    at: Any
    direction: Any
    _: KW_ONLY
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or f"{self.body}-skate"

    @property
    def owner(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    def read(self, assembly: Assembly) -> tuple[int, str, str]:
        """Frame, and keys of point and direction."""
        index = moved(self, assembly)
        if assembly.d != 2:
            raise MechanismError(f"{self.owner}: blades are for planar mechanisms.")
        point = assembly.fixed_to(self.body, vector(self.owner, "at", self.at, (2,)))
        along = assembly.turned_to(self.body, direction(self.owner, "direction", self.direction, 2))
        keys = assembly.add(self.owner, self.label, {"point": point, "direction": along})
        return index, keys[0], keys[1]


@dataclass(frozen=True)
class VelocityConstraint:
    """`velocity_constraint(t, q, u, p) -> (n_γ,)`."""

    frames: Frames
    skates: tuple[tuple[int, str, str], ...]
    rolling: Slips | None

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        found = []
        if self.skates:
            poses = self.frames.poses(q, p)
            index = [k for k, _, _ in self.skates]
            own = poses.pick(index)
            arm = own.turned(columns(stack(p, [point for _, point, _ in self.skates])))
            (side,) = perpendicular(unit(columns(stack(p, [along for _, _, along in self.skates]))))
            velocity = self.frames.motion(u, poses, p).pick(index).of_points(arm)
            found.append(dot(own.turned(side), velocity))
        if self.rolling is not None:
            found.append(self.rolling(t, q, u, p).reshape(-1))
        return found[0] if len(found) == 1 else jnp.concatenate(found)
