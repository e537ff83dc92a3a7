"""Minimal coordinates: where bodies are and how they move as functions of the coordinates of the joints of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ...model.rotation import quaternion_rate
from ..frames import (
    Frames,
    Motion,
    Poses,
    Vector,
    columns,
    minus,
    pick,
    plane_axes,
    plus,
    space_axes,
    stack,
    times,
    unit,
)
from . import turns
from .links import ENTRIES, Link, keys
from .paths import Paths


@dataclass(frozen=True)
class JointFrames(Frames):
    """The layout of q and u in minimal coordinates: those of the link of each moving body, body by body.

    A link between frames a and b leaves the offset and the rotation of b, seen from a, to a few coordinates:

        x_b = x_a + R_a (r_a + e s) − R_b r_b,   R_b = R_a A Z Bᵀ

    Positions, rotations and velocities of all bodies are sums and products of those of links along the paths of the tree.
    """

    links: tuple[Link, ...] = ()

    @classmethod
    def of(cls, frames: Frames, links: tuple[Link, ...]) -> JointFrames:
        return cls(frames.dimension, frames.moving, frames.fixed, frames.pads, links)

    @property
    def of_bodies(self) -> Frames:
        """The layout of the same bodies, each with coordinates of its own."""
        return Frames(self.dimension, self.moving, self.fixed, self.pads)

    # Layout ---------------------------------------------------------------------------------------------------------

    def entries(self, link: Link) -> tuple[int, int]:
        """How many entries of q and of u a link has."""
        return ENTRIES[link.kind][self.dimension - 2]

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """The first entries of each link in q and in u, and the number of entries without pads as the last one."""
        counts = np.array([self.entries(link) for link in self.links], int).reshape(-1, 2)
        ends = np.cumsum(counts, axis=0)
        return tuple(np.concatenate([[0], ends[:, k]]) for k in (0, 1))  # type: ignore[return-value]

    @property
    def of_spins(self) -> bool:
        return False

    @property
    def nq(self) -> int:
        return int(self.places[0][-1]) + self.pads

    @property
    def nu(self) -> int:
        return int(self.places[1][-1]) + self.pads

    def entry(self, kind: str, label: str) -> int | None:
        """The entry of q that is the coordinate of a joint: of a hinge or a slide that is a link."""
        wanted = {"angle": "revolute", "twist": "revolute", "slide": "prismatic"}.get(kind)
        found = [k for k, link in enumerate(self.links) if link.label == label and link.kind == wanted]
        return int(self.places[0][found[0]]) if found else None

    @cached_property
    def paths(self) -> Paths:
        n = len(self.moving)
        return Paths(tuple(link.parent if link.parent < n else -1 for link in self.links))

    @cached_property
    def kinds(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Kinds of links, and the numbers of their members."""
        present = tuple(dict.fromkeys(link.kind for link in self.links))
        return tuple((kind, tuple(k for k, x in enumerate(self.links) if x.kind == kind)) for kind in present)

    def members(self, kind: str, x: Array, of_u: bool = False) -> Vector:
        """The entries of q or u of all links of a kind, entry by entry (m,)."""
        own = dict(self.kinds)[kind]
        size = self.entries(self.links[own[0]])[of_u]
        first = self.places[of_u][list(own)]
        index = (first[:, None] + np.arange(size)).reshape(-1)
        whole = len(index) > 0 and index[-1] - index[0] == len(index) - 1
        rows = x[index[0] : index[-1] + 1] if whole else x[index]
        return columns(rows.reshape(len(own), size))

    def _of_links(self, parts: Iterable[tuple[Sequence[int], Sequence[Any]]], dtype: Any) -> Array:
        """Numbers of some kinds of links, rows of (m,) each, as numbers of all links (rows, n), zero for the others."""
        found = [(list(own), jnp.stack(rows)) for own, rows in parts]
        if len(found) == 1 and found[0][0] == list(range(len(self.links))):
            return found[0][1]
        order = [k for own, _ in found for k in own]
        left = [k for k in range(len(self.links)) if k not in order]
        height = found[0][1].shape[0] if found else self.dimension
        blocks = [x for _, x in found] + [jnp.zeros((height, len(left)), dtype)] * bool(left)
        return jnp.concatenate(blocks, axis=1)[:, np.argsort(order + left)]

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        return [link.a for link in self.links], [link.b for link in self.links]

    @cached_property
    def signs(self) -> np.ndarray:
        """+1 for links from parent to child."""
        return np.array([link.sign for link in self.links])

    def _signed(self, rows: Array) -> Array:
        """Of b relative to a, given that of the child relative to its parent, and the other way round."""
        return rows if (self.signs > 0).all() else rows * self.signs.astype(rows.dtype)

    def points(self, p: Any, side: str) -> Vector:
        """The points of all links in their frames a or b."""
        names = keys(self.links, f"point_{side}")
        given = next((p[key] for key in names if key is not None), None)
        dtype = float if given is None else given.dtype
        return columns(jnp.stack([jnp.zeros(self.dimension, dtype) if key is None else p[key] for key in names]))

    # Poses ----------------------------------------------------------------------------------------------------------

    def poses(self, q: Array, p: Any) -> Poses:
        """All frames."""
        here = columns(stack(p, [f"{name}.position" for name in self.fixed], (self.dimension,), q.dtype))
        still = tuple(self._all(jnp.zeros(len(self.moving), q.dtype), x) for x in here)
        turned = Poses(still, self._all_axes(q, p))  # all frames but for the positions of those that move
        a, b = (turned.pick(ends) for ends in self._ends)
        slides = self._of_links(self._slides(q, turned, p), q.dtype)
        offset = plus(minus(a.turned(self.points(p, "a")), b.turned(self.points(p, "b"))), tuple(slides))
        step = tuple(self._signed(jnp.stack(offset)))
        parents = turned.pick([link.parent for link in self.links]).position  # zero for those that move
        x = self.paths.sums(jnp.stack(plus(step, parents)))
        return Poses(tuple(self._all(x[k], here[k]) for k in range(self.dimension)), turned.axes)

    def _slides(self, q: Array, turned: Poses, p: Any) -> Iterator[tuple[Sequence[int], Sequence[Array]]]:
        """R_a e s of the links that have one, in the world."""
        for kind, own in self.kinds:
            x = self.members(kind, q)
            if kind == "free":
                yield own, x[: self.dimension]
            elif kind in ("prismatic", "cylindrical"):
                yield own, times(x[-1], self._axis_a(own, turned, p))

    def _axis_a(self, own: Sequence[int], poses: Poses, p: Any) -> Vector:
        """The axes of joints in the world."""
        links = [self.links[k] for k in own]
        return poses.pick([link.a for link in links]).turned(unit(turns.read(p, links, "axis_a")))

    def _all_axes(self, q: Array, p: Any) -> tuple[Vector, ...]:
        if self.dimension == 2:
            angles = self.angles(q, p).parts
            return self._axes(plane_axes(angles[0]), plane_axes(angles[1]))
        fixed = space_axes(columns(stack(p, [f"{n}.orientation" for n in self.fixed], (4,), q.dtype)))
        found = []
        for kind, own in self.kinds:
            links = [self.links[k] for k in own]
            axes = turns.relative(kind, links, self.members(kind, q), p)
            found.append((own, [x for axis in axes for x in axis]))
        R = self._of_links(found, q.dtype).reshape(3, 3, -1)  # [k, i]: component i of axis k
        if (self.signs < 0).any():
            R = jnp.where(self.signs > 0, R, R.swapaxes(0, 1))
        R = self._on_fixed(R, fixed)
        R = self.paths.compose(R, _product)
        return self._axes(tuple(tuple(axis) for axis in R), fixed)

    def _on_fixed(self, R: Array, fixed: tuple[Vector, ...]) -> Array:
        """Rotations of links, with that of the parent where it does not move."""
        n = len(self.moving)
        if not any(n <= link.parent < n + len(self.fixed) for link in self.links):
            return R
        eye = np.broadcast_to(np.eye(3)[:, :, None], (3, 3, n + 1)).astype(R.dtype)
        whole = [jnp.concatenate([eye[..., :n], jnp.stack([jnp.stack(x) for x in fixed]), eye[..., n:]], axis=-1)]
        return _product(whole[0][..., [link.parent for link in self.links]], R)

    def angles(self, q: Array, p: Any) -> Any:
        """φ of all frames in the plane, with all its turns."""
        fixed = stack(p, [f"{name}.angle" for name in self.fixed], (), q.dtype)
        found = []
        for kind, own in self.kinds:
            x = self.members(kind, q)
            rest = 0.0 if kind == "free" else stack(p, keys([self.links[k] for k in own], "angle"))
            turn = x[-1] if kind in ("free", "revolute") else jnp.zeros(len(own), q.dtype)
            found.append((own, [turn + rest]))
        steps = self._signed(self._of_links(found, q.dtype)[0])
        parents = self._all(jnp.zeros(len(self.moving), q.dtype), fixed)
        steps = steps + pick((parents,), [link.parent for link in self.links])[0]
        return self._all(self.paths.sums(steps), fixed)

    def centres(self, q: Array, p: Any) -> Array:
        """Centres of mass of the moving bodies (bodies, d)."""
        return jnp.stack(self.poses(q, p).pick(range(len(self.moving))).position, axis=1)

    # Velocities -----------------------------------------------------------------------------------------------------

    def directions(self, poses: Poses, p: Any) -> Iterator[tuple[str, tuple[int, ...], list[tuple[bool, Vector]]]]:
        """For each kind of links its members and, for each of their velocities, whether it is a rotation, and the axis of
        b's motion relative to a, in the world. Axes of one link, of rotations and of slides, are orthonormal."""
        for kind, own in self.kinds:
            ends = [self.links[k].b for k in own]
            one, d = jnp.ones(len(own)), self.dimension
            if d == 2:
                turn: list[tuple[bool, Vector]] = [(True, (one,))]
            elif kind in ("free", "spherical"):
                turn = [(True, axis) for axis in poses.pick(ends).axes]
            elif kind in ("revolute", "cylindrical", "universal"):
                turn = [(True, self._axis_a(own, poses, p))]
            if kind == "free":
                found = [(False, tuple(one * (i == k) for i in range(d))) for k in range(d)] + turn
            elif kind in ("revolute", "spherical"):
                found = turn
            elif kind == "prismatic":
                found = [(False, self._axis_a(own, poses, p))]
            elif kind == "cylindrical":
                found = [*turn, (False, turn[0][1])]
            elif kind == "universal":
                links = [self.links[k] for k in own]
                found = [*turn, (True, poses.pick(ends).turned(unit(turns.read(p, links, "axis_b"))))]
            else:
                found = []
            yield kind, own, found

    def motion(self, u: Array, poses: Poses, p: Any) -> Motion:
        """All frames; those that are fixed do not move."""
        spins: list[Any] = []
        slides: list[Any] = []
        for kind, own, axes in self.directions(poses, p):
            rates = self.members(kind, u, of_u=True)
            for wanted, into in ((True, spins), (False, slides)):
                parts = [
                    times(rate, axis) for rate, (turns_, axis) in zip(rates, axes, strict=True) if turns_ == wanted
                ]
                if parts:
                    into.append((own, [sum(x[1:], x[0]) for x in zip(*parts, strict=True)]))
        still = np.zeros(len(self.fixed), u.dtype)

        def all_of(rows: Array) -> Vector:
            return tuple(self._all(x, still) for x in rows)

        size = 1 if self.dimension == 2 else 3
        relative = self._of_links(spins, u.dtype) if spins else jnp.zeros((size, len(self.links)), u.dtype)
        spin = all_of(self.paths.sums(self._signed(relative)))
        a, b = self.arms(poses, p)
        rest = tuple(jnp.zeros(len(self.links), u.dtype) for _ in range(self.dimension))
        of_a, of_b = (
            Motion(rest, pick(spin, ends)).of_points(arm) for ends, arm in zip(self._ends, (a, b), strict=True)
        )
        step = jnp.stack(minus(of_a, of_b))
        if slides:
            step = step + self._of_links(slides, u.dtype)
        return Motion(all_of(self.paths.sums(self._signed(step))), spin)

    def arms(self, poses: Poses, p: Any) -> tuple[Vector, Vector]:
        """From the centres of mass a and b of links to their joint, which is where the joint's point on b is."""
        a, b = (poses.pick(ends) for ends in self._ends)
        arm = b.turned(self.points(p, "b"))
        return minus(plus(b.position, arm), a.position), arm

    def joints_at(self, poses: Poses, p: Any) -> Vector:
        """From the centre of mass of each body to the joint of its link."""
        a, b = self.arms(poses, p)
        return tuple(jnp.where(self.signs > 0, y, x) for x, y in zip(a, b, strict=True))

    def q_dot(self, q: Array, u: Array) -> Array:
        """q̇, with the rates of quaternions."""
        if self.nq == self.nu:
            return u
        parts = []
        for k, link in enumerate(self.links):
            (i, n), (j, m) = ((int(self.places[x][k]), self.entries(link)[x]) for x in (0, 1))
            if n == m:
                parts.append(u[j : j + m])
            else:
                parts.append(u[j : j + m - 3])
                parts.append(quaternion_rate(q[i + n - 4 : i + n], u[j + m - 3 : j + m]))
        return jnp.concatenate([*parts, u[self.nu - self.pads :]])


def _product(a: Array, b: Array) -> Array:
    """AB for rotations (3, 3, n) by their columns: [k, i] is component i of axis k."""
    return jnp.sum(a[None] * b[:, :, None], axis=1)
