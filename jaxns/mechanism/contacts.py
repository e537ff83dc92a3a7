"""Gaps and slips of a mechanism as functions of t, q, u and p, all pairs of one kind at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .frames import Frames, Poses, Vector, columns, dot, minus, perpendicular, pick, plane_axes, space_axes, take
from .pairs import PairFunction


class Member(NamedTuple):
    """Two frames that touch, with the parameters of their shapes: (name of the size, key) each."""

    a: int
    b: int
    sizes_a: tuple[tuple[str, str], ...]
    sizes_b: tuple[tuple[str, str], ...]
    at: tuple[str | None, str | None]  # keys of points that take the place of the frames' origins
    turns: tuple[str | None, str | None] = (None, None)  # keys of turns of the shapes against the frames


@dataclass(frozen=True)
class Kind:
    """Pairs of shapes of the same two kinds. `which` has the contacts that count, numbered through all members."""

    function: PairFunction
    members: tuple[Member, ...]
    count: int  # contacts of a member
    which: tuple[int, ...]

    def values(self, p: Any, side: str) -> dict[str, Array]:
        """Sizes of all members' shapes (m, …)."""
        sizes = [getattr(member, f"sizes_{side}") for member in self.members]
        stacked = {name: jnp.stack([p[own[k][1]] for own in sizes]) for k, (name, _) in enumerate(sizes[0])}
        return {name: x[:, None] if x.ndim == 1 else x for name, x in stacked.items()}

    def frames(self, poses: Poses, p: Any) -> tuple[Poses, Poses]:
        """Both frames of all members."""
        found = []
        for side in (0, 1):
            own = poses.pick([(member.a, member.b)[side] for member in self.members])
            keys = [member.at[side] for member in self.members]
            turns = [member.turns[side] for member in self.members]
            if any(keys):
                zero = jnp.zeros((len(own.position),), own.position[0].dtype)
                points = jnp.stack([zero if k is None else p[k] for k in keys])
                own = own._replace(position=own.placed(columns(points)))
            if any(turns):
                own = own._replace(axes=_turned_axes(own, turns, p))
            found.append(own)
        return found[0], found[1]

    def gaps(self, poses: Poses, p: Any) -> Array:
        """(n,)."""
        place = _seen_from(*self.frames(poses, p))
        near = jax.vmap(self.function)(self.values(p, "a"), self.values(p, "b"), place)
        return take(near.gap.reshape(-1), self.which)

    def touching(self, poses: Poses, p: Any) -> tuple[Vector, Vector]:
        """Points and unit normals from b to a, in the world, components (n,)."""
        a, b = self.frames(poses, p)
        values = self.values(p, "a"), self.values(p, "b")
        points, normals = jax.vmap(self.function.surface)(*values, _seen_from(a, b))
        owners = [k // self.count for k in self.which]
        at = b.pick(owners)
        points = pick(tuple(x.reshape(-1) for x in points), self.which)
        if normals[0].shape[-1] == 1:  # one for all contacts of a member
            return at.placed(points), pick(b.turned(tuple(x[:, 0] for x in normals)), owners)
        return at.placed(points), at.turned(pick(tuple(x.reshape(-1) for x in normals), self.which))

    def pairs(self) -> tuple[list[int], list[int]]:
        """The frames a and b of each contact."""
        own = [self.members[k // self.count] for k in self.which]
        return [m.a for m in own], [m.b for m in own]


def _turned_axes(frames: Poses, turns: Sequence[str | None], p: Any) -> tuple[Vector, ...]:
    """Axes of shapes that are turned on their bodies, by angles in the plane and quaternions in space."""
    flat, dtype = len(frames.position) == 2, frames.position[0].dtype
    none = np.zeros(()) if flat else np.array([1.0, 0.0, 0.0, 0.0])
    given = jnp.stack([none.astype(dtype) if key is None else p[key] for key in turns])
    return tuple(frames.turned(axis) for axis in (plane_axes(given) if flat else space_axes(columns(given))))


def _seen_from(a: Poses, b: Poses) -> Poses:
    """Where a is in the frames b, components (m, 1)."""
    place = Poses(b.seen(minus(a.position, b.position)), tuple(b.seen(axis) for axis in a.axes))
    return jax.tree.map(lambda x: x[:, None], place)


@dataclass(frozen=True)
class Gaps:
    """`gap(t, q, p) -> (n,)`."""

    frames: Frames
    kinds: tuple[Kind, ...]
    order: tuple[int, ...]  # from kind by kind to part by part

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        poses = self.frames.poses(q, p)
        return take(joined([kind.gaps(poses, p) for kind in self.kinds]), self.order)

    @property
    def __name__(self) -> str:
        return "gap"


@dataclass(frozen=True)
class Slips:
    """`slip(t, q, u, p) -> (n, f)`: velocities of a relative to b along f directions, with drilling as the third."""

    frames: Frames
    kinds: tuple[Kind, ...]
    order: tuple[int, ...]
    drilling: bool = False

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        poses = self.frames.poses(q, p)
        motion = self.frames.motion(u, poses, p)
        found = []
        for kind in self.kinds:
            points, normals = kind.touching(poses, p)
            a, b = kind.pairs()
            relative, spin = motion.pick(a).of_points(minus(points, pick(poses.position, a))), pick(motion.spin, a)
            if any(k < len(self.frames.moving) for k in b):  # others stand still
                relative = minus(relative, motion.pick(b).of_points(minus(points, pick(poses.position, b))))
                spin = minus(spin, pick(motion.spin, b))
            rows = [dot(e, relative) for e in perpendicular(normals)]
            if self.drilling:
                rows.append(dot(normals, spin))
            found.append(jnp.stack(rows, axis=1))
        return take(joined(found), self.order)


def frames_of_contacts(gaps: Gaps, q: Array, p: Any) -> tuple[Array, Array, Array]:
    """Points, normals (n, d) and tangents (n, d − 1, d) of all contacts, for drawings."""
    poses = gaps.frames.poses(q, p)
    found = [kind.touching(poses, p) for kind in gaps.kinds]
    points, normals = (
        tuple(take(joined(x), gaps.order) for x in zip(*(f[k] for f in found), strict=True)) for k in (0, 1)
    )
    tangents = [jnp.stack(e, axis=1) for e in perpendicular(normals)]
    return jnp.stack(points, axis=1), jnp.stack(normals, axis=1), jnp.stack(tangents, axis=1)


@dataclass(frozen=True)
class Coefficient:
    """`e_N`, `e_F` or `mu` of all contacts: one parameter for those of each part."""

    keys: tuple[str, ...]
    counts: tuple[int, ...]

    def __call__(self, p: Any) -> Array:
        values = [jnp.broadcast_to(p[k], (n, *jnp.shape(p[k]))) for k, n in zip(self.keys, self.counts, strict=True)]
        return joined(values)


def joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(list(parts))
