"""What the energy-consistent schemes differ in."""

from __future__ import annotations

from typing import NamedTuple

from jax import Array

from ..base import Theta


def closed(theta: Theta) -> Array:
    """Contacts of the index set I(q^B), with room for what the tolerance leaves of a gap that was closed."""
    return theta.system.g_N(theta.t, theta.q) <= 10.0 * theta.tol


class Form(NamedTuple):
    """What the impact-free steps of the schemes differ in."""

    kinematics: bool  # q̇ = F(q) u at the midpoint, instead of q̇ = u
    variable_mass: bool
    both_levels: bool  # bilateral constraints with multipliers λ̂ and κ̂
    discrete_normals: bool
    velocity_friction: bool = False  # friction by γ_F(u^E) instead of Wᵀ(q^E − q^B)
    restitution: bool = False  # in the law of the one step
    gyroscopic: bool = False  # whether the gyro matrix of the kinematics acts
    explicit_damping: bool = False  # whether forces without a potential are those of the begin of the step
    midpoint: bool = True  # whether kinematics are taken at the midpoint, or at q^B


class End(NamedTuple):
    q: Array
    u: Array
    P: Array  # (n,) rows (g, γ, N, F)
