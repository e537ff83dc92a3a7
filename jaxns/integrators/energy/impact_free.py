"""The impact-free step of the energy-consistent integrators, with discrete derivatives D(q^B, q^E).

    M (u^E − u) + inertia terms + Δt F^T DV^T − F^T Dg^T λ̂ − F^T Dγ(u^E)^T κ̂ − W λ̂_i = Δt f
    q^E − q = Δt F v,    v = (u + u^E)/2 − M⁻¹ W_g(q^B) κ̂/Δt
    g(q^E) = 0,  ġ(q^E, u^E) = 0
    g_N(q^B) ≤ 0:  W_iᵀ v ∈ N_C(−λ̂_i)

v is the velocity that does the work of the step; F = I for q̇ = u. The options are in `Form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ...solve import dense
from ..base import Theta, velocity_unit
from ..levels.layout import ALL, Layout
from ..levels.statement import AnyDirections, Here, Matrices, Statement
from .discrete_derivative import discrete_derivative, discrete_gradient, weighted
from .form import End, Form, closed
from .inertia import gyro, inertia_forces


class _Motion(NamedTuple):
    q: Array  # q^E
    u: Array  # u^E
    velocity: Array  # v
    kick: Array  # M⁻¹ times the percussions of the contacts
    S: Array


@dataclass(frozen=True)
class ImpactFree(Statement):
    """The impact-free step. z holds w = (q^E − q^B)/Δt; with kinematics also u^E, which else follows from v = w.

    Rows are g/Δt, γ and Wᵀv, with λ̂; and ġ for κ̂/Δt on a level of its own.
    """

    form: Form

    needs_matrices: ClassVar[bool] = True

    @classmethod
    def of(cls, theta: Theta, form: Form) -> ImpactFree:
        rows = theta.system.rows(theta.t, theta.q, theta.u)
        layout = Layout(rows, (ALL, "g" if form.both_levels else ""))
        return cls(layout, theta.q.shape[0] + form.kinematics * theta.u.shape[0], None, form)

    def fixed(self, theta: Theta, d: AnyDirections) -> Array:
        """The rows (ġ, γ, ġ_N, γ_F) at (t^B, q^B, u)."""
        return theta.system.velocities(theta.t, theta.q, theta.u)

    def diagonals(self, d: Matrices) -> tuple[Array, ...]:
        G = 0.5 * d.G_diagonal()
        return tuple(self.layout.of(level, G) for level in self.layout.levels)

    def units(self, theta: Theta, fixed: Array) -> tuple[Array, ...]:
        unit = jnp.broadcast_to(velocity_unit(fixed), fixed.shape)
        return unit.at[: self.layout.rows.n_g].set(theta.dt), self.layout.of(self.layout.levels[1], unit)

    def closed(self, theta: Theta) -> Array:
        return closed(theta)

    def guess(self, here: Here) -> tuple[Array, Array]:
        """The motion with the forces of (t, q^B, u) and the percussions of the last step."""
        system, t, dt, q, u, P, *_ = here.theta
        u_E = u + dt * here.directions.accelerate(system.h(t, q, u)) + here.directions.kick(P)
        kappa = self.layout.of(self.layout.levels[1], jnp.zeros_like(P))
        z = [system.q_dot(t, q, 0.5 * (u + u_E))] + [u_E] * self.form.kinematics
        return jnp.concatenate(z), self.layout.join(P, kappa)

    def motion(self, z: Array, P: Array, here: Here) -> _Motion:
        """What follows from the unknowns, with the work that every force does."""
        system, t, dt, q, u, *_ = here.theta
        form, W, accelerate, n_g = self.form, here.directions.W, here.directions.accelerate, self.layout.rows.n_g
        t_mid, t_E = t + 0.5 * dt, t + dt
        w, (percussion, kappa) = z[: q.shape[0]], self.layout.split(P)
        correction = accelerate(dense.matmul(W[:, :n_g], kappa)) if form.both_levels else 0.0 * u
        u_E = z[q.shape[0] :] if form.kinematics else 2.0 * (w + correction) - u
        q_E, q_mid, u_mean = q + dt * w, q + 0.5 * dt * w, 0.5 * (u + u_E)
        at = (t_mid, q_mid) if form.midpoint else (t, q)

        def pulled(covector: Array) -> Array:
            """F(q̄)ᵀ applied to a covector of q."""
            return jax.vjp(lambda u: system.q_dot(*at, u), u)[1](covector)[0] if form.kinematics else covector

        covector = -dt * discrete_gradient(lambda q: system.potential_energy(t_mid, q), q, q_E)
        covector = covector + weighted(percussion[:n_g], lambda q: system.g(t_mid, q), q, q_E)
        if form.both_levels:
            covector = covector + dt * weighted(kappa, lambda q: system.g_dot(t_E, q, u_E), q, q_E)
        if form.variable_mass:
            covector = covector - inertia_forces(system, t, dt, q, u, q_E, u_E)
        if form.gyroscopic:
            covector = covector - gyro(system, *at, u_mean if form.midpoint else u) @ (q_E - q)
        n_b = self.layout.rows.n_bilateral
        impulse = pulled(covector) + dense.matmul(W[:, n_g:n_b], percussion[n_g:n_b])
        velocity = u_mean - correction if form.kinematics else w
        if system.force is not None:
            place = (t, q, u) if form.explicit_damping else (t_mid, q_mid, velocity)
            impulse = impulse + dt * system.force(*place, system.params)

        normals, friction = jnp.split(percussion[n_b:], [self.layout.rows.n_N])
        contact = dense.matmul(W[:, n_b + self.layout.rows.n_N :], friction)
        if form.discrete_normals:
            contact = contact + pulled(weighted(normals, lambda q: system.g_N(t_mid, q), q, q_E))
        else:
            contact = contact + dense.matmul(W[:, n_b : n_b + self.layout.rows.n_N], normals)
        kick = accelerate(contact)
        S = u_E - u - accelerate(impulse) - kick
        S = jnp.concatenate([w - system.q_dot(*at, velocity), S]) if form.kinematics else 0.5 * S
        return _Motion(q_E, u_E, velocity, kick, S)

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, q, u, *_ = here.theta
        form, rows, motion = self.form, self.layout.rows, self.motion(z, P, here)
        n_g, n_b, t_E = rows.n_g, rows.n_bilateral, t + dt
        normals = slice(n_b, n_b + rows.n_N)
        y = system.velocities(t, q, motion.velocity).at[:n_g].set(system.g(t_E, motion.q) / dt)
        if form.discrete_normals:
            y = y.at[normals].set((system.g_N(t_E, motion.q) - system.g_N(t, q)) / dt)
        e_N, e_F, _ = system.coefficients(rows, u.dtype)
        if form.restitution:
            e = jnp.concatenate([e_N, e_F])
            y = y.at[n_b:].add(0.5 * (1.0 - e) / (1.0 + e) * self.contact_rates(motion, here))
        if form.velocity_friction:
            sliding = system.gamma_F(t_E, motion.q, motion.u) + e_F * system.gamma_F(t, q, u)
            y = y.at[normals.stop :].set(0.5 * sliding)
        on_velocity = system.g_dot(t_E, motion.q, motion.u) if form.both_levels else y[:0]
        return motion.S, self.layout.join(y, on_velocity)

    def contact_rates(self, motion: _Motion, here: Here) -> Array:
        """Wᵀ M⁻¹W λ̂ of the contacts."""
        system, t, dt, q, *_ = here.theta
        rates = dense.matmul(here.directions.W.T, motion.kick)[self.layout.rows.n_bilateral :]
        if not self.form.discrete_normals:
            return rates
        t_mid = t + 0.5 * dt
        at = (t_mid, 0.5 * (q + motion.q)) if self.form.midpoint else (t, q)
        change = system.q_dot(*at, motion.kick) - system.q_dot(*at, 0.0 * motion.kick)
        normals = discrete_derivative(lambda q: system.g_N(t_mid, q), q, motion.q)
        return rates.at[: self.layout.rows.n_N].set(normals @ change)

    def outputs(self, z: Array, P: Array, here: Here) -> End:
        motion = self.motion(z, P, here)
        return End(motion.q, motion.u, self.layout.split(P)[0])
