"""Energy-consistent integrators for kinematics that are linear in q, such as quaternions."""

from __future__ import annotations

from dataclasses import dataclass

from jax import Array

from ...model.system import System
from .form import Form
from .steps import Consistent, TwoStep, needs_constant_mass


@dataclass(frozen=True)
class EnergyQuaternion(Consistent):
    """Energy-consistent integrator in one step for kinematics q̇ = F(q) u that are linear in q, such as quaternions.

        M (u^E − u^B) + Δt (H(ū) ū + F(q̄)ᵀ DVᵀ) − W λ̂ = 0
        q^E − q^B = Δt F(q̄) ū
        g(q^E) = 0
        g_N(q^B) ≤ 0:  W_iᵀ (u^B + u^E + (1−ε_i)/(1+ε_i) M⁻¹ W λ̂) ∈ N_C(−λ̂_i)

    with the midpoints q̄, ū, and W_N = F(q̄)ᵀ Dg_Nᵀ or W_N(q^B) (Möller 2011, eq. 5.141). The length of quaternions is kept
    exactly. The energy never rises if all restitution coefficients are equal.

    - normals, damping, tol, solver: as in `EnergyConstantMass`

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> pendulum = ns.System(  # q = (cos φ, sin φ), u = φ̇
    ...     dict(m=1.0),
    ...     mass=lambda t, q, p: p["m"] * jnp.eye(1),
    ...     potential=lambda t, q, p: 9.81 * p["m"] * q[1],
    ...     kinematics=lambda t, q, u, p: jnp.stack([-q[1], q[0]]) * u,
    ... )
    >>> traj = ns.simulate(pendulum, ns.EnergyQuaternion(), jnp.array([1.0, 0.0]), jnp.array([0.0]), dt=0.1, num_steps=20)
    >>> E = ns.energy(pendulum, traj).total
    >>> bool(abs(E - E[0]).max() < 1e-8), bool(abs(jnp.sum(traj.q**2, axis=1) - 1.0).max() < 1e-9)
    (True, True)
    """

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        needs_constant_mass(self, system, t, q)
        form = Form(True, False, False, self.normals == "discrete", restitution=True)
        return form._replace(gyroscopic=q.shape == u.shape)


@dataclass(frozen=True)
class EnergyQuaternionTwoStep(TwoStep):
    """Energy-consistent integrator in two steps for kinematics q̇ = F(q) u that are linear in q, such as quaternions.

    An impact at fixed q^B as in `EnergyTwoStep`, then the step of `EnergyQuaternion` from (q^B, u^C) with ε_i = 1
    (Möller 2011, eqs. 5.157, 5.158): gaps do not drift, for any restitution coefficients.

    - restitution: as in `EnergyTwoStep`
    - normals, damping, tol, solver: as in `EnergyConstantMass`

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> pendulum = ns.System(  # q = (cos φ, sin φ), u = φ̇
    ...     dict(m=1.0),
    ...     mass=lambda t, q, p: p["m"] * jnp.eye(1),
    ...     potential=lambda t, q, p: 9.81 * p["m"] * q[1],
    ...     kinematics=lambda t, q, u, p: jnp.stack([-q[1], q[0]]) * u,
    ...     contacts=ns.Contacts(lambda t, q, p: q[1:] + 0.5, e_N=0.5),
    ... )
    >>> q0, u0 = jnp.array([1.0, 0.0]), jnp.array([0.0])
    >>> traj = ns.simulate(pendulum, ns.EnergyQuaternionTwoStep(), q0, u0, dt=0.05, num_steps=20)
    >>> E = ns.energy(pendulum, traj).total
    >>> bool((E[1:] - E[:-1]).max() < 1e-8), bool(E[-1] < E[0] - 1.0)  # the stop takes energy away, and none comes back
    (True, True)
    """

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        needs_constant_mass(self, system, t, q)
        return Form(True, False, False, self.normals == "discrete", gyroscopic=q.shape == u.shape)
