"""Joints, as rows of a few kinds: a joint says which it has, and `constraints.py` evaluates all rows of a kind at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from .errors import MechanismError, direction, number, vector
from .frames import perpendicular
from .parts import Assembly, Pair, ends, quaternion_of


class Row(NamedTuple):
    """One member of a kind of rows: its frames and the parameters that it reads."""

    kind: str
    a: int
    b: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Joint(Pair):
    """A joint between the bodies a and b, either of which may be "ground", at a point of the initial configuration.

    - at: the point, in the world. Instead, `point_a` and `point_b` are the joint's points in the frames of the bodies; what
      does not meet then is moved together (`jaxns.consistent`)

    What a `Revolute` or `Prismatic` joint can have, in terms of its coordinate (angle or shift, zero at the beginning):

    - drive: the coordinate as a function `(t)` or `(t, p)`, or a `Signal`
    - motor: a torque or force, as a number, a `Signal` or a function `(t, coordinate, rate, p)`
    - limits: (low, high), contacts with the restitution e_N
    - friction: a bound on its torque or force, set-valued, whatever the joint carries
    - stiffness and rest: a spring along the coordinate, without load at `rest`; damping, also of a `Spherical` joint
    - armature: inertia along the coordinate, of a rotor behind its gear

    What a `Revolute` joint in the plane and a `Spherical` one in space can have:

    - clearance: how far the journal on b, of the given `radius`, can move in its bearing on a; with impact and friction by
      e_N, e_F, mu

    With loop=True the joint stays a constraint in minimal coordinates, where it would else be a link of the tree.

    Parameters: "name.point_a" and "name.point_b" in the frames of the bodies, "name.motor", "name.low", "name.high",
    "name.friction", "name.stiffness", "name.rest", "name.damping", "name.armature", "name.clearance", "name.radius",
    "name.e_N", "name.e_F", "name.mu", as far as they are given.
    """

    at: Any = None
    _: KW_ONLY
    point_a: Any = None
    point_b: Any = None
    drive: Any = None
    motor: Any = None
    limits: Any = None
    friction: Any = None
    stiffness: Any = None
    rest: Any = 0.0
    damping: Any = None
    armature: Any = None
    loop: bool = False
    clearance: Any = None
    radius: Any = None
    e_N: Any = 0.0
    e_F: Any = 0.0
    mu: Any = 0.0

    dimensions: ClassVar[tuple[int, ...]] = (2, 3)
    link: ClassVar[str] = ""  # what it is in a tree, see `tree/links.py`
    coordinate: ClassVar[tuple[str, str]] = ("", "")  # its kind in the plane and in space
    play: ClassVar[tuple[int, ...]] = ()  # dimensions in which it can have clearance

    def check(self, assembly: Assembly) -> None:
        """Complain about options that cannot be."""
        d = assembly.d
        if d not in self.dimensions:
            where = "the plane" if d == 2 else "space"
            raise MechanismError(f"{self.owner}: there is no such joint in {where}.")
        if self.clearance is not None and d not in self.play:
            raise MechanismError(
                f"{self.owner}: clearance is for Revolute joints in the plane and Spherical ones in space."
            )
        if self.clearance is not None and self.radius is None:
            raise MechanismError(f"{self.owner}: a joint with clearance has a journal; give its radius=.")
        if self.uses_coordinate and not self.coordinate[d - 2] and not self.only_damped:
            raise MechanismError(
                f"{self.owner}: drive, motor, limits, friction, stiffness, damping and armature are for Revolute and "
                "Prismatic joints."
            )

    def rows(self, assembly: Assembly, more: Sequence[str] = ()) -> list[Row]:
        """The rows of this joint; its parameters are added to the assembly, with those that have `more` names."""
        self.check(assembly)
        a, b = self.indices(assembly)
        values = self.values(assembly, more)
        keys = dict(zip(values, assembly.add(self.owner, self.label, values), strict=True))
        kinds = () if self.clearance is not None else self.kinds(assembly.d)
        return [Row(kind, a, b, tuple(keys[k] for k in READS[kind])) for kind in kinds]

    @property
    def uses_coordinate(self) -> bool:
        moduli = (self.stiffness, self.damping, self.armature)
        return any(x is not None for x in (self.drive, self.motor, self.limits, self.friction, *moduli))

    @property
    def only_damped(self) -> bool:
        """Whether it is a ball with damping, which needs no coordinate."""
        return self.link == "spherical" and not replace(self, damping=None).uses_coordinate

    def coordinate_row(self, assembly: Assembly) -> Row:
        """Its coordinate, after `rows`."""
        kind = self.coordinate[assembly.d - 2]
        a, b = self.indices(assembly)
        return Row(kind, a, b, tuple(f"{self.label}.{key}" for key in READS[kind]))

    def kinds(self, d: int) -> tuple[str, ...]:
        """Kinds of rows, in the plane and in space."""
        raise NotImplementedError

    def values(self, assembly: Assembly, more: Sequence[str] = ()) -> dict[str, Any]:
        """Parameters of the rows of this joint, and more of them."""
        own = [self.coordinate[assembly.d - 2]] if self.uses_coordinate and not self.only_damped else []
        kinds = (*self.kinds(assembly.d), *own)
        needed = {key for kind in kinds for key in READS[kind]} | set(more)
        found: dict[str, Any] = {}
        if "point_a" in needed:
            found["point_a"], found["point_b"] = self.points(assembly)
        axis = getattr(self, "axis", None)
        if "axis_a" in needed:
            if axis is None:
                raise MechanismError(f"{self.owner}: give its axis=, a vector in the initial configuration.")
            along = direction(self.owner, "axis", axis, assembly.d)
            found["axis_a"] = assembly.turned_to(self.a, along)
            if "axis_b" in needed:
                found["axis_b"] = assembly.turned_to(self.b, self.second_axis(along))
            for name, body in (("side_a", self.a), ("side_b", self.b)):
                if name in needed:
                    found[name] = assembly.turned_to(body, self.side(name, assembly, along))
        elif axis is not None:
            raise MechanismError(f"{self.owner}: in the plane it has no axis; all joints turn about the third one.")
        if "angle" in needed:
            found["angle"] = assembly.angle(self.b) - assembly.angle(self.a)
        if "turn" in needed:
            found["turn"] = quaternion_of(assembly.pose(self.a)[1].T @ assembly.pose(self.b)[1])
        return found

    def second_axis(self, along: np.ndarray) -> np.ndarray:
        return along

    def side(self, name: str, assembly: Assembly, along: np.ndarray) -> np.ndarray:
        """The direction in the world that tells, seen from b, by how much b has turned about the axis."""
        in_a = tuple(jnp.asarray(assembly.turned_to(self.a, along)))
        return assembly.pose(self.a)[1] @ np.array([float(x) for x in perpendicular(in_a)[0]])

    def points(self, assembly: Assembly) -> tuple[np.ndarray, np.ndarray]:
        """The joint's points in the frames of a and b."""
        d = assembly.d
        if self.at is not None:
            if self.point_a is not None or self.point_b is not None:
                raise MechanismError(
                    f"{self.owner}: give either at, in the world, or point_a and point_b, in the bodies."
                )
            point = vector(self.owner, "at", self.at, (d,))
            return assembly.fixed_to(self.a, point), assembly.fixed_to(self.b, point)
        if self.point_a is None or self.point_b is None:
            raise MechanismError(f"{self.owner}: give its point, at=…, in the initial configuration.")
        return vector(self.owner, "point_a", self.point_a, (d,)), vector(self.owner, "point_b", self.point_b, (d,))


READS = {  # the parameters that each kind of rows reads
    "coincident": ("point_a", "point_b"),
    "on_axis": ("point_a", "point_b", "axis_a"),
    "aligned": ("axis_a", "axis_b"),
    "square": ("axis_a", "axis_b"),
    "turned": ("angle",),
    "locked": ("turn",),
    "apart": ("point_a", "point_b", "length"),
    # coordinates:
    "angle": ("angle",),
    "twist": ("axis_a", "side_b"),
    "slide": ("point_a", "point_b", "axis_a"),
}


@dataclass(frozen=True)
class Revolute(Joint):
    """A hinge: two points coincide; in space also an axis, a vector in the initial configuration.

    >>> import jaxns as ns
    >>> pendulum = ns.Mechanism(
    ...     ns.Body("rod", mass=1.0, inertia=0.1, position=(0.5, 0.0)),
    ...     ns.Revolute("ground", "rod", at=(0.0, 0.0)),
    ... )
    >>> pendulum.system.g(0.0, pendulum.q0).tolist()
    [0.0, 0.0]
    """

    axis: Any = None
    link: ClassVar[str] = "revolute"
    coordinate: ClassVar[tuple[str, str]] = ("angle", "twist")
    play: ClassVar[tuple[int, ...]] = (2,)

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("coincident",) if d == 2 else ("coincident", "aligned")


@dataclass(frozen=True)
class Prismatic(Joint):
    """A slide along an axis, without rotation.

    >>> Prismatic("ground", "cart", at=(0.0, 0.0), axis=(1.0, 0.0)).kinds(2)
    ('on_axis', 'turned')
    """

    axis: Any = None
    link: ClassVar[str] = "prismatic"
    coordinate: ClassVar[tuple[str, str]] = ("slide", "slide")

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("on_axis", "turned") if d == 2 else ("on_axis", "locked")


@dataclass(frozen=True)
class Cylindrical(Joint):
    """In space: b slides along an axis of a, and turns about it.

    >>> Cylindrical("ground", "ring", at=(0.0, 0.0, 0.0), axis=(0.0, 0.0, 1.0)).dimensions
    (3,)
    """

    axis: Any = None
    link: ClassVar[str] = "cylindrical"
    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("on_axis", "aligned")


@dataclass(frozen=True)
class Spherical(Joint):
    """In space: two points coincide.

    >>> Spherical("ground", "bob", at=(0.0, 0.0, 1.0)).label
    'ground-bob'
    """

    link: ClassVar[str] = "spherical"
    dimensions: ClassVar[tuple[int, ...]] = (3,)
    play: ClassVar[tuple[int, ...]] = (3,)

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("coincident",)


@dataclass(frozen=True)
class Universal(Joint):
    """In space: two points coincide, and an axis of a stays at right angles to one of b (Cardan's joint).

    >>> Universal("shaft", "tool", at=(0.0, 0.0, 0.0), axis=(1.0, 0.0, 0.0), axis_b=(0.0, 1.0, 0.0)).kinds(3)
    ('coincident', 'square')
    """

    axis: Any = None
    axis_b: Any = None
    link: ClassVar[str] = "universal"
    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("coincident", "square")

    def second_axis(self, along: np.ndarray) -> np.ndarray:
        if self.axis_b is None:
            raise MechanismError(f"{self.owner}: give axis_b=, the axis of {self.b!r}, at right angles to axis.")
        second = direction(self.owner, "axis_b", self.axis_b, 3)
        if abs(second @ along) > 1e-6:
            raise MechanismError(
                f"{self.owner}: axis and axis_b must be at right angles; their cosine is {second @ along:.3g}."
            )
        return second

    def side(self, name: str, assembly: Assembly, along: np.ndarray) -> np.ndarray:
        """Where the other axis is at the beginning."""
        return along if name == "side_b" else self.second_axis(along)


@dataclass(frozen=True)
class Fixed(Joint):
    """Two bodies as one: nothing moves between them.

    >>> Fixed("hull", "mast", at=(0.0, 0.0)).kinds(2)
    ('coincident', 'turned')
    """

    link: ClassVar[str] = "fixed"

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("coincident", "turned") if d == 2 else ("coincident", "locked")


@dataclass(frozen=True)
class Distance(Joint):
    """A massless rod between a point of a and a point of b, `at_a` and `at_b`, both in the world.

    - length: by default as in the initial configuration; with another one the bodies are moved (`jaxns.consistent`)

    Parameters: "name.point_a", "name.point_b" in the frames of the bodies, "name.length".

    >>> Distance("ground", "bob", at_a=(0.0, 0.0), at_b=(0.0, -1.0)).kinds(2)
    ('apart',)
    """

    length: Any = None
    _: KW_ONLY
    at_a: Any = None
    at_b: Any = None

    def kinds(self, d: int) -> tuple[str, ...]:
        return ("apart",)

    def values(self, assembly: Assembly, more: Sequence[str] = ()) -> dict[str, Any]:
        if self.at is not None:
            raise MechanismError(f"{self.owner}: it has two points, at_a=… and at_b=…, not one.")
        found = ends(self, assembly)
        span = assembly.in_world(self.b, found["point_b"]) - assembly.in_world(self.a, found["point_a"])
        now = float(np.linalg.norm(span))
        length = number(self.owner, "length", now if self.length is None else self.length, positive=True)
        if now < 1e-9 * length:
            raise MechanismError(f"{self.owner}: both ends are at the same point, so it has no direction.")
        return {**found, "length": length}
