"""What touches what: gaps between two shapes as functions of the place of the one seen from the other.

One mechanism serves nearly all: points with a radius on the one side against the signed distance of the other, and for two
shapes with corners both ways. Functions of pairs take the parameters of both shapes and where the first one is, seen from
the second: its origin r (d,) and its rotation R (d, d). They return gaps (k,), and the points that touch with their radii.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .shapes import Capsule, HalfSpace
from .shapes.base import Values, length


class Near(NamedTuple):
    """Where two shapes may touch, in the frame of the second."""

    gap: Array  # (k,)
    point: Array  # (k, d), middles of balls on the first shape
    radius: Array  # (k,)


@dataclass(frozen=True)
class PointsOn:
    """Points of the first shape against the distance of the second; against a half-space its lowest points."""

    first: Any  # kinds of shapes
    second: Any

    def __call__(self, first: Values, second: Values, r: Array, R: Array) -> Near:
        d = r.shape[0]
        points, radius = self.first.lowest(first, R[-1]) if self.second is HalfSpace else self.first.points(first, d)
        x = r + points @ R.T
        return Near(self.second.distance(second, x, radius), x, radius)


@dataclass(frozen=True)
class Capsules:
    """Two capsules: their lines' nearest points, and their ends, on which they rest side by side."""

    def __call__(self, first: Values, second: Values, r: Array, R: Array) -> Near:
        d = r.shape[0]
        ends, (a, b) = r + Capsule.ends(first, d) @ R.T, Capsule.ends(second, d)
        radius = jnp.broadcast_to(first["radius"], (2,))
        at_ends = Near(Capsule.distance(second, ends, radius), ends, radius)
        u, v, w = ends[1] - ends[0], b - a, ends[0] - a
        uu, uv, vv, uw, vw = u @ u, u @ v, v @ v, u @ w, v @ w
        s = jnp.clip((uv * vw - vv * uw) / (uu * vv - uv * uv + 1e-12 * uu * vv), 0.0, 1.0)
        s = jnp.clip((jnp.clip((uv * s + vw) / vv, 0.0, 1.0) * uv - uw) / uu, 0.0, 1.0)
        x = ends[0] + s * u
        along = jnp.clip((x - a) @ v / vv, 0.0, 1.0)
        gap = length(x - a - along * v) - first["radius"] - second["radius"]
        return Near(*(jnp.concatenate([m[None], e]) for m, e in zip((gap, x, first["radius"]), at_ends, strict=True)))


PairFunction = Callable[[Values, Values, Array, Array], Near]


def pairings(first: Any, second: Any) -> Sequence[tuple[bool, PairFunction]]:
    """The functions of a pair of kinds, each with whether it takes the shapes in exchanged order; none if it has none."""
    if first is Capsule and second is Capsule:
        return [(False, Capsules())]
    if HalfSpace in (first, second):
        swapped = first is HalfSpace
        other = second if swapped else first
        return [(swapped, PointsOn(other, HalfSpace))] if other.pointed else []
    ways = [(False, PointsOn(first, second)), (True, PointsOn(second, first))]
    possible = [(way, f) for way, f in ways if f.first.pointed == "anywhere" and f.second.measured]
    whole = [(way, f) for way, f in possible if f.first.whole]
    return whole[:1] or possible


def count(function: PairFunction, first: dict[str, Any], second: dict[str, Any], d: int) -> int:
    """How many contacts a pair has."""
    arrays = [{k: np.asarray(v, float) for k, v in values.items()} for values in (first, second)]
    return jax.eval_shape(function, *arrays, np.zeros(d), np.eye(d)).gap.shape[0]
