"""Inertia of a tree in minimal coordinates: the mass matrix by composite bodies, gyroscopic forces by autodiff."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..frames import Motion, Poses, Vector, cross, dot, minus, pick, stack, times
from .frames import JointFrames


def swept(spin: Vector, arm: Vector) -> Vector:
    """ω × r."""
    return Motion(tuple(jnp.zeros_like(x) for x in arm), spin).of_points(arm)


def moment(arm: Vector, force: Vector) -> Vector:
    """r × f, one number in the plane."""
    return cross(arm, force) if len(arm) == 3 else (arm[0] * force[1] - arm[1] * force[0],)


@dataclass(frozen=True)
class Inertias:
    """Masses and inertias of the moving bodies."""

    frames: JointFrames

    def masses(self, p: Any) -> Array:
        return stack(p, [f"{name}.mass" for name in self.frames.moving])

    def tensors(self, poses: Poses, p: Any) -> tuple[Vector, ...]:
        """Inertia about the centres of mass in the world, rows of a matrix with entries (n,)."""
        given = [p[f"{name}.inertia"] for name in self.frames.moving]
        if self.frames.dimension == 2:
            return ((jnp.stack(given),),)
        axes = poses.pick(range(len(given))).axes
        if all(x.ndim == 1 for x in given):
            principal = jnp.stack(given, axis=1)
            scaled = tuple(times(moment, axis) for moment, axis in zip(principal, axes, strict=True))
        else:
            theta = jnp.stack([x if x.ndim == 2 else jnp.diag(x) for x in given], axis=2)
            scaled = tuple(tuple(dot(tuple(theta[k]), x) for x in zip(*axes, strict=True)) for k in range(3))
        return tuple(tuple(dot(x, y) for y in zip(*axes, strict=True)) for x in zip(*scaled, strict=True))


@dataclass(frozen=True)
class TreeMass:
    """`mass(t, q, p) -> (nu, nu)` of a tree, and ones for pads.

    M_kl = s_lᵀ I_k s_k for each velocity l on the path to k: I_k is the inertia of all bodies that follow k, taken as one,
    and s_k the twist of u_k alone (composite rigid bodies; Featherstone, Rigid Body Dynamics Algorithms, 2008, 6.2). All
    are taken about a point of their own tree, the centre of mass of its first body.
    """

    frames: JointFrames

    @cached_property
    def _owners(self) -> list[int]:
        """The body of each velocity."""
        return [k for k, link in enumerate(self.frames.links) for _ in range(self.frames.entries(link)[1])]

    @cached_property
    def _roots(self) -> list[int]:
        """The first body of the tree of each body."""
        return [int(k) for k in np.argmax(self.frames.paths.on_path & (self.frames.paths.depths == 0), axis=1)]

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        frames, owners = self.frames, self._owners
        poses = frames.poses(q, p)
        own = poses.pick(range(len(frames.moving)))
        m, first, theta = self._composite(poses, own, p)
        spin, velocity = self._twists(poses, own, p)
        arm, about = pick(first, owners), tuple(pick(row, owners) for row in theta)
        mass = pick((m,), owners)[0]
        momentum = tuple(mass * v + w for v, w in zip(velocity, swept(spin, arm), strict=True))
        angular = tuple(x + dot(row, spin) for x, row in zip(moment(arm, velocity), about, strict=True))
        found = [x[:, None] * y for x, y in zip((*momentum, *angular), (*velocity, *spin), strict=True)]
        G = sum(found[1:], found[0])  # [k, l]: momentum by u_k of what follows it, along the twist of u_l
        below = self.frames.paths.on_path[np.ix_(owners, owners)]
        M = jnp.where(below, G, jnp.where(below.T, G.T, 0.0))
        if not frames.pads:
            return M
        return jnp.pad(M, (0, frames.pads)) + jnp.diag(jnp.pad(jnp.ones(frames.pads, M.dtype), (len(owners), 0)))

    def _composite(self, poses: Poses, own: Poses, p: Any) -> tuple[Array, Vector, tuple[Vector, ...]]:
        """Mass, first moment and inertia of each body with all that follow it."""
        inertias = Inertias(self.frames)
        m = inertias.masses(p)
        r = minus(own.position, pick(own.position, self._roots))
        theta = inertias.tensors(poses, p)
        square = dot(r, r)
        if len(r) == 2:
            parts = [m, *times(m, r), theta[0][0] + m * square]
        else:
            steiner = [theta[i][j] + m * (square * (i == j) - r[i] * r[j]) for i in range(3) for j in range(i, 3)]
            parts = [m, *times(m, r), *steiner]
        whole = self.frames.paths.sums_of_subtrees(jnp.stack(parts))
        if len(r) == 2:
            return whole[0], (whole[1], whole[2]), ((whole[3],),)
        xx, xy, xz, yy, yz, zz = whole[4:]
        return whole[0], (whole[1], whole[2], whole[3]), ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))

    def _twists(self, poses: Poses, own: Poses, p: Any) -> tuple[Vector, Vector]:
        """Angular velocity of each u_k = 1, and the velocity of its tree's point, (nu,) each."""
        frames = self.frames
        arms = tuple(minus(own.position, pick(own.position, self._roots)))
        joint = frames.joints_at(poses, p)  # from the centre of mass of the body to its joint
        rows: list[Array] = []
        places: list[int] = []
        d = frames.dimension
        for _, members, axes in frames.directions(poses, p):
            signs = frames.signs[list(members)]
            to_point = tuple(
                -(pick((x,), members)[0] + pick((y,), members)[0]) for x, y in zip(arms, joint, strict=True)
            )
            for k, (turns, axis) in enumerate(axes):
                axis = times(jnp.asarray(signs), axis) if (signs < 0).any() else axis
                none = tuple(jnp.zeros_like(to_point[0]) for _ in range(1 if d == 2 else 3))
                spin, velocity = (axis, swept(axis, to_point)) if turns else (none, axis)
                rows.append(jnp.stack([jnp.broadcast_to(x, to_point[0].shape) for x in (*spin, *velocity)]))
                places.extend(frames.places[1][list(members)] + k)
        whole = jnp.concatenate(rows, axis=1) if len(rows) > 1 else rows[0]
        if places != sorted(places):
            whole = whole[:, np.argsort(places)]
        n = whole.shape[0] - d
        return tuple(whole[:n]), tuple(whole[n:])


@dataclass(frozen=True)
class Gyroscopic:
    """`gyroscopic_force(t, q, u, p) -> (nu,)` of a tree: the forces that u̇ = 0 takes.

    Bodies then have the accelerations a = J̇u, by differentiating their velocities along q̇, and take the forces m a and
    Θα + ω × Θω, whose power is that of (nu,) generalized forces.
    """

    frames: JointFrames

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        frames, bodies = self.frames, range(len(self.frames.moving))

        def velocities(q: Array, u: Array) -> tuple[Vector, Vector]:
            motion = frames.motion(u, frames.poses(q, p), p).pick(bodies)
            return motion.velocity, motion.spin

        (_, spin), (a, alpha) = jax.jvp(lambda q: velocities(q, u), (q,), (frames.q_dot(q, u),))
        inertias, poses = Inertias(frames), frames.poses(q, p)
        theta = inertias.tensors(poses, p)
        force = times(inertias.masses(p), a)
        torque = tuple(dot(row, alpha) for row in theta)
        if len(spin) == 3:
            torque = tuple(
                x + y for x, y in zip(torque, cross(spin, tuple(dot(row, spin) for row in theta)), strict=True)
            )
        _, push = jax.vjp(lambda u: velocities(q, u), u)
        return push((force, torque))[0]
