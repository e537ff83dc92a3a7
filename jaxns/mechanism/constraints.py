"""The bilateral constraints of a mechanism: for each kind of rows one function of all of its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from .contacts import Gaps
from .coordinates import Coordinates, read, rounded, span
from .coupling import Couplings
from .forces import Drive
from .frames import Frames, Poses, Vector, cross, dot, minus, perpendicular, plus, space_axes, take, times, unit
from .joints import READS, Row

# Each function takes the poses of the members' bodies a and b and the parameters that its kind reads: vectors by their
# components (m,), numbers as (m,). It returns its rows, (m,) each.


def _coincident(a: Poses, b: Poses, point_a: Vector, point_b: Vector) -> Vector:
    return minus(b.placed(point_b), a.placed(point_a))


def _on_axis(a: Poses, b: Poses, point_a: Vector, point_b: Vector, axis_a: Vector) -> Vector:
    offset = a.seen(minus(b.placed(point_b), a.placed(point_a)))
    return tuple(dot(e, offset) for e in perpendicular(unit(axis_a)))


def _aligned(a: Poses, b: Poses, axis_a: Vector, axis_b: Vector) -> Vector:
    other = a.seen(b.turned(unit(axis_b)))
    return tuple(dot(e, other) for e in perpendicular(unit(axis_a)))


def _square(a: Poses, b: Poses, axis_a: Vector, axis_b: Vector) -> Vector:
    return (dot(a.turned(unit(axis_a)), b.turned(unit(axis_b))),)


def _locked(a: Poses, b: Poses, turn: Vector) -> Vector:
    """The antisymmetric part of the rotation from where b should be to where it is, seen from a: sin θ times its axis."""
    first, second, third = (cross(w, a.seen(e)) for w, e in zip(space_axes(turn), b.axes, strict=True))
    return times(jnp.asarray(0.5, first[0].dtype), plus(plus(first, second), third))


def _apart(a: Poses, b: Poses, point_a: Vector, point_b: Vector, length: Array) -> Vector:
    return (span(a, b, point_a, point_b) - length,)


KINDS: dict[str, Callable[..., Vector]] = {
    "coincident": _coincident,
    "on_axis": _on_axis,
    "aligned": _aligned,
    "square": _square,
    "locked": _locked,
    "apart": _apart,
}


@dataclass(frozen=True)
class Constraint:
    """`constraint(t, q, p) -> (n_g,)` of a mechanism: rows kind by kind, in each kind joint by joint."""

    frames: Frames
    kinds: tuple[tuple[str, tuple[Row, ...]], ...]
    driven: Coordinates | None = None
    drives: tuple[Drive, ...] = ()
    rolling: Gaps | None = None
    last: tuple[str, ...] = ()  # owners of the last rows, those that are driven, coupled or roll
    coupled: Couplings | None = None

    @classmethod
    def of(cls, frames: Frames, rows: Sequence[Row], *more: Any) -> Constraint:
        present = [kind for kind in READS if any(row.kind == kind for row in rows)]
        return cls(frames, tuple((kind, tuple(r for r in rows if r.kind == kind)) for kind in present), *more)

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        poses = self.frames.poses(q, p)
        found = []
        for kind, members in self.kinds:
            a, b = ([getattr(row, side) for row in members] for side in "ab")
            values = read(p, members)
            if kind == "turned":
                angles = self.frames.angles(q, p)
                found.append(take(angles, b) - take(angles, a) - values[0])
            else:
                found.append(jnp.stack(KINDS[kind](poses.pick(a), poses.pick(b), *values), axis=1).reshape(-1))
        if self.driven is not None:
            wanted = jnp.stack([drive(t, p) for drive in self.drives])
            found.append(rounded(self.driven(q, p) - wanted, self.driven.wraps))
        if self.coupled is not None:
            found.append(self.coupled(q, p))
        if self.rolling is not None:
            found.append(self.rolling(t, q, p))
        return found[0] if len(found) == 1 else jnp.concatenate(found)

    @property
    def owners(self) -> tuple[str, ...]:
        """The parameter group, which is the name of the joint, of every row (n_g,)."""
        d = self.frames.dimension
        rows = {"coincident": d, "on_axis": d - 1, "aligned": 2, "locked": 3}
        own = (row for _, members in self.kinds for row in members for _ in range(rows.get(row.kind, 1)))
        return (*(row.keys[0].rsplit(".", 1)[0] for row in own), *self.last)
