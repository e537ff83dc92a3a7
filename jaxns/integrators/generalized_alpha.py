"""The nonsmooth generalized-α method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..laws.levels import Levels, LevelTable
from ..model.system import Rows, System
from ..solve import implicit
from ..solve.inclusion import Problem, Scaling
from ..solve.status import Status
from ..solve.vectorise import materialise
from . import velocity_level
from .acceleration_level import Instant, acceleration_rows, decision, unit_slips
from .base import (
    Configuration,
    Directions,
    Step,
    Theta,
    apply_inverse,
    inverse_mass,
    law_table,
    tolerance,
    velocity_unit,
    with_row_of_system,
)
from .position_level import of_position


@dataclass(frozen=True)
class GeneralizedAlpha:
    """Nonsmooth generalized-α: constraints and contacts on position, velocity and acceleration level.

    With α_m = (2ρ−1)/(ρ+1), α_f = ρ/(ρ+1), γ = ½ + α_f − α_m, β = ¼(γ + ½)², all of M, h, W at (t_{n+1}, q⁺, u⁺), and the
    smooth acceleration u̇, its mean a and the mean λ̄ of the forces λ:

        M u̇ = h + W λ
        (1−α_m) a + α_m a_n = (1−α_f) u̇ + α_f u̇_n,    λ̄ likewise from λ
        u⁺ = u_n + Δt ((1−γ) a_n + γ a) + U,    M U = W Λ
        ū = u_n + Δt ((½−β) a_n + β a) + Q/Δt,    M Q = W_g κ_g + W_N κ_N + Δt/2 (W_γ Λ_γ + W_F Λ_F)
        q⁺ = q_n + Δt/2 (q̇(t_n, q_n, ū) + q̇(t_{n+1}, q⁺, ū))

    and, with κ̂ = κ + Δt² ((½−β) λ̄_n + β λ̄) and the percussion P = Λ + Δt ((1−γ) λ̄_n + γ λ̄),

        g = 0,  ġ = 0,  g̈ = 0,    γ = 0,  γ̇ = 0
        g_N ∈ N_{R−}(−κ̂_N)
        closed (r g_N − κ̂_N ≤ 0):  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   open: P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)
        closed, and r ξ_N − P_N ≤ 0:  g̈_N ∈ N_{R−}(−λ_N),   otherwise λ_N = 0
        sticking:  γ̇_F ∈ N_{C_F(λ_N)}(−λ_F),   sliding: λ_F of sliding along ξ_F with λ_N

    (Brüls, Acary, Cardona 2014; with friction Capobianco, Harsch, Eugster, Leine 2021.) Second order in smooth motion and
    persistent contact, with numerical damping of high frequencies; first order across impacts. Second time derivatives come
    from automatic differentiation. One coupled solve on three levels makes it the dearest of the second-order schemes.

    - rho_inf: spectral radius at infinite frequency, 0 (strongest damping) to 1 (none)
    - tol: tolerance on gaps and constraints in metres, and on velocities, and accelerations times Δt, relative to the
      velocities above 1 m/s; by default from the dtype

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> traj = ns.simulate(slope.system, ns.GeneralizedAlpha(rho_inf=0.9), slope.q0, slope.u0, dt=0.01, t1=0.1)
    >>> bool(traj.ok)
    True
    """

    rho_inf: float = 0.9
    tol: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.rho_inf <= 1.0:
            raise ValueError(f"GeneralizedAlpha: rho_inf must lie between 0 and 1, got {self.rho_inf!r}.")

    @property
    def num_solves(self) -> int:
        return 1

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> _Memory:
        """Accelerations and forces of the initial state, from the laws on acceleration level."""
        rows = system.rows(t, q, u)
        laws = LevelTable(law_table(rows), rows.n_g)
        near = jnp.sqrt(jnp.finfo(q.dtype).eps)
        closed = (system.g_N(t, q) <= near) & (system.g_N_dot(t, q, u) <= near)
        direction, speed = unit_slips(laws.table, system.gamma_F(t, q, u))
        tol = jnp.asarray(tolerance(None, u.dtype), u.dtype)
        instant = Instant(system, t, q, u, closed, speed > near, direction, dt, tol)
        (du, P), stats = implicit.solve(decision(rows), instant)
        u_dot, force = du / dt, P / dt
        past = _Past(u_dot, u_dot, force, force)
        return _Memory(past, jnp.zeros((laws.size,), u.dtype), stats.status)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: _Memory, tol: Array) -> Step:
        rows = system.rows(t, q, u)
        laws = LevelTable(law_table(rows), rows.n_g)
        coefficients = _Coefficients.of(self.rho_inf)
        coupled = _Coupled(rows, laws, coefficients, system.constant_mass(t, q))
        theta = _Theta(Theta(system, t, dt, q, u, memory.P, tol), memory.past)
        end, stats = implicit.solve(coupled.problem(), theta)
        names = jnp.arange(laws.table.size)
        stats = with_row_of_system(stats, laws.join(Levels(of_position(rows, names), names, names)))
        # A start that found no accelerations fails the first step.
        status = jnp.maximum(stats.status, memory.start_status)
        memory = _Memory(end.past, lax.stop_gradient(end.P_levels), jnp.asarray(int(Status.OK)))
        return Step(end.q, end.u, end.P, memory, (stats._replace(status=status),))


class _Past(NamedTuple):
    """State of the averages at t_n."""

    u_dot: Array  # (nu,)
    a: Array  # (nu,)
    force: Array  # (n,) λ
    force_mean: Array  # (n,) λ̄


class _Memory(NamedTuple):
    past: _Past
    P: Array  # percussions of all levels, a guess
    start_status: Array


class _Coefficients(NamedTuple):
    alpha_m: float
    alpha_f: float
    gamma: float
    beta: float

    @classmethod
    def of(cls, rho: float) -> _Coefficients:
        alpha_m, alpha_f = (2.0 * rho - 1.0) / (rho + 1.0), rho / (rho + 1.0)
        gamma = 0.5 + alpha_f - alpha_m
        return cls(alpha_m, alpha_f, gamma, 0.25 * (gamma + 0.5) ** 2)

    def mean(self, new: Array, old: Array, mean_old: Array) -> Array:
        """The solution x of (1−α_m) x + α_m x_n = (1−α_f) new + α_f old."""
        return ((1.0 - self.alpha_f) * new + self.alpha_f * old - self.alpha_m * mean_old) / (1.0 - self.alpha_m)

    def for_velocity(self, old: Array, new: Array) -> Array:
        return (1.0 - self.gamma) * old + self.gamma * new

    def for_position(self, old: Array, new: Array) -> Array:
        return (0.5 - self.beta) * old + self.beta * new


def _pull(system: System, t: Array, q: Array, u: Array, P: Array) -> Array:
    """W P."""
    return jax.vjp(lambda u: system.velocities(t, q, u), u)[1](P)[0]


class _Theta(NamedTuple):
    step: Theta
    past: _Past


class _Data(NamedTuple):
    scaling: Scaling
    theta: _Theta
    M_inv: Array  # at (t_n, q_n)
    before: Array  # the terms (0, 0, e_N ġ_N,n, e_F γ_F,n) of ξ


class _End(NamedTuple):
    q: Array
    u: Array
    P: Array
    past: _Past
    P_levels: Array
    S: Array


class _Coupled(NamedTuple):
    """The one solve of a step.

    z holds the mean velocity (q⁺ − q_n)/Δt, and u⁺. Percussions are (κ̂/Δt, P, Δt λ), rows are gaps over Δt, velocities,
    and accelerations times Δt, so that all of them share the scale of WᵀM⁻¹W.
    """

    rows: Rows
    laws: LevelTable
    coefficients: _Coefficients
    constant_mass: bool

    def problem(self) -> Problem:
        return Problem(self.laws, self.prepare, self.direct, self.guess, self.equations, self.outputs)

    def prepare(self, theta: _Theta) -> _Data:
        step = theta.step
        d = Directions.at(Configuration(step.system, step.t, step.q, step.u))
        mu = step.system.coefficients(self.rows, step.u.dtype)[2]
        r = self.laws.table.prox_parameters(d.G_diagonal(), mu)
        return self.data(theta, d.M_inv, self.laws.join(Levels(of_position(self.rows, r), r, r)))

    def direct(self, theta: _Theta) -> _Data:
        step = theta.step
        return self.data(theta, inverse_mass(step.system, step.t, step.q), jnp.ones_like(step.P_guess))

    def data(self, theta: _Theta, M_inv: Array, r: Array) -> _Data:
        system, t, dt, q, u, _, tol = theta.step
        velocities = system.velocities(t, q, u)
        before, mu = velocity_level.restitution(system, self.rows, velocities)
        unit = jnp.broadcast_to(velocity_unit(velocities), velocities.shape)
        unit_y = self.laws.join(Levels(jnp.broadcast_to(dt, of_position(self.rows, unit).shape), unit, unit))
        unit_S = jnp.broadcast_to(velocity_unit(u), (q.shape[0] + u.shape[0],))
        closed = jnp.ones((self.rows.n_N,), bool)
        return _Data(Scaling(r, mu, closed, unit_S, unit_y, tol), theta, M_inv, before)

    def guess(self, data: _Data) -> tuple[Array, Array]:
        (system, t, dt, q, u, P, _), past = data.theta
        z = [system.q_dot(t, q, u + 0.5 * dt * past.a), u + dt * past.a]
        return jnp.concatenate(z), P

    def end(self, z: Array, P_levels: Array, data: _Data) -> _End:
        (system, t, dt, q, u, _, _), past = data.theta
        c, n_g, table = self.coefficients, self.rows.n_g, self.laws.table
        mean, u_end = z[: q.shape[0]], z[q.shape[0] :]
        t_end, q_end = t + dt, q + dt * mean
        position, P, force = self.laws.split(P_levels)
        force = force / dt
        force_mean = c.mean(force, past.force, past.force_mean)
        Lambda = P - dt * c.for_velocity(past.force_mean, force_mean)
        kappa = position - dt * of_position(self.rows, c.for_position(past.force_mean, force_mean))  # over Δt
        on_position = jnp.concatenate([
            kappa[:n_g],
            0.5 * Lambda[n_g : table.n_bilateral],
            kappa[n_g:],
            0.5 * table.split(Lambda)[2],
        ])
        M_inv = data.M_inv if self.constant_mass else inverse_mass(system, t_end, q_end)
        impulses = jnp.stack([force, Lambda, on_position])
        forces = materialise(jax.vmap(lambda P: _pull(system, t_end, q_end, u_end, P))(impulses))
        h = system.h(t_end, q_end, u_end)
        u_dot, U, Q = (apply_inverse(M_inv, f) for f in (h + forces[0], forces[1], forces[2]))  # Q over Δt
        a = c.mean(u_dot, past.u_dot, past.a)
        u_mean = u + dt * c.for_position(past.a, a) + Q
        S_q = mean - 0.5 * (system.q_dot(t, q, u_mean) + system.q_dot(t_end, q_end, u_mean))
        S_u = u_end - u - dt * c.for_velocity(past.a, a) - U
        past = _Past(u_dot, a, force, force_mean)
        return _End(q_end, u_end, P, past, P_levels, jnp.concatenate([S_q, S_u]))

    def equations(self, z: Array, P: Array, data: _Data) -> tuple[Array, Array]:
        (system, t, dt, *_), _ = data.theta
        end = self.end(z, P, data)
        position = jnp.concatenate([system.g(t + dt, end.q), system.g_N(t + dt, end.q)]) / dt
        velocity = system.velocities(t + dt, end.q, end.u) + data.before
        acceleration = dt * acceleration_rows(system, t + dt, end.q, end.u, end.past.u_dot)
        return end.S, self.laws.join(Levels(position, velocity, acceleration))

    def outputs(self, z: Array, P: Array, data: _Data) -> _End:
        return self.end(z, P, data)
