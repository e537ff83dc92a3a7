"""Force elements: springs, dampers, torsion springs, forces and torques, constant, sampled or from a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .errors import MechanismError, direction, number, vector
from .frames import perpendicular
from .joints import Row
from .parts import Assembly, Pair, ends


@dataclass(frozen=True, init=False)
class Signal:
    """An input signal by its samples, linear between them and constant outside.

    - times (n,), increasing, and values (n,) or (n, d), for a `Force` in space, say

    Parameters of the part that takes it: "name.times" and "name.values".

    >>> ramp = Signal([0.0, 1.0], [0.0, 2.0])
    >>> len(ramp.times)
    2
    """

    times: tuple[float, ...]
    values: tuple[Any, ...]

    def __init__(self, times: Any, values: Any):
        t, x = np.asarray(times, float), np.asarray(values, float)
        if t.ndim != 1 or len(t) < 2 or len(x) != len(t) or not np.all(np.diff(t) > 0.0) or not np.all(np.isfinite(x)):
            raise MechanismError(
                f"Signal: times must be at least two increasing numbers, with a finite value each; got shapes {t.shape} "
                f"and {x.shape}."
            )
        object.__setattr__(self, "times", tuple(t.tolist()))
        object.__setattr__(self, "values", tuple(map(tuple, x.tolist())) if x.ndim == 2 else tuple(x.tolist()))


@dataclass(frozen=True)
class Input:
    """What drives a part, as a function of time, coordinate x, rate v and parameters: constant, sampled, or the user's."""

    owner: str
    keys: tuple[str, ...] = ()
    function: Callable[..., Any] | None = None

    def __call__(self, t: Array, x: Array, v: Array, p: Any) -> Array:
        if self.function is not None:
            return jnp.asarray(self.function(t, x, v, p), jnp.result_type(x))
        if len(self.keys) == 1:
            return p[self.keys[0]]
        times, values = (p[key] for key in self.keys)
        return interpolated(t, times, values)


@dataclass(frozen=True)
class Drive:
    """A coordinate as a function of time, `(t)` or `(t, p)`."""

    function: Callable[..., Any] | None
    keys: tuple[str, ...] = ()
    takes_p: bool = True

    def __call__(self, t: Array, p: Any) -> Array:
        if self.function is None:
            return interpolated(t, *(p[key] for key in self.keys))
        return jnp.asarray(self.function(t, p) if self.takes_p else self.function(t), float)


def interpolated(t: Array, times: Array, values: Array) -> Array:
    """Linear interpolation, constant outside of the samples."""
    share = jnp.clip((t - times[:-1]) / jnp.diff(times), 0.0, 1.0)  # of each interval that is over
    return values[0] + jnp.tensordot(share, jnp.diff(values, axis=0), axes=1)


def read_input(part: Any, name: str, given: Any, label: str, assembly: Assembly, size: int | None = None) -> Input:
    """An input of a part: its numbers become the parameters "label.name", or "label.times" and "label.values"."""
    if isinstance(given, Signal):
        keys = assembly.add(part.owner, label, {"times": np.asarray(given.times), "values": np.asarray(given.values)})
        if np.shape(given.values)[1:] != (() if size is None else (size,)):
            raise MechanismError(f"{part.owner}: values of the signal must have {size or 'no'} components.")
        return Input(part.owner, keys)
    if callable(given):
        return Input(part.owner, function=given)
    value = number(part.owner, name, given) if size is None else vector(part.owner, name, given, (size,))
    return Input(part.owner, assembly.add(part.owner, label, {name: value}))


def read_drive(part: Any, given: Any, label: str, assembly: Assembly) -> Drive:
    """The prescribed coordinate of a joint."""
    if isinstance(given, Signal):
        values = {"drive_times": np.asarray(given.times), "drive_values": np.asarray(given.values)}
        return Drive(None, assembly.add(part.owner, label, values))
    if not callable(given):
        raise MechanismError(f"{part.owner}: drive must be a function of (t) or (t, p), or a Signal; got {given!r}.")
    try:
        arguments = len(inspect.signature(given).parameters)
    except (TypeError, ValueError):  # functions of C
        arguments = 1
    return Drive(given, (), arguments > 1)


@dataclass(frozen=True)
class Spring(Pair):
    """A linear spring, with a damper if wanted, between a point of a and a point of b.

    - stiffness; rest: its length without load, by default that at the beginning; damping
    - at_a, at_b: its ends in the initial configuration, in the world; by default the centres of mass

    Parameters: "a-b.stiffness", "a-b.rest", "a-b.damping", "a-b.point_a", "a-b.point_b".

    >>> Spring("ground", "cart", stiffness=10.0, name="spring").label
    'spring'
    """

    _: KW_ONLY
    stiffness: Any
    rest: Any = None
    damping: Any = None
    at_a: Any = None
    at_b: Any = None

    def read(self, assembly: Assembly) -> tuple[Row, dict[str, str]]:
        """Its coordinate, and the keys of stiffness, rest and damping."""
        a, b = self.indices(assembly)
        points = ends(self, assembly)
        now = float(
            np.linalg.norm(assembly.in_world(self.b, points["point_b"]) - assembly.in_world(self.a, points["point_a"]))
        )
        if now < 1e-12:
            raise MechanismError(f"{self.owner}: both ends are at the same point, so it has no direction.")
        keys = assembly.add(self.owner, self.label, points)
        return Row("span", a, b, keys), moduli(self, assembly, now)


@dataclass(frozen=True)
class Damper(Pair):
    """A linear damper between a point of a and a point of b, as of a `Spring`.

    Parameters: "a-b.damping", "a-b.point_a", "a-b.point_b".

    >>> Damper("ground", "cart", damping=2.0).label
    'ground-cart'
    """

    _: KW_ONLY
    damping: Any
    at_a: Any = None
    at_b: Any = None

    read = Spring.read


@dataclass(frozen=True)
class TorsionSpring(Pair):
    """A linear spring against rotation, with a damper if wanted; in space about an axis that a joint keeps.

    - stiffness; rest: the angle without load, zero at the beginning; damping
    - axis: in space, a vector in the initial configuration

    Parameters: "a-b.stiffness", "a-b.rest", "a-b.damping".

    >>> TorsionSpring("ground", "arm", stiffness=5.0, rest=0.2).label
    'ground-arm'
    """

    _: KW_ONLY
    stiffness: Any
    rest: Any = 0.0
    damping: Any = None
    axis: Any = None

    def read(self, assembly: Assembly) -> tuple[Row, dict[str, str]]:
        """Its coordinate, and the keys of stiffness, rest and damping."""
        a, b = self.indices(assembly)
        keys = assembly.add(self.owner, self.label, angle_values(self, assembly))
        return Row("angle" if assembly.d == 2 else "twist", a, b, keys), moduli(self, assembly, 0.0)


def angle_values(part: Any, assembly: Assembly) -> dict[str, Any]:
    """What tells the angle between two bodies, zero at the beginning."""
    if assembly.d == 2:
        return {"angle": assembly.angle(part.b) - assembly.angle(part.a)}
    if part.axis is None:
        raise MechanismError(f"{part.owner}: give its axis=, a vector in the initial configuration.")
    along = assembly.turned_to(part.a, direction(part.owner, "axis", part.axis, 3))
    side = np.array([float(x) for x in perpendicular(tuple(jnp.asarray(along)))[0]])
    return {"axis_a": along, "side_b": assembly.turned_to(part.b, assembly.pose(part.a)[1] @ side)}


def moduli(part: Any, assembly: Assembly, rest: float) -> dict[str, str]:
    """Parameters of a spring or damper, by their names."""
    values = {}
    if getattr(part, "stiffness", None) is not None:
        values["stiffness"] = number(part.owner, "stiffness", part.stiffness, least=0.0)
        values["rest"] = number(part.owner, "rest", rest if part.rest is None else part.rest)
    if part.damping is not None:
        values["damping"] = number(part.owner, "damping", part.damping, least=0.0)
    return dict(zip(values, assembly.add(part.owner, part.label, values), strict=True))


@dataclass(frozen=True)
class Force:
    """A force on a point of a body.

    - force: a vector in the world, a `Signal`, or a function (t, x, v, p) of time, position and velocity of the point
    - at: the point in the initial configuration, by default the centre of mass
    - name: by default "body.force" has the parameter "body-force.force"

    >>> Force("cart", lambda t, x, v, p: -2.0 * v).label
    'cart-force'
    """

    body: str
    force: Any
    _: KW_ONLY
    at: Any = None
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or f"{self.body}-force"

    @property
    def owner(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    def read(self, assembly: Assembly) -> tuple[int, str, Input]:
        """Frame, key of the point, and force."""
        index = moved(self, assembly)
        point = np.zeros(assembly.d)
        if self.at is not None:
            point = assembly.fixed_to(self.body, vector(self.owner, "at", self.at, (assembly.d,)))
        key = assembly.add(self.owner, self.label, {"point": point})[0]
        return index, key, read_input(self, "force", self.force, self.label, assembly, assembly.d)


@dataclass(frozen=True)
class Torque:
    """A torque on a body, in the plane a number, in space a vector in the world.

    - torque: a value, a `Signal`, or a function (t, x, v, p) of time, angle and angular velocity; in space x is the
      rotation matrix of the body and v its angular velocity in the world

    >>> Torque("wheel", 0.3).label
    'wheel-torque'
    """

    body: str
    torque: Any
    _: KW_ONLY
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or f"{self.body}-torque"

    @property
    def owner(self) -> str:
        return f"{type(self).__name__} {self.label!r}"

    def read(self, assembly: Assembly) -> tuple[int, Input]:
        """Frame and torque."""
        size = None if assembly.d == 2 else 3
        return moved(self, assembly), read_input(self, "torque", self.torque, self.label, assembly, size)


def moved(part: Any, assembly: Assembly) -> int:
    """The frame of the moving body that a load acts on."""
    index = assembly.index(part.owner, part.body)
    if part.body not in assembly.frames.moving:
        raise MechanismError(f"{part.owner}: {part.body!r} cannot move.")
    return index
