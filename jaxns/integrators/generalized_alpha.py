"""The nonsmooth generalized-α method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array, lax

from ..model.system import System
from ..solve import implicit
from .base import Step, Theta, tolerance
from .generalized_alpha_levels import End, Position, Velocity, left_to_accelerations
from .generalized_alpha_means import Coefficients, Memory, Past
from .levels.acceleration_level import decision, instant_of
from .levels.layout import POSITION, Layout


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
        position = Position(gaps, q.shape[0] + n_u, None, c, system.constant_mass(t, q), implicit_u)
        theta = Theta(system, t, dt, q, u, memory.kappa, tol, more=past)
        (q_end, kappa), first = position.solved("newton", theta)
        touching = (kappa[rows.n_g :] > 0.0) | (system.g_N(t + dt, q_end) <= tol)
        theta = theta._replace(P_guess=memory.P, more=End(past, q_end, touching))
        (u_end, P), second = Velocity(Layout(rows), n_u, None, c, implicit_u).solved("newton", theta)
        (du, force), third = implicit.solve(decision(rows), left_to_accelerations(rows, theta, u_end, P))
        # A start that found no accelerations fails the first step.
        first = first._replace(status=jnp.maximum(first.status, memory.start_status))
        past = past.after(c, du / dt, force / dt)
        guesses = lax.stop_gradient((kappa, P))
        return Step(q_end, u_end, P, Memory(past, *guesses, jnp.zeros_like(first.status)), (first, second, third))
