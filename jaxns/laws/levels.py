"""Force laws on position, velocity and acceleration level at once, as the generalized-α method poses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import sets
from .table import FrictionLaw, LawTable


class Levels(NamedTuple):
    """Rows of each level: position has (g, N), velocity and acceleration have (g, γ, N, F)."""

    position: Array
    velocity: Array
    acceleration: Array


@dataclass(frozen=True)
class LevelTable:
    """The laws of a `LawTable` on three levels, each level acting where the one before it is active.

        position:      y_N ∈ N_{R−}(−P_N)
        velocity:      where position is active, the laws of the table, else P_N = 0
        acceleration:  where velocity is active: y_N ∈ N_{R−}(−P_N); friction with the law of the table where the contact
                       sticks on velocity level, and the force of sliding in the direction of its velocity where not;
                       else P_N = P_F = 0

    Rows are ordered as [bilateral, normals, friction], in each of these by level.
    """

    table: LawTable
    n_g: int  # bilateral rows that exist on position level

    @property
    def n_bilateral(self) -> int:
        return self.n_g + 2 * self.table.n_bilateral

    @property
    def n_N(self) -> int:
        """Normal rows of all levels."""
        return 3 * self.table.n_N

    @property
    def size(self) -> int:
        return self.n_g + self.table.n_N + 2 * self.table.size

    def blocks(self) -> list[tuple[slice, slice, int, FrictionLaw]]:
        """For each group on velocity and on acceleration level: its normals and its friction rows, d and law."""

        def shift(part: slice, by: int) -> slice:
            return slice(part.start + by, part.stop + by)

        n_N, n_F = self.table.n_N, self.table.n_F
        levels = ((n_N, 0), (2 * n_N, n_F))
        return [(shift(c, a), shift(r, b), d, law) for a, b in levels for c, r, d, law in self.table.blocks()]

    def split(self, rows: Array) -> Levels:
        n_b, n_N, n_F = self.table.n_bilateral, self.table.n_N, self.table.n_F
        counts = (self.n_g, n_b, n_b, n_N, n_N, n_N, n_F, n_F)
        parts, begin = [], 0
        for count in counts:
            parts.append(rows[begin : begin + count])
            begin += count
        b0, b1, b2, N0, N1, N2, F1, F2 = parts
        return Levels(jnp.concatenate([b0, N0]), jnp.concatenate([b1, N1, F1]), jnp.concatenate([b2, N2, F2]))

    def join(self, levels: Levels) -> Array:
        b0, N0 = levels.position[: self.n_g], levels.position[self.n_g :]
        b1, N1, F1 = self.table.split(levels.velocity)
        b2, N2, F2 = self.table.split(levels.acceleration)
        return jnp.concatenate([b0, b1, b2, N0, N1, N2, F1, F2])

    def scale_mu(self, mu: Array, r: Array) -> Array:
        """Friction coefficients between scaled percussions, for velocity and acceleration level (2 n_F,)."""
        levels = self.split(r)
        return jnp.concatenate([self.table.scale_mu(mu, r) for r in levels[1:]])

    def residual(self, y: Array, P: Array, mu: Array, closed: Array) -> Array:
        """Row by row zero exactly where the laws hold; arrays carry any number of trailing lane axes."""
        y_at, P_at = self.split(y), self.split(P)
        n_g, n_F = self.n_g, self.table.n_F
        y_N, P_N = y_at.position[n_g:], P_at.position[n_g:]
        touching = closed & (y_N - P_N <= 0.0)
        position = jnp.concatenate([y_at.position[:n_g], jnp.where(touching, y_N, P_N)])
        velocity = self.table.residual(y_at.velocity, P_at.velocity, mu[:n_F], touching)
        staying = touching & (self.table.split(y_at.velocity - P_at.velocity)[1] <= 0.0)
        acceleration = self.table.residual(y_at.acceleration, P_at.acceleration, mu[n_F:], staying)
        sliding = self._sliding(y_at, P_at, mu, staying)
        return self.join(Levels(position, velocity, jnp.where(sliding.here, sliding.residual, acceleration)))

    def percussions(self, zeta: Array, mu: Array, closed: Array, tau: Array | None = None) -> Array:
        """P as a function of ζ = P − y; with τ its smooth neighbour: a level fades out where the one before it ends."""
        at = self.split(zeta)
        n_g, n_F = self.n_g, self.table.n_F
        b0, N0 = at.position[:n_g], at.position[n_g:]
        _, N1, _ = self.table.split(at.velocity)
        touching = closed & (N0 >= 0.0)
        staying = touching & (N1 >= 0.0)
        if tau is None:
            position = jnp.where(touching, N0, 0.0)
            velocity = self.table.percussions(at.velocity, mu[:n_F], touching)
            acceleration = self.table.percussions(at.acceleration, mu[n_F:], staying)
        else:
            grip = sets.smoothed_step(N0, tau)
            hold = grip * sets.smoothed_step(N1, tau)
            position = jnp.where(closed, sets.smoothed_positive(N0, tau), 0.0)
            velocity = self._faded(self.table.percussions(at.velocity, mu[:n_F], closed, tau), grip)
            acceleration = self._faded(self.table.percussions(at.acceleration, mu[n_F:], closed, tau), hold)
        P = Levels(jnp.concatenate([b0, position]), velocity, acceleration)
        y_velocity = self.table.percussions(at.velocity, mu[:n_F], touching) - at.velocity
        y = Levels(P.position, y_velocity, P.acceleration)
        sliding = self._sliding(y, P._replace(velocity=y_velocity + at.velocity), mu, staying)
        # `residual` is the force less that of sliding.
        return self.join(
            P._replace(acceleration=jnp.where(sliding.here, acceleration - sliding.residual, acceleration))
        )

    def times_slope(self, K: Array, zeta: Array, mu: Array, closed: Array) -> Array:
        """K ∂P/∂ζ for rows K (k, n, *lanes) and P = `percussions`."""
        pull = jax.vjp(lambda zeta: self.percussions(zeta, mu, closed), zeta)[1]
        return jax.vmap(lambda row: pull(row)[0])(K)

    def _faded(self, P: Array, factor: Array) -> Array:
        """Contact rows of one level times a factor for each contact (n_N,)."""
        b, N, F = self.table.split(P)
        return jnp.concatenate([b, factor * N, self.table.spread(factor) * F])

    def contact_of_row(self) -> np.ndarray:
        """The contact of each normal and friction row of all levels."""
        normals, friction = np.split(self.table.contact_of_row(), [self.table.n_N])
        return np.concatenate([np.tile(normals, 3), np.tile(friction, 2)])

    def row_in_contact(self) -> np.ndarray:
        """The place of each of these rows among those of its contact."""
        _, friction = np.split(self.table.row_in_contact(), [self.table.n_N])
        width = max(friction, default=0)
        return np.concatenate([np.repeat(np.arange(3), self.table.n_N), friction + 2, friction + 2 + width])

    def _sliding(self, y: Levels, P: Levels, mu: Array, staying: Array) -> _Sliding:
        """Rows of acceleration level that are friction of sliding contacts, and their residual."""
        n_F = self.table.n_F
        _, _, y_F = self.table.split(y.velocity)
        _, v_N, v_F = self.table.split(P.velocity)
        head, a_N, a_F = self.table.split(P.acceleration)
        here = [jnp.zeros(head.shape, bool), jnp.zeros(a_N.shape, bool)]
        residual = [head, a_N]
        grip, supply = jnp.maximum(v_N, 0.0), jnp.where(staying, jnp.maximum(a_N, 0.0), 0.0)
        for contacts, rows, d, law in self.table.blocks():
            if d == 0:
                continue
            kinds = (y_F, v_F, a_F, mu[:n_F], mu[n_F:])
            y_k, v_k, a_k, mu_v, mu_a = (x[rows].reshape(-1, d, *x.shape[1:]) for x in kinds)
            inside = jax.vmap(law.project)(y_k - v_k, mu_v, grip[contacts]) == y_k - v_k
            slips = jnp.broadcast_to(~jnp.all(inside, axis=1, keepdims=True), y_k.shape)
            force = a_k + jax.vmap(law.sliding)(y_k, mu_a, supply[contacts])
            here.append(slips.reshape(y_F[rows].shape))
            residual.append(force.reshape(y_F[rows].shape))
        return _Sliding(jnp.concatenate(here), jnp.concatenate(residual))


class _Sliding(NamedTuple):
    here: Array  # bool
    residual: Array
