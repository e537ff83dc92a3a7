"""Which states of the stages of Lobatto IIIA–IIIB are unknown."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ..model.system import System


class Unknowns(NamedTuple):
    """Which stage positions and velocities of a system are smooth unknowns z; all others are explicit."""

    n_Q: int  # Q^2..Q^{n_Q+1}, as mean velocities (Q^i − q_n)/Δt
    n_V: int  # V^1..V^{n_V}
    nq: int
    nu: int
    variable_mass: bool

    @classmethod
    def of(cls, system: System, t: Array, q: Array, u: Array, s: int, large: bool = False) -> Unknowns:
        variable_mass = not system.constant_mass(t, q)
        kinematics = system.kinematics is not None
        if large:  # sparse in all velocities and percussions
            return cls(s - 1 if kinematics else 0, s, q.shape[0], u.shape[0], variable_mass)
        if variable_mass or system.velocity_dependent_force(t, q, u):
            # With q̇ = u all Q^i follow from all V^i; else V^s follows from the rest, if the mass matrix is constant.
            n_V = s - 1 if kinematics and not variable_mass else s
            n_Q = s - 1 if kinematics else 0
        else:
            n_V = 0
            inner = s - 2 if system.position_dependent_force(t, q, u) else 0
            n_Q = s - 1 if kinematics else inner
        return cls(n_Q, n_V, q.shape[0], u.shape[0], variable_mass)

    @property
    def size(self) -> int:
        return self.n_Q * self.nq + self.n_V * self.nu

    def split(self, z: Array) -> tuple[Array, Array]:
        """Mean velocities (n_Q, nq) and stage velocities (n_V, nu)."""
        border = self.n_Q * self.nq
        return z[:border].reshape(self.n_Q, self.nq), z[border:].reshape(self.n_V, self.nu)

    def join(self, mean: Array, V: Array) -> Array:
        return jnp.concatenate([mean.reshape(-1), V.reshape(-1)])
