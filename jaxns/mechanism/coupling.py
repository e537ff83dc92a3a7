"""Couplings: the coordinate of a joint as a polynomial of another one, such as a gear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .coordinates import Coordinates, rounded
from .errors import MechanismError
from .frames import Frames, stack
from .joints import Joint
from .parts import Assembly


@dataclass(frozen=True)
class Coupling:
    """x = c_0 + c_1 y + c_2 y² + …: x is the coordinate of a `Revolute` or `Prismatic` joint, y that of another one.

    Joints go by name. Without `other` x has the value c_0. Angles count from the initial configuration; with
    coordinates="bodies" they are known up to full turns, so a coupling holds there while y stays in (−π, π).

    Parameters: "name.coefficients"; by default the name is that of both joints, "joint-other".

    >>> import jaxns as ns
    >>> gears = ns.Mechanism(
    ...     ns.Body("small", mass=1.0, inertia=0.01, position=(0.0, 0.0), spin=2.0),
    ...     ns.Body("large", mass=1.0, inertia=0.04, position=(0.3, 0.0), spin=-1.0),
    ...     ns.Revolute("ground", "small", at=(0.0, 0.0), name="pinion"),
    ...     ns.Revolute("ground", "large", at=(0.3, 0.0), name="wheel"),
    ...     ns.Coupling("wheel", "pinion", (0.0, -0.5)),
    ... )
    >>> gears.degrees_of_freedom
    1
    """

    joint: str
    other: str | None
    coefficients: Sequence[Any]
    _: KW_ONLY
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or (self.joint if self.other is None else f"{self.joint}-{self.other}")

    @property
    def owner(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    @property
    def joints(self) -> tuple[str, str]:
        """The joints whose coordinates it reads."""
        return self.joint, self.joint if self.other is None else self.other

    def read(self, assembly: Assembly) -> str:
        """The key of its coefficients."""
        c = np.asarray(self.coefficients, float)
        if c.ndim != 1 or not c.size or not np.all(np.isfinite(c)) or (self.other is None and c.size > 1):
            expected = "one finite number" if self.other is None else "finite numbers c_0, c_1, …"
            raise MechanismError(f"{self.owner}: coefficients must be {expected}, got {self.coefficients!r}.")
        return assembly.add(self.owner, self.label, {"coefficients": c})[0]


@dataclass(frozen=True)
class Couplings:
    """Rows `(q, p) -> (n,)`: x − polynomial(y) of all couplings."""

    coordinates: Coordinates  # all x, then all y
    keys: tuple[str, ...]

    def __call__(self, q: Array, p: Any) -> Array:
        n = len(self.keys)
        values = self.coordinates(q, p)
        x, y = values[:n], values[n:]
        most = max(p[key].shape[0] for key in self.keys)
        wide = {key: jnp.pad(p[key], (0, most - p[key].shape[0])) for key in self.keys}
        c = stack(wide, self.keys)
        wanted = c[:, most - 1]
        for k in reversed(range(most - 1)):  # Horner's rule
            wanted = wanted * y + c[:, k]
        return rounded(x - wanted, self.coordinates.wraps[:n])


def joint_of(owner: str, name: str, joints: Sequence[Joint], d: int) -> Joint:
    """The joint of this name, which has one coordinate."""
    found = [joint for joint in joints if joint.label == name]
    if len(found) != 1 or not found[0].coordinate[d - 2]:
        known = ", ".join(repr(joint.label) for joint in joints if joint.coordinate[d - 2]) or "none"
        raise MechanismError(f"{owner}: there is no Revolute or Prismatic joint {name!r}; there are {known}.")
    return found[0]


def couplings(
    frames: Frames, parts: Sequence[Coupling], joints: Sequence[Joint], assembly: Assembly
) -> Couplings | None:
    """The rows of all couplings."""
    if not parts:
        return None
    ends = [[joint_of(part.owner, part.joints[k], joints, assembly.d) for part in parts] for k in (0, 1)]
    rows = [joint.coordinate_row(assembly) for side in ends for joint in side]
    return Couplings(Coordinates.of(frames, rows), tuple(part.read(assembly) for part in parts))
