"""Mass matrix and gyroscopic forces of a mechanism, with the rotors of its joints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from .coordinates import Coordinates
from .dynamics import Mass
from .errors import MechanismError
from .frames import Frames, stack
from .joints import Row
from .tree.frames import JointFrames
from .tree.inertia import Gyroscopic, TreeMass

Function = Callable[..., Array]


@dataclass(frozen=True)
class WithRotors:
    """`mass(t, q, p) -> (nu, nu)` with armature: inertia a_k along coordinates x_k of joints, Σ a_k (∂ẋ_k/∂u)ᵀ(∂ẋ_k/∂u)."""

    mass: Function
    rotors: Coordinates
    keys: tuple[str, ...]

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        M = self.mass(t, q, p)
        J = jax.jacfwd(lambda u: self.rotors.rates(q, u, p))(jnp.zeros(M.shape[0], M.dtype))
        return M + jnp.sum(stack(p, self.keys)[:, None, None] * J[:, :, None] * J[:, None, :], axis=0)


@dataclass(frozen=True)
class RotorsTurn:
    """`gyroscopic_force(t, q, u, p) -> (nu,)` of rotors where u has spins of bodies: Σ a_k (∂ẋ_k/∂u)ᵀ ẍ_k for u̇ = 0."""

    rotors: Coordinates
    keys: tuple[str, ...]

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        rates = self.rotors.rates
        bend = jax.jvp(lambda q: rates(q, u, p), (q,), (self.rotors.frames.q_dot(q, u),))[1]
        _, push = jax.vjp(lambda u: rates(q, u, p), u)
        return push(stack(p, self.keys) * bend)[0]


def inertia(frames: Frames, rotors: Sequence[tuple[Row, str]]) -> tuple[Function, Function | None]:
    """Mass matrix and gyroscopic forces as functions."""
    tree = frames if isinstance(frames, JointFrames) else None
    mass: Function = Mass(frames) if tree is None else TreeMass(tree)
    gyroscopic: Function | None = None if tree is None else Gyroscopic(tree)
    if not rotors:
        return mass, gyroscopic
    along, keys = Coordinates.of(frames, [row for row, _ in rotors]), tuple(key for _, key in rotors)
    if along.kinds and tree is not None:
        raise MechanismError("Mechanism: armature is for joints of the tree where coordinates are those of joints.")
    if tree is None and frames.of_spins:
        gyroscopic = RotorsTurn(along, keys)
    return WithRotors(mass, along, keys), gyroscopic
