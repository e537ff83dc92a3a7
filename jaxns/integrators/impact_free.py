"""The impact-free step of the energy-consistent integrators, with discrete derivatives D(q^B, q^E).

    M (u^E − u) + inertia terms + Δt F^T DV^T − F^T Dg^T λ̂ − F^T Dγ(u^E)^T κ̂ − W λ̂_i = Δt f
    q^E − q = Δt F v,    v = (u + u^E)/2 − M⁻¹ W_g(q^B) κ̂/Δt
    g(q^E) = 0,  ġ(q^E, u^E) = 0
    g_N(q^B) ≤ 0:  W_iᵀ v ∈ N_C(−λ̂_i)

v is the velocity that does the work of the step; F = I for q̇ = u. The options are in `Form`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import dense
from ..solve.inclusion import Problem, Scaling
from .base import Configuration, Directions, Theta, apply_inverse, law_table, velocity_unit
from .discrete_derivative import discrete_derivative, discrete_gradient


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


class _Data(NamedTuple):
    scaling: Scaling
    theta: Theta
    M_inv: Array
    W: Array  # (nu, n) at q^B


class End(NamedTuple):
    q: Array
    u: Array
    P: Array  # (n,) rows (g, γ, N, F)


class _State(NamedTuple):
    q: Array
    u: Array
    S: Array
    y: Array


class ImpactFree(NamedTuple):
    """The impact-free step. z holds the mean velocity w = (q^E − q^B)/Δt, and u^E.

    Bilateral rows are g/Δt and γ, then ġ for κ̂/Δt; contacts have Wᵀw.
    """

    rows: Rows
    form: Form

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
        unit_y = self.join(unit.at[:n_g].set(dt), unit[: self.n_kappa])
        unit_S = jnp.broadcast_to(velocity_unit(u), (q.shape[0] + u.shape[0],))
        return _Data(Scaling(r, mu, closed(theta), unit_S, unit_y, tol), theta, d.M_inv, d.W)

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
        correction = apply_inverse(data.M_inv, dense.matmul(data.W[:, :n_g], kappa)) if form.both_levels else 0.0 * u
        velocity = u_mean - correction  # the velocity that does the work of the step
        if system.force is not None:
            place = (t, q, u) if form.explicit_damping else (t_mid, q_mid, velocity)
            impulse = impulse + dt * system.force(*place, system.params)

        contact_W = data.W[:, n_b:]
        if form.discrete_normals:
            D_N = discrete_derivative(lambda q: system.g_N(t_mid, q), q, q_E)
            contact_W = contact_W.at[:, : self.rows.n_N].set(jax.vmap(pulled)(D_N).T)
        kick = apply_inverse(data.M_inv, dense.matmul(contact_W, percussion[n_b:]))
        S_u = u_E - u - apply_inverse(data.M_inv, impulse) - kick
        S_w = w - system.q_dot(*at, velocity)

        y = system.velocities(t, q, velocity).at[:n_g].set(system.g(t_E, q_E) / dt)
        if form.discrete_normals:
            y = y.at[normals].set((system.g_N(t_E, q_E) - system.g_N(t, q)) / dt)
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

    def outputs(self, z: Array, P: Array, data: _Data) -> End:
        state = self.state(z, P, data)
        return End(state.q, state.u, self.split(P)[0])


def _gyro(system: System, t: Array, q: Array, u: Array) -> Array:
    """H(u, q) = ∂π/∂q − (∂π/∂q)ᵀ with π = B(q)⁻ᵀ M u."""
    rates = jax.jacfwd(lambda q: system.momenta(t, q, u))(q)
    return rates - rates.T


def _inertia(system: System, t: Array, dt: Array, q: Array, u: Array, q_E: Array, u_E: Array) -> Array:
    """G(u, q)(q^E − q) + Δt DT(u^E; q, q^E)ᵀ."""
    momentum = jax.jacfwd(lambda q: system.M(t, q) @ u)(q)  # ∂M_ik/∂q_j u_k
    gyro = (momentum - momentum.T) @ (q_E - q)
    return gyro + dt * discrete_gradient(lambda q: system.kinetic_energy(t, q, u_E), q, q_E)
