"""Where the bodies are and how they move: which entries of q and u belong to whom, for all bodies at once.

A frame is the centre of mass of a body with axes fixed to it. Frames are numbered: moving bodies in the order of the
parts, then fixed ones, then the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..model.rotation import quaternion_rate, rotation_matrix

GROUND = "ground"
RUNS = 16  # pieces from which on entries are gathered: a few slices are quicker, and batches like them


class Poses(NamedTuple):
    """Positions (n, d) of frames and their axes, d arrays (n, d), in the world."""

    position: Array
    axes: tuple[Array, ...]

    def turned(self, vectors: Array) -> Array:
        """Body-fixed vectors (n, d) in the world."""
        return sum(
            (e * vectors[:, k, None] for k, e in enumerate(self.axes[1:], 1)), self.axes[0] * vectors[:, 0, None]
        )

    def placed(self, points: Array) -> Array:
        """Body-fixed points (n, d) in the world."""
        return self.position + self.turned(points)

    def seen(self, vectors: Array) -> Array:
        """Vectors (n, d) of the world in the basis of the bodies."""
        return jnp.stack([jnp.sum(e * vectors, axis=1) for e in self.axes], axis=1)

    def pick(self, index: Sequence[int]) -> Poses:
        return Poses(take(self.position, index), tuple(take(e, index) for e in self.axes))


class Motion(NamedTuple):
    """Velocities (n, d) of the centres of mass, angular velocities (n,) in the plane, (n, 3) in space, all in the world."""

    velocity: Array
    spin: Array

    def pick(self, index: Sequence[int]) -> Motion:
        return Motion(take(self.velocity, index), take(self.spin, index))

    def of_points(self, arms: Array) -> Array:
        """Velocities (n, d) of the body-fixed points at the arms (n, d) from the centres of mass."""
        return self.velocity + swept(self.spin, arms)


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

    def poses(self, q: Array, p: Any) -> Poses:
        """All frames."""
        own = self.bodies(q)
        here = stack(p, [f"{name}.position" for name in self.fixed], (self.dimension,), q.dtype)
        position = jnp.concatenate([own[:, : self.dimension], here, jnp.zeros((1, self.dimension), q.dtype)])
        if self.dimension == 2:
            angles = stack(p, [f"{name}.angle" for name in self.fixed], (), q.dtype)
            axes = (plane_axes(own[:, 2]), plane_axes(angles))
        else:
            turns = stack(p, [f"{name}.orientation" for name in self.fixed], (4,), q.dtype)
            axes = (space_axes(own[:, 3:]), space_axes(turns))
        ground = jnp.eye(self.dimension, dtype=q.dtype)[:, None]
        together = zip(*axes, ground, strict=True)
        return Poses(position, tuple(jnp.concatenate(parts) for parts in together))

    def angles(self, q: Array, p: Any) -> Array:
        """φ of all frames in the plane, with all its turns."""
        fixed = stack(p, [f"{name}.angle" for name in self.fixed], (), q.dtype)
        return jnp.concatenate([self.bodies(q)[:, 2], fixed, jnp.zeros((1,), q.dtype)])

    def motion(self, u: Array, poses: Poses) -> Motion:
        """All frames; those that are fixed do not move."""
        own, still = self.bodies(u), len(self.fixed) + 1
        d, n = self.dimension, len(self.moving)
        spin = own[:, 2] if d == 2 else poses.pick(range(n)).turned(own[:, 3:])
        pad = [(0, still)]
        return Motion(jnp.pad(own[:, :d], [*pad, (0, 0)]), jnp.pad(spin, pad if d == 2 else [*pad, (0, 0)]))

    def q_dot(self, q: Array, u: Array) -> Array:
        """q̇, for bodies in space with their quaternions."""
        if self.dimension == 2:
            return u
        own_q, own_u = self.bodies(q), self.bodies(u)
        turning = jax.vmap(quaternion_rate)(own_q[:, 3:], own_u[:, 3:])
        rates = jnp.concatenate([own_u[:, :3], turning], axis=1).reshape(-1)
        return jnp.concatenate([rates, u[-self.pads :]]) if self.pads else rates


def plane_axes(angles: Array) -> tuple[Array, ...]:
    c, s = jnp.cos(angles), jnp.sin(angles)
    return jnp.stack([c, s], axis=1), jnp.stack([-s, c], axis=1)


def space_axes(quaternions: Array) -> tuple[Array, ...]:
    rotation = jax.vmap(rotation_matrix)(quaternions)
    return tuple(rotation[:, :, k] for k in range(3))


def swept(spin: Array, arms: Array) -> Array:
    """ω × r (n, d)."""
    if arms.shape[1] == 3:
        return jnp.cross(spin, arms)
    return spin[:, None] * jnp.stack([-arms[:, 1], arms[:, 0]], axis=1)


def unit(vectors: Array) -> Array:
    """Vectors (…, d) of length one; they are never zero."""
    return vectors / jnp.sqrt(jnp.sum(vectors**2, axis=-1, keepdims=True))


def perpendicular(directions: Array) -> tuple[Array, ...]:
    """The d − 1 unit vectors at right angles to unit vectors (n, d); in space without a place where they are undefined
    (Duff et al., Building an orthonormal basis, revisited, 2017). The z-axis has (x, y), and y in the plane has x."""
    if directions.shape[-1] == 2:
        return (jnp.stack([directions[..., 1], -directions[..., 0]], axis=-1),)
    x, y, z = (directions[..., k] for k in range(3))
    sign = jnp.where(z >= 0.0, 1.0, -1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = jnp.stack([1.0 + sign * x * x * a, sign * b, -sign * x], axis=-1)
    return first, jnp.stack([b, sign + y * y * a, -y], axis=-1)


def take(x: Array, index: Sequence[int]) -> Array:
    """x[index] along the first axis, as slices of neighbours where they are few.

    >>> take(jnp.arange(5.0), (1, 2, 0)).tolist()
    [1.0, 2.0, 0.0]
    """
    if tuple(index) == tuple(range(x.shape[0])):
        return x
    cuts = [0, *(k + 1 for k, (i, j) in enumerate(pairwise(index)) if j != i + 1), len(index)]
    if len(cuts) > RUNS:
        return x[jnp.asarray(tuple(index))]
    pieces = [x[index[i] : index[i] + j - i] for i, j in pairwise(cuts)]
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)


def stack(p: Any, keys: Sequence[str], shape: tuple[int, ...] = (), dtype: Any = float) -> Array:
    """The named parameters as rows; `shape` is that of one of them, for the case that there is none."""
    if not keys:
        return jnp.zeros((0, *shape), dtype)
    return jnp.stack([p[key] for key in keys])
