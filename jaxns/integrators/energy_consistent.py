"""Energy-consistent integrators: the discrete energy balance holds for every step size.

All of them pose the same impact-free step from (q^B, u^C) to (q^E, u^E), with discrete derivatives D(q^B, q^E) of
potential, constraints and gaps. They differ in the form of the inertia terms, in the levels of the constraints, and in
what they do about impacts. Forces that have no potential are taken at the midpoint, with the mean velocity.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import dense, implicit
from ..solve.inclusion import Problem, Scaling
from . import velocity_level
from .base import (
    Configuration,
    DirectDirections,
    Directions,
    Step,
    Theta,
    check_solver,
    law_table,
    velocity_unit,
    with_row_of_system,
)
from .discrete_derivative import discrete_derivative, discrete_gradient

Normals = Literal["discrete", "begin"]
Levels = Literal["both", "position"]
Sticking = Literal["consistent", "moreau"]


class _Memory(NamedTuple):
    P: Array  # percussions of the impact-free step, a guess
    Lambda: Array  # of the impact, a guess


@dataclass(frozen=True)
class _Consistent:
    """What all energy-consistent integrators share."""

    normals: Normals = "discrete"
    tol: float | None = None
    solver: str = "newton"

    def __post_init__(self) -> None:
        check_solver(self)
        self._check("normals", Normals)

    def _check(self, name: str, allowed: Any) -> None:
        if getattr(self, name) not in get_args(allowed):
            given = getattr(self, name)
            raise ValueError(f"{type(self).__name__}: {name} must be one of {get_args(allowed)}, got {given!r}.")

    @property
    def num_solves(self) -> int:
        return 1

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> _Memory:
        n = law_table(system.rows(t, q, u)).size
        return _Memory(jnp.zeros((n,), u.dtype), jnp.zeros((n,), u.dtype))

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        raise NotImplementedError

    def _impact_free(self, form: _Form, theta: Theta) -> tuple[_End, Any]:
        free = _ImpactFree(theta.system.rows(theta.t, theta.q, theta.u), form)
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

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        if system.kinematics is not None or not system.constant_mass(t, q):
            raise ValueError(
                "EnergyConstantMass needs a constant mass matrix and q̇ = u; use EnergyCoordinateMass for M(q), and "
                "EnergyQuaternion or EnergyQuaternionTwoStep for systems with kinematics."
            )
        return _Form(False, False, self.levels == "both", self.normals == "discrete")


@dataclass(frozen=True)
class EnergyCoordinateMass(_Consistent):
    """Energy-consistent integrator for a mass matrix M(q) and q̇ = u, with constraints on both levels.

    As `EnergyConstantMass`, with M at q^B and the inertia terms

        M(q^B) (u^E − u^B) + G(u^B, q^B) (q^E − q^B) + Δt DT(u^E; q^B, q^E)ᵀ + Δt DVᵀ − … = 0,

    G_ij = (∂M_ik/∂q_j − ∂M_jk/∂q_i) u_k (Möller 2011, eq. 5.58). Its accuracy is of first order.

    - normals, tol, solver: as in `EnergyConstantMass`
    """

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        _needs_coordinates(self, system)
        return _Form(False, not system.constant_mass(t, q), True, self.normals == "discrete")


@dataclass(frozen=True)
class EnergyDecomposedMass(_Consistent):
    """Energy-consistent integrator for q̇ = B(q) u with square B and constant mass, on both levels.

    With Q = B⁻¹, u = Q(q) q̇, the momenta π = Q(q)ᵀ M u and the gyro matrix H(u, q) = ∂π/∂q − (∂π/∂q)ᵀ,

        Q(q^B)ᵀ M (u^E − u^B) + H(u^B, q^B)(q^E − q^B) + Δt DVᵀ − Dgᵀ λ̂ − Dγ(u^E)ᵀ κ̂ − W λ̂_i = 0
        M Q(q^B)(q^B − q^E) + Δt/2 M (u^B + u^E) − (∂γ/∂u(q^B))ᵀ κ̂ = 0

    and the rows of `EnergyConstantMass` (Möller 2011, eq. 5.72). The gyroscopic forces are H: `force` must not hold them.
    Contacts are perfectly elastic.

    - midpoint: Q and H at the midpoint, which is of second order instead of first
    - normals, tol, solver: as in `EnergyConstantMass`
    """

    midpoint: bool = True

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        _needs_constant_mass(self, system, t, q)
        if q.shape != u.shape:
            raise ValueError(
                f"EnergyDecomposedMass needs as many positions as velocities, got {q.shape[0]} and {u.shape[0]}; use "
                "EnergyQuaternion for quaternions with angular velocities."
            )
        form = _Form(True, False, True, self.normals == "discrete")
        return form._replace(gyroscopic=True, midpoint=self.midpoint)


class _Two:
    """Steps with an impact before the impact-free step."""

    @property
    def num_solves(self) -> int:
        return 2

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: _Memory, tol: Array) -> Step:
        rows = system.rows(t, q, u)
        theta = Theta(system, t, dt, q, u, memory.Lambda, tol)
        impact = velocity_level.problem(law_table(rows), _begin, partial(_impact, rows))
        (u_C, Lambda), stats_1 = implicit.solve(impact.solved_by(self.solver), theta)  # type: ignore[attr-defined]
        form = self._form(system, t, q, u)  # type: ignore[attr-defined]
        end, stats_2 = self._impact_free(form, theta._replace(u=u_C, P_guess=memory.P))  # type: ignore[attr-defined]
        memory = _Memory(lax.stop_gradient(end.P), lax.stop_gradient(Lambda))
        return Step(end.q, end.u, Lambda + end.P, memory, (stats_1, stats_2))


@dataclass(frozen=True)
class EnergyTwoStep(_Two, _Consistent):
    """Energy-consistent integrator with impacts, in two steps, for q̇ = u and any mass matrix.

    At the beginning of a step, an impact at fixed q^B (Möller 2011, eq. 5.106):

        M (u^C − u^B) = W_g Λ_g + W_γ Λ_γ + W_N Λ_N + W_F Λ_F
        ġ^C = 0,  γ^C = 0
        g_N(q^B) ≤ 0:  ġ_N^C + e_N ġ_N^B ∈ N_{R−}(−Λ_N),   γ_F^C + e_F γ_F^B ∈ N_{C_F(Λ_N)}(−Λ_F)

    then the impact-free step (5.107) of `EnergyConstantMass` or `EnergyCoordinateMass` from (q^B, u^C). The energy never
    rises where the impact law dissipates, for any step size; with e_N = 1 and no friction it is constant.

    - sticking: friction in the impact-free step by Wᵀ(q^E − q^B) ("consistent"), which lets the velocity of a sticking
      contact oscillate, or by the velocity γ_F(u^E) as in Moreau's rule ("moreau"), which gives up consistency there
    - normals, tol, solver: as in `EnergyConstantMass`

    >>> import jaxns as ns
    >>> p = ns.models.impact_oscillator()
    >>> traj = ns.simulate(p.system, ns.EnergyTwoStep(), p.q0, p.u0, dt=1e-3, num_steps=60)
    >>> E = ns.energy(p.system, traj).total
    >>> bool((E[1:] - E[:-1]).max() < 1e-9)
    True
    """

    sticking: Sticking = "consistent"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("sticking", Sticking)

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        _needs_coordinates(self, system)
        variable = not system.constant_mass(t, q)
        return _Form(False, variable, True, self.normals == "discrete", self.sticking == "moreau")


@dataclass(frozen=True)
class EnergyQuaternion(_Consistent):
    """Energy-consistent integrator in one step for kinematics q̇ = F(q) u that are linear in q, such as quaternions.

        M (u^E − u^B) + Δt (H(ū) ū + F(q̄)ᵀ DVᵀ) − W λ̂ = 0
        q^E − q^B = Δt F(q̄) ū
        g(q^E) = 0
        g_N(q^B) ≤ 0:  W_iᵀ (u^B + u^E + (1−ε_i)/(1+ε_i) M⁻¹ W λ̂) ∈ N_C(−λ̂_i)

    with the midpoints q̄, ū, and W_N = F(q̄)ᵀ Dg_Nᵀ or W_N(q^B) (Möller 2011, eq. 5.141). The length of quaternions is kept
    exactly. The energy never rises if all restitution coefficients are equal.

    - normals, tol, solver: as in `EnergyConstantMass`
    """

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        _needs_constant_mass(self, system, t, q)
        return _Form(True, False, False, self.normals == "discrete", restitution=True)


@dataclass(frozen=True)
class EnergyQuaternionTwoStep(_Two, _Consistent):
    """Energy-consistent integrator in two steps for kinematics q̇ = F(q) u that are linear in q, such as quaternions.

    An impact at fixed q^B as in `EnergyTwoStep`, then the step of `EnergyQuaternion` from (q^B, u^C) with ε_i = 1
    (Möller 2011, eqs. 5.157, 5.158): gaps do not drift, for any restitution coefficients.

    - normals, tol, solver: as in `EnergyConstantMass`
    """

    def _form(self, system: System, t: Array, q: Array, u: Array) -> _Form:
        _needs_constant_mass(self, system, t, q)
        return _Form(True, False, False, self.normals == "discrete")


def _needs_coordinates(integrator: Any, system: System) -> None:
    if system.kinematics is not None:
        raise ValueError(
            f"{type(integrator).__name__} needs q̇ = u; use EnergyQuaternion or EnergyQuaternionTwoStep for systems with "
            "kinematics."
        )


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
    return velocity_level.Impact(u, before, mu, _closed(theta), guess, tol)


def _closed(theta: Theta) -> Array:
    """Contacts of the index set I(q^B), with room for what the tolerance leaves of a gap that was closed."""
    return theta.system.g_N(theta.t, theta.q) <= 10.0 * theta.tol


# The impact-free step -----------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """What the impact-free steps of the schemes differ in."""

    kinematics: bool  # q̇ = F(q) u at the midpoint, instead of q̇ = u
    variable_mass: bool
    both_levels: bool  # bilateral constraints with multipliers λ̂ and κ̂
    discrete_normals: bool
    velocity_friction: bool = False  # friction by γ_F(u^E) instead of Wᵀ(q^E − q^B)
    restitution: bool = False  # in the law of the one step
    gyroscopic: bool = False  # whether the gyro matrix of the kinematics acts
    midpoint: bool = True  # whether kinematics are taken at the midpoint, or at q^B


class _Data(NamedTuple):
    scaling: Scaling
    theta: Theta
    M_inv: Array
    W: Array  # (nu, n) at q^B


class _End(NamedTuple):
    q: Array
    u: Array
    P: Array  # (n,) rows (g, γ, N, F)


class _State(NamedTuple):
    q: Array
    u: Array
    S: Array
    y: Array


class _ImpactFree(NamedTuple):
    """The impact-free step. z holds the mean velocity w = (q^E − q^B)/Δt, and u^E.

    Bilateral rows are g/Δt and γ, then ġ for κ̂/Δt; contacts have Wᵀw.
    """

    rows: Rows
    form: _Form

    @property
    def n_kappa(self) -> int:
        return self.rows.n_g if self.form.both_levels else 0

    @property
    def laws(self) -> LawTable:
        table = law_table(self.rows)
        return LawTable(table.n_bilateral + self.n_kappa, table.groups)

    def split(self, P: Array) -> tuple[Array, Array]:
        """Rows (g, γ, N, F), and those of κ̂."""
        n = self.rows.n_bilateral
        return jnp.concatenate([P[:n], P[n + self.n_kappa :]]), P[n : n + self.n_kappa]

    def join(self, rows: Array, kappa: Array) -> Array:
        n = self.rows.n_bilateral
        return jnp.concatenate([rows[:n], kappa, rows[n:]])

    def rows_of_system(self) -> Array:
        names = jnp.arange(law_table(self.rows).size)
        return self.join(names, names[: self.n_kappa])

    def problem(self) -> Problem:
        return Problem(self.laws, self.prepare, self.prepare, self.guess, self.equations, self.outputs)

    def prepare(self, theta: Theta) -> _Data:
        system, t, dt, q, u, _, tol = theta
        d = Directions.at(Configuration(system, t, q, u))
        _, _, mu = system.coefficients(self.rows, u.dtype)
        G = 0.5 * d.G_diagonal()
        r = self.laws.prox_parameters(self.join(G, G[: self.n_kappa]), mu)
        velocities = system.velocities(t, q, u)
        unit = jnp.broadcast_to(velocity_unit(velocities), velocities.shape)
        n_g = self.rows.n_g
        unit_y = self.join(unit.at[:n_g].set(jnp.minimum(dt, 1.0)), unit[: self.n_kappa])
        unit_S = jnp.broadcast_to(velocity_unit(u), (q.shape[0] + u.shape[0],))
        return _Data(Scaling(r, mu, _closed(theta), unit_S, unit_y, tol), theta, d.M_inv, d.W)

    def guess(self, data: _Data) -> tuple[Array, Array]:
        system, t, _, q, u, P, _ = data.theta
        return jnp.concatenate([system.q_dot(t, q, u), u]), self.join(P, jnp.zeros((self.n_kappa,), P.dtype))

    def state(self, z: Array, P: Array, data: _Data) -> _State:
        system, t, dt, q, u, _, _ = data.theta
        form, n_g, n_b = self.form, self.rows.n_g, self.rows.n_bilateral
        normals = slice(n_b, n_b + self.rows.n_N)
        t_mid, t_E = t + 0.5 * dt, t + dt
        w, u_E = z[: q.shape[0]], z[q.shape[0] :]
        q_E, q_mid, u_mean = q + dt * w, q + 0.5 * dt * w, 0.5 * (u + u_E)
        percussion, kappa = self.split(P)

        at = (t_mid, q_mid) if form.midpoint else (t, q)

        def pulled(covector: Array) -> Array:
            """F(q̄)ᵀ applied to a covector of q."""
            return jax.vjp(lambda u: system.q_dot(*at, u), u)[1](covector)[0] if form.kinematics else covector

        covector = -dt * discrete_gradient(lambda q: system.potential_energy(t_mid, q), q, q_E)
        covector = covector + percussion[:n_g] @ discrete_derivative(lambda q: system.g(t_mid, q), q, q_E)
        if form.both_levels:
            covector = covector + dt * (kappa @ discrete_derivative(lambda q: system.g_dot(t_E, q, u_E), q, q_E))
        if form.variable_mass:
            covector = covector - _inertia(system, t, dt, q, u, q_E, u_E)
        if form.gyroscopic:
            covector = covector - _gyro(system, *at, u_mean if form.midpoint else u) @ (q_E - q)
        impulse = pulled(covector) + dense.matmul(data.W[:, n_g:n_b], percussion[n_g:n_b])
        correction = dense.matmul(data.M_inv, dense.matmul(data.W[:, :n_g], kappa)) if form.both_levels else 0.0 * u
        velocity = u_mean - correction  # the velocity that does the work of the step
        if system.force is not None:
            impulse = impulse + dt * system.force(t_mid, q_mid, velocity, system.params)

        contact_W = data.W[:, n_b:]
        if form.discrete_normals:
            D_N = discrete_derivative(lambda q: system.g_N(t_mid, q), q, q_E)
            contact_W = contact_W.at[:, : self.rows.n_N].set(jax.vmap(pulled)(D_N).T)
        kick = dense.matmul(data.M_inv, dense.matmul(contact_W, percussion[n_b:]))
        S_u = u_E - u - dense.matmul(data.M_inv, impulse) - kick
        S_w = w - system.q_dot(*at, velocity)

        y = system.velocities(t, q, velocity).at[:n_g].set(system.g(t_E, q_E) / dt)
        if form.discrete_normals:
            y = y.at[normals].set((system.g_N(t_mid, q_E) - system.g_N(t_mid, q)) / dt)
        e_N, e_F, _ = system.coefficients(self.rows, u.dtype)
        if form.restitution:
            e = jnp.concatenate([e_N, e_F])
            y = y.at[n_b:].add(0.5 * (1.0 - e) / (1.0 + e) * dense.matmul(contact_W.T, kick))
        if form.velocity_friction:
            y = y.at[normals.stop :].set(0.5 * (system.gamma_F(t_E, q_E, u_E) + e_F * system.gamma_F(t, q, u)))
        on_velocity = system.g_dot(t_E, q_E, u_E)[: self.n_kappa]
        return _State(q_E, u_E, jnp.concatenate([S_w, S_u]), self.join(y, on_velocity))

    def equations(self, z: Array, P: Array, data: _Data) -> tuple[Array, Array]:
        state = self.state(z, P, data)
        return state.S, state.y

    def outputs(self, z: Array, P: Array, data: _Data) -> _End:
        state = self.state(z, P, data)
        return _End(state.q, state.u, self.split(P)[0])


def _gyro(system: System, t: Array, q: Array, u: Array) -> Array:
    """H(u, q) = ∂π/∂q − (∂π/∂q)ᵀ with π = B(q)⁻ᵀ M u."""

    def momenta(q: Array) -> Array:
        B = jax.jacfwd(lambda u: system.q_dot(t, q, u))(u)
        return dense.matmul(dense.inverse(B).T, system.M(t, q) @ u)

    rates = jax.jacfwd(momenta)(q)
    return rates - rates.T


def _inertia(system: System, t: Array, dt: Array, q: Array, u: Array, q_E: Array, u_E: Array) -> Array:
    """G(u, q)(q^E − q) + Δt DT(u^E; q, q^E)ᵀ."""
    momentum = jax.jacfwd(lambda q: system.M(t, q) @ u)(q)  # ∂M_ik/∂q_j u_k
    gyro = (momentum - momentum.T) @ (q_E - q)
    return gyro + dt * discrete_gradient(lambda q: system.kinetic_energy(t, q, u_E), q, q_E)
