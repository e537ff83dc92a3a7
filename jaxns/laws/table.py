"""All force laws of a system in one table: bilateral rows, then normals, then friction rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import sets
from .friction import FrictionLaw


@dataclass(frozen=True)
class LawTable:
    """Which rows of (y, P) obey which law.

    Rows are ordered as [bilateral, normals of all contacts, friction]; friction rows run contact by contact within
    each group. Arrays carry any number of trailing lane axes.

    A `preloaded` table has, behind the friction coefficients, a normal percussion for each contact: mu is (n_F + n_N,).
    Friction may draw on it beside the unknown P_N: its set is that of P_N + preload.
    """

    n_bilateral: int
    groups: tuple[tuple[int, int, FrictionLaw], ...]  # (contacts, friction dimension, law) of each contact group
    preloaded: bool = False

    @property
    def n_N(self) -> int:
        return sum(n for n, _, _ in self.groups)

    @property
    def n_F(self) -> int:
        return sum(n * d for n, d, _ in self.groups)

    @property
    def size(self) -> int:
        return self.n_bilateral + self.n_N + self.n_F

    @property
    def spatial(self) -> bool:
        """Whether some contact slides in more than one dimension, so that its direction can turn."""
        return any(d > 1 for _, d, _ in self.groups)

    def blocks(self) -> list[tuple[slice, slice, int, FrictionLaw]]:
        """For each group: its contacts and its friction rows (each counted from zero), d and law."""
        blocks, contact, row = [], 0, 0
        for n, d, law in self.groups:
            blocks.append((slice(contact, contact + n), slice(row, row + n * d), d, law))
            contact, row = contact + n, row + n * d
        return blocks

    def split(self, rows: Array) -> tuple[Array, Array, Array]:
        """Bilateral, normal and friction rows."""
        first, second, third = jax.lax.split(rows, (self.n_bilateral, self.n_N, self.n_F))
        return first, second, third

    def _with_preload(self, supply: Array, mu: Array) -> Array:
        """The normal percussions (n_N,) that friction draws on."""
        return supply + mu[self.n_F :] if self.preloaded else supply

    def residual(self, y: Array, P: Array, mu: Array, closed: Array) -> Array:
        """P + prox_C(y − P), row by row; zero exactly where y_i ∈ N_{C_i}(−P_i).

        Where a law is piecewise smooth, the derivative is that of the piece in force. Contacts that are not `closed`
        have the law P = 0. Friction coefficients mu are (n_F,), closed is (n_N,).
        """
        y_b, y_N, y_F = self.split(y)
        _, P_N, P_F = self.split(P)
        acts = closed & (y_N - P_N <= 0.0)
        parts = [y_b, jnp.where(acts, y_N, P_N)]
        # max(P_N, 0), but with the slope of a loaded contact as soon as the normal law acts: from P_N = 0 Newton's method
        # then meets the contact with its friction, not without.
        loaded = closed & ((P_N > 0.0) | acts)
        supply = jnp.where(loaded, P_N - jax.lax.stop_gradient(jnp.minimum(P_N, 0.0)), 0.0)
        supply = self._with_preload(supply, mu)
        for contacts, rows, d, law in self.blocks():
            if d == 0:
                continue
            y_k, P_k, mu_k = (x[rows].reshape(-1, d, *x.shape[1:]) for x in (y_F, P_F, mu))
            parts.append(jax.vmap(law.residual)(y_k, P_k, mu_k, supply[contacts]).reshape(P_F[rows].shape))
        return jnp.concatenate(parts)

    def cone_residual(self, y: Array, P: Array, mu: Array, closed: Array) -> Array:
        """P − proj_K(P − (y_N + μ‖y_F‖, y_F)) with De Saxcé's cone K = {‖P_F‖ ≤ μ P_N} of each contact (Möller 2011, eq.
        3.110); it has the zeros of `residual`."""
        y_b, y_N, y_F = self.split(y)
        _, P_N, P_F = self.split(P)
        normals, friction = [], []
        for contacts, rows, d, law in self.blocks():
            if d and not law.isotropic:
                raise TypeError(f"cone=True is for Coulomb friction, got {law}.")
            y_k, P_k, mu_k = (jnp.moveaxis(x[rows].reshape(-1, d, *x.shape[1:]), 1, 0) for x in (y_F, P_F, mu))
            one, shape = y_N[contacts], P_F[rows].shape
            radius = mu_k[0] if d else jnp.zeros_like(one)
            speed = sets.length(y_k) if d else jnp.zeros_like(one)
            height, x = sets.project_cone(P_N[contacts] - one - radius * speed, P_k - y_k, radius)
            acts = closed[contacts]
            normals.append(P_N[contacts] - jnp.where(acts, height, 0.0))
            friction.append(jnp.moveaxis(P_k - jnp.where(acts, x, 0.0), 0, 1).reshape(shape))
        return jnp.concatenate([y_b, *normals, *friction])

    def percussions(self, zeta: Array, mu: Array, closed: Array, tau: Array | None = None) -> Array:
        """P as a function of ζ = P − y, row by row −prox_C(−ζ); with τ its smooth neighbour.

        Zero exactly the percussions of contacts that are not `closed`; bilateral rows have P = ζ. The laws hold where
        y(P(ζ)) = P(ζ) − ζ.
        """
        zeta_b, zeta_N, zeta_F = self.split(zeta)
        if tau is None:
            supply = jnp.where(closed & (zeta_N >= 0.0), zeta_N, 0.0)  # ties count as contact
        else:
            supply = jnp.where(closed, sets.smoothed_positive(zeta_N, tau), 0.0)
        parts = [zeta_b, supply]
        supply = self._with_preload(supply, mu)
        for contacts, rows, d, law in self.blocks():
            if d == 0:
                continue
            zeta_k, mu_k = (x[rows].reshape(-1, d, *x.shape[1:]) for x in (zeta_F, mu))
            if tau is None:
                P = _percussion_of_all(law, mu_k, zeta_k, supply[contacts])
            else:
                P = jax.vmap(law.smoothed, in_axes=(0, 0, 0, None))(zeta_k, mu_k, supply[contacts], tau)
            parts.append(P.reshape(zeta_F[rows].shape))
        return jnp.concatenate(parts)

    def times_slope(self, K: Array, zeta: Array, mu: Array, closed: Array) -> Array:
        """K ∂P/∂ζ for rows K (k, n, *lanes) and P = `percussions`: a product for each contact, with its own block."""
        _, zeta_N, zeta_F = self.split(zeta)
        K_b, K_N, K_F = (jnp.moveaxis(part, 0, 1) for part in self.split(jnp.moveaxis(K, 1, 0)))
        loaded = closed & (zeta_N >= 0.0)
        supply = self._with_preload(jnp.where(loaded, zeta_N, 0.0), mu)
        normals, friction = [], []
        for contacts, rows, d, law in self.blocks():
            normal = K_N[:, contacts]
            if d:
                zeta_k, mu_k = (x[rows].reshape(-1, d, *x.shape[1:]) for x in (zeta_F, mu))
                K_k = K_F[:, rows].reshape(K.shape[0], -1, d, *K.shape[2:])
                law_of = partial(_percussion_of_all, law, mu_k)
                push = jax.linearize(law_of, zeta_k, supply[contacts])[1]
                none, one = jnp.zeros_like(zeta_k), jnp.ones_like(supply[contacts])
                along = [push(none.at[:, k].set(1.0), 0.0 * one) for k in range(d)]
                columns = [sum(K_k[:, :, a] * slope[:, a] for a in range(d)) for slope in along]
                slope = push(none, one)
                normal = normal + sum(K_k[:, :, a] * slope[:, a] for a in range(d))
                friction.append(jnp.stack(columns, axis=2).reshape(K_F[:, rows].shape))
            normals.append(jnp.where(loaded[contacts], normal, 0.0))
        return jnp.concatenate([K_b, *normals, *friction], axis=1)

    def prox_parameters(self, G_diagonal: Array, mu: Array) -> Array:
        """r_k = 1/G_kk; the friction rows of one contact share one value, up to the weights w_k of its law,
        r_k = w_k / max_j(w_j G_jj), so that its set keeps the shape that the law projects onto."""
        safe = jnp.where(G_diagonal > 0.0, G_diagonal, 1.0)
        _, _, G_F = self.split(safe)
        parts = [safe[: self.n_bilateral + self.n_N]]
        for _, rows, d, law in self.blocks():
            if d == 0:
                continue
            block, mu_k = (x[rows].reshape(-1, d, *x.shape[1:]) for x in (G_F, mu))
            weights = jax.vmap(law.weights)(mu_k)
            parts.append((jnp.max(weights * block, axis=1, keepdims=True) / weights).reshape(G_F[rows].shape))
        return 1.0 / jnp.concatenate(parts)

    def scale_mu(self, mu: Array, r: Array) -> Array:
        """Friction coefficients between scaled percussions P̂ = P/√r: ‖P_F‖ ≤ μ P_N reads ‖P̂_F‖ ≤ μ √(r_N/r_F) P̂_N."""
        _, r_N, r_F = self.split(r)
        friction = mu[: self.n_F] * jnp.sqrt(self.spread(r_N) / r_F)
        return jnp.concatenate([friction, mu[self.n_F :] / jnp.sqrt(r_N)]) if self.preloaded else friction

    def spread(self, values: Array) -> Array:
        """Values of the contacts (n_N,) on the friction rows (n_F,)."""
        parts = [jnp.repeat(values[contacts], d, axis=0) for contacts, _, d, _ in self.blocks()]
        return jnp.concatenate(parts) if parts else values[:0]

    def gather(self, rows: Array) -> Array:
        """Sums over the friction rows (n_F,) of each contact (n_N,)."""
        parts = []
        for contacts, friction, d, _ in self.blocks():
            parts.append(jnp.sum(rows[friction].reshape(contacts.stop - contacts.start, d, *rows.shape[1:]), axis=1))
        return jnp.concatenate(parts) if parts else jnp.zeros_like(rows, shape=(0, *rows.shape[1:]))

    def sliding(self, xi_F: Array, mu: Array) -> Array:
        """−P_F of contacts that slide with ξ_F under a unit normal percussion (n_F,)."""
        parts = []
        for contacts, rows, d, law in self.blocks():
            if d:
                one = jnp.ones((contacts.stop - contacts.start,), xi_F.dtype)
                xi, mu_k = (x[rows].reshape(-1, d) for x in (xi_F, mu))
                parts.append(jax.vmap(law.sliding)(xi, mu_k, one).reshape(-1))
        return jnp.concatenate(parts) if parts else xi_F

    def can_slide(self, gamma_F: Array) -> Array:
        """Whether each contact can slide with γ_F (n_N,): a freewheel that turns backwards is hit instead."""
        parts = [
            gamma_F[rows] > 0.0 if getattr(law, "unilateral", False) else jnp.ones((of.stop - of.start,), bool)
            for of, rows, _, law in self.blocks()
        ]
        return jnp.concatenate(parts) if parts else jnp.ones((0,), bool)

    def rough(self, mu: Array) -> Array:
        """Whether each contact has a friction force, or that of a freewheel (n_N,)."""
        alone = [jnp.full((of.stop - of.start,), getattr(law, "unilateral", False)) for of, _, _, law in self.blocks()]
        return (self.gather(mu) > 0.0) | jnp.concatenate([jnp.zeros((0,), bool), *alone])

    def gauge(self, P_F: Array, mu: Array) -> Array:
        """The normal percussion that each contact needs at least to carry P_F (n_N,)."""
        parts: list[Any] = []
        for contacts, rows, d, law in self.blocks():
            P, mu_k = (x[rows].reshape(contacts.stop - contacts.start, d) for x in (P_F, mu))
            parts.append(jax.vmap(law.gauge)(P, mu_k) if d else jnp.zeros_like(P, shape=P.shape[:1]))
        return jnp.concatenate(parts) if parts else P_F[:0]

    def normal(self, P_F: Array, mu: Array) -> Array:
        """Normals of the sets at −P_F (n_F,), of any length: the gradients of their gauges."""
        return jax.grad(lambda P: -jnp.sum(self.gauge(P, mu)))(P_F)

    def contact_matrix(self, P_F: Array) -> Array:
        """Friction rows (n_F,) as one row per contact (n_N, d), zero-padded to the largest d of all groups."""
        width = max((d for _, d, _ in self.groups), default=0)
        parts = [
            jnp.pad(P_F[rows].reshape(contacts.stop - contacts.start, d), ((0, 0), (0, width - d)))
            for contacts, rows, d, _ in self.blocks()
        ]
        return jnp.concatenate(parts) if parts else jnp.zeros((0, width), P_F.dtype)

    def contact_of_row(self) -> np.ndarray:
        """The contact of each normal and friction row (n_N + n_F,)."""
        owners = [np.repeat(np.arange(contacts.start, contacts.stop), d) for contacts, _, d, _ in self.blocks()]
        return np.concatenate([np.arange(self.n_N), *owners])

    def row_in_contact(self) -> np.ndarray:
        """0 for a normal row, 1, 2, … for the friction rows of a contact (n_N + n_F,)."""
        places = [np.tile(np.arange(1, d + 1), contacts.stop - contacts.start) for contacts, _, d, _ in self.blocks()]
        return np.concatenate([np.zeros(self.n_N, int), *places])

    def name(self, row: int, n_g: int) -> str:
        """What a row is, in the user's words."""
        if row < n_g:
            return f"constraint {row}"
        if row < self.n_bilateral:
            return f"velocity constraint {row - n_g}"
        row -= self.n_bilateral
        if row < self.n_N:
            return f"contact {row} (normal)"
        row -= self.n_N
        for contacts, rows, d, _ in self.blocks():
            if rows.start <= row < rows.stop:
                return f"contact {contacts.start + (row - rows.start) // d} (friction)"
        raise IndexError("row outside the table")


def _percussion_of_all(law: FrictionLaw, mu: Array, zeta: Array, supply: Array) -> Array:
    """Friction percussions (contacts, d, *lanes) of all contacts with one law."""
    return jax.vmap(law.percussion)(zeta, mu, supply)
