"""Gear, Gupta and Leimkuhler unified: impact law and non-penetration in one implicit step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import dense, implicit
from ..solve.inclusion import Problem, Scaling
from ..solve.lanes import total
from .base import (
    Configuration,
    Directions,
    Step,
    Theta,
    apply_inverse,
    check_solver,
    inverse_mass,
    law_table,
    velocity_unit,
    with_row_of_system,
)
from .levels import velocity_level
from .levels.position_level import correction_velocity, covelocity, of_position, position_laws, position_rows
from .moreau import Moreau, midpoint

Level = Literal["ggl", "index3", "index2", "index1"]


@dataclass(frozen=True)
class GGLUnified:
    """Gear–Gupta–Leimkuhler midpoint rule: impact law and non-penetration in one implicit step.

    With q_½ = (q_n + q⁺)/2, u_½ = (u_n + u⁺)/2, the predicted midpoint q_M of `Moreau`, and multipliers Ψ:

        q⁺ = q_n + Δt q̇(t_½, q_½, u_½) + B M⁻¹ W(t_½, q_½) Ψ
        M(t_½, q_M) (u⁺ − u_n) = Δt h(t_½, q_½, u_½) + W(t_½, q_½) P
        g(t_{n+1}, q⁺) = 0,  ġ⁺ = 0,  γ⁺ = 0
        g_N(t_{n+1}, q⁺) ∈ N_{R−}(−κ_N),   κ_N = Ψ_N + Δt/2 P_N
        active:  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   otherwise P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)

    with the velocities ⁺ at (t_{n+1}, q⁺, u⁺). (Schoeder, Ulbrich, Schindler 2014, eqs. 36–44, with exact gaps instead of
    the linearised (41)–(42), and with friction.) Second order while contacts persist, first order across impacts, no
    drift.

    Three things differ from the paper. It holds a contact active when g_N(q_M) < 0; here it also is when a step without
    contact forces would end inside, for otherwise a contact that stays closed on a curved path would let go every other
    step. Ψ acts on all contacts, or one that closes in the second half of a step would penetrate. And not Ψ ≥ 0 but all
    that moves the positions of a contact, κ ≥ 0, is complementary to its gap, so that Ψ can undo what P does: with Ψ ≥ 0
    a contact whose P stops an approach would never close the gap that was left then, and P would act across it. M⁻¹
    makes the two of one kind.

    - velocity_only: drop Ψ, which leaves an implicit Moreau rule that drifts
    - linearised: (39)–(42) of the paper to the letter, to compare: gaps and rates linearised about (t_½, q_½), contacts
      active where g_N(q_M) < 0 alone, Ψ ≥ 0 for these alone, and q⁺ moved by B W Ψ, without M⁻¹. A contact that rests lets
      go in some steps and is caught in the next one, so its rate is slightly negative
    - bilateral: level of the constraints g: "ggl" for both, or "index3" for g = 0, "index2" for ġ = 0, "index1" for
      g̈ = 0 alone, all at the end of the step, to compare their drift
    - tol: tolerance on gaps and constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", or another method of `jaxns.solve_contacts`, to compare

    >>> import jaxns as ns
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.GGLUnified(), ball.q0, ball.u0, dt=0.01, t1=1.0)
    >>> bool(traj.q[:, 1].min() >= 0.1 - 1e-9)
    True
    """

    velocity_only: bool = False
    linearised: bool = False
    bilateral: Level = "ggl"
    tol: float | None = None
    solver: str = "newton"

    def __post_init__(self) -> None:
        check_solver(self)
        if self.bilateral not in get_args(Level):
            raise ValueError(f"GGLUnified: bilateral must be one of {get_args(Level)}, got {self.bilateral!r}.")

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Array:
        return Moreau().start(system, t, q, u, dt)

    def step(self, system: System, t: Array, q: Array, u: Array, dt: Array, memory: Array, tol: Array) -> Step:
        rows = system.rows(t, q, u)
        level: Level = "index2" if self.velocity_only and self.bilateral == "ggl" else self.bilateral
        implicit_u = system.velocity_dependent_force(t, q, u)
        coupled = _Coupled(rows, level, not self.velocity_only, implicit_u, self.linearised)
        theta = Theta(system, t, dt, q, u, memory, tol)
        problem = coupled.problem().solved_by(self.solver)
        active = _predicted(theta) if self.linearised else _active(theta, rows)
        (q_end, u_end, P), stats = implicit.solve(problem, _ThetaCoupled(theta, active))
        return Step(q_end, u_end, P, lax.stop_gradient(P), (with_row_of_system(stats, coupled.rows_of_system()),))


class _ThetaCoupled(NamedTuple):
    step: Theta
    active: Array  # (n_N,) bool


class _DataCoupled(NamedTuple):
    scaling: Scaling
    theta: _ThetaCoupled
    M_inv: Array  # at (t_½, q_M)
    before: Array  # the terms (0, 0, e_N ġ_N,n, e_F γ_F,n) of ξ


def _predicted(theta: Theta) -> Array:
    """Contacts that the paper holds active: g_N(q_M) < 0 (11)."""
    system, t_M, q_M, _ = midpoint(theta)
    return system.g_N(t_M, q_M) < 0.0


def _active(theta: Theta, rows: Rows) -> Array:
    """Contacts that are closed at the end of a step without contact forces, or at q_n and at the predicted midpoint."""
    system, t_M, q_M, _ = midpoint(theta)
    places = ((theta.t, theta.q), (t_M, q_M), (theta.t + theta.dt, _free_end(theta, rows)))
    before, predicted, end = (system.g_N(t, q) <= theta.tol for t, q in places)
    return end | (before & predicted)


def _free_end(theta: Theta, rows: Rows) -> Array:
    """q⁺ of a step without contact forces. It is linearly implicit, for the sake of stiff forces: an explicit one may end
    behind a wall that the step itself never comes near."""
    system, t_M, q_M, u = midpoint(theta)
    dt, n_b, none = theta.dt, rows.n_bilateral, jnp.zeros_like(u)

    def rate(du: Array) -> Array:
        return system.q_dot(t_M, q_M, u + 0.5 * du)

    def force(du: Array) -> Array:
        return system.h(t_M, q_M + 0.5 * dt * (rate(du) - rate(none)), u + 0.5 * du)

    inertia = system.M(t_M, q_M) - dt * jax.jacfwd(force)(none)
    W = system.W(t_M, q_M, u)[:, :n_b]
    moved = dense.solve(inertia, jnp.concatenate([dt * force(none)[:, None], W], axis=1))
    du = moved[:, 0]
    if n_b:
        excess = system.velocities(t_M, q_M, u + du)[:n_b]
        du = du - dense.matmul(moved[:, 1:], dense.solve(dense.matmul(W.T, moved[:, 1:]), excess))
    return theta.q + dt * rate(du)


class _Coupled(NamedTuple):
    """The one solve of `GGLUnified`.

    z holds the mean velocity (q⁺ − q_n)/Δt, and u⁺ where h depends on it. Rows and percussions are those of velocity level
    with those of position level, as ψ = Ψ/Δt and (g, g_N)/Δt, behind each kind.
    """

    rows: Rows
    level: Level
    corrected: bool  # whether there is Ψ_N
    implicit_u: bool
    linearised: bool

    @property
    def n_g(self) -> int:
        """Constraints with a Ψ."""
        return self.rows.n_g if self.level == "ggl" else 0

    @property
    def laws(self) -> LawTable:
        velocity = law_table(self.rows)
        groups = position_laws(velocity, 0).groups if self.corrected else ()
        return LawTable(velocity.n_bilateral + self.n_g, velocity.groups + groups)

    def split(self, rows: Array) -> tuple[Array, Array]:
        """Rows of velocity level (g, γ, N, F), and of position level (g, N)."""
        bilateral, normal, friction = self.laws.split(rows)
        n_b, n_N = self.rows.n_bilateral, self.rows.n_N
        velocity = jnp.concatenate([bilateral[:n_b], normal[:n_N], friction])
        return velocity, jnp.concatenate([bilateral[n_b:], normal[n_N:]])

    def join(self, velocity: Array, position: Array) -> Array:
        bilateral, normal, friction = law_table(self.rows).split(velocity)
        return jnp.concatenate([bilateral, position[: self.n_g], normal, position[self.n_g :], friction])

    def rows_of_system(self) -> Array:
        """For each row of this solve, the row (g, γ, N, F) that it belongs to."""
        names = jnp.arange(law_table(self.rows).size)
        return self.join(names, self.of_position(names))

    def of_position(self, rows: Array) -> Array:
        """Those of the rows (g, γ, N, F) that have a Ψ."""
        both = of_position(self.rows, rows)
        return jnp.concatenate([both[: self.n_g], both[self.rows.n_g :] if self.corrected else both[:0]])

    def problem(self) -> Problem:
        return Problem(self.laws, self.prepare, self.direct, self.guess, self.equations, self.outputs)

    def prepare(self, theta: _ThetaCoupled) -> _DataCoupled:
        system, t, q, u = midpoint(theta.step)
        d = Directions.at(Configuration(system, t, q, u))
        G = d.G_diagonal()
        scale = self.join(G, self.of_position(total(d.W * d.W) if self.linearised else G))
        mu = system.coefficients(self.rows, u.dtype)[2]
        return self.data(theta, d.M_inv, self.laws.prox_parameters(scale, mu))

    def direct(self, theta: _ThetaCoupled) -> _DataCoupled:
        system, t, q, _ = midpoint(theta.step)
        return self.data(theta, inverse_mass(system, t, q), jnp.ones((self.laws.size,), q.dtype))

    def data(self, theta: _ThetaCoupled, M_inv: Array, r: Array) -> _DataCoupled:
        system, t, dt, q, u, _, tol = theta.step
        velocities = system.velocities(t, q, u)
        before, mu = velocity_level.restitution(system, self.rows, velocities)
        unit = jnp.broadcast_to(velocity_unit(velocities), velocities.shape)
        if self.level == "index3":
            unit = unit.at[: self.rows.n_g].set(0.5 * dt)
        n_psi = self.laws.size - unit.shape[0]
        unit_y = self.join(unit, jnp.broadcast_to(dt, (n_psi,)))
        unit_S = jnp.broadcast_to(velocity_unit(u), (q.shape[0] + self.implicit_u * u.shape[0],))
        # On position level the law itself tells open from closed, if it is that of the gaps themselves.
        psi = theta.active if self.linearised else jnp.ones_like(theta.active)
        closed = jnp.concatenate([theta.active, psi]) if self.corrected else theta.active
        return _DataCoupled(Scaling(r, mu, closed, unit_S, unit_y, tol), theta, M_inv, before)

    def guess(self, data: _DataCoupled) -> tuple[Array, Array]:
        system, t, _, q, u, P, _ = data.theta.step
        z = [system.q_dot(t, q, u)] + [u] * self.implicit_u
        kappa = self.share * self.normals(P)
        return jnp.concatenate(z), self.join(P, jnp.concatenate([jnp.zeros_like(P[: self.n_g]), kappa]))

    @property
    def share(self) -> float:
        """Share of P_N in κ_N, which obeys the law of the gaps."""
        return 0.0 if self.linearised else 0.5

    def normals(self, P: Array) -> Array:
        """P_N of the contacts that have a Ψ, from the rows (g, γ, N, F)."""
        return self.of_position(P)[self.n_g :]

    def corrections(self, P: Array, position: Array) -> Array:
        """ψ (n_g + n_N,) from the percussions of both levels."""
        none = jnp.zeros((self.rows.n_N,), P.dtype)
        psi_N = position[self.n_g :] - self.share * self.normals(P) if self.corrected else none
        return jnp.concatenate([position[: self.n_g], psi_N])

    def state(self, z: Array, P: Array, data: _DataCoupled) -> tuple[Array, Array, Array]:
        """q⁺, u⁺ and the defect of the smooth equations."""
        system, t, dt, q, u, _, _ = data.theta.step
        t_half, mean = t + 0.5 * dt, z[: q.shape[0]]
        q_half = q + 0.5 * dt * mean
        percussion, psi = self.split(P)
        u_half = 0.5 * (u + z[q.shape[0] :]) if self.implicit_u else u
        _, pull = jax.vjp(lambda u: system.velocities(t_half, q_half, u), u)
        impulse = dt * system.h(t_half, q_half, u_half) + pull(percussion)[0]
        u_end = u + apply_inverse(data.M_inv, impulse)
        S_u = z[q.shape[0] :] - u_end if self.implicit_u else z[:0]
        u_end = z[q.shape[0] :] if self.implicit_u else u_end
        rate = system.q_dot(t_half, q_half, 0.5 * (u + u_end))
        if psi.shape[0]:
            here = Configuration(system, t_half, q_half, u)
            correction = covelocity(here, self.n_g, self.corrections(percussion, psi))
            if not self.linearised:
                correction = apply_inverse(data.M_inv, correction)
            rate = rate + correction_velocity(here, correction)
        return q + dt * mean, u_end, jnp.concatenate([mean - rate, S_u])

    def equations(self, z: Array, P: Array, data: _DataCoupled) -> tuple[Array, Array]:
        system, t, dt, _, u, _, _ = data.theta.step
        q_end, u_end, S = self.state(z, P, data)
        velocity, position = (
            self.linear_rows(z, u_end, data) if self.linearised else self.exact_rows(q_end, u_end, data)
        )
        velocity = velocity + data.before
        if self.level == "index3":
            velocity = velocity.at[: self.rows.n_g].set(2.0 / dt * system.g(t + dt, q_end))
        if self.level == "index1":
            end = (t + dt, q_end, u_end)
            rates = (jnp.ones_like(dt), system.q_dot(*end), (u_end - u) / dt)
            velocity = velocity.at[: self.rows.n_g].set(dt * jax.jvp(system.g_dot, end, rates)[1])
        return S, self.join(velocity, position if self.corrected else position[: self.n_g])

    def exact_rows(self, q_end: Array, u_end: Array, data: _DataCoupled) -> tuple[Array, Array]:
        """(ġ, γ, ġ_N, γ_F) and (g, g_N)/Δt at the end of the step."""
        system, t, dt, *_ = data.theta.step
        position = position_rows(system, t + dt, q_end, self.n_g) / dt
        return system.velocities(t + dt, q_end, u_end), position

    def linear_rows(self, z: Array, u_end: Array, data: _DataCoupled) -> tuple[Array, Array]:
        """The same as the paper linearises them, (42) and (41)."""
        system, t, dt, q, u, _, _ = data.theta.step
        mean = z[: q.shape[0]]
        middle = (t + 0.5 * dt, q + 0.5 * dt * mean)
        change = system.velocities(*middle, u_end) - system.velocities(*middle, u)
        rate = jax.jvp(lambda t, q: position_rows(system, t, q, self.n_g), middle, (jnp.ones_like(dt), mean))[1]
        return system.velocities(t, q, u) + change, position_rows(system, t, q, self.n_g) / dt + rate

    def outputs(self, z: Array, P: Array, data: _DataCoupled) -> tuple[Array, Array, Array]:
        q_end, u_end, _ = self.state(z, P, data)
        return q_end, u_end, self.split(P)[0]
