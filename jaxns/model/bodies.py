"""Rigid bodies as arguments of `System`: inertia, kinematics and constraints of one body in several formulations.

Each function returns keyword arguments: `ns.System(params, **ns.bodies.quaternion_body(), potential=…)` is a body. They
read the mass `m` and, for spatial bodies, the inertia `Theta` about the centre of mass from the parameters: its principal
moments (3,), or the tensor (3, 3) in the body-fixed basis (Möller 2011, eq. 4.4). The planar body reads `m` and `J`.
(Möller 2011, chapter 4.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import block_diag

from .rotation import quaternion_product, quaternion_rate

Arguments = dict[str, Callable[..., Array]]


def point_mass(dimension: int = 3) -> Arguments:
    """q = r.

    >>> point_mass(2)["mass"](0.0, jnp.zeros(2), {"m": 3.0}).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    return {"mass": lambda t, q, p: p["m"] * jnp.eye(dimension)}


def planar_body() -> Arguments:
    """q = (x, y, φ) with mass m and moment of inertia J.

    >>> M = planar_body()["mass"](0.0, jnp.zeros(3), {"m": jnp.array(2.0), "J": jnp.array(0.5)})
    >>> jnp.diag(M).tolist()
    [2.0, 2.0, 0.5]
    """
    return {"mass": _planar_mass}


def quaternion_body() -> Arguments:
    """Newton–Euler equations: q = (r, p) with the unit quaternion p, u = (v, ω) with ω in the body-fixed basis.

    The arguments hold the gyroscopic force −ω × Θω.

    >>> body = quaternion_body()
    >>> q, u = jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 0.0, 0.0, 0.0, 2.0])
    >>> body["kinematics"](0.0, q, u, None)[4:].tolist()
    [0.0, 0.0, 1.0]
    """
    return {"mass": _newton_euler_mass, "kinematics": _newton_euler_kinematics, "force": _gyroscopic}


def affine_body() -> Arguments:
    """q = (r, d1, d2, d3) ∈ R¹² with the body-fixed basis d_i, u = q̇: a constant mass matrix from m and the Euler tensor
    E = ½ tr(Θ) I − Θ (Möller 2011, eq. 4.19), and six constraints d_i·d_j = δ_ij.

    >>> q = jnp.concatenate([jnp.zeros(3), jnp.eye(3).ravel()])  # at the origin, not turned
    >>> affine_body()["constraint"](0.0, q, None).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    """
    return {"mass": _affine_mass, "constraint": _orthonormal}


def scalable_body(rigid: bool = True) -> Arguments:
    """q = (r, A) ∈ R⁷ with a quaternion A of any length, u = (v, ν, ω), (ν, ω) = 2 A* Ȧ, M = diag(m I, ½ tr Θ, Θ).

    The constraint |A|² = 1, with the rate ν, makes it rigid; its force is −ωᵀΘω in free motion. Gyroscopic
    forces follow from the kinematics. For use with `EnergyDecomposedMass` and all other schemes for as many q as u.

    - rigid: whether the constraint is there

    >>> sorted(scalable_body()), sorted(scalable_body(rigid=False))
    (['constraint', 'kinematics', 'mass'], ['kinematics', 'mass'])
    """
    arguments: Arguments = {"mass": _scalable_mass, "kinematics": _scalable_kinematics}
    return arguments | ({"constraint": _unit_length} if rigid else {})


def _planar_mass(t: Array, q: Array, p: Any) -> Array:
    return jnp.diag(jnp.stack([p["m"], p["m"], p["J"]]))


def _newton_euler_mass(t: Array, q: Array, p: Any) -> Array:
    return _block_diagonal(jnp.broadcast_to(p["m"], (3,)), p["Theta"])


def _newton_euler_kinematics(t: Array, q: Array, u: Array, p: Any) -> Array:
    return jnp.concatenate([u[:3], quaternion_rate(q[3:], u[3:])])


def _gyroscopic(t: Array, q: Array, u: Array, p: Any) -> Array:
    omega = u[3:]
    return jnp.concatenate([jnp.zeros_like(omega), -jnp.cross(omega, _times(p["Theta"], omega))])


def _affine_mass(t: Array, q: Array, p: Any) -> Array:
    Theta, mass = p["Theta"], jnp.broadcast_to(p["m"], (3,))
    if Theta.ndim == 1:
        return _block_diagonal(mass, jnp.repeat(_half_trace(Theta) - Theta, 3))
    euler = _half_trace(Theta) * jnp.eye(3, dtype=Theta.dtype) - Theta
    return _block_diagonal(mass, jnp.kron(euler, jnp.eye(3, dtype=Theta.dtype)))


def _orthonormal(t: Array, q: Array, p: Any) -> Array:
    d1, d2, d3 = q[3:6], q[6:9], q[9:12]
    unit = [0.5 * (d @ d - 1.0) for d in (d1, d2, d3)]
    return jnp.stack([*unit, d1 @ d2, d2 @ d3, d3 @ d1])


def _scalable_mass(t: Array, q: Array, p: Any) -> Array:
    Theta = p["Theta"]
    head = jnp.concatenate([jnp.broadcast_to(p["m"], (3,)), _half_trace(Theta)[None]])
    return _block_diagonal(head, Theta)


def _block_diagonal(head: Array, block: Array) -> Array:
    """diag(head, block) for a block (n,), itself a diagonal, or (n, n)."""
    if block.ndim == 1:
        return jnp.diag(jnp.concatenate([head, block]))
    return block_diag(jnp.diag(head), block)


def _half_trace(Theta: Array) -> Array:
    """½ tr Θ."""
    return 0.5 * jnp.sum(Theta if Theta.ndim == 1 else jnp.diagonal(Theta))


def _times(Theta: Array, omega: Array) -> Array:
    return Theta * omega if Theta.ndim == 1 else Theta @ omega


def _scalable_kinematics(t: Array, q: Array, u: Array, p: Any) -> Array:
    A = q[3:]
    return jnp.concatenate([u[:3], 0.5 * quaternion_product(A, u[3:]) / (A @ A)])


def _unit_length(t: Array, q: Array, p: Any) -> Array:
    return jnp.stack([q[3:] @ q[3:] - 1.0])
