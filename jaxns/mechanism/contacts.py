"""Gaps and slips of a mechanism as functions of t, q, u and p, all pairs of one kind at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .frames import Frames, Poses, perpendicular, swept, take
from .pairs import PairFunction


class Member(NamedTuple):
    """Two frames that touch, with the parameters of their shapes: (name of the size, key) each."""

    a: int
    b: int
    sizes_a: tuple[tuple[str, str], ...]
    sizes_b: tuple[tuple[str, str], ...]
    at: tuple[str | None, str | None]  # keys of points that take the place of the frames' origins


@dataclass(frozen=True)
class Kind:
    """Pairs of shapes of the same two kinds, of which the contacts `which` count."""

    function: PairFunction
    which: tuple[int, ...]
    members: tuple[Member, ...]

    def values(self, p: Any, side: str) -> dict[str, Array]:
        """Sizes of all members' shapes (m, …)."""
        sizes = [getattr(member, f"sizes_{side}") for member in self.members]
        return {name: jnp.stack([p[own[k][1]] for own in sizes]) for k, (name, _) in enumerate(sizes[0])}

    def frames(self, poses: Poses, p: Any) -> tuple[Poses, Poses]:
        """Both frames of all members."""
        found = []
        for side in (0, 1):
            own = poses.pick([(member.a, member.b)[side] for member in self.members])
            keys = [member.at[side] for member in self.members]
            if any(keys):
                zero = jnp.zeros(own.position.shape[1:], own.position.dtype)
                own = own._replace(position=own.placed(jnp.stack([zero if k is None else p[k] for k in keys])))
            found.append(own)
        return found[0], found[1]

    def gaps(self, poses: Poses, p: Any) -> Array:
        """(m · k,)."""
        a, b = self.frames(poses, p)
        r, R = _seen_from(a, b)
        near = jax.vmap(self.function)(self.values(p, "a"), self.values(p, "b"), r, R)
        return take(near.gap.T, self.which).T.reshape(-1)

    def touching(self, poses: Poses, p: Any) -> tuple[Poses, Array, Array]:
        """The frames b (m), and for all contacts the points (m, k, d) and the unit normals from b to a, seen from b.

        A normal is the derivative of a gap with respect to a shift of a.
        """
        a, b = self.frames(poses, p)
        r, R = _seen_from(a, b)
        values = self.values(p, "a"), self.values(p, "b")

        def near(values: Any, r: Array, R: Array) -> tuple[Array, Any]:
            found = self.function(*values, r, R)
            return found.gap, (found.point, found.radius)

        def one(values: Any, r: Array, R: Array) -> tuple[Array, Array]:
            normal, (point, radius) = jax.jacfwd(near, argnums=1, has_aux=True)(values, r, R)
            return take(point - radius[:, None] * normal, self.which), take(normal, self.which)

        points, normals = jax.vmap(one)(values, r, R)
        return b, points, normals

    def in_world(self, poses: Poses, p: Any) -> tuple[Array, Array]:
        """Points and normals (m · k, d) of all contacts."""
        b, points, normals = self.touching(poses, p)
        k = len(self.which)
        d = points.shape[-1]
        spread = Poses(jnp.repeat(b.position, k, axis=0), tuple(jnp.repeat(e, k, axis=0) for e in b.axes))
        return spread.placed(points.reshape(-1, d)), spread.turned(normals.reshape(-1, d))

    def pairs(self) -> tuple[list[int], list[int]]:
        """The frames a and b of each contact."""
        return [m.a for m in self.members for _ in self.which], [m.b for m in self.members for _ in self.which]


def _seen_from(a: Poses, b: Poses) -> tuple[Array, Array]:
    """Origins (m, d) and rotations (m, d, d) of a in the frames b."""
    return b.seen(a.position - b.position), jnp.stack([b.seen(e) for e in a.axes], axis=2)


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
        motion = self.frames.motion(u, poses)
        found = []
        for kind in self.kinds:
            points, normals = kind.in_world(poses, p)
            speeds = [
                own.velocity + swept(own.spin, points - take(poses.position, index))
                for index in kind.pairs()
                for own in (motion.pick(index),)
            ]
            relative = speeds[0] - speeds[1]
            rows = [jnp.sum(e * relative, axis=1) for e in perpendicular(normals)]
            if self.drilling:
                a, b = kind.pairs()
                rows.append(jnp.sum(normals * (take(motion.spin, a) - take(motion.spin, b)), axis=1))
            found.append(jnp.stack(rows, axis=1))
        return take(joined(found), self.order)


def frames_of_contacts(gaps: Gaps, q: Array, p: Any) -> tuple[Array, Array, Array]:
    """Points, normals (n, d) and tangents (n, d − 1, d) of all contacts, for drawings."""
    poses = gaps.frames.poses(q, p)
    found = [kind.in_world(poses, p) for kind in gaps.kinds]
    points, normals = (take(joined([f[k] for f in found]), gaps.order) for k in (0, 1))
    return points, normals, jnp.stack(perpendicular(normals), axis=1)


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
