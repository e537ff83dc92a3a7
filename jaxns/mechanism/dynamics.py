"""Inertia, potential and forces of a mechanism as functions of t, q, u and p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .coordinates import Coordinates
from .forces import Input
from .frames import Frames, columns, minus, plus, stack, take


@dataclass(frozen=True)
class Mass:
    """`mass(t, q, p) -> (nu, nu)`: one block for each body, and ones for pads."""

    frames: Frames

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        names, d = self.frames.moving, self.frames.dimension
        m = stack(p, [f"{name}.mass" for name in names])[:, None]
        inertias = [p[f"{name}.inertia"] for name in names]
        pads = jnp.ones((self.frames.pads,), m.dtype)
        if all(inertia.ndim == d - 2 for inertia in inertias):
            moments = jnp.stack(inertias).reshape(len(names), -1)
            diagonal = jnp.concatenate([jnp.broadcast_to(m, (len(names), d)), moments], axis=1).reshape(-1)
            return jnp.diag(jnp.concatenate([diagonal, pads]) if self.frames.pads else diagonal)
        tensors = jnp.stack([inertia if inertia.ndim == 2 else jnp.diag(inertia) for inertia in inertias])
        blocks = jnp.pad(m[:, :, None] * jnp.eye(3), [(0, 0), (0, 3), (0, 3)]) + jnp.pad(
            tensors, [(0, 0), (3, 0), (3, 0)]
        )
        apart = jnp.eye(len(names), dtype=m.dtype)[:, None, :, None] * blocks[:, :, None, :]
        M = apart.reshape(6 * len(names), 6 * len(names))
        return jnp.pad(M, (0, self.frames.pads)) + jnp.diag(jnp.pad(pads, (M.shape[0], 0))) if self.frames.pads else M


@dataclass(frozen=True)
class Potential:
    """`potential(t, q, p) -> scalar`: weight, springs, and what presses pads."""

    frames: Frames
    springs: Coordinates | None
    stiffness: tuple[str, ...]
    rest: tuple[str, ...]
    pressed: tuple[str, ...]  # keys of the forces on pads

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        names = self.frames.moving
        m = stack(p, [f"{name}.mass" for name in names])
        V = -m @ (self.frames.centres(q, p) @ p["gravity"])
        if self.springs is not None:
            stretch = self.springs(q, p) - stack(p, self.rest)
            V = V + 0.5 * jnp.sum(stack(p, self.stiffness) * stretch**2)
        if self.pressed:
            V = V + stack(p, self.pressed) @ q[-self.frames.pads :]
        return V


@dataclass(frozen=True)
class Forces:
    """`force(t, q, u, p) -> (nu,)`: gyroscopic forces of bodies in space, dampers, motors, forces and torques.

    All elements act by their power: a force f on a velocity v(u), linear in u, is (∂v/∂u)ᵀ f.
    """

    frames: Frames
    dampers: Coordinates | None = None
    damping: tuple[str, ...] = ()
    motors: Coordinates | None = None
    torques_of_motors: tuple[Callable[..., Array], ...] = ()
    forces: tuple[tuple[int, str, Input], ...] = ()
    torques: tuple[tuple[int, Input], ...] = ()
    balls: tuple[tuple[int, int, str], ...] = ()  # frames a and b of ball joints, and the keys of their damping

    @property
    def empty(self) -> bool:
        return not (self.frames.of_spins or self.dampers or self.motors or self.forces or self.torques or self.balls)

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        h = self._gyroscopic(u, p) if self.frames.of_spins else jnp.zeros_like(u)
        elements = (
            (self.dampers, self._damping),
            (self.motors, self._motors),
            (self.forces, self._forces),
            (self.torques, self._torques),
            (self.balls, self._balls),
        )
        for present, load in elements:
            if present:
                h = h + load(t, q, u, p)
        return h

    def _gyroscopic(self, u: Array, p: Any) -> Array:
        """−ω × Θω."""
        spin = self.frames.bodies(u)[:, 3:]
        inertias = [p[f"{name}.inertia"] for name in self.frames.moving]
        if all(inertia.ndim == 1 for inertia in inertias):
            momentum = jnp.stack(inertias) * spin
        else:
            tensors = jnp.stack([inertia if inertia.ndim == 2 else jnp.diag(inertia) for inertia in inertias])
            momentum = jnp.sum(tensors * spin[:, None, :], axis=2)
        moments = -jnp.cross(spin, momentum)
        h = jnp.pad(moments, [(0, 0), (3, 0)]).reshape(-1)
        return jnp.pad(h, (0, self.frames.pads)) if self.frames.pads else h

    def _damping(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        assert self.dampers is not None
        rates, push = jax.vjp(partial(self.dampers.rates, q, p=p), u)
        return push(-stack(p, self.damping) * rates)[0]

    def _balls(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        poses = self.frames.poses(q, p)
        a, b = [a for a, _, _ in self.balls], [b for _, b, _ in self.balls]

        def spins(u: Array) -> Array:
            spin = self.frames.motion(u, poses, p)
            return jnp.stack(minus(spin.pick(b).spin, spin.pick(a).spin))

        spin, push = jax.vjp(spins, u)
        return push(-stack(p, [key for _, _, key in self.balls]) * spin)[0]

    def _motors(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        assert self.motors is not None
        coordinates = self.motors(q, p)
        rates, push = jax.vjp(partial(self.motors.rates, q, p=p), u)
        given = [f(t, coordinates[k], rates[k], p) for k, f in enumerate(self.torques_of_motors)]
        return push(_stacked(given, ()))[0]

    def _forces(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        poses, index = self.frames.poses(q, p), [i for i, _, _ in self.forces]
        own = poses.pick(index)
        arm = own.turned(columns(stack(p, [key for _, key, _ in self.forces])))

        def velocities(u: Array) -> Array:
            return jnp.stack(self.frames.motion(u, poses, p).pick(index).of_points(arm), axis=1)

        v, push = jax.vjp(velocities, u)
        x = jnp.stack(plus(own.position, arm), axis=1)
        given = [f(t, x[k], v[k], p) for k, (_, _, f) in enumerate(self.forces)]
        return push(_stacked(given, (self.frames.dimension,)))[0]

    def _torques(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        poses, index = self.frames.poses(q, p), [i for i, _ in self.torques]

        def spins(u: Array) -> Array:
            spin = self.frames.motion(u, poses, p).pick(index).spin
            return jnp.stack(spin, axis=1) if len(spin) > 1 else spin[0]

        spin, push = jax.vjp(spins, u)
        if self.frames.dimension == 2:
            places = take(self.frames.angles(q, p), index)
        else:
            places = jnp.stack([jnp.stack(axis, axis=1) for axis in poses.pick(index).axes], axis=2)
        given = [f(t, places[k], spin[k], p) for k, (_, f) in enumerate(self.torques)]
        return push(_stacked(given, spin.shape[1:]))[0]


def _stacked(given: list[Array], shape: tuple[int, ...]) -> Array:
    for f in given:
        if jnp.shape(f) != shape:
            raise ValueError(f"a load returned shape {jnp.shape(f)}, where {shape} is expected.")
    return jnp.stack(given)


@dataclass(frozen=True)
class Kinematics:
    """`kinematics(t, q, u, p) -> (nq,)` where there are quaternions."""

    frames: Frames

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        return self.frames.q_dot(q, u)
