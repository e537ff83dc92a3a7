"""Poisson's impact law: contacts give percussions back, where Newton's law gives velocities back.

Compression is the plastic impact of the velocities γ⁻ before, at the same place: with G = WᵀM⁻¹W,

    γᶜ = γ⁻ + G p,      0 ≤ γ_Nᶜ ⊥ p_N ≥ 0,      γ_Fᶜ ∈ N_{C_F(p_N)}(−p_F).

Expansion gives back a share of these percussions, Λ beside p:

    γ⁺ = γᶜ + G Λ,      0 ≤ γ_N⁺ ⊥ Λ_N − e_N p_N ≥ 0,      Λ_F = e_F p_F + Q_F,      γ_F⁺ ∈ N_{C_F(Λ_N − e_F p_N)}(−Q_F),

with e_F no larger than e_N; freewheels obey 0 ≤ γ_F⁺ ⊥ Λ_F − e_F p_F ≥ 0. (Glocker 2001.) The forces of a time step act in
the expansion: contacts that do not approach have p = 0, and there it is the law without restitution. A single contact that
approaches obeys Newton's law if e_F = e_N.

The kinetic energy T never rises. With E the diagonal of the e_N, |x|² = xᵀGx, and Q_F γ_F⁺ ≤ (e_N − e_F) p_F γ_F⁺, because
Q_F does the most of all that C_F(Λ_N − e_F p_N) ∋ (e_N − e_F) p_F allows, compression and expansion change it by

    pᵀγᶜ − ½ |p|² ≤ −½ |p|²      and      Λᵀγ⁺ − ½ |Λ|² ≤ pᵀE γ⁺ − ½ |Λ|² ≤ pᵀE G Λ − ½ |Λ|²,

as pᵀE γᶜ ≤ 0. Their sum is at most −½ |Λ − E p|² + ½ |E p|² − ½ |p|². With one e for all contacts |E p| = e |p|. Different
ones could raise the energy; then all are weakened by one factor |p|/|E p| < 1 (which is ours), hardly ever needed. Wedged
bodies give back percussions that hold each other in balance, and stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ...laws.table import LawTable
from ...model.system import System
from ...solve import inclusion
from ..base import Configuration, Solve
from . import velocity_level

METHODS = ("newton", "path")  # methods that know a preloaded table of laws


class _Expansion(NamedTuple):
    theta: Any
    p: Array  # (n,) of the compression


class _GivenBack(NamedTuple):
    """What compression has stored."""

    P: Array  # (n,) (1 + e_N) p_N and (1 + e_F) p_F
    preload: Array  # (n_N,) the part of it that Q_F may draw on, (e_N − e_F) p_N


def solve_impact(
    laws: LawTable,
    configuration: Callable[[Any], Configuration],
    meets: Callable[[Any, velocity_level.AnyDirections], velocity_level.Impact],
    theta: Any,
    posed: Callable[..., inclusion.Problem],
    solve: Solve,
) -> tuple[Array, Array, inclusion.Stats]:
    """u⁺, P and stats of an impact; the arguments are those of `impact_laws.solve_impact`."""

    def compression(theta: Any, d: velocity_level.AnyDirections) -> velocity_level.Impact:
        impact = meets(theta, d)
        system, t, q, _ = configuration(theta)
        from_before = impact.before - system.velocities(t, q, impact.u_free)  # y(P = 0) = γ⁻, without the step's forces
        return impact._replace(before=from_before, P_guess=jnp.zeros_like(impact.P_guess))

    def given_back(at: _Expansion, d: velocity_level.AnyDirections) -> _GivenBack:
        return _given_back(laws, configuration(at.theta), d, at.p)

    def expansion(at: _Expansion, d: velocity_level.AnyDirections) -> velocity_level.Impact:
        impact, given = meets(at.theta, d), given_back(at, d)
        return impact._replace(
            u_free=impact.u_free + d.kick(given.P),
            before=jnp.zeros_like(impact.before),
            mu=jnp.concatenate([impact.mu, given.preload]),
            P_guess=jnp.where(given.P == 0.0, impact.P_guess, 0.0),
        )

    (_, p), stats_1 = solve(posed(laws, configuration, compression), theta)
    at = _Expansion(theta, p)
    problem = posed(replace(laws, preloaded=True), lambda at: configuration(at.theta), expansion)
    (u, P), stats_2 = solve(problem, at)
    directions = velocity_level.DirectDirections.at(configuration(theta))
    return u, P + given_back(at, directions).P, inclusion.worse(stats_1, stats_2)


def _given_back(laws: LawTable, configuration: Configuration, d: velocity_level.AnyDirections, p: Array) -> _GivenBack:
    system, t, q, u = configuration
    e_N, e_F, _ = system.coefficients(system.rows(t, q, u), p.dtype)
    freewheel = np.concatenate(
        [np.full(rows.stop - rows.start, getattr(law, "unilateral", False)) for _, rows, _, law in laws.blocks()]
        or [np.zeros(0, bool)]
    )
    e_F = jnp.where(freewheel, e_F, jnp.minimum(e_F, laws.spread(e_N)))
    bilateral, p_N, _ = laws.split(p)
    # Bilateral percussions give nothing back; the bound holds with any e for them, best with that of the contacts.
    mean = jnp.sum(e_N * p_N) / jnp.maximum(jnp.sum(p_N), jnp.finfo(p.dtype).tiny)
    E = jnp.concatenate([jnp.full_like(bilateral, mean), e_N, jnp.where(freewheel, e_F, laws.spread(e_N))])
    weaker = _factor(system, t, q, u, d, p, E * p)
    e_N, e_F = weaker * e_N, weaker * e_F
    of_contact = laws.gather(e_F) / jnp.maximum(laws.gather(jnp.ones_like(e_F)), 1.0)
    P = jnp.concatenate([jnp.zeros_like(bilateral), 1.0 + e_N, 1.0 + e_F]) * p
    return _GivenBack(P, jnp.maximum(e_N - of_contact, 0.0) * p_N)


def _factor(
    system: System, t: Array, q: Array, u: Array, d: velocity_level.AnyDirections, p: Array, stored: Array
) -> Array:
    """min(1, |p|/|E p|), where `stored` is E p."""

    def square(x: Array) -> Array:
        return x @ jax.jvp(lambda u: system.velocities(t, q, u), (u,), (d.kick(x),))[1]

    most, much = square(p), square(stored)
    exceeds = much > most
    return jnp.where(exceeds, jnp.sqrt(jnp.where(exceeds, most, 1.0) / jnp.where(exceeds, much, 1.0)), 1.0)
