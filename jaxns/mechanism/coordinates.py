"""Coordinates of joints and force elements: spans, angles, twists and slides, all of one kind at once, and their rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .frames import Frames, Poses, perpendicular, stack, take, unit
from .joints import Row


def span(a: Poses, b: Poses, point_a: Array, point_b: Array) -> Array:
    offset = b.placed(point_b) - a.placed(point_a)
    return jnp.sqrt(jnp.sum(offset**2, axis=1))


def _slide(a: Poses, b: Poses, point_a: Array, point_b: Array, axis_a: Array) -> Array:
    offset = b.placed(point_b) - a.placed(point_a)
    return jnp.sum(a.turned(unit(axis_a)) * offset, axis=1)


def _twist(a: Poses, b: Poses, axis_a: Array, side_b: Array) -> Array:
    """The angle in (−π, π] by which b has turned about an axis of a since the beginning."""
    first, second = perpendicular(unit(axis_a))
    side = a.seen(b.turned(side_b))
    return jnp.arctan2(jnp.sum(second * side, axis=1), jnp.sum(first * side, axis=1))


KINDS: dict[str, Callable[..., Array]] = {"span": span, "slide": _slide, "twist": _twist}


@dataclass(frozen=True)
class Coordinates:
    """Coordinates `(q, p) -> (n,)` of its members, in their order."""

    frames: Frames
    kinds: tuple[tuple[str, tuple[Row, ...]], ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, frames: Frames, rows: Sequence[Row]) -> Coordinates:
        present = tuple(dict.fromkeys(row.kind for row in rows))
        places = [k for kind in present for k, row in enumerate(rows) if row.kind == kind]
        return cls(
            frames,
            tuple((kind, tuple(row for row in rows if row.kind == kind)) for kind in present),
            tuple(places.index(k) for k in range(len(rows))),
        )

    def __len__(self) -> int:
        return len(self.order)

    def __call__(self, q: Array, p: Any) -> Array:
        poses = self.frames.poses(q, p)
        found = []
        for kind, members in self.kinds:
            a, b = ([getattr(row, side) for row in members] for side in "ab")
            values = [stack(p, keys) for keys in zip(*(row.keys for row in members), strict=True)]
            if kind == "angle":
                angles = self.frames.angles(q, p)
                found.append(take(angles, b) - take(angles, a) - values[0])
            else:
                found.append(KINDS[kind](poses.pick(a), poses.pick(b), *values))
        return take(found[0] if len(found) == 1 else jnp.concatenate(found), self.order)

    def rates(self, q: Array, u: Array, p: Any) -> Array:
        """Their time derivatives (n,)."""
        return jax.jvp(lambda q: self(q, p), (q,), (self.frames.q_dot(q, u),))[1]
