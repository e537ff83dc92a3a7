"""Round shapes: disk, sphere, capsule, cylinder, ellipse and ellipsoid.

In the plane capsules lie along x; in space capsules and cylinders stand along z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..errors import MechanismError, vector
from ..frames import Vector, norm, wide
from .base import Points, Shape, Values
from .flat import MARGIN, boxed


@dataclass(frozen=True)
class _Ball(Shape):
    radius: Any
    whole: ClassVar[bool] = True
    pointed: ClassVar[str] = "anywhere"

    @classmethod
    def points(cls, v: Values, d: int) -> Points:
        return (jnp.zeros(1, v["radius"].dtype),) * d, v["radius"]

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        return norm(x) - wide(v["radius"], r.shape) - r


@dataclass(frozen=True)
class Disk(_Ball):
    """A disk in the plane.

    >>> Disk(0.5).parameters()
    {'radius': 0.5}
    """

    dimensions: ClassVar[tuple[int, ...]] = (2,)

    def inertia(self, d: int) -> tuple[float, Any]:
        area = math.pi * self.radius**2
        return area, 0.5 * area * self.radius**2


@dataclass(frozen=True)
class Sphere(_Ball):
    """A ball in space.

    >>> Sphere(0.5).dimensions
    (3,)
    """

    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def inertia(self, d: int) -> tuple[float, Any]:
        volume = 4.0 / 3.0 * math.pi * self.radius**3
        return volume, (0.4 * volume * self.radius**2,) * 3


class Bore(_Ball):
    """The inside of a bearing, wider than its journal by the clearance."""

    solid: ClassVar[bool] = False
    pointed: ClassVar[str] = ""

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        return v["radius"] + v["clearance"] - r - norm(x)


@dataclass(frozen=True)
class Capsule(Shape):
    """All within a radius of a line of the given length, which joins the middles of its round ends.

    >>> sorted(Capsule(radius=0.1, length=0.5).parameters())
    ['length', 'radius']
    """

    radius: Any
    length: Any
    pointed: ClassVar[str] = "anywhere"

    def inertia(self, d: int) -> tuple[float, Any]:
        r, L = float(self.radius), float(self.length)
        if d == 2:
            bar, ends = 2.0 * r * L, math.pi * r**2
            offset = 4.0 * r / (3.0 * math.pi)  # of the centre of mass of a half disk
            half = 0.5 * ends * (0.5 * r**2 - offset**2 + (0.5 * L + offset) ** 2)
            return bar + ends, bar * (L**2 + 4.0 * r**2) / 12.0 + 2.0 * half
        bar, ends = math.pi * r**2 * L, 4.0 / 3.0 * math.pi * r**3
        along = 0.5 * bar * r**2 + 0.4 * ends * r**2
        offset = 3.0 / 8.0 * r
        across = bar * (L**2 / 12.0 + r**2 / 4.0) + ends * (0.4 * r**2 - offset**2 + (0.5 * L + offset) ** 2)
        return bar + ends, (across, across, along)

    @classmethod
    def ends(cls, v: Values, d: int) -> Vector:
        """The ends of the line, components (2,)."""
        half = 0.5 * v["length"]
        along = jnp.concatenate([-half, half])
        return tuple(along if k == (0 if d == 2 else 2) else jnp.zeros_like(along) for k in range(d))

    @classmethod
    def points(cls, v: Values, d: int) -> Points:
        return cls.ends(v, d), jnp.broadcast_to(v["radius"], (2,))

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        k, half, radius = (0 if len(x) == 2 else 2), wide(0.5 * v["length"], r.shape), wide(v["radius"], r.shape)
        beside = tuple(y - jnp.clip(y, -half, half) if i == k else y for i, y in enumerate(x))
        return norm(beside) - radius - r


@dataclass(frozen=True)
class Cylinder(Shape):
    """A cylinder in space. On a plane it touches with the lowest points of both rims and with three fixed points of each;
    against other bodies with four fixed points of each rim.

    >>> Cylinder(radius=0.1, length=0.5).inertia(3)[0]
    0.0157...
    """

    radius: Any
    length: Any
    pointed: ClassVar[str] = "anywhere"
    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def inertia(self, d: int) -> tuple[float, Any]:
        r, L = float(self.radius), float(self.length)
        volume = math.pi * r**2 * L
        across = volume * (r**2 / 4.0 + L**2 / 12.0)
        return volume, (across, across, 0.5 * volume * r**2)

    @classmethod
    def rims(cls, v: Values, number: int) -> Vector:
        """Fixed points of both rims, components (2 · number,)."""
        angles = np.tile(2.0 * np.pi * np.arange(number) / number, 2)
        ends = np.repeat([-0.5, 0.5], number)
        radius, height = (wide(v[name], angles.shape) for name in ("radius", "length"))
        return radius * np.cos(angles), radius * np.sin(angles), height * ends

    @classmethod
    def points(cls, v: Values, d: int) -> Points:
        rims = cls.rims(v, 4)
        return rims, jnp.zeros_like(rims[0])

    @classmethod
    def lowest(cls, v: Values, normal: Vector) -> Points:
        # A cylinder that stands has no lowest point: its rims' middles stand for them there, and the fixed points carry it.
        x, y, _ = normal
        scale = -v["radius"] / jnp.sqrt(x * x + y * y + 1e-14)
        half = 0.5 * v["length"]
        low = (scale * x, scale * x), (scale * y, scale * y), (-half, half)
        rims = cls.rims(v, 3)
        points = tuple(jnp.concatenate([*a, b]) for a, b in zip(low, rims, strict=True))
        return points, jnp.zeros_like(points[0])

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        half = wide(0.5 * v["length"], r.shape)
        outward, up = norm(x[:2]) - wide(v["radius"], r.shape), x[2]
        never = jnp.full_like(up, -jnp.inf)  # the fourth side of (ρ, z)
        return boxed([outward, up - half, never, -up - half], [outward, jnp.abs(up) - half], r, MARGIN * half)


@dataclass(frozen=True, init=False)
class _Ellipsoidal(Shape):
    semi_axes: tuple[float, ...]
    pointed: ClassVar[str] = "planes"

    def __init__(self, *semi_axes: Any):
        axes = tuple(semi_axes[0]) if len(semi_axes) == 1 and np.ndim(semi_axes[0]) == 1 else semi_axes
        object.__setattr__(self, "semi_axes", axes)

    def parameters(self) -> dict[str, Any]:
        axes = vector(type(self).__name__, "the semi-axes", self.semi_axes, self.dimensions)
        if not np.all(axes > 0.0):
            raise MechanismError(f"{type(self).__name__}: semi-axes must be positive, got {self.semi_axes}.")
        return {"semi_axes": axes}

    @classmethod
    def lowest(cls, v: Values, normal: Vector) -> Points:
        s = v["semi_axes"]
        n = jnp.concatenate(normal)
        lowest = -s * s * n / jnp.sqrt(jnp.sum((s * n) ** 2))
        return tuple(lowest[k : k + 1] for k in range(len(normal))), jnp.zeros((1,), s.dtype)

    @classmethod
    def distance(cls, v: Values, x: Vector, r: Array) -> Array:
        return jax.vmap(lambda y: _from_ellipsoid(y, v["semi_axes"]))(jnp.stack(x, axis=1)) - r


@dataclass(frozen=True, init=False)
class Ellipse(_Ellipsoidal):
    """An ellipse in the plane. It touches half-spaces and disks.

    >>> Ellipse(0.2, 0.1).parameters()["semi_axes"].tolist()
    [0.2, 0.1]
    """

    dimensions: ClassVar[tuple[int, ...]] = (2,)

    def inertia(self, d: int) -> tuple[float, Any]:
        a, b = map(float, self.semi_axes)
        return math.pi * a * b, 0.25 * math.pi * a * b * (a * a + b * b)


@dataclass(frozen=True, init=False)
class Ellipsoid(_Ellipsoidal):
    """An ellipsoid in space. It touches half-spaces and spheres.

    >>> round(Ellipsoid(1.0, 1.0, 1.0).inertia(3)[0], 6)
    4.18879
    """

    dimensions: ClassVar[tuple[int, ...]] = (3,)

    def inertia(self, d: int) -> tuple[float, Any]:
        square = np.asarray(self.semi_axes, float) ** 2
        volume = 4.0 / 3.0 * math.pi * float(np.prod(self.semi_axes))
        return volume, tuple(0.2 * volume * (np.sum(square) - square))


def _from_ellipsoid(y: Array, s: Array) -> Array:
    """Signed distance: the nearest point is s² y/(t + s²), with the largest root t of Σ (s y/(t + s²))² = 1, where the
    distance is t |y/(t + s²)|. From the left Newton's method climbs to the root without overshooting."""

    def newton(t: Array, y: Array, s: Array) -> Array:
        share = (s * y / (t + s * s)) ** 2
        return t + 0.5 * (jnp.sum(share) - 1.0) / jnp.sum(share / (t + s * s))

    fixed = jax.lax.stop_gradient((y, s))
    t = jnp.max(fixed[1] * jnp.abs(fixed[0]) - fixed[1] ** 2) + 1e-12 * jnp.min(fixed[1]) ** 2
    t = jax.lax.stop_gradient(jax.lax.fori_loop(0, 12, lambda _, t: newton(t, *fixed), t))
    for _ in range(3):  # with derivatives, up to the third
        t = newton(t, y, s)
    return t * jnp.sqrt(jnp.sum((y / (t + s * s)) ** 2))
