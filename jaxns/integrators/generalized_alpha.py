"""The nonsmooth generalized-α method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import implicit
from ..solve.inclusion import Problem, Scaling
from .base import (
    Configuration,
    DirectDirections,
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
from .levels import velocity_level
from .levels.acceleration_level import Instant, decision, instant_of, unit_slips
from .levels.position_level import of_position, position_laws


@dataclass(frozen=True)
class GeneralizedAlpha:
    """Nonsmooth generalized-α: constraints and contacts on position, velocity and acceleration level.

    With α_m = (2ρ−1)/(ρ+1), α_f = ρ/(ρ+1), γ = ½ + α_f − α_m, β = ¼(γ + ½)², all of M, h, W at (t_{n+1}, q⁺, u⁺), and the
    smooth acceleration u̇, its mean a and the mean λ̄ of the forces λ:

        M u̇ = h + W λ
        (1−α_m) a + α_m a_n = (1−α_f) u̇ + α_f u̇_n,    λ̄ likewise from λ
        u⁺ = u_n + Δt ((1−γ) a_n + γ a) + U,    M U = W Λ
        ū = u_n + Δt ((½−β) a_n + β ã) + Q/Δt,    M Q = W_g κ_g + W_N κ_N
        q⁺ = q_n + Δt/2 (q̇(t_n, q_n, ū) + q̇(t_{n+1}, q⁺, ū))

    and, with κ̂ = κ + Δt² ((½−β) λ̄_n + β λ̃) and the percussion P = Λ + Δt ((1−γ) λ̄_n + γ λ̄),

        g = 0,  ġ = 0,  g̈ = 0,    γ = 0,  γ̇ = 0
        g_N ∈ N_{R−}(−κ̂_N)
        closed (g_N = 0):  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   open: P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)
        closed, and ξ_N = 0:  g̈_N ∈ N_{R−}(−λ_N),   otherwise λ_N = 0
        sticking:  γ̇_F ∈ N_{C_F(λ_N)}(−λ_F),   sliding: λ_F of sliding along ξ_F with λ_N

    (Brüls, Acary, Cardona 2014; with friction Capobianco, Harsch, Eugster, Leine 2021.) Second order in smooth motion and
    persistent contact, with numerical damping of high frequencies; first order across impacts. Second time derivatives come
    from automatic differentiation.

    One thing differs from the papers: positions feel a = ã and λ̄ = λ̃ that are made from the forces λ_n of the last step, an
    error of third order, and no friction percussion Λ_F. With those of the new step a contact may be closed without its
    friction and open with it: the step of a single corner that hits a floor had no solution then. Like this κ̂ is all that
    the contacts of a step do to its positions, and P all that they do to its velocities, so that the three levels are three
    inclusions, solved one after the other, of which the first always has a solution.

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

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> _Memory:
        """Accelerations and forces of the initial state, from the laws on acceleration level."""
        rows = system.rows(t, q, u)
        near, tol = jnp.sqrt(jnp.finfo(q.dtype).eps), jnp.asarray(tolerance(None, u.dtype), u.dtype)
        instant = instant_of(system, t, q, u, dt, near, tol)
        (du, P), stats = implicit.solve(decision(rows), instant)
        u_dot, force = du / dt, P / dt
        return _Memory(_Past(u_dot, u_dot, force, force), of_position(rows, 0.0 * P), 0.0 * P, stats.status)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: _Memory, tol: Array) -> Step:
        rows, past = system.rows(t, q, u), memory.past
        c, implicit_u = _Coefficients.of(self.rho_inf), system.velocity_dependent_force(t, q, u)
        begin = Theta(system, t, dt, q, u, memory.kappa, tol)
        position = _Position(rows, c, system.constant_mass(t, q), implicit_u)
        (q_end, kappa), first = implicit.solve(position.problem(), _Theta(begin, past))
        touching = (kappa[rows.n_g :] > 0.0) | (system.g_N(t + dt, q_end) <= tol)
        there = _There(_Theta(begin._replace(P_guess=memory.P), past), q_end, touching)
        (u_end, P), second = implicit.solve(_Velocity(rows, c, implicit_u).problem(), there)
        (du, force), third = implicit.solve(decision(rows), _instant(rows, there, u_end, P))
        past = past.after(c, du / dt, force / dt)
        names = jnp.arange(law_table(rows).size)
        first = with_row_of_system(first, of_position(rows, names))
        # A start that found no accelerations fails the first step.
        first = first._replace(status=jnp.maximum(first.status, memory.start_status))
        guesses = lax.stop_gradient((kappa, P))
        return Step(q_end, u_end, P, _Memory(past, *guesses, jnp.zeros_like(first.status)), (first, second, third))


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


class _Past(NamedTuple):
    """State of the averages at t_n."""

    u_dot: Array  # (nu,)
    a: Array  # (nu,)
    force: Array  # (n,) λ
    force_mean: Array  # (n,) λ̄

    def after(self, c: _Coefficients, u_dot: Array, force: Array) -> _Past:
        """The same at t_{n+1}."""
        mean, force_mean = c.mean(u_dot, self.u_dot, self.a), c.mean(force, self.force, self.force_mean)
        return _Past(u_dot, mean, force, force_mean)


class _Memory(NamedTuple):
    past: _Past
    kappa: Array  # (n_g + n_N,) κ̂/Δt, a guess
    P: Array  # (n,) a guess
    start_status: Array


class _Theta(NamedTuple):
    step: Theta
    past: _Past


# Position level -----------------------------------------------------------------------------------------------------


class _DataPosition(NamedTuple):
    scaling: Scaling
    theta: _Theta
    M_inv: Array  # at (t_n, q_n)


class _Position(NamedTuple):
    """q⁺ and κ̂. z holds the mean velocity (q⁺ − q_n)/Δt and, where h depends on it, the velocity of a step with the forces
    of the last one. Percussions are κ̂/Δt, rows (g, g_N)/Δt."""

    rows: Rows
    coefficients: _Coefficients
    constant_mass: bool
    implicit_u: bool

    @property
    def laws(self) -> LawTable:
        return position_laws(law_table(self.rows), self.rows.n_g)

    def problem(self) -> Problem:
        return Problem(self.laws, self.prepare, self.direct, self.guess, self.equations, self.outputs)

    def prepare(self, theta: _Theta) -> _DataPosition:
        system, t, _, q, u, *_ = theta.step
        d = Directions.at(Configuration(system, t, q, u))
        return self.data(theta, d.M_inv, self.laws.prox_parameters(of_position(self.rows, d.G_diagonal()), q[:0]))

    def direct(self, theta: _Theta) -> _DataPosition:
        system, t, _, q, *_ = theta.step
        return self.data(theta, inverse_mass(system, t, q), jnp.ones_like(theta.step.P_guess))

    def data(self, theta: _Theta, M_inv: Array, r: Array) -> _DataPosition:
        _, _, dt, q, u, _, tol = theta.step
        unit_S = jnp.broadcast_to(velocity_unit(u), (q.shape[0] + self.implicit_u * u.shape[0],))
        closed = jnp.ones((self.rows.n_N,), bool)
        return _DataPosition(Scaling(r, q[:0], closed, unit_S, jnp.broadcast_to(dt, r.shape), tol), theta, M_inv)

    def guess(self, data: _DataPosition) -> tuple[Array, Array]:
        (system, t, dt, q, u, kappa, _), past = data.theta
        z = [system.q_dot(t, q, u + 0.5 * dt * past.a)] + [u + dt * past.a] * self.implicit_u
        return jnp.concatenate(z), kappa

    def equations(self, z: Array, kappa: Array, data: _DataPosition) -> tuple[Array, Array]:
        (system, t, dt, q, u, *_), past = data.theta
        c, n_g = self.coefficients, self.rows.n_g
        mean, u_end = z[: q.shape[0]], z[q.shape[0] :] if self.implicit_u else u
        t_end, q_end = t + dt, q + dt * mean
        M_inv = data.M_inv if self.constant_mass else inverse_mass(system, t_end, q_end)
        _, pull = jax.vjp(lambda u: system.velocities(t_end, q_end, u), u)
        u_dot = apply_inverse(M_inv, system.h(t_end, q_end, u_end) + pull(past.force)[0])
        _, a, _, force_mean = past.after(c, u_dot, past.force)
        kappa = kappa - dt * of_position(self.rows, c.for_position(past.force_mean, force_mean))
        n_b, none = self.rows.n_bilateral, jnp.zeros_like(past.force)
        percussion = none.at[:n_g].set(kappa[:n_g]).at[n_b : n_b + self.rows.n_N].set(kappa[n_g:])
        u_mean = u + dt * c.for_position(past.a, a) + apply_inverse(M_inv, pull(percussion)[0])
        S = [mean - 0.5 * (system.q_dot(t, q, u_mean) + system.q_dot(t_end, q_end, u_mean))]
        if self.implicit_u:
            S.append(u_end - u - dt * c.for_velocity(past.a, a))
        return jnp.concatenate(S), jnp.concatenate([system.g(t_end, q_end), system.g_N(t_end, q_end)]) / dt

    def outputs(self, z: Array, kappa: Array, data: _DataPosition) -> tuple[Array, Array]:
        step = data.theta.step
        return step.q + step.dt * z[: step.q.shape[0]], kappa


# Velocity level -----------------------------------------------------------------------------------------------------


class _There(NamedTuple):
    """The end of a step, as far as position level knows it."""

    begin: _Theta
    q: Array
    closed: Array  # (n_N,) bool


class _DataVelocity(NamedTuple):
    scaling: Scaling
    there: _There
    directions: Directions | DirectDirections
    before: Array  # the terms (0, 0, e_N ġ_N,n, e_F γ_F,n) of ξ


class _Velocity(NamedTuple):
    """u⁺ and P at the positions q⁺. z holds u⁺ where h depends on it."""

    rows: Rows
    coefficients: _Coefficients
    implicit_u: bool

    def problem(self) -> Problem:
        return Problem(
            law_table(self.rows),
            self.prepare,
            self.direct,
            self.guess,
            self.equations,
            lambda z, P, data: (self.u(z, P, data), P),
        )

    def configuration(self, there: _There) -> Configuration:
        step = there.begin.step
        return Configuration(step.system, step.t + step.dt, there.q, step.u)

    def prepare(self, there: _There) -> _DataVelocity:
        step = there.begin.step
        d = Directions.at(self.configuration(there))
        mu = step.system.coefficients(self.rows, step.u.dtype)[2]
        return self.data(there, d, law_table(self.rows).prox_parameters(d.G_diagonal(), mu))

    def direct(self, there: _There) -> _DataVelocity:
        return self.data(there, DirectDirections.at(self.configuration(there)), jnp.ones_like(there.begin.step.P_guess))

    def data(self, there: _There, directions: Directions | DirectDirections, r: Array) -> _DataVelocity:
        system, t, _, q, u, _, tol = there.begin.step
        velocities = system.velocities(t, q, u)
        before, mu = velocity_level.restitution(system, self.rows, velocities)
        unit = jnp.broadcast_to(velocity_unit(velocities), velocities.shape)
        unit_S = jnp.broadcast_to(velocity_unit(u), (self.implicit_u * u.shape[0],))
        return _DataVelocity(Scaling(r, mu, there.closed, unit_S, unit, tol), there, directions, before)

    def guess(self, data: _DataVelocity) -> tuple[Array, Array]:
        (_, _, dt, _, u, P, _), past = data.there.begin
        return (u + dt * past.a)[: self.implicit_u * u.shape[0]], P

    def u(self, z: Array, P: Array, data: _DataVelocity) -> Array:
        """The velocity after the percussions P."""
        (system, t, dt, _, u, *_), past = data.there.begin
        c, d = self.coefficients, data.directions
        h = system.h(t + dt, data.there.q, z if self.implicit_u else u)
        # With the forces of the last step: whatever they are, P makes up for them.
        _, a, _, force_mean = past.after(c, d.accelerate(h) + d.kick(past.force), past.force)
        kick = d.kick(P - dt * c.for_velocity(past.force_mean, force_mean))
        return u + dt * c.for_velocity(past.a, a) + kick

    def equations(self, z: Array, P: Array, data: _DataVelocity) -> tuple[Array, Array]:
        system, t, q, _ = self.configuration(data.there)
        u = self.u(z, P, data)
        S = z - u if self.implicit_u else z
        return S, system.velocities(t, q, z if self.implicit_u else u) + data.before


# Acceleration level -------------------------------------------------------------------------------------------------


def _instant(rows: Rows, there: _There, u_end: Array, P: Array) -> Instant:
    """What velocity level leaves to the accelerations: which contacts stay closed, and which of them slide."""
    system, t, dt, q, u, _, tol = there.begin.step
    laws = law_table(rows)
    velocities = system.velocities(t, q, u)
    xi = system.velocities(t + dt, there.q, u_end) + velocity_level.restitution(system, rows, velocities)[0]
    _, xi_N, xi_F = laws.split(velocity_unit(velocities) * xi)
    direction, speed = unit_slips(laws, xi_F)
    staying = there.closed & ((laws.split(P)[1] > 0.0) | (xi_N <= tol))
    return Instant(system, t + dt, there.q, u_end, staying, speed > 2.0 * tol, direction, dt, tol)
