"""Where the bodies are and how they move: which entries of q and u belong to whom, for all bodies at once.

A frame is the centre of mass of a body with axes fixed to it. Frames are numbered: moving bodies in the order of the
parts, then fixed ones, then the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model.rotation import quaternion_rate, rotation_matrix

GROUND = "ground"
RUNS = 16  # pieces from which on entries are gathered: a few slices are quicker, and batches like them


Vector = tuple[
    Array, ...
]  # components, arrays (n,) each: XLA fuses them, where it would not fuse vectors that are stacked


class Poses(NamedTuple):
    """Positions of frames and their d axes, in the world."""

    position: Vector
    axes: tuple[Vector, ...]

    def turned(self, vector: Vector) -> Vector:
        """Body-fixed vectors in the world."""
        return tuple(dot(row, vector) for row in zip(*self.axes, strict=True))

    def placed(self, point: Vector) -> Vector:
        """Body-fixed points in the world."""
        return plus(self.position, self.turned(point))

    def seen(self, vector: Vector) -> Vector:
        """Vectors of the world in the basis of the bodies."""
        return tuple(dot(axis, vector) for axis in self.axes)

    def at(self, k: int) -> tuple[Array, Array]:
        """Position (d,) and rotation matrix (d, d) of one frame."""
        position, axes = self.pick([k])
        return jnp.concatenate(position), jnp.stack([jnp.concatenate(axis) for axis in axes], axis=1)

    def pick(self, index: Sequence[int]) -> Poses:
        return Poses(pick(self.position, index), tuple(pick(axis, index) for axis in self.axes))


class Motion(NamedTuple):
    """Velocities of the centres of mass and angular velocities, one number in the plane, both in the world, of frames."""

    velocity: Vector
    spin: Vector

    def pick(self, index: Sequence[int]) -> Motion:
        return Motion(pick(self.velocity, index), pick(self.spin, index))

    def of_points(self, arm: Vector) -> Vector:
        """Velocities of the body-fixed points at the arms from the centres of mass."""
        if len(arm) == 3:
            return plus(self.velocity, cross(self.spin, arm))
        (w,), (x, y) = self.spin, arm
        return self.velocity[0] - w * y, self.velocity[1] + w * x


@dataclass(frozen=True)
class Frames:
    """The layout of q and u.

    In the plane a body has q = (x, y, φ) and u = q̇. In space it has its position and a unit quaternion, and u holds the
    velocity of the centre of mass in the world and the angular velocity in the body. The coordinates of pads follow, one
    for each joint with friction; they stay at zero, see `joint_friction.py`.
    """

    dimension: int
    moving: tuple[str, ...]
    fixed: tuple[str, ...]
    pads: int = 0

    @property
    def of_body(self) -> tuple[int, int]:
        """How many entries of q and of u a body has."""
        return (3, 3) if self.dimension == 2 else (7, 6)

    @property
    def of_spins(self) -> bool:
        """Whether u holds angular velocities of bodies in space, to which the forces −ω × Θω belong."""
        return self.dimension == 3

    @property
    def nq(self) -> int:
        return self.of_body[0] * len(self.moving) + self.pads

    @property
    def nu(self) -> int:
        return self.of_body[1] * len(self.moving) + self.pads

    def index(self, name: str) -> int:
        return (*self.moving, *self.fixed, GROUND).index(name)

    def bodies(self, x: Array) -> Array:
        """The rows of q or u that belong to bodies (bodies, entries)."""
        n = len(self.moving)
        return (x[: -self.pads] if self.pads else x).reshape(n, -1)

    def entry(self, kind: str, label: str) -> int | None:
        """The entry of q that is the coordinate of a joint, where there is one."""
        return None

    def poses(self, q: Array, p: Any) -> Poses:
        """All frames."""
        d = self.dimension
        own = columns(self.bodies(q))
        here = columns(stack(p, [f"{name}.position" for name in self.fixed], (d,), q.dtype))
        position = tuple(self._all(*parts) for parts in zip(own[:d], here, strict=True))
        if d == 2:
            axes = self._axes(plane_axes(own[2]), plane_axes(stack(p, [f"{n}.angle" for n in self.fixed], (), q.dtype)))
        else:
            turns = columns(stack(p, [f"{name}.orientation" for name in self.fixed], (4,), q.dtype))
            axes = self._axes(space_axes(own[3:]), space_axes(turns))
        return Poses(position, axes)

    def _axes(self, moving: tuple[Vector, ...], fixed: tuple[Vector, ...]) -> tuple[Vector, ...]:
        d = range(self.dimension)
        return tuple(tuple(self._all(moving[k][i], fixed[k][i], float(i == k)) for i in d) for k in d)

    def _all(self, moving: Array, fixed: Any, ground: float = 0.0) -> Any:
        """Numbers of all frames."""
        return Blocks((moving, fixed, np.full(1, ground, moving.dtype)))

    def angles(self, q: Array, p: Any) -> Array:
        """φ of all frames in the plane, with all its turns."""
        return self._all(self.bodies(q)[:, 2], stack(p, [f"{name}.angle" for name in self.fixed], (), q.dtype))

    def centres(self, q: Array, p: Any) -> Array:
        """Centres of mass of the moving bodies (bodies, d)."""
        return self.bodies(q)[:, : self.dimension]

    def motion(self, u: Array, poses: Poses, p: Any) -> Motion:
        """All frames; those that are fixed do not move."""
        own, d = columns(self.bodies(u)), self.dimension
        spin = own[2:] if d == 2 else poses.pick(range(len(self.moving))).turned(own[3:])
        still = np.zeros(len(self.fixed), u.dtype)
        return Motion(tuple(self._all(v, still) for v in own[:d]), tuple(self._all(w, still) for w in spin))

    def q_dot(self, q: Array, u: Array) -> Array:
        """q̇, for bodies in space with their quaternions."""
        if self.dimension == 2:
            return u
        own_q, own_u = self.bodies(q), self.bodies(u)
        turning = jax.vmap(quaternion_rate)(own_q[:, 3:], own_u[:, 3:])
        rates = jnp.concatenate([own_u[:, :3], turning], axis=1).reshape(-1)
        return jnp.concatenate([rates, u[-self.pads :]]) if self.pads else rates


def plane_axes(angles: Array) -> tuple[Vector, ...]:
    """Axes of frames that have turned by angles (n,)."""
    c, s = jnp.cos(angles), jnp.sin(angles)
    return (c, s), (-s, c)


def space_axes(quaternion: Vector) -> tuple[Vector, ...]:
    """Axes of frames with quaternions of any length."""
    rotation = jax.vmap(rotation_matrix)(jnp.stack(quaternion, axis=1))
    return tuple(tuple(rotation[:, i, k] for i in range(3)) for k in range(3))


def columns(rows: Array) -> Vector:
    """Components of vectors (n, d)."""
    return tuple(rows[:, k] for k in range(rows.shape[1]))


def dot(a: Vector, b: Vector) -> Array:
    parts = [x * y for x, y in zip(a, b, strict=True)]
    return sum(parts[1:], parts[0])


def cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def plus(a: Vector, b: Vector) -> Vector:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def minus(a: Vector, b: Vector) -> Vector:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def times(s: Array, a: Vector) -> Vector:
    return tuple(s * x for x in a)


def norm(a: Vector) -> Array:
    """Lengths of vectors, with a derivative also at zero."""
    return jnp.sqrt(dot(a, a) + 1e-36)


def unit(a: Vector) -> Vector:
    """Vectors of length one; they are never zero."""
    return times(1.0 / jnp.sqrt(dot(a, a)), a)


def perpendicular(direction: Vector) -> tuple[Vector, ...]:
    """The d − 1 unit vectors at right angles to unit vectors; in space without a place where they are undefined (Duff et
    al., Building an orthonormal basis, revisited, 2017). The z-axis has (x, y), and y in the plane has x."""
    if len(direction) == 2:
        return ((direction[1], -direction[0]),)
    x, y, z = direction
    sign = jnp.where(z >= 0.0, 1.0, -1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    return (1.0 + sign * x * x * a, sign * b, -sign * x), (b, sign + y * y * a, -y)


def wide(x: Array, shape: tuple[int, ...]) -> Array:
    """An array (1,) with another length: the analysis of large systems knows no other broadcasting than this one."""
    return jnp.broadcast_to(x, shape)


def pick(vector: Vector, index: Sequence[int]) -> Vector:
    return tuple(take(x, index) for x in vector)


class Blocks(NamedTuple):
    """Numbers of frames, block by block: what is picked out of one block needs no array of all."""

    parts: tuple[Any, ...]

    def runs(self, index: Sequence[int]) -> list[Array]:
        pieces, start = [], 0
        cuts = [k for k, i in enumerate(index) if k and (i != index[k - 1] + 1 or self._block(i) != self._block(i - 1))]
        for stop in [*cuts, len(index)]:
            block, first = self._block(index[start])
            pieces.append(_cut(self.parts[block], index[start] - first, stop - start))
            start = stop
        return pieces

    def _block(self, i: int) -> tuple[int, int]:
        """The block of an entry, and where it begins."""
        first = 0
        for k, part in enumerate(self.parts):
            if i < first + part.shape[0]:
                return k, first
            first += part.shape[0]
        raise IndexError(i)


def take(x: Any, index: Sequence[int]) -> Array:
    """x[index] along the first axis, as slices of neighbours where they are few.

    >>> take(jnp.arange(5.0), (1, 2, 0)).tolist()
    [1.0, 2.0, 0.0]
    """
    x = x if isinstance(x, Blocks) else Blocks((x,))
    if len(index) > 1 and len(set(index)) == 1:
        one = x.runs(index[:1])[0]
        return jnp.broadcast_to(one, (len(index), *one.shape[1:]))
    pieces = x.runs(index)
    if len(pieces) > RUNS:
        whole = jnp.concatenate(x.parts) if len(x.parts) > 1 else x.parts[0]
        return whole[np.asarray(index)]
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)


def _cut(x: Any, start: int, size: int) -> Any:
    return x if size == x.shape[0] else x[start : start + size]


def stack(p: Any, keys: Sequence[str], shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """The named parameters as rows; `shape` is that of one of them, for the case that there is none."""
    if not keys:
        return jnp.zeros((0, *shape), dtype)
    return jnp.stack([p[key] for key in keys])
