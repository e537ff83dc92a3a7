"""Coordinates of joints and force elements: spans, angles, twists and slides, all of one kind at once, and their rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .frames import Frames, Poses, Vector, columns, dot, minus, perpendicular, stack, take, unit
from .joints import Row


def span(a: Poses, b: Poses, point_a: Vector, point_b: Vector) -> Array:
    offset = minus(b.placed(point_b), a.placed(point_a))
    return jnp.sqrt(dot(offset, offset))


def _slide(a: Poses, b: Poses, point_a: Vector, point_b: Vector, axis_a: Vector) -> Array:
    return dot(a.turned(unit(axis_a)), minus(b.placed(point_b), a.placed(point_a)))


def _twist(a: Poses, b: Poses, axis_a: Vector, side_b: Vector) -> Array:
    """The angle in (−π, π] by which b has turned about an axis of a since the beginning."""
    first, second = perpendicular(unit(axis_a))
    side = a.seen(b.turned(side_b))
    return jnp.arctan2(dot(second, side), dot(first, side))


KINDS: dict[str, Callable[..., Array]] = {"span": span, "slide": _slide, "twist": _twist}


@dataclass(frozen=True)
class Coordinates:
    """Coordinates `(q, p) -> (n,)` of its members, in their order."""

    frames: Frames
    kinds: tuple[tuple[str, tuple[Row, ...]], ...]
    order: tuple[int, ...]
    entries: tuple[int, ...] = ()  # of q, where coordinates are those of the frames themselves; they come first

    @classmethod
    def of(cls, frames: Frames, rows: Sequence[Row]) -> Coordinates:
        entries = [frames.entry(row.kind, row.keys[0].rsplit(".", 1)[0]) for row in rows]
        own = [k for k, entry in enumerate(entries) if entry is not None]
        others = [(k, row) for k, row in enumerate(rows) if entries[k] is None]
        present = tuple(dict.fromkeys(row.kind for _, row in others))
        places = own + [k for kind in present for k, row in others if row.kind == kind]
        return cls(
            frames,
            tuple((kind, tuple(row for _, row in others if row.kind == kind)) for kind in present),
            tuple(places.index(k) for k in range(len(rows))),
            tuple(entry for entry in entries if entry is not None),
        )

    @property
    def wraps(self) -> tuple[bool, ...]:
        """Which of them are known up to full turns."""
        kinds = ["own"] * len(self.entries) + [kind for kind, members in self.kinds for _ in members]
        return tuple(kinds[k] == "twist" for k in self.order)

    def __call__(self, q: Array, p: Any) -> Array:
        found = [take(q, self.entries)] if self.entries else []
        poses = self.frames.poses(q, p) if self.kinds else None
        for kind, members in self.kinds:
            a, b = ([getattr(row, side) for row in members] for side in "ab")
            values = read(p, members)
            if kind == "angle":
                angles = self.frames.angles(q, p)
                found.append(take(angles, b) - take(angles, a) - values[0])
            else:
                assert poses is not None
                found.append(KINDS[kind](poses.pick(a), poses.pick(b), *values))
        return take(found[0] if len(found) == 1 else jnp.concatenate(found), self.order)

    def rates(self, q: Array, u: Array, p: Any) -> Array:
        """Their time derivatives (n,)."""
        return jax.jvp(lambda q: self(q, p), (q,), (self.frames.q_dot(q, u),))[1]


def read(p: Any, members: Sequence[Row]) -> list[Any]:
    """The parameters that members of a kind read: vectors by their components (m,), numbers as (m,)."""
    values = [stack(p, keys) for keys in zip(*(row.keys for row in members), strict=True)]
    return [columns(value) if value.ndim == 2 else value for value in values]


def rounded(x: Array, wraps: Sequence[bool]) -> Array:
    """Angles that are known up to full turns, in (−π, π]."""
    return jnp.where(jnp.asarray(wraps), jnp.arctan2(jnp.sin(x), jnp.cos(x)), x) if any(wraps) else x
