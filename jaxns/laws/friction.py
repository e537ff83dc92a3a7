"""Friction laws: the set C_F(P_N) of admissible friction percussions of one contact."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from .sets import project_ball


@dataclass(frozen=True)
class Coulomb:
    """Isotropic Coulomb friction: C_F = ball of radius μ P_N, in one, two or three dimensions.

    One dimension is planar friction, two is spatial friction, and three, with a drilling velocity scaled by the
    effective contact radius as third component, approximates Coulomb–Contensou friction.

    >>> import jax.numpy as jnp
    >>> Coulomb().project(jnp.array([2.0]), jnp.array(0.5)).tolist()
    [0.5]
    """

    def project(self, x: Array, reservoir: Array) -> Array:
        """Projection onto C_F; x is (d, *lanes), reservoir = μ max(P_N, 0) is (*lanes)."""
        return project_ball(x, reservoir)
