"""Energy-consistent integrators in one step: perfectly elastic contacts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jax import Array

from ...model.system import System
from .form import Form
from .steps import Consistent, decomposed

Levels = Literal["both", "position"]


@dataclass(frozen=True)
class EnergyConstantMass(Consistent):
    """Energy-consistent integrator for a constant mass matrix and q̇ = u.

        M (u^E − u^B) + Δt DVᵀ − Dgᵀ λ̂ − Dγ(u^E)ᵀ κ̂ − W λ̂_i = 0
        M (q^B − q^E) + Δt/2 M (u^B + u^E) − (∂γ/∂u(q^B))ᵀ κ̂ = 0
        g(q^E) = 0,    γ(u^E, q^E) = 0          with γ = ġ
        g_N(q^B) ≤ 0:  Wᵀ(q^E − q^B) ∈ N_C(−λ̂_i)

    (Möller 2011, eqs. 5.31, 5.49, 5.95.) Second order. The total energy is constant where no friction and damping act:
    contacts are perfectly elastic, whatever e_N is. `EnergyTwoStep` has restitution.

    - levels: "both", or "position" for g(q^E) = 0 alone (5.31), whose velocities oscillate about the constraint
    - normals: directions of normal forces, "discrete" for Dg_N (then g_N(q^E) ≥ g_N(q^B)) or "begin" for W_N(q^B)
    - damping: forces without a potential at the "midpoint", with the mean velocity, so that damping takes energy away; or
      at the "begin" (t^B, q^B, u^C) of the impact-free step as in the thesis, which is explicit, and where it may not
    - tol: tolerance on constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", another method of `jaxns.solve_contacts`, or a `jaxns.Solver`, to compare

    >>> import jaxns as ns
    >>> p = ns.models.double_pendulum()
    >>> traj = ns.simulate(p.system, ns.EnergyConstantMass(), p.q0, p.u0, dt=0.01, num_steps=20)
    >>> E = ns.energy(p.system, traj).total
    >>> bool(abs(E - E[0]).max() < 1e-9)
    True
    """

    levels: Levels = "both"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("levels", Levels)

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        if system.kinematics is not None or not system.constant_mass(t, q):
            raise ValueError(
                "EnergyConstantMass needs a constant mass matrix and q̇ = u; use EnergyCoordinateMass for M(q), and "
                "EnergyQuaternion or EnergyQuaternionTwoStep for systems with kinematics."
            )
        return Form(False, False, self.levels == "both", self.normals == "discrete")


@dataclass(frozen=True)
class EnergyCoordinateMass(Consistent):
    """Energy-consistent integrator for a mass matrix M(q) and q̇ = u, with constraints on both levels.

    As `EnergyConstantMass`, with M at q^B and the inertia terms

        M(q^B) (u^E − u^B) + G(u^B, q^B) (q^E − q^B) + Δt DT(u^E; q^B, q^E)ᵀ + Δt DVᵀ − … = 0,

    G_ij = (∂M_ik/∂q_j − ∂M_jk/∂q_i) u_k (Möller 2011, eq. 5.58). Its accuracy is of first order.

    - normals, damping, tol, solver: as in `EnergyConstantMass`

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> bead = ns.System(  # on the parabola y = x²
    ...     dict(m=1.0),
    ...     mass=lambda t, q, p: p["m"] * (1.0 + 4.0 * q[:, None] ** 2),
    ...     potential=lambda t, q, p: 9.81 * p["m"] * q[0] ** 2,
    ... )
    >>> traj = ns.simulate(bead, ns.EnergyCoordinateMass(), jnp.array([1.0]), jnp.array([0.0]), dt=0.1, num_steps=20)
    >>> E = ns.energy(bead, traj).total
    >>> bool(abs(E - E[0]).max() < 1e-8)
    True
    """

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        if system.kinematics is not None:
            raise ValueError(
                "EnergyCoordinateMass needs q̇ = u; use EnergyDecomposedMass, EnergyQuaternion or a two-step scheme for "
                "systems with kinematics."
            )
        return Form(False, not system.constant_mass(t, q), True, self.normals == "discrete")


@dataclass(frozen=True)
class EnergyDecomposedMass(Consistent):
    """Energy-consistent integrator for q̇ = B(q) u with square B and constant mass, on both levels.

    With Q = B⁻¹, u = Q(q) q̇, the momenta π = Q(q)ᵀ M u and the gyro matrix H(u, q) = ∂π/∂q − (∂π/∂q)ᵀ,

        Q(q^B)ᵀ M (u^E − u^B) + H(u^B, q^B)(q^E − q^B) + Δt DVᵀ − Dgᵀ λ̂ − Dγ(u^E)ᵀ κ̂ − W λ̂_i = 0
        M Q(q^B)(q^B − q^E) + Δt/2 M (u^B + u^E) − (∂γ/∂u(q^B))ᵀ κ̂ = 0

    and the rows of `EnergyConstantMass` (Möller 2011, eq. 5.72). The gyroscopic forces are H, those of `System.gyroscopic`.
    Contacts are perfectly elastic.

    - midpoint: Q and H at the midpoint, of second order; False takes those of q^B as (5.72) is printed, of first order
    - normals, damping, tol, solver: as in `EnergyConstantMass`

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> bead = ns.System(  # on the parabola y = x², with its speed as u
    ...     dict(m=1.0),
    ...     mass=lambda t, q, p: p["m"] * jnp.eye(1),
    ...     potential=lambda t, q, p: 9.81 * p["m"] * q[0] ** 2,
    ...     kinematics=lambda t, q, u, p: u / jnp.sqrt(1.0 + 4.0 * q**2),
    ... )
    >>> traj = ns.simulate(bead, ns.EnergyDecomposedMass(), jnp.array([1.0]), jnp.array([0.0]), dt=0.1, num_steps=20)
    >>> E = ns.energy(bead, traj).total
    >>> bool(abs(E - E[0]).max() < 1e-8)
    True
    """

    midpoint: bool = True

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        return decomposed(self, system, t, q, u)
