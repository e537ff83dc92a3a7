"""Energy-consistent integrators: the discrete energy balance holds for every step size.

All of them pose the same impact-free step from (q^B, u^C) to (q^E, u^E), with discrete derivatives D(q^B, q^E) of
potential, constraints and gaps. They differ in the form of the inertia terms, in the levels of the constraints, and in
what they do about impacts. Forces that have no potential are taken at the midpoint, with the mean velocity, or explicitly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
from jax import Array, lax

from ..model.system import Rows, System
from ..solve import implicit
from .base import Configuration, DirectDirections, Directions, Step, Theta, check_solver, law_table, with_row_of_system
from .impact_free import End, Form, ImpactFree, closed
from .levels import velocity_level
from .levels.reduced import Restitution, check_restitution, solve_impact

Normals = Literal["discrete", "begin"]
Levels = Literal["both", "position"]
Sticking = Literal["consistent", "moreau"]
Damping = Literal["midpoint", "begin"]


class _Memory(NamedTuple):
    P: Array  # percussions of the impact-free step, a guess
    Lambda: Array  # of the impact, a guess


@dataclass(frozen=True)
class _Consistent(ABC):
    """What all energy-consistent integrators share."""

    normals: Normals = "discrete"
    damping: Damping = "midpoint"
    tol: float | None = None
    solver: str = "newton"

    def __post_init__(self) -> None:
        check_solver(self)
        self._check("normals", Normals)
        self._check("damping", Damping)

    def _check(self, name: str, allowed: Any) -> None:
        if getattr(self, name) not in get_args(allowed):
            given = getattr(self, name)
            raise ValueError(f"{type(self).__name__}: {name} must be one of {get_args(allowed)}, got {given!r}.")

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> _Memory:
        n = law_table(system.rows(t, q, u)).size
        return _Memory(jnp.zeros((n,), u.dtype), jnp.zeros((n,), u.dtype))

    @abstractmethod
    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        """The form of the impact-free step; raises where the scheme does not fit the system."""

    def _impact_free(self, form: Form, theta: Theta) -> tuple[End, Any]:
        form = form._replace(explicit_damping=self.damping == "begin")
        free = ImpactFree(theta.system.rows(theta.t, theta.q, theta.u), form)
        end, stats = implicit.solve(free.problem().solved_by(self.solver), theta)
        return end, with_row_of_system(stats, free.rows_of_system())

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: _Memory, tol: Array) -> Step:
        form = self._form(system, t, q, u)
        end, stats = self._impact_free(form, Theta(system, t, dt, q, u, memory.P, tol))
        return Step(end.q, end.u, end.P, memory._replace(P=lax.stop_gradient(end.P)), (stats,))


@dataclass(frozen=True)
class EnergyConstantMass(_Consistent):
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
    - solver: how inclusions are solved: "newton", or another method of `jaxns.solve_contacts`, to compare

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
class EnergyCoordinateMass(_Consistent):
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
class EnergyDecomposedMass(_Consistent):
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
        return _decomposed(self, system, t, q, u)


@dataclass(frozen=True)
class _TwoStep(_Consistent):
    """What the schemes share that put an impact before the impact-free step."""

    restitution: Restitution = "newton"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_restitution(self)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: _Memory, tol: Array) -> Step:
        rows = system.rows(t, q, u)
        theta = Theta(system, t, dt, q, u, memory.Lambda, tol)
        u_C, Lambda, stats_1, reduced = solve_impact(self, law_table(rows), _begin, partial(_impact, rows), theta)
        form = self._form(system, t, q, u)
        end, stats_2 = self._impact_free(form, theta._replace(u=u_C, P_guess=memory.P))
        memory = _Memory(lax.stop_gradient(end.P), lax.stop_gradient(Lambda))
        return Step(end.q, end.u, Lambda + end.P, memory, (stats_1, stats_2), reduced=reduced)


@dataclass(frozen=True)
class EnergyTwoStep(_TwoStep):
    """Energy-consistent integrator with impacts, in two steps.

    At the beginning of a step, an impact at fixed q^B (Möller 2011, eq. 5.106):

        M (u^C − u^B) = W_g Λ_g + W_γ Λ_γ + W_N Λ_N + W_F Λ_F
        ġ^C = 0,  γ^C = 0
        g_N(q^B) ≤ 0:  ġ_N^C + e_N ġ_N^B ∈ N_{R−}(−Λ_N),   γ_F^C + e_F γ_F^B ∈ N_{C_F(Λ_N)}(−Λ_F)

    then the impact-free step (5.107) from (q^B, u^C): that of `EnergyConstantMass`, of `EnergyCoordinateMass` for M(q), or
    of `EnergyDecomposedMass` for systems with kinematics. The energy never rises where the impact law dissipates, for any
    step size; with e_N = 1 and no friction it is constant.

    - sticking: friction in the impact-free step by Wᵀ(q^E − q^B) ("consistent"), which lets the velocity of a sticking
      contact oscillate, or by the velocity γ_F(u^E) as in Moreau's rule ("moreau"), which gives up consistency there
    - midpoint: as in `EnergyDecomposedMass`
    - restitution: "newton"; or "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`
    - normals, damping, tol, solver: as in `EnergyConstantMass`

    >>> import jaxns as ns
    >>> p = ns.models.impact_oscillator()
    >>> traj = ns.simulate(p.system, ns.EnergyTwoStep(), p.q0, p.u0, dt=1e-3, num_steps=60)
    >>> E = ns.energy(p.system, traj).total
    >>> bool((E[1:] - E[:-1]).max() < 1e-9)
    True
    """

    sticking: Sticking = "consistent"
    midpoint: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("sticking", Sticking)

    def _form(self, system: System, t: Array, q: Array, u: Array) -> Form:
        if system.kinematics is None:
            form = Form(False, not system.constant_mass(t, q), True, self.normals == "discrete")
        else:
            form = _decomposed(self, system, t, q, u)
        return form._replace(velocity_friction=self.sticking == "moreau")


@dataclass(frozen=True)
class EnergyQuaternion(_Consistent):
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
        _needs_constant_mass(self, system, t, q)
        form = Form(True, False, False, self.normals == "discrete", restitution=True)
        return form._replace(gyroscopic=q.shape == u.shape)


@dataclass(frozen=True)
class EnergyQuaternionTwoStep(_TwoStep):
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
        _needs_constant_mass(self, system, t, q)
        return Form(True, False, False, self.normals == "discrete", gyroscopic=q.shape == u.shape)


def _decomposed(integrator: Any, system: System, t: Array, q: Array, u: Array) -> Form:
    """The form of `EnergyDecomposedMass`."""
    name = type(integrator).__name__
    _needs_constant_mass(integrator, system, t, q)
    if q.shape != u.shape:
        raise ValueError(
            f"{name} needs as many positions as velocities, got {q.shape[0]} and {u.shape[0]}; use EnergyQuaternion or "
            "EnergyQuaternionTwoStep for quaternions with angular velocities."
        )
    form = Form(True, False, True, integrator.normals == "discrete")
    return form._replace(gyroscopic=True, midpoint=integrator.midpoint)


def _needs_constant_mass(integrator: Any, system: System, t: Array, q: Array) -> None:
    if not system.constant_mass(t, q):
        raise ValueError(
            f"{type(integrator).__name__} needs a constant mass matrix; use EnergyCoordinateMass or EnergyTwoStep for M(q)."
        )


# The impact ---------------------------------------------------------------------------------------------------------


def _begin(theta: Theta) -> Configuration:
    return Configuration(theta.system, theta.t, theta.q, theta.u)


def _impact(rows: Rows, theta: Theta, d: Directions | DirectDirections) -> velocity_level.Impact:
    system, t, _, q, u, guess, tol = theta
    before, mu = velocity_level.restitution(system, rows, system.velocities(t, q, u))
    return velocity_level.Impact(u, before, mu, closed(theta), guess, tol)
