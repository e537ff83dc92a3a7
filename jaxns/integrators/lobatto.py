"""Lobatto IIIA–IIIB methods with frictional contact."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..laws.table import LawTable
from ..model.system import Rows, System
from ..solve import dense, implicit
from ..solve.inclusion import Problem, Scaling
from ..trace.vectorise import materialise
from .base import (
    Configuration,
    DirectDirections,
    Directions,
    Solve,
    Step,
    Theta,
    check_solver,
    law_table,
    velocity_unit,
    with_row_of_system,
)
from .guesses import Memory
from .levels import velocity_level
from .levels.position_level import by_kind, kinematic_rows
from .levels.reduced import Restitution, check_restitution, solve_impact
from .lobatto_tableau import Tableau, lobatto


@dataclass(frozen=True)
class Lobatto:
    """Lobatto IIIA–IIIB with s stages: order 2s − 2 in smooth motion and persistent contact, on both kinematic levels.

    With nodes c, weights b, matrices a (IIIA) and â (IIIB), stage times t^i = t_n + c_i Δt, momentum π = M u, and
    percussions P^j = b_j R^j of the stages:

        Q^i = q_n + Δt Σ_j a_ij q̇(t^j, Q^j, V^j),    q⁺ = Q^s
        F^j = b_j Δt (h + Ṁu)(t^j, Q^j, V^j) + W(t^j, Q^j) P^j
        M(t^i, Q^i) V^i = π_n + Σ_j (â_ij / b_j) F^j,    M(t_{n+1}, q⁺) u⁺ = π_n + Σ_j F^j

    First solve, for V^1..V^s and P^1..P^{s−1} (the last column of â is zero), with i = 2..s:

        g(t^i, Q^i) = 0,  γ(t^i, Q^i, V^i) = 0
        g_N(t^i, Q^i) ∈ N_{R−}(−P_N^{i−1}),  γ_F(t^i, Q^i, V^i) ∈ N_{C_F(P_N^{i−1})}(−P_F^{i−1})

    Second solve, for u⁺ and P = Σ_j P^j, with all rows taken at (t_{n+1}, q⁺):

        ġ⁺ = 0,  γ⁺ = 0
        closed (r g_N − P_N^{s−1} ≤ 0):  ξ_N = ġ_N⁺ + e_N ġ_N,n ∈ N_{R−}(−P_N),   open: P_N = 0
        ξ_F = γ_F⁺ + e_F γ_F,n ∈ N_{C_F(P_N)}(−P_F)

    (Capobianco, Harsch, Leine 2024, eqs. 47–59, whose residual (61) lacks two minus signs; kinematics q̇ ≠ u are ours.)
    With two stages and constant mass this is RATTLE. Across impacts the order is one, as for every scheme that captures
    events. Only what cannot be computed explicitly is unknown: the inner positions Q^2..Q^{s−1} where forces depend on
    positions, V^i where forces depend on velocities or the mass matrix on positions.

    With velocity-level constraints γ, or where friction holds a contact, the order is s − 1: γ = 0 is imposed on the stage
    velocities V^i, which are less accurate than u⁺.

    - stages: s ≥ 2
    - tol: tolerance on gaps and constraints in metres, and on velocities relative to their size above 1 m/s;
      by default from the dtype
    - solver: how inclusions are solved: "newton", or another method of `jaxns.solve_contacts`, to compare
    - restitution: "newton"; or "reduce", which weakens e_N and e_F for impacts that have no solution, counted in
      `traj.reduced`

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> traj = ns.simulate(slope.system, ns.Lobatto(stages=3), slope.q0, slope.u0, dt=0.01, t1=0.1)
    >>> bool(traj.ok)
    True
    """

    stages: int = 3
    tol: float | None = None
    solver: str = "newton"
    restitution: Restitution = "newton"

    def __post_init__(self) -> None:
        if not isinstance(self.stages, (int, np.integer)) or self.stages < 2:
            raise ValueError(f"Lobatto: stages must be a whole number of at least 2, got {self.stages!r}.")
        check_solver(self)
        check_restitution(self)

    def start(self, system: System, t: Array, q: Array, u: Array, dt: Array) -> Memory:
        n = law_table(system.rows(t, q, u)).size
        return Memory.start((self.stages - 1) * n, n, u.dtype)

    def step(
        self,
        system: System,
        t: Array,
        q: Array,
        u: Array,
        dt: Array,
        memory: Memory,
        tol: Array,
        solve: Solve = implicit.solve,
    ) -> Step:
        rows = system.rows(t, q, u)
        laws = law_table(rows)
        stages = _Stages(rows, laws, lobatto(self.stages), _Unknowns.of(system, t, q, u, self.stages))
        P_stages_guess = memory.first_guess()
        theta = Theta(system, t, dt, q, u, P_stages_guess, tol)
        first, stats_1 = solve(stages.problem().solved_by(self.solver), theta)
        stats_1 = with_row_of_system(stats_1, laws.stack(jnp.tile(jnp.arange(laws.size), (self.stages - 1, 1))))
        proportional = first.P / float(1.0 - stages.tableau.b[-1])
        P_guess = memory.whole_guess(P_stages_guess, first.P_stages, proportional)
        end = _ThetaEnd(theta._replace(P_guess=P_guess), first)
        u_end, P, stats_2, reduced = solve_impact(self, laws, _end, partial(_impact, stages), end, solve=solve)
        memory = memory.after(laws, (first.P_stages, P_stages_guess), (P, P_guess), proportional)
        return Step(first.q, u_end, P, memory, (stats_1, stats_2), reduced=reduced)


class _Unknowns(NamedTuple):
    """Which stage positions and velocities are smooth unknowns z; all others are explicit."""

    n_Q: int  # Q^2..Q^{n_Q+1}, as mean velocities (Q^i − q_n)/Δt
    n_V: int  # V^1..V^{n_V}
    nq: int
    nu: int
    variable_mass: bool

    @classmethod
    def of(cls, system: System, t: Array, q: Array, u: Array, s: int) -> _Unknowns:
        variable_mass = not system.constant_mass(t, q)
        kinematics = system.kinematics is not None
        if variable_mass or system.velocity_dependent_force(t, q, u):
            # With q̇ = u all Q^i follow from all V^i; else V^s follows from the rest, if the mass matrix is constant.
            n_V = s - 1 if kinematics and not variable_mass else s
            n_Q = s - 1 if kinematics else 0
        else:
            n_V = 0
            inner = s - 2 if system.position_dependent_force(t, q, u) else 0
            n_Q = s - 1 if kinematics else inner
        return cls(n_Q, n_V, q.shape[0], u.shape[0], variable_mass)

    def split(self, z: Array) -> tuple[Array, Array]:
        """Mean velocities (n_Q, nq) and stage velocities (n_V, nu)."""
        border = self.n_Q * self.nq
        return z[:border].reshape(self.n_Q, self.nq), z[border:].reshape(self.n_V, self.nu)

    def join(self, mean: Array, V: Array) -> Array:
        return jnp.concatenate([mean.reshape(-1), V.reshape(-1)])


class _Data(NamedTuple):
    scaling: Scaling
    theta: Theta
    directions: Directions | DirectDirections  # at (t_n, q_n)
    velocities: Array  # rows (ġ, γ, ġ_N, γ_F) at (t_n, q_n, u_n)


class _First(NamedTuple):
    """Outputs of the first solve."""

    q: Array  # (nq,) q⁺
    V: Array  # (nu,) V^s
    impulse: Array  # (nu,) F^1 + … + F^{s−1}
    P: Array  # (n,) P^1 + … + P^{s−1}
    P_stages: Array  # ((s−1) n,)
    closed: Array  # (n_N,) bool
    velocities: Array


class _Motion(NamedTuple):
    """The stages that belong to given unknowns."""

    Q: Array  # (s, nq)
    V: Array  # (s, nu)
    F: Array  # (s−1, nu)
    S: Array  # defect of the smooth equations


class _Stages(NamedTuple):
    """The first solve."""

    rows: Rows
    laws: LawTable  # of one stage
    tableau: Tableau
    unknowns: _Unknowns

    @property
    def s(self) -> int:
        return len(self.tableau.c)

    def problem(self) -> Problem:
        laws = self.laws.repeated(self.s - 1)
        return Problem(laws, self.prepare, self.direct, self.guess, self.equations, self.outputs)

    def prepare(self, theta: Theta) -> _Data:
        d = Directions.at(Configuration(theta.system, theta.t, theta.q, theta.u))
        # The rows of stage i answer to P^{i−1}: positions by Σ_l a_il â_{l,i−1}/b_{i−1}, velocities by â_{i,i−1}/b_{i−1}.
        D = self.tableau.a_hat / self.tableau.b
        share = [by_kind(self.rows, self.laws, (self.tableau.a @ D)[i, i - 1], D[i, i - 1]) for i in range(1, self.s)]
        G_diagonal = jnp.stack(share).astype(theta.q.dtype) * d.G_diagonal()
        mu = jnp.tile(theta.system.coefficients(self.rows, theta.u.dtype)[2], self.s - 1)
        laws = self.laws.repeated(self.s - 1)
        return self.data(theta, d, laws.prox_parameters(self.laws.stack(G_diagonal), mu))

    def direct(self, theta: Theta) -> _Data:
        d = DirectDirections.at(Configuration(theta.system, theta.t, theta.q, theta.u))
        return self.data(theta, d, theta.P_guess)

    def data(self, theta: Theta, d: Directions | DirectDirections, r: Array) -> _Data:
        system, t, dt, q, u, _, tol = theta
        times = self.s - 1
        velocities = system.velocities(t, q, u)
        unit = by_kind(self.rows, self.laws, dt, velocity_unit(velocities))
        unit_y = self.laws.stack(jnp.broadcast_to(unit, (times, unit.shape[0])))
        n_z = self.unknowns.n_Q * self.unknowns.nq + self.unknowns.n_V * self.unknowns.nu
        unit_S = jnp.broadcast_to(velocity_unit(u), (n_z,))
        _, _, mu = system.coefficients(self.rows, u.dtype)
        closed = jnp.ones((times * self.rows.n_N,), bool)  # on position level the law itself tells open from closed
        return _Data(Scaling(r, jnp.tile(mu, times), closed, unit_S, unit_y, tol), theta, d, velocities)

    def guess(self, data: _Data) -> tuple[Array, Array]:
        """Stages with the forces of (t_n, q_n, u_n) and the percussions of the last step."""
        system, t, dt, q, u, P, _ = data.theta
        _, b, a, a_hat = self.tableau
        P_stages = self.laws.unstack(P, self.s - 1)
        free = dt * data.directions.accelerate(system.h(t, q, u))
        gains = jnp.stack([float(b[j]) * free + data.directions.kick(P_stages[j]) for j in range(self.s - 1)])
        V = u + _combine((a_hat / b)[:, :-1], gains)
        mean = _combine(a, jax.vmap(partial(system.q_dot, t, q))(V))
        n_Q, n_V = self.unknowns.n_Q, self.unknowns.n_V
        return self.unknowns.join(mean[1 : n_Q + 1], V[:n_V]), P

    def motion(self, z: Array, P: Array, data: _Data) -> _Motion:
        """The stages that follow from the unknowns, and what the unknowns miss."""
        system, t, dt, q, u, _, _ = data.theta
        c, b, a, a_hat = self.tableau
        s, (n_Q, n_V) = self.s, self.unknowns[:2]
        T = t + dt * jnp.asarray(c, q.dtype)
        mean_z, V_z = self.unknowns.split(z)
        mean_z = jnp.concatenate([jnp.zeros_like(q)[None], mean_z])  # Q^1 = q_n
        # Where no Q^i is unknown, positions follow from V_z, or forces need none.
        explicit = _combine(a, V_z) if n_V == s else jnp.zeros((s, *q.shape), q.dtype)
        mean_forces = mean_z if n_Q else explicit
        V_forces = V_z if n_V else jnp.broadcast_to(u, (s, *u.shape))
        F = jax.vmap(partial(_impulse, system, dt))(
            T[: s - 1],
            (q + dt * mean_forces)[: s - 1],
            V_forces[: s - 1],
            jnp.asarray(b[: s - 1], q.dtype),
            self.laws.unstack(P, s - 1),
        )
        F = materialise(F)
        gain = _combine((a_hat / b)[:, :-1], F)

        V, S_V = V_z, V_z
        if not self.unknowns.variable_mass:
            V_new = materialise(u + jax.vmap(data.directions.accelerate)(gain))
            V, S_V = jnp.concatenate([V_z, V_new[n_V:]]), V_z - V_new[:n_V]
        rates = V if system.kinematics is None else jax.vmap(system.q_dot)(T, q + dt * mean_z, V)
        mean = _combine(a, rates)
        Q = q + dt * jnp.concatenate([mean_z, mean[n_Q + 1 :]])
        if self.unknowns.variable_mass:
            momentum = jax.vmap(lambda t, q, v: system.M(t, q) @ v)(T, Q, V)
            S_V = jax.vmap(data.directions.accelerate)(momentum - gain) - u
        return _Motion(Q, V, F, self.unknowns.join(mean_z[1:] - mean[1 : n_Q + 1], S_V))

    def equations(self, z: Array, P: Array, data: _Data) -> tuple[Array, Array]:
        system, t, dt, *_ = data.theta
        motion = self.motion(z, P, data)
        T = t + dt * jnp.asarray(self.tableau.c, dt.dtype)
        y = jax.vmap(lambda t, q, u: kinematic_rows(system, t, dt, q, u))(T[1:], motion.Q[1:], motion.V[1:])
        return motion.S, self.laws.stack(y)

    def outputs(self, z: Array, P: Array, data: _Data) -> _First:
        system, t, dt, *_ = data.theta
        motion = self.motion(z, P, data)
        P_stages = self.laws.unstack(P, self.s - 1)
        _, r_N, _ = self.laws.split(self.laws.unstack(data.scaling.r, self.s - 1)[-1])
        _, P_N, _ = self.laws.split(P_stages[-1])
        q_end = motion.Q[-1]
        closed = r_N * system.g_N(t + dt, q_end) / dt - P_N <= 0.0
        impulse, total = jnp.sum(motion.F, axis=0), jnp.sum(P_stages, axis=0)
        return _First(q_end, motion.V[-1], impulse, total, P, closed, data.velocities)


class _ThetaEnd(NamedTuple):
    step: Theta
    first: _First


def _end(theta: _ThetaEnd) -> Configuration:
    step, first = theta
    return Configuration(step.system, step.t + step.dt, first.q, first.V)


def _impact(stages: _Stages, theta: _ThetaEnd, d: Directions | DirectDirections) -> velocity_level.Impact:
    """The second solve as an inclusion for the whole percussion P = Σ_j P^j."""
    (system, t, dt, q, u, P_guess, tol), first = theta
    force = float(stages.tableau.b[-1]) * dt * system.momentum_rate(t + dt, first.q, first.V)
    before, mu = velocity_level.restitution(system, stages.rows, first.velocities)
    start = d.accelerate(dense.matmul(system.M(t, q), u)) if stages.unknowns.variable_mass else u
    u_free = start + d.accelerate(first.impulse + force) - d.kick(first.P)
    return velocity_level.Impact(materialise(u_free), before, mu, first.closed, P_guess, tol)


def _impulse(system: System, dt: Array, t: Array, q: Array, u: Array, b: Array, P: Array) -> Array:
    """F^j = b_j Δt (h + Ṁu) + W P^j."""
    _, pull = jax.vjp(lambda u: system.velocities(t, q, u), u)
    return b * dt * system.momentum_rate(t, q, u) + pull(P)[0]


def _combine(weights: np.ndarray, x: Array) -> Array:
    """weights (m, k) times x (k, …), with the weights as constants of the program."""
    terms = [[float(w) * x[j] for j, w in enumerate(row) if w] for row in weights]
    return jnp.stack([sum(t[1:], t[0]) if t else jnp.zeros_like(x[0]) for t in terms])
