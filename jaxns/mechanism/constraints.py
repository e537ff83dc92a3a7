"""The bilateral constraints of a mechanism: for each kind of rows one function of all of its members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from .coordinates import span
from .frames import Frames, Poses, perpendicular, space_axes, stack, take, unit
from .joints import READS, Row

# Each function takes the poses of the members' bodies a and b and the parameters that its kind reads, (m, …), and returns
# residuals (m, r).


def _coincident(a: Poses, b: Poses, point_a: Array, point_b: Array) -> Array:
    return b.placed(point_b) - a.placed(point_a)


def _on_axis(a: Poses, b: Poses, point_a: Array, point_b: Array, axis_a: Array) -> Array:
    offset = a.seen(b.placed(point_b) - a.placed(point_a))
    return jnp.stack([jnp.sum(e * offset, axis=1) for e in perpendicular(unit(axis_a))], axis=1)


def _aligned(a: Poses, b: Poses, axis_a: Array, axis_b: Array) -> Array:
    other = a.seen(b.turned(unit(axis_b)))
    return jnp.stack([jnp.sum(e * other, axis=1) for e in perpendicular(unit(axis_a))], axis=1)


def _square(a: Poses, b: Poses, axis_a: Array, axis_b: Array) -> Array:
    return jnp.sum(a.turned(unit(axis_a)) * b.turned(unit(axis_b)), axis=1, keepdims=True)


def _locked(a: Poses, b: Poses, turn: Array) -> Array:
    """The antisymmetric part of the rotation from where b should be to where it is, seen from a: sin θ times its axis."""
    wanted = space_axes(turn)  # axes of b in the basis of a
    found = tuple(a.seen(e) for e in b.axes)
    return 0.5 * sum((jnp.cross(w, f) for w, f in zip(wanted, found, strict=True)), jnp.zeros_like(wanted[0]))


def _apart(a: Poses, b: Poses, point_a: Array, point_b: Array, length: Array) -> Array:
    return (span(a, b, point_a, point_b) - length)[:, None]


KINDS: dict[str, Callable[..., Array]] = {
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

    @classmethod
    def of(cls, frames: Frames, rows: Sequence[Row]) -> Constraint:
        present = [kind for kind in READS if any(row.kind == kind for row in rows)]
        return cls(frames, tuple((kind, tuple(r for r in rows if r.kind == kind)) for kind in present))

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        poses = self.frames.poses(q, p)
        found = []
        for kind, members in self.kinds:
            a, b = ([getattr(row, side) for row in members] for side in "ab")
            values = [stack(p, keys) for keys in zip(*(row.keys for row in members), strict=True)]
            if kind == "turned":
                angles = self.frames.angles(q, p)
                found.append(take(angles, b) - take(angles, a) - values[0])
            else:
                found.append(KINDS[kind](poses.pick(a), poses.pick(b), *values).reshape(-1))
        return found[0] if len(found) == 1 else jnp.concatenate(found)

    @property
    def owners(self) -> tuple[str, ...]:
        """The parameter group, which is the name of the joint, of every row (n_g,)."""
        d = self.frames.dimension
        rows = {"coincident": d, "on_axis": d - 1, "aligned": 2, "locked": 3}
        return tuple(
            row.keys[0].rsplit(".", 1)[0]
            for kind, members in self.kinds
            for row in members
            for _ in range(rows.get(kind, 1))
        )
