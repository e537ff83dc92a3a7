"""Bodies, and what all parts share: names, places, and the assembly that turns parts into parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import MechanismError, direction, number, vector
from .frames import GROUND, Frames
from .shapes import Shape

if TYPE_CHECKING:
    from .geometry import Geometry


@dataclass(frozen=True)
class Body:
    """A rigid body, by name, where it is at the beginning.

    Main arguments:

    - mass, and inertia about the centre of mass: in the plane a number; in space three principal moments or a tensor
      (3, 3). Left out, they follow from the shape with `density` (mass per area in the plane)
    - position of the centre of mass; `angle` in the plane, `orientation`, a unit quaternion (w, x, y, z), in space
    - velocity of the centre of mass, and `spin`: in the plane a number, in space the angular velocity in the body's basis

    With coordinates="joints" mass and inertia may be zero: a frame between two joints, which carries other bodies alone.

    Other arguments:

    - shape: from `jaxns.shapes`, for `Touch` and for drawings; its sizes are parameters: "box.size"
    - fixed: a body that does not move, such as a floor or a wall

    Parameters: "name.mass" and "name.inertia"; of a fixed body "name.position" and "name.angle" or "name.orientation".

    >>> import jaxns as ns
    >>> Body("box", shape=ns.shapes.Box(0.2, 0.1), density=100.0).name
    'box'
    """

    name: str
    mass: Any = None
    inertia: Any = None
    position: Any = None
    angle: Any = None
    orientation: Any = None
    velocity: Any = None
    spin: Any = None
    shape: Shape | None = None
    density: Any = None
    fixed: bool = False
    color: str | None = None

    @property
    def owner(self) -> str:
        return f"Body {self.name!r}"

    @property
    def massless(self) -> bool:
        """Whether it is a mere frame between joints, which has coordinates in those of joints alone."""
        if self.fixed or self.mass is None or self.inertia is None:
            return False
        return not np.any(np.asarray(self.mass)) and not np.any(np.asarray(self.inertia))

    def check(self, d: int) -> None:
        """Complain about what cannot be in a mechanism of dimension d."""
        if not isinstance(self.name, str) or not self.name or self.name == GROUND:
            raise MechanismError(f"{self.owner}: a name must be text other than 'ground', which is the world.")
        wrong = {2: ("orientation", "quaternion", "angle"), 3: ("angle", "number", "orientation")}[d]
        if getattr(self, wrong[0]) is not None:
            raise MechanismError(
                f"{self.owner}: {wrong[0]} is for {'spatial' if d == 2 else 'planar'} mechanisms; with {d} entries of "
                f"gravity give {wrong[2]}."
            )
        if self.shape is not None:
            if not isinstance(self.shape, Shape):
                raise MechanismError(f"{self.owner}: shape must be one of jaxns.shapes, got {self.shape!r}.")
            if d not in self.shape.dimensions:
                raise MechanismError(
                    f"{self.owner}: {type(self.shape).__name__} is no shape of {'the plane' if d == 2 else 'space'}."
                )
        if self.fixed and (self.velocity is not None or self.spin is not None):
            raise MechanismError(f"{self.owner}: a fixed body has neither velocity nor spin.")

    def pose(self, d: int) -> tuple[np.ndarray, Any]:
        """Position, and angle or unit quaternion."""
        position = vector(self.owner, "position", np.zeros(d) if self.position is None else self.position, (d,))
        if d == 2:
            return position, number(self.owner, "angle", 0.0 if self.angle is None else self.angle)
        turn = (1.0, 0.0, 0.0, 0.0) if self.orientation is None else self.orientation
        return position, direction(self.owner, "orientation", turn, 4)

    def motion(self, d: int) -> np.ndarray:
        """u (3,) or (6,)."""
        velocity = vector(self.owner, "velocity", np.zeros(d) if self.velocity is None else self.velocity, (d,))
        if d == 2:
            return np.append(velocity, number(self.owner, "spin", 0.0 if self.spin is None else self.spin))
        spin = vector(self.owner, "spin", np.zeros(3) if self.spin is None else self.spin, (3,))
        return np.concatenate([velocity, spin])

    def inertias(self, d: int) -> tuple[float, np.ndarray]:
        """Mass and inertia, as given or from the shape."""
        mass, inertia = self.mass, self.inertia
        if mass is None or inertia is None:
            if self.shape is None or not self.shape.solid or (mass is None) == (self.density is None):
                raise MechanismError(
                    f"{self.owner}: give mass and inertia; or a solid shape with either density or mass, from which they "
                    "follow."
                )
            self.shape.parameters()  # positive sizes
            volume, moments = self.shape.inertia(d)
            density = (
                number(self.owner, "density", self.density, positive=True) if mass is None else float(mass) / volume
            )
            mass = density * volume
            inertia = density * np.asarray(moments) if inertia is None else inertia
        elif self.density is not None:
            raise MechanismError(f"{self.owner}: density is given beside mass and inertia; leave one of them out.")
        inertia = np.asarray(inertia, float)
        if self.massless:
            return 0.0, inertia
        mass = number(self.owner, "mass", mass, positive=True)
        if inertia.shape not in ([()] if d == 2 else [(3,), (3, 3)]):
            expected = "a number" if d == 2 else "three principal moments or a tensor (3, 3)"
            raise MechanismError(f"{self.owner}: inertia must be {expected}, got shape {inertia.shape}.")
        tensor = inertia if inertia.ndim == 2 else np.diag(np.atleast_1d(inertia))
        if not np.allclose(tensor, tensor.T) or not np.all(np.linalg.eigvalsh(tensor) > 0.0):
            raise MechanismError(
                f"{self.owner}: inertia must be symmetric and positive definite, got {inertia.tolist()}."
            )
        return mass, inertia


@dataclass(frozen=True)
class Pair:
    """A part between the bodies a and b, either of which may be "ground". Its name is "a-b" by default."""

    a: str
    b: str
    _: KW_ONLY
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or f"{self.a}-{self.b}"

    @property
    def owner(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    def indices(self, assembly: Assembly) -> tuple[int, int]:
        """The frames of both bodies."""
        a, b = assembly.index(self.owner, self.a), assembly.index(self.owner, self.b)
        if a == b:
            raise MechanismError(f"{self.owner}: it joins {self.a!r} to itself.")
        if self.a not in assembly.frames.moving and self.b not in assembly.frames.moving:
            raise MechanismError(f"{self.owner}: neither {self.a!r} nor {self.b!r} can move.")
        return a, b


@dataclass
class Assembly:
    """What has been read of the parts so far: frames, initial poses, parameters."""

    frames: Frames
    bodies: dict[str, Body]
    params: dict[str, Any] = field(default_factory=dict)
    geometries: dict[str, Geometry] = field(default_factory=dict)

    @property
    def d(self) -> int:
        return self.frames.dimension

    def add(self, owner: str, name: str, values: dict[str, Any]) -> tuple[str, ...]:
        """Parameters of a part; returns their keys."""
        for key, value in values.items():
            if f"{name}.{key}" in self.params:
                raise MechanismError(
                    f"{owner}: parameter '{name}.{key}' is there twice; give the part a name= of its own."
                )
            self.params[f"{name}.{key}"] = value
        return tuple(f"{name}.{key}" for key in values)

    def index(self, owner: str, name: str) -> int:
        """The frame of a body."""
        if name != GROUND and name not in self.bodies:
            known = ", ".join(repr(n) for n in (*self.bodies, GROUND))
            raise MechanismError(f"{owner}: there is no body {name!r}; there are {known}.")
        return self.frames.index(name)

    def pose(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Initial position (d,) and rotation matrix (d, d)."""
        if name == GROUND:
            return np.zeros(self.d), np.eye(self.d)
        position, turn = self.bodies[name].pose(self.d)
        if self.d == 2:
            c, s = np.cos(turn), np.sin(turn)
            return position, np.array([[c, -s], [s, c]])
        return position, matrix_of(turn)

    def angle(self, name: str) -> float:
        return 0.0 if name == GROUND else float(self.bodies[name].pose(2)[1])

    def fixed_to(self, name: str, point: np.ndarray) -> np.ndarray:
        """A point of the initial configuration, in the frame of a body."""
        position, rotation = self.pose(name)
        return rotation.T @ (point - position)

    def turned_to(self, name: str, vector: np.ndarray) -> np.ndarray:
        """A vector of the initial configuration, in the basis of a body."""
        return self.pose(name)[1].T @ vector

    def in_world(self, name: str, point: np.ndarray) -> np.ndarray:
        position, rotation = self.pose(name)
        return position + rotation @ point


def ends(part: Any, assembly: Assembly) -> dict[str, np.ndarray]:
    """The points of a part with two ends, at_a and at_b in the world, as points of the bodies; by default the origins."""
    found = {}
    for side, body in (("a", part.a), ("b", part.b)):
        given = getattr(part, f"at_{side}")
        point = np.zeros(assembly.d)
        if given is not None:
            point = assembly.fixed_to(body, vector(part.owner, f"at_{side}", given, (assembly.d,)))
        found[f"point_{side}"] = point
    return found


def matrix_of(quaternion: np.ndarray) -> np.ndarray:
    """The rotation matrix of a unit quaternion."""
    w, v = quaternion[0], quaternion[1:]
    tilde = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    return np.eye(3) + 2.0 * (w * tilde + tilde @ tilde)


def quaternion_of(rotation: np.ndarray) -> np.ndarray:
    """A unit quaternion of a rotation matrix: the eigenvector of Bar-Itzhack's symmetric matrix (2000)."""
    R = rotation
    K = np.array([
        [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
        [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
        [R[0, 2] - R[2, 0], R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1]],
        [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1]],
    ])
    p = np.linalg.eigh(K)[1][:, -1]
    return p if p[0] >= 0.0 else -p


def frames_of(bodies: Sequence[Body], d: int, pads: int) -> Frames:
    names = [b.name for b in bodies]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise MechanismError(
            f"there are several bodies named {', '.join(map(repr, twice))}; a name belongs to one body."
        )
    moving = tuple(b.name for b in bodies if not b.fixed)
    return Frames(d, moving, tuple(b.name for b in bodies if b.fixed), pads)
