"""Constraints and contacts on acceleration level: what holds between two events.

    M u̇ = h + W λ,      (g̈, γ̇, g̈_N, γ̇_F) = Wᵀu̇ + ν(t, q, u)

Two questions are answered here. Which contacts stay closed, which of them stick and which begin to slide (an inclusion)?
And, that being known, which accelerations and forces follow (a linear system)?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ...laws.table import LawTable
from ...model.system import Rows, System
from ...solve import dense
from ...solve.inclusion import Problem
from ...solve.lemke import lemke
from ...trace.vectorise import materialise
from ..base import Configuration, Directions, apply_inverse, inverse_mass, law_table, velocity_unit
from .velocity_level import AnyDirections, Impact, problem


def acceleration_rows(system: System, t: Array, q: Array, u: Array, u_dot: Array) -> Array:
    """(g̈, γ̇, g̈_N, γ̇_F): the time derivative of the velocity rows along the motion."""
    rates = (jnp.ones_like(t), system.q_dot(t, q, u), u_dot)
    return jax.jvp(system.velocities, (t, q, u), rates)[1]


def unit_slips(laws: LawTable, gamma_F: Array) -> tuple[Array, Array]:
    """Directions of sliding (n_F,), zero where there is none, and the speeds (n_N,).

    Without a case distinction at zero: the compiler may compute γ_F twice, once as zero and once as a rounding error, and
    the two sides of a distinction would not fit together.
    """
    speed = jnp.sqrt(laws.gather(gamma_F * gamma_F) + 1e-36)
    return gamma_F / laws.spread(speed), speed


def holding_direction(laws: LawTable, mu: Array, force_F: Array) -> Array:
    """The direction (n_F,) in which contacts begin to slide that forces λ_F (n_F,) can no longer hold: the normal of their
    sets at −λ_F."""
    return unit_slips(laws, laws.normal(force_F, mu))[0]


# Which contacts act -------------------------------------------------------------------------------------------------


class Instant(NamedTuple):
    """A state at which contacts must decide."""

    system: System
    t: Array
    q: Array
    u: Array
    closed: Array  # (n_N,) bool: contacts with g_N = ġ_N = 0
    slides: Array  # (n_N,) bool: those that slide already
    direction: Array  # (n_F,) in which they do
    tau: Array  # time that turns forces into percussions, for the scale of the rows
    tol: Array


def instant_of(system: System, t: Array, q: Array, u: Array, tau: Array, near: Array, tol: Array) -> Instant:
    """A state as it is, with gaps and velocities up to `near` taken for zero."""
    laws = law_table(system.rows(t, q, u))
    closed = (system.g_N(t, q) <= near) & (system.g_N_dot(t, q, u) <= near)
    direction, speed = unit_slips(laws, system.gamma_F(t, q, u))
    return Instant(system, t, q, u, closed, (speed > near) & laws.can_slide(direction), direction, tau, tol)


def as_impact(rows: Rows, instant: Instant, d: AnyDirections) -> Impact:
    """The inclusion of the accelerations,

        closed:    g̈_N ∈ N_{R−}(−λ_N),  otherwise λ_N = 0
        sticking:  γ̇_F ∈ N_{C_F(λ_N)}(−λ_F)
        sliding:   λ_F of sliding along the direction given

    as one of velocities τu̇ and percussions τλ, with rows y = τ(g̈, γ̇, g̈_N, γ̇_F) = Wᵀ(τu̇) + τν.
    """
    system, t, q, u, closed, slides, direction, tau, tol = instant
    laws = law_table(rows)
    free, none = tau * d.accelerate(system.h(t, q, u)), jnp.zeros_like(u)
    rest = tau * acceleration_rows(system, t, q, u, none) - system.velocities(t, q, none)
    unit = velocity_unit(system.velocities(t, q, free) + rest)
    # A row that is constant and not zero lies in the normal cone of one force alone: that of sliding along it.
    given = jnp.zeros((laws.size,), bool).at[laws.size - laws.n_F :].set(laws.spread(slides))
    along = jnp.zeros_like(rest).at[laws.size - laws.n_F :].set(direction / unit)
    mu = system.at_speeds(t, q, u).coefficients(rows, u.dtype)[2]
    return Impact(free, jnp.where(given, along, rest), mu, closed, jnp.zeros_like(rest), tol, given)


def decision(rows: Rows) -> Problem:
    """The inclusion of the accelerations at an `Instant`; its outputs are (τu̇, τλ)."""
    return problem(law_table(rows), lambda i: Configuration(i.system, i.t, i.q, i.u), partial(as_impact, rows))


# What follows -------------------------------------------------------------------------------------------------------


class Mode(NamedTuple):
    """What the contacts do between two events."""

    closed: Array  # (n_N,) bool: they persist, g_N = ġ_N = 0
    stick: Array  # (n_N,) bool: of these, the ones with γ_F = 0
    direction: Array  # (n_F,) of sliding of the others, at the beginning of the step
    share: Array  # (n,) forces at the beginning of the mode, which say how redundant contacts share a load

    @classmethod
    def open(cls, laws: LawTable, dtype: Any) -> Mode:
        """No contact acts."""
        no = jnp.zeros((laws.n_N,), bool)
        return cls(no, no, jnp.zeros((laws.n_F,), dtype), jnp.zeros((laws.size,), dtype))


class Forces(NamedTuple):
    """Accelerations and forces of a smooth motion."""

    u_dot: Array  # (nu,)
    force: Array  # (n,) λ of all rows (g, γ, N, F)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Motion:
    """A system whose contacts are in one mode: rows that act are equations, sliding friction follows the normal force.

    With `unilateral` the normal rows of closed contacts obey 0 ≤ λ_N ⊥ (row) ≥ 0 instead, which stays solvable where two
    gap functions meet at an edge.
    """

    system: System
    mode: Mode
    unilateral: bool = field(default=False, metadata={"static": True})

    def laws(self, t: Array, q: Array, u: Array) -> LawTable:
        return law_table(self.system.rows(t, q, u))

    def acting(self, laws: LawTable) -> Array:
        """(n,) bool: the rows of bilateral constraints, closed contacts and sticking friction."""
        closed, stick = self.mode.closed, self.mode.stick
        bilateral = jnp.ones((laws.n_bilateral,), bool)
        return jnp.concatenate([bilateral, closed, laws.spread(closed & stick)])

    def friction(self, laws: LawTable, t: Array, q: Array, u: Array, held: Callable[[], Array]) -> Array:
        """−λ_F per unit of normal force (n_F,): of sliding contacts their friction; of sticking ones what they carried when
        the mode was decided, beside which their rows have a force of their own.

        Where the friction of redundant contacts is determined in sum alone, each so goes on with its part of what its
        normal force allows: if the sum is at its limit, all are, and none lets go before the others.

        `held()` are the forces that would hold all closed contacts.
        """
        system, (closed, stick, old, _) = self.system, self.mode
        _, shared_N, shared_F = laws.split(self._share())
        mu = system.at_speeds(t, q, u).coefficients(system.rows(t, q, u), u.dtype)[2]
        direction = old  # in one dimension it is constant; stages that overshoot the end of sliding go on as before
        if laws.spatial:
            direction = self._direction(laws, mu, system.gamma_F(t, q, u), held())
        sliding = jnp.where(laws.spread(closed & ~stick), laws.sliding(direction, mu), 0.0)
        carries = self._carries(laws)
        return jnp.where(carries, -shared_F / jnp.where(carries, laws.spread(shared_N), 1.0), sliding)

    def _carries(self, laws: LawTable) -> Array:
        """Friction rows (n_F,) of sticking contacts with a normal force, along with which their friction grows."""
        _, shared_N, _ = laws.split(self._share())
        loaded = shared_N > 1e-9 * jnp.max(shared_N, initial=0.0)
        return laws.spread(self.mode.closed & self.mode.stick & loaded)

    def _direction(self, laws: LawTable, mu: Array, gamma_F: Array, held: Array) -> Array:
        """Directions of sliding in space, also where sliding begins from rest.

        A direction relaxes towards balance with the applied force at the rate μλ/|γ_F|, which no explicit method can follow
        from |γ_F| = 0. There it is in balance: opposite to the force that would hold the contact.
        """
        slip, speed = unit_slips(laws, gamma_F)
        forward = laws.gather(lax.stop_gradient(self.mode.direction * gamma_F)) > NO_SLIP
        slip = jnp.where(laws.spread(forward), slip, self.mode.direction)
        _, force_N, force_F = laws.split(held)
        driven = laws.gauge(force_F, mu) > jnp.maximum(force_N, 0.0)
        balance = holding_direction(laws, mu, force_F)
        share = laws.spread(jnp.minimum(speed / _SLOW, 1.0))
        blend = unit_slips(laws, share * slip + (1.0 - share) * balance)[0]
        return jnp.where(laws.spread(driven & (speed < _SLOW)), blend, slip)

    def _share(self) -> Array:
        """Forces λ (n,) to which the motion keeps where only sums of them are determined, as of redundant contacts: those
        with which the mode was decided. Another split could leave a friction set that the sum does not leave."""
        return jnp.zeros_like(self.mode.share) if self.unilateral else lax.stop_gradient(self.mode.share)

    def _held(self) -> Motion:
        """The same with all closed contacts sticking."""
        return replace(self, mode=self.mode._replace(stick=self.mode.closed))

    def solve(self, t: Array, q: Array, u: Array, W: Array, W_rows: Array, bias: Array) -> Forces:
        """u̇ and λ with M u̇ = h + W λ at (t, q, u), and W_rowsᵀu̇ + bias = 0 for the rows that act."""
        return self._solve(t, q, u, W, W_rows, bias, lambda: self._rates_at_rest(t, q, u))

    @jax.jit
    def accelerations(self, t: Array, q: Array, u: Array) -> Forces:
        """u̇ and λ at one state: g̈ = 0, γ̇ = 0 for the rows that act (index 1)."""
        W = materialise(self.system.W(t, q, u))
        bias = self._rates_at_rest(t, q, u)
        return self._solve(t, q, u, W, W, bias, lambda: bias)

    def _rates_at_rest(self, t: Array, q: Array, u: Array) -> Array:
        """The part ν of the acceleration rows that does not depend on u̇."""
        return acceleration_rows(self.system, t, q, u, jnp.zeros_like(u))

    def _solve(
        self, t: Array, q: Array, u: Array, W: Array, W_rows: Array, bias: Array, nu: Callable[[], Array]
    ) -> Forces:
        """`solve`, with ν of (t, q, u) for the forces that would hold contacts."""
        laws = self.laws(t, q, u)
        b, n = laws.n_bilateral, laws.n_bilateral + laws.n_N
        M_inv = inverse_mass(self.system, t, q)
        free, M_inv_W = apply_inverse(M_inv, self.system.h(t, q, u)), materialise(apply_inverse(M_inv, W))

        def held() -> Array:
            return self._held()._forces(laws, free, M_inv_W, W, nu(), share.at[n:].set(0.0))

        share = self._share()
        # Friction turns the force direction of its contact: λ_F = −D λ_N, and what a sticking one has beside it.
        D = self.friction(laws, t, q, u, held)
        dragged = materialise(M_inv_W.at[:, b:n].add(-laws.gather((M_inv_W[:, n:] * D).T).T))
        beside = jnp.where(self._carries(laws), 0.0, share[n:])
        force = self._forces(laws, free, dragged, W_rows, bias, share.at[n:].set(beside))
        u_dot = free + dense.matmul(dragged, force)
        return Forces(u_dot, force.at[n:].add(-D * laws.spread(force[b:n])))

    def _forces(self, laws: LawTable, free: Array, M_inv_W: Array, W_rows: Array, bias: Array, share: Array) -> Array:
        """λ of the rows that act, with W_rowsᵀ(free + M⁻¹W λ) + bias = 0 for them; as near to `share` as the rows allow."""
        A = dense.matmul(W_rows.T, M_inv_W)
        share = jnp.where(self.acting(laws), share, 0.0)
        missing = -(bias + dense.matmul(W_rows.T, free + dense.matmul(M_inv_W, share)))
        return share + self.acting_forces(laws, A, missing)

    def acting_forces(self, laws: LawTable, A: Array, c: Array) -> Array:
        """x with (A x)_k = c_k for rows that act and x_k = 0 for the others."""
        scale = 1.0 / jnp.sqrt(jnp.where(jnp.diag(A) > 0.0, jnp.diag(A), 1.0))
        A, c = scale[:, None] * A * scale, scale * c
        acting = self.acting(laws)
        if self.unilateral:
            acting = _complementary(laws, lax.stop_gradient(A), lax.stop_gradient(c), acting)
        return scale * _solve_acting(A, c, acting)


_SLOW = 1e-4  # sliding velocity up to which a direction is that of the balance of forces, in part
NO_SLIP = 1e-8  # and below which it has no direction of its own


def _solve_acting(A: Array, c: Array, acting: Array) -> Array:
    """x with (A x)_k = c_k where acting, x_k = 0 elsewhere; c is (n,) or (n, k)."""
    A = jnp.where(acting[:, None] & acting, A, jnp.eye(A.shape[0], dtype=A.dtype))
    where = acting if c.ndim == 1 else acting[:, None]
    return dense.solve(A, jnp.where(where, c, 0.0))


def _complementary(laws: LawTable, A: Array, c: Array, acting: Array) -> Array:
    """The acting rows that carry a force if normal rows obey 0 ≤ λ ⊥ A λ − c ≥ 0 (paper 001, (13), corrected)."""
    b, n = laws.n_bilateral, laws.n_bilateral + laws.n_N
    normal = jnp.zeros_like(acting).at[b:n].set(acting[b:n])
    # Equations first: x_E = A_EE⁻¹(c_E − A_EN λ_N) leaves a complementarity problem for the normals.
    E = _solve_acting(A, jnp.concatenate([A[:, b:n], c[:, None]], axis=1), acting & ~normal)
    reduced = A[b:n, b:n] - dense.matmul(A[b:n], E[:, :-1])
    rest = c[b:n] - dense.matmul(A[b:n], E[:, -1])
    closed = normal[b:n]
    reduced = jnp.where(closed[:, None] & closed, reduced, jnp.eye(laws.n_N, dtype=A.dtype))
    carried = lemke(reduced, jnp.where(closed, -rest, 1.0)).z > 0.0
    return acting.at[b:n].set(carried & closed)


def evenly(motion: Motion, t: Array, q: Array, u: Array) -> Array:
    """The forces λ (n,) that a mode remembers, with the friction of redundant sticking contacts spread evenly.

    Of all friction forces that move the system alike, those with the smallest Σ |λ_F|² / (μ λ_N): contacts that share a
    load reach their limits together. Otherwise the one that reaches it first lets go, but cannot slide, for the others
    still stick; nothing moves, and the same contacts are asked again.

    With S² = diag(μ λ_N) and B = S Wᵀ M⁻¹ W S they are S y for the part y of S⁻¹λ_F in the range of B.
    """
    laws, force = motion.laws(t, q, u), motion.mode.share
    n = laws.n_bilateral + laws.n_N
    if not laws.n_F:
        return force
    mu = motion.system.at_speeds(t, q, u).coefficients(motion.system.rows(t, q, u), u.dtype)[2]
    holds = jnp.maximum(laws.spread(force[laws.n_bilateral : n]) * mu, 0.0)
    S = jnp.sqrt(jnp.where(laws.spread(motion.mode.closed & motion.mode.stick), holds, 0.0))
    d = Directions.at(Configuration(motion.system, t, q, u))
    A = dense.matmul(d.W[:, n:].T, d.M_inv_W[:, n:])
    B = S[:, None] * A * S
    largest = jnp.max(jnp.diag(B))
    small = dense.pivot_threshold(A.dtype) ** 0.5 * largest
    # (1 + B/ε)⁻⁸ keeps what lies outside of the range of B, and removes the rest.
    outside = dense.inverse(jnp.eye(laws.n_F, dtype=A.dtype) + B / jnp.where(small > 0.0, small, 1.0))
    for _ in range(3):
        outside = dense.matmul(outside, outside)
    held = jnp.where(S > 0.0, force[n:], 0.0)
    spare = S * dense.matmul(outside, held / jnp.where(S > 0.0, S, 1.0))
    # Next to ε all that a contact with a small load does seems to move nothing.
    moves = jnp.abs(dense.matmul(A, spare)) > 1e-3 * jnp.diag(A) * jnp.abs(held)
    return force.at[n:].add(jnp.where(moves, 0.0, -spare))


def settle(motion: Motion, t: Array, q: Array, u: Array) -> Array:
    """The nearest velocity, in the metric of the mass matrix, with (ġ, γ, ġ_N, γ_F) = 0 for the rows that act.

    An impact leaves them at zero up to its tolerance; a step that is shorter than that could not tell a rest from a force.
    """
    laws = motion.laws(t, q, u)
    if not laws.size:
        return u
    d = Directions.at(Configuration(motion.system, t, q, u))
    percussion = motion.acting_forces(laws, dense.matmul(d.W.T, d.M_inv_W), motion.system.velocities(t, q, u))
    return u - d.kick(percussion)


def project(motion: Motion, t: Array, q: Array, u: Array) -> tuple[Array, Array]:
    """The nearest state, in the metric of the mass matrix, with g = 0 and ġ = 0 for the rows that act."""
    system = motion.system
    laws = motion.laws(t, q, u)
    rows: Any = system.rows(t, q, u)
    acting = motion.acting(laws)
    b, n = laws.n_bilateral, laws.n_bilateral + laws.n_N
    of_position = acting & jnp.zeros_like(acting).at[: rows.n_g].set(True).at[b:n].set(True)

    for _ in range(2):
        gaps = jnp.zeros_like(acting, q.dtype).at[: rows.n_g].set(system.g(t, q)).at[b:n].set(system.g_N(t, q))
        d = Directions.at(Configuration(system, t, q, u))
        change = -d.kick(_solve_acting(dense.matmul(d.W.T, d.M_inv_W), gaps, of_position))
        q = q + system.q_dot(t, q, change) - system.q_dot(t, q, jnp.zeros_like(u))
    return q, settle(motion, t, q, u)
