"""What touches what: gaps between two shapes as functions of the place of the one seen from the other.

One mechanism serves nearly all: points with a radius on the one side against the signed distance of the other, and for two
shapes with corners both ways. Functions of pairs take the parameters of both shapes and where the first one is, seen from
the second: its origin r and its axes R, by their components. They return the gaps and the points that touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .frames import Poses, Vector, dot, minus, norm, plus, times, wide
from .shapes import Capsule, HalfSpace
from .shapes.base import Values


class Near(NamedTuple):
    """Where two shapes may touch, in the frame of the second."""

    gap: Array  # (k,)
    point: Vector  # middles of balls on the first shape, components (k,)
    radius: Array  # (k,)


@dataclass(frozen=True)
class PointsOn:
    """Points of the first shape against the distance of the second; against a half-space its lowest points."""

    first: Any  # kinds of shapes
    second: Any

    def __call__(self, first: Values, second: Values, place: Poses) -> Near:
        x, radius = self._points(first, place)
        return Near(self.second.distance(second, x, radius), x, radius)

    def _points(self, first: Values, place: Poses) -> tuple[Vector, Array]:
        if self.second is HalfSpace:
            points, radius = self.first.lowest(first, tuple(axis[-1] for axis in place.axes))
        else:
            points, radius = self.first.points(first, len(place.position))
        return jax.tree.map(lambda x: wide(x, radius.shape), place).placed(points), radius

    def surface(self, first: Values, second: Values, place: Poses) -> tuple[Vector, Vector]:
        if self.second is not HalfSpace:
            return by_shift(self, first, second, place)
        x, radius = self._points(first, place)
        up: Any = tuple(np.full(1, float(k == len(x) - 1), radius.dtype) for k in range(len(x)))
        return (*x[:-1], x[-1] - radius), up


@dataclass(frozen=True)
class Capsules:
    """Two capsules: their lines' nearest points, and their ends, on which they rest side by side."""

    def __call__(self, first: Values, second: Values, place: Poses) -> Near:
        d = len(place.position)
        radius = jnp.broadcast_to(first["radius"], (2,))
        ends = jax.tree.map(lambda x: wide(x, (2,)), place).placed(Capsule.ends(first, d))
        line = Capsule.ends(second, d)
        (a, v), (c, u) = ((tuple(x[:1] for x in e), tuple(x[1:] - x[:1] for x in e)) for e in (line, ends))
        w = minus(c, a)
        uu, uv, vv, uw, vw = dot(u, u), dot(u, v), dot(v, v), dot(u, w), dot(v, w)
        s = jnp.clip((uv * vw - vv * uw) / (uu * vv - uv * uv + 1e-12 * uu * vv), 0.0, 1.0)
        s = jnp.clip((jnp.clip((uv * s + vw) / vv, 0.0, 1.0) * uv - uw) / uu, 0.0, 1.0)
        x = plus(c, times(s, u))
        along = jnp.clip(dot(minus(x, a), v) / vv, 0.0, 1.0)
        gap = norm(minus(minus(x, a), times(along, v))) - first["radius"] - second["radius"]
        at_ends = Capsule.distance(second, ends, radius)
        points = tuple(jnp.concatenate([m, e]) for m, e in zip(x, ends, strict=True))
        return Near(jnp.concatenate([gap, at_ends]), points, jnp.broadcast_to(first["radius"], (3,)))

    def surface(self, first: Values, second: Values, place: Poses) -> tuple[Vector, Vector]:
        return by_shift(self, first, second, place)


PairFunction = PointsOn | Capsules


def by_shift(function: Any, first: Values, second: Values, place: Poses) -> tuple[Vector, Vector]:
    """Points on the surface of the first shape, and normals from the second to the first: the derivative of a gap with
    respect to a shift of the first."""

    def gap(position: Vector) -> tuple[Array, Near]:
        near = function(first, second, place._replace(position=position))
        return near.gap, near

    _, push, near = jax.linearize(gap, place.position, has_aux=True)
    d = range(len(place.position))
    normals = tuple(push(tuple(jnp.full_like(x, float(i == k)) for i, x in enumerate(place.position))) for k in d)
    return minus(near.point, times(near.radius, normals)), normals


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
    smooth = "planes" in (first.pointed, second.pointed)  # it would touch faces with points that nobody knows
    return whole[:1] or ([] if smooth else possible)


def count(function: PairFunction, first: dict[str, Any], second: dict[str, Any], d: int) -> int:
    """How many contacts a pair has."""
    arrays = [{k: np.atleast_1d(np.asarray(v, float)) for k, v in values.items()} for values in (first, second)]
    axes = tuple(tuple(jnp.full(1, float(i == k)) for i in range(d)) for k in range(d))
    place = Poses((jnp.zeros(1),) * d, axes)
    return jax.eval_shape(function, *arrays, place).gap.shape[0]
