"""Contacts with planar friction as a linear complementarity problem, for Lemke's method.

With the friction reserves λ_R = μP_N + P_F and λ_L = μP_N − P_F, and ξ_F = ξ⁺ − ξ⁻ in its positive and negative part,

    0 ≤ P_N ⊥ ξ_N ≥ 0,    0 ≤ λ_R ⊥ ξ⁺ ≥ 0,    0 ≤ ξ⁻ ⊥ λ_L ≥ 0

says 0 ≤ P_N ⊥ ξ_N ≥ 0, ξ_F ∈ N_{[−μP_N, μP_N]}(−P_F). (Glocker 2001; Pfeiffer, Glocker 1996.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .lemke import lemke
from .projected import Contacts, Laws


def solve(laws: Laws, contacts: Contacts) -> tuple[Array, Array]:
    """Percussions P (n, *lanes) and pivots of the linear inclusion; the percussions are P₀ where there is no solution."""
    owner, halfline = _friction_rows(laws)

    def one(G: Array, y: Array, P: Array, mu: Array, closed: Array) -> tuple[Array, Array]:
        n, m, dtype = laws.n_N, len(owner), G.dtype
        I, O, none = jnp.eye(m, dtype=dtype), jnp.zeros((m, m), dtype), jnp.zeros((n, m), dtype)
        constant = y - G @ P
        limit = jnp.where(halfline, 0.0, mu)[:, None] * (owner[:, None] == jnp.arange(n))  # P_F = λ_R − limit P_N
        to_P = jnp.block([[jnp.eye(n, dtype=dtype), none], [-limit, I]])
        K = G @ to_P
        M = jnp.block([
            [K[:n], none],
            [K[n:], jnp.where(halfline, 0.0, I)],
            [jnp.where(halfline[:, None], 0.0, 2.0 * limit), jnp.where(halfline, O, -I), jnp.where(halfline, I, O)],
        ])  # fmt: skip
        q = jnp.concatenate([constant, jnp.where(halfline, 1.0, 0.0).astype(dtype)])
        # Contacts that are open, and the negative part of a half-line, have a slack that keeps their percussion zero.
        here = jnp.concatenate([closed, jnp.ones((2 * m,), bool)])
        M = jnp.where(here[:, None], M, jnp.eye(M.shape[0], dtype=dtype))
        solution = lemke(M, jnp.where(here, q, 1.0))
        found = to_P @ solution.z[: n + m]
        return jnp.where(solution.status == 0, found, P), solution.iterations

    arguments = (contacts.G, contacts.y, contacts.P, contacts.mu, contacts.closed)
    return (one if contacts.y.ndim == 1 else jax.vmap(one, in_axes=-1, out_axes=-1))(*arguments)


def _friction_rows(laws: Laws) -> tuple[np.ndarray, np.ndarray]:
    """For each friction row its contact, and whether its set is a half-line."""
    owner: list[int] = []
    halfline: list[bool] = []
    for contacts, _, d, law in laws.blocks():
        if d > 1:
            raise ValueError(
                f"lemke solves frictionless contacts and planar friction (d = 1), got d = {d}; use method='newton' or a "
                "projected method."
            )
        if d and not (law.interval or law.unilateral):
            raise ValueError(
                f"lemke knows the intervals of Coulomb friction and half-lines, not the set of {type(law).__name__}; use "
                "method='newton' or a projected method, or, if its set is [−μP_N, μP_N], say so with interval = True."
            )
        if d:
            owner += range(contacts.start, contacts.stop)
            halfline += [law.unilateral] * (contacts.stop - contacts.start)
    return np.asarray(owner, int), np.asarray(halfline, bool)
