"""The nonsmooth generalized-α method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..model.system import Rows, System
from ..solve import implicit
from .base import Configuration, Step, Theta, apply_inverse, inverse_mass, law_table, tolerance, velocity_unit
from .generalized_alpha_means import Coefficients, Memory, Past
from .levels import velocity_level
from .levels.acceleration_level import Instant, decision, instant_of, unit_slips
from .levels.layout import POSITION, Layout
from .levels.position_level import position_rows
from .levels.statement import AnyDirections, Here, Statement


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

    remembers_motion: ClassVar[bool] = True  # accelerations and forces

    def __post_init__(self) -> None:
        if not 0.0 <= self.rho_inf <= 1.0:
            raise ValueError(f"GeneralizedAlpha: rho_inf must lie between 0 and 1, got {self.rho_inf!r}.")

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        """Accelerations and forces of the initial state, from the laws on acceleration level."""
        rows = system.rows(t, q, u)
        near, tol = jnp.sqrt(jnp.finfo(q.dtype).eps), jnp.asarray(tolerance(None, u.dtype), u.dtype)
        instant = instant_of(system, t, q, u, dt, near, tol)
        (du, P), stats = implicit.solve(decision(rows), instant)
        u_dot, force = du / dt, P / dt
        return Memory(
            Past(u_dot, u_dot, force, force), Layout(rows, (POSITION,)).of(POSITION, 0.0 * P), 0.0 * P, stats.status
        )

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Memory, tol: Array) -> Step:
        rows, past, c = system.rows(t, q, u), memory.past, Coefficients.of(self.rho_inf)
        implicit_u = system.velocity_dependent_force(t, q, u)
        n_u = implicit_u * u.shape[0]
        gaps = Layout(rows, (POSITION,))
        position = _Position(gaps, q.shape[0] + n_u, None, c, system.constant_mass(t, q), implicit_u)
        theta = Theta(system, t, dt, q, u, memory.kappa, tol, more=past)
        (q_end, kappa), first = position.solved("newton", theta)
        touching = (kappa[rows.n_g :] > 0.0) | (system.g_N(t + dt, q_end) <= tol)
        theta = theta._replace(P_guess=memory.P, more=_End(past, q_end, touching))
        (u_end, P), second = _Velocity(Layout(rows), n_u, None, c, implicit_u).solved("newton", theta)
        (du, force), third = implicit.solve(decision(rows), _instant(rows, theta, u_end, P))
        # A start that found no accelerations fails the first step.
        first = first._replace(status=jnp.maximum(first.status, memory.start_status))
        past = past.after(c, du / dt, force / dt)
        guesses = lax.stop_gradient((kappa, P))
        return Step(q_end, u_end, P, Memory(past, *guesses, jnp.zeros_like(first.status)), (first, second, third))


@dataclass(frozen=True)
class _Position(Statement):
    """q⁺ and κ̂. z holds the mean velocity (q⁺ − q_n)/Δt and, where h depends on it, the velocity of a step with the forces
    of the last one. Percussions are κ̂/Δt, rows (g, g_N)/Δt."""

    coefficients: Coefficients
    constant_mass: bool
    implicit_u: bool

    def place(self, theta: Theta) -> Configuration:
        return Configuration(theta.system, theta.t, theta.q, theta.u)

    def units(self, theta: Theta, fixed: None) -> tuple[Array, ...]:
        return (jnp.broadcast_to(theta.dt, (self.layout.laws.size,)),)

    def guess(self, here: Here) -> tuple[Array, Array]:
        system, t, dt, q, u, kappa, _, past = here.theta
        z = [system.q_dot(t, q, u + 0.5 * dt * past.a)] + [u + dt * past.a] * self.implicit_u
        return jnp.concatenate(z), kappa

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, dt, q, u, _, _, past = here.theta
        c, layout = self.coefficients, self.layout
        mean, u_end = z[: q.shape[0]], z[q.shape[0] :] if self.implicit_u else u
        t_end, q_end = t + dt, q + dt * mean
        M_inv = here.directions.M_inv if self.constant_mass else inverse_mass(system, t_end, q_end)
        _, pull = jax.vjp(lambda u: system.velocities(t_end, q_end, u), u)
        u_dot = apply_inverse(M_inv, system.h(t_end, q_end, u_end) + pull(past.force)[0])
        _, a, _, force_mean = past.after(c, u_dot, past.force)
        kappa = P - dt * layout.of(POSITION, c.for_position(past.force_mean, force_mean))
        u_mean = u + dt * c.for_position(past.a, a) + apply_inverse(M_inv, pull(layout.place(POSITION, kappa))[0])
        S = [mean - 0.5 * (system.q_dot(t, q, u_mean) + system.q_dot(t_end, q_end, u_mean))]
        if self.implicit_u:
            S.append(u_end - u - dt * c.for_velocity(past.a, a))
        return jnp.concatenate(S), position_rows(system, t_end, q_end, layout.rows.n_g) / dt

    def outputs(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        return here.theta.q + here.theta.dt * z[: here.theta.q.shape[0]], P


class _End(NamedTuple):
    """The end of a step, as far as position level knows it."""

    past: Past
    q: Array
    closed: Array  # (n_N,) bool


@dataclass(frozen=True)
class _Velocity(Statement):
    """u⁺ and P at the positions q⁺. z holds u⁺ where h depends on it."""

    coefficients: Coefficients
    implicit_u: bool

    def place(self, theta: Theta) -> Configuration:
        return Configuration(theta.system, theta.t + theta.dt, theta.more.q, theta.u)

    def fixed(self, theta: Theta, d: AnyDirections) -> tuple[Array, Array]:
        """The rows (ġ, γ, ġ_N, γ_F) at the beginning of the step, and the terms (0, 0, e_N ġ_N,n, e_F γ_F,n) of ξ."""
        velocities = theta.system.velocities(theta.t, theta.q, theta.u)
        return velocities, velocity_level.restitution(theta.system, self.layout.rows, velocities)[0]

    def units(self, theta: Theta, fixed: tuple[Array, Array]) -> tuple[Array, ...]:
        return (jnp.broadcast_to(velocity_unit(fixed[0]), fixed[0].shape),)

    def closed(self, theta: Theta) -> Array:
        return theta.more.closed

    def guess(self, here: Here) -> tuple[Array, Array]:
        _, _, dt, _, u, P, _, end = here.theta
        return (u + dt * end.past.a)[: self.implicit_u * u.shape[0]], P

    def velocity(self, z: Array, P: Array, here: Here) -> Array:
        """The velocity after the percussions P."""
        system, t, dt, _, u, _, _, (past, q_end, _) = here.theta
        c, d = self.coefficients, here.directions
        h = system.h(t + dt, q_end, z if self.implicit_u else u)
        # With the forces of the last step: whatever they are, P makes up for them.
        _, a, _, force_mean = past.after(c, d.accelerate(h) + d.kick(past.force), past.force)
        kick = d.kick(P - dt * c.for_velocity(past.force_mean, force_mean))
        return u + dt * c.for_velocity(past.a, a) + kick

    def equations(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        system, t, q, _ = self.place(here.theta)
        u = self.velocity(z, P, here)
        S = z - u if self.implicit_u else z
        return S, system.velocities(t, q, z if self.implicit_u else u) + here.fixed[1]

    def outputs(self, z: Array, P: Array, here: Here) -> tuple[Array, Array]:
        return self.velocity(z, P, here), P


def _instant(rows: Rows, theta: Theta, u_end: Array, P: Array) -> Instant:
    """What velocity level leaves to the accelerations: which contacts stay closed, and which of them slide."""
    system, t, dt, q, u, _, tol, (_, q_end, closed) = theta
    laws = law_table(rows)
    velocities = system.velocities(t, q, u)
    xi = system.velocities(t + dt, q_end, u_end) + velocity_level.restitution(system, rows, velocities)[0]
    _, xi_N, xi_F = laws.split(velocity_unit(velocities) * xi)
    direction, speed = unit_slips(laws, xi_F)
    staying = closed & ((laws.split(P)[1] > 0.0) | (xi_N <= tol))
    return Instant(system, t + dt, q_end, u_end, staying, speed > 2.0 * tol, direction, dt, tol)
