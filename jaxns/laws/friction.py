"""Friction laws: the set C_F(P_N) of admissible friction percussions of one contact.

Every set is scaled by the normal percussion and by friction coefficients μ_k, one for each friction row: they are its
semi-axes in units of P_N. Arrays are (d, *lanes); the reservoir max(P_N, 0) is (*lanes).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import jax.numpy as jnp
from jax import Array

from . import sets


@dataclass(frozen=True)
class FrictionLaw(ABC):
    """A law ξ_F ∈ N_{C_F}(−P_F). A law of one's own defines `project` and, if Newton's method is to start from an unloaded
    contact, `sliding`. What needs more of a law (Lemke's method, event-driven integration) refuses it, unless it says
    which set it has.

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> class Scales(ns.FrictionLaw):  # planar friction against negative slip alone: C_F = [−μ P_N, 0]
    ...     def project(self, x, mu, reservoir):
    ...         return jnp.clip(x, -mu * reservoir, 0.0)
    >>> for slip in (-1.0, 1.0):
    ...     print(slip, ns.solve_contacts(jnp.eye(2), jnp.array([-1.0, slip]), mu=0.25, law=Scales()).P_F.tolist())
    -1.0 [[0.25]]
    1.0 [[0.0]]
    """

    isotropic: ClassVar[bool] = False  # whether all rows of a contact share one μ
    interval: ClassVar[bool] = False  # whether C_F of one friction row is [−μP_N, μP_N]
    unilateral: ClassVar[bool] = False  # whether C_F is the half-line R−, whatever μ and P_N
    most_rows: ClassVar[int] = 3  # friction rows that a contact may have
    needs_normal_force: ClassVar[bool] = True  # whether C_F is a point at P_N = 0, so that a contact must have a gap

    def __init_subclass__(cls) -> None:
        """A law with a set of its own inherits nothing that speaks of another set."""
        if "project" in vars(cls):
            for name in (*_OF_THE_SET, *_FROM_PROJECT):
                if name not in vars(cls):
                    setattr(cls, name, vars(FrictionLaw)[name])

    @abstractmethod
    def project(self, x: Array, mu: Array, reservoir: Array) -> Array:
        """Nearest point of C_F."""

    def sliding(self, xi: Array, mu: Array, reservoir: Array) -> Array:
        """The point of C_F with the outward normal ξ: −P_F of a contact that slides with ξ."""
        return self.project(1e9 * xi, mu, reservoir)

    def residual(self, xi: Array, P: Array, mu: Array, reservoir: Array) -> Array:
        """P + prox_C(ξ − P): zero exactly where the law holds."""
        return P + self.project(xi - P, mu, reservoir)

    def percussion(self, zeta: Array, mu: Array, reservoir: Array) -> Array:
        """P of the law whose ζ = P − ξ is given: −prox_C(−ζ), the projection of ζ onto −C_F."""
        return 0.0 - self.project(-zeta, mu, reservoir)  # never −0

    def smoothed(self, zeta: Array, mu: Array, reservoir: Array, tau: Array) -> Array:
        """`percussion` with the boundary of the set rounded by τ ≥ 0, which the solver's path follows to τ = 0.

        A law that does not define it is followed with its edges."""
        return self.percussion(zeta, mu, reservoir)

    def weights(self, mu: Array) -> Array:
        """Relative step sizes r_k of the rows for which `residual` is well scaled."""
        return jnp.ones_like(mu)

    def gauge(self, P: Array, mu: Array) -> Array | None:
        """The smallest reservoir whose set holds −P, a smooth function away from P = 0; None for a law without one.

        Event-driven integration sees by it when a sticking contact begins to slide, and by its gradient where to."""
        return None


_OF_THE_SET = ("interval", "unilateral")
_FROM_PROJECT = ("sliding", "residual", "percussion", "smoothed", "weights", "gauge")


@dataclass(frozen=True)
class Coulomb(FrictionLaw):
    """Isotropic Coulomb friction: C_F = ball of radius μ P_N, in one, two or three dimensions.

    One dimension is planar friction, two is spatial friction, and three, with a drilling velocity scaled by the
    effective contact radius as third component, approximates Coulomb–Contensou friction.

    >>> import jax.numpy as jnp
    >>> Coulomb().project(jnp.array([2.0]), jnp.array([0.5]), jnp.array(1.0)).tolist()
    [0.5]
    """

    isotropic: ClassVar[bool] = True
    interval: ClassVar[bool] = True

    def project(self, x: Array, mu: Array, reservoir: Array) -> Array:
        return sets.project_ball(x, mu[0] * reservoir)

    def smoothed(self, zeta: Array, mu: Array, reservoir: Array, tau: Array) -> Array:
        return sets.smoothed_ball(zeta, mu[0] * reservoir, tau)

    def gauge(self, P: Array, mu: Array) -> Array:
        return sets.ellipsoid_gauge(P, mu)


@dataclass(frozen=True)
class AnisotropicCoulomb(FrictionLaw):
    """Coulomb friction with one coefficient for each direction: C_F = ellipsoid with the semi-axes μ_k P_N.

    `Contacts` takes `mu` as an array (n, d), or as a function of the parameters that returns one.

    - transformed: solve in variables in which the ellipsoid is a ball (Möller 2011, eq. 2.52), so that no projection needs
      an iteration. The solution is the same.

    >>> import jax.numpy as jnp
    >>> law = AnisotropicCoulomb()
    >>> law.project(jnp.array([2.0, 0.0]), jnp.array([0.5, 0.1]), jnp.array(1.0)).tolist()
    [0.5, 0.0]
    """

    transformed: bool = True
    interval: ClassVar[bool] = True

    def project(self, x: Array, mu: Array, reservoir: Array) -> Array:
        # An empty reservoir keeps the slope of the percussion of sliding, as a ball of radius zero does.
        loaded = reservoir > 0.0
        nearest = sets.project_ellipsoid(x, mu * jnp.where(loaded, reservoir, 1.0))
        return jnp.where(loaded, nearest, self.sliding(x, mu, reservoir))

    def sliding(self, xi: Array, mu: Array, reservoir: Array) -> Array:
        return reservoir * sets.ellipsoid_direction(xi, mu)

    def residual(self, xi: Array, P: Array, mu: Array, reservoir: Array) -> Array:
        if not self.transformed:
            return super().residual(xi, P, mu, reservoir)
        # In P/a and aξ, with a_k = μ_k / max μ, the set is a ball.
        largest = jnp.max(mu, axis=0)
        a = jnp.where(mu > 0.0, mu / jnp.where(largest > 0.0, largest, 1.0), 1.0)
        point = jnp.where(mu > 0.0, a * xi - P / a, 0.0)
        return P + jnp.where(mu > 0.0, a * sets.project_ball(point, largest * reservoir), 0.0)

    def percussion(self, zeta: Array, mu: Array, reservoir: Array) -> Array:
        if not self.transformed:
            return super().percussion(zeta, mu, reservoir)
        # The solver scales rows by `weights`: all μ_k of its variables are equal, or zero.
        return sets.project_ball(jnp.where(mu > 0.0, zeta, 0.0), jnp.max(mu, axis=0) * reservoir)

    def smoothed(self, zeta: Array, mu: Array, reservoir: Array, tau: Array) -> Array:
        if not self.transformed:
            return super().smoothed(zeta, mu, reservoir, tau)
        return sets.smoothed_ball(jnp.where(mu > 0.0, zeta, 0.0), jnp.max(mu, axis=0) * reservoir, tau)

    def weights(self, mu: Array) -> Array:
        if not self.transformed:
            return jnp.ones_like(mu)
        largest = jnp.max(mu, axis=0)
        return jnp.where(mu > 0.0, (mu / jnp.where(largest > 0.0, largest, 1.0)) ** 2, 1.0)

    def gauge(self, P: Array, mu: Array) -> Array:
        return sets.ellipsoid_gauge(P, mu)


Shape = Literal["exact", "ellipsoid", "cylinder", "sphere"]


@dataclass(frozen=True)
class Contensou(FrictionLaw):
    """Coulomb–Contensou friction: sliding and drilling of a small round contact share one set of percussions.

    The slip of a contact is (two sliding velocities, drilling velocity), and its percussion (two forces, torque), each
    times time. `mu` is (n, 3): (μ, μ, μ R̄), with R̄ = 3πR/16 for the contact radius R under Hertz pressure. As a function of
    the parameters, `mu=lambda p: p["mu"] * jnp.stack([1.0, 1.0, p["R_bar"]])[None]`, it makes both differentiable.

    - shape: "exact" is the set B_F of Hertz pressure; "ellipsoid" E_F and "cylinder" Z_F are its usual approximations (the
      cylinder leaves sliding and drilling uncoupled); "sphere" S_F is the ellipsoid solved in variables in which it is a
      ball, which costs least (Möller 2011, §3.7.5 and eq. 2.52)

    >>> import jax.numpy as jnp
    >>> x, mu = jnp.array([0.9, 0.0, 0.9]), jnp.ones(3)
    >>> for shape in ("exact", "ellipsoid", "cylinder"):
    ...     print(shape, [round(float(v), 3) for v in Contensou(shape).project(x, mu, jnp.array(1.0))])
    exact [0.66, 0.0, 0.672]
    ellipsoid [0.707, 0.0, 0.707]
    cylinder [0.9, 0.0, 0.9]
    """

    shape: Shape = "exact"

    def __post_init__(self) -> None:
        if self.shape not in get_args(Shape):
            raise ValueError(f"Contensou: shape must be one of {get_args(Shape)}, got {self.shape!r}.")

    @property
    def _ellipsoid(self) -> AnisotropicCoulomb:
        return AnisotropicCoulomb(transformed=self.shape == "sphere")

    def project(self, x: Array, mu: Array, reservoir: Array) -> Array:
        if self.shape == "cylinder":
            return sets.project_cylinder(x, mu[0] * reservoir, mu[2] * reservoir)
        if self.shape != "exact":
            return self._ellipsoid.project(x, mu, reservoir)
        loaded = reservoir > 0.0
        supply = jnp.where(loaded, reservoir, 1.0)
        nearest = sets.project_contensou(x, mu[0] * supply, mu[2] * supply)
        return jnp.where(loaded, nearest, self.sliding(x, mu, reservoir))

    def sliding(self, xi: Array, mu: Array, reservoir: Array) -> Array:
        if self.shape == "cylinder":
            return super().sliding(xi, mu, reservoir)
        if self.shape != "exact":
            return self._ellipsoid.sliding(xi, mu, reservoir)
        return reservoir * sets.contensou_direction(xi, mu[0], mu[2])

    def residual(self, xi: Array, P: Array, mu: Array, reservoir: Array) -> Array:
        if self.shape == "sphere":
            return self._ellipsoid.residual(xi, P, mu, reservoir)
        return super().residual(xi, P, mu, reservoir)

    def percussion(self, zeta: Array, mu: Array, reservoir: Array) -> Array:
        if self.shape == "sphere":
            return self._ellipsoid.percussion(zeta, mu, reservoir)
        return super().percussion(zeta, mu, reservoir)

    def smoothed(self, zeta: Array, mu: Array, reservoir: Array, tau: Array) -> Array:
        if self.shape == "sphere":
            return self._ellipsoid.smoothed(zeta, mu, reservoir, tau)
        if self.shape == "cylinder":
            force = sets.smoothed_ball(zeta[:2], mu[0] * reservoir, tau)
            return jnp.concatenate([force, sets.smoothed_ball(zeta[2:], mu[2] * reservoir, tau)])
        return super().smoothed(zeta, mu, reservoir, tau)

    def weights(self, mu: Array) -> Array:
        return self._ellipsoid.weights(mu)

    def gauge(self, P: Array, mu: Array) -> Array | None:
        """None for the cylinder: sliding and drilling begin and end apart there, which no single mode of a contact says."""
        if self.shape == "cylinder":
            return None
        return sets.contensou_gauge(P, mu[0], mu[2]) if self.shape == "exact" else self._ellipsoid.gauge(P, mu)


@dataclass(frozen=True)
class Uncoupled(FrictionLaw):
    """Friction rows that know nothing of each other but the normal force: C_F = product of intervals, disks and balls.

    Rolling resistance is a row of its own: with the slip (γ_T, ω) and `mu` (n, 2) of (μ, μ_r), the torque of a wheel is
    bounded by μ_r P_N, where μ_r is a length. Intervals alone are a box (Möller 2011, (2.16)), with the projection (2.17).

    - blocks: the numbers of rows of the factors: (1, 1) sliding and rolling in the plane; (2, 2) in space, with
      ω_x and ω_y; (2, 1, 2) with drilling between them. The rows of a block share the first of their μ

    There is no gauge, and so no event-driven integration: each factor begins and ends to slide for itself.

    >>> import jax.numpy as jnp
    >>> law = Uncoupled((1, 1))
    >>> law.project(jnp.array([2.0, 0.01]), jnp.array([0.5, 0.02]), jnp.array(1.0)).tolist()
    [0.5, 0.01]
    """

    blocks: tuple[int, ...]
    interval: ClassVar[bool] = True
    most_rows: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if not self.blocks or not all(isinstance(d, int) and d > 0 for d in self.blocks):
            raise ValueError(f"Uncoupled: blocks must be numbers of friction rows such as (1, 1), got {self.blocks!r}.")

    def project(self, x: Array, mu: Array, reservoir: Array) -> Array:
        return self._each(lambda x, radius: sets.project_ball(x, radius), x, mu, reservoir)

    def smoothed(self, zeta: Array, mu: Array, reservoir: Array, tau: Array) -> Array:
        return self._each(lambda x, radius: sets.smoothed_ball(x, radius, tau), zeta, mu, reservoir)

    def _each(self, project: Callable[[Array, Array], Array], x: Array, mu: Array, reservoir: Array) -> Array:
        if sum(self.blocks) != x.shape[0]:
            raise ValueError(
                f"Uncoupled: blocks {self.blocks} need {sum(self.blocks)} friction rows, got {x.shape[0]}."
            )
        parts, row = [], 0
        for d in self.blocks:
            parts.append(project(x[row : row + d], mu[row] * reservoir))
            row += d
        return jnp.concatenate(parts)


@dataclass(frozen=True)
class SpragClutch(FrictionLaw):
    """A freewheel: 0 ≤ ξ ⊥ P ≥ 0 on velocity level, for slips that may only be positive.

    It needs no gap: `Contacts(None, slip, law=SpragClutch())`. Its percussion stands in `P_F`. (Möller 2011,
    §3.7.2 and §3.9.)

    >>> import jax.numpy as jnp
    >>> SpragClutch().project(jnp.array([2.0]), jnp.zeros(1), jnp.zeros(())).tolist()
    [0.0]
    """

    unilateral: ClassVar[bool] = True
    needs_normal_force: ClassVar[bool] = False

    def project(self, x: Array, mu: Array, reservoir: Array) -> Array:
        return sets.project_nonpositive(x)

    def smoothed(self, zeta: Array, mu: Array, reservoir: Array, tau: Array) -> Array:
        return sets.smoothed_positive(zeta, tau)

    def gauge(self, P: Array, mu: Array) -> Array:
        """−P: it draws on no normal force, and lets go as its own becomes negative."""
        return -P[0]
