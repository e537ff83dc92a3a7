"""Convex sets by their projections: the nearest point, differentiable away from the boundary.

Points are (d, *lanes). Sets without a closed form project by a safeguarded Newton iteration on one scalar equation. The
iteration carries no derivative: one more step at its end does, and gives the derivative of the root by the implicit
function theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

KAPPA = 16.0 / (3.0 * jnp.pi)  # R / R̄ of a Hertzian contact


def project_nonpositive(x: Array) -> Array:
    """Nearest point of the nonpositive numbers R−, component by component.

    >>> project_nonpositive(jnp.array([-1.0, 2.0])).tolist()
    [-1.0, 0.0]
    """
    return jnp.minimum(x, 0.0)


def project_ball(x: Array, radius: Array) -> Array:
    """Nearest point of the ball {‖x‖ ≤ radius}; x is (d, *lanes), radius ≥ 0 is (*lanes).

    For d = 1 the ball is the interval [−radius, radius].

    >>> project_ball(jnp.array([3.0, 4.0]), jnp.array(1.0)).tolist()
    [0.6..., 0.8...]
    """
    if x.shape[0] == 1:  # not `clip`, whose derivative divides: a kernel of its own for each of its arguments
        return jnp.where(jnp.abs(x) < radius, x, radius * jnp.sign(x))
    square = jnp.sum(x * x, axis=0)
    inside = square < radius * radius
    return jnp.where(inside, x, radius * x / _root(square))


def project_cone(axis: Array, x: Array, mu: Array) -> tuple[Array, Array]:
    """Nearest point of the friction cone {‖x‖ ≤ μ axis}; x is (d, *lanes), axis and μ are (*lanes).

    >>> axis, x = project_cone(jnp.array(0.0), jnp.array([3.0, 4.0]), jnp.array(1.0))
    >>> float(axis), x.tolist()
    (2.5, [1.5, 2.0])
    """
    size = length(x)
    inside, opposite = size <= mu * axis, mu * size <= -axis
    height = (axis + mu * size) / (1.0 + mu * mu)
    height = jnp.where(inside, axis, jnp.where(opposite, 0.0, height))
    return height, jnp.where(inside, x, jnp.where(opposite, 0.0, mu * height * x / size))


def length(x: Array) -> Array:
    """‖x‖ of x (d, *lanes), with the derivative zero at zero.

    >>> float(jax.grad(lambda x: length(x))(jnp.zeros(2)).max())
    0.0
    """
    return _root(jnp.sum(x * x, axis=0))


def _root(square: Array) -> Array:
    """√ of a sum of squares, at least a tiny number, so that it has a derivative at zero and may divide.

    Not `where(square > 0, sqrt(where(square > 0, square, 1)), 0)`: XLA may compute the square once for each condition, with
    two roundings, and decide differently.
    """
    return jnp.sqrt(jnp.maximum(square, _tiny(square)))


@jax.custom_jvp
def smoothed_positive(x: Array, tau: Array) -> Array:
    """max(x, 0) with its corner rounded: the positive root p of p (p − x) = τ²; exact for τ = 0.

    >>> smoothed_positive(jnp.array([-1.0, 0.0, 2.0]), 0.0).tolist(), float(smoothed_positive(jnp.array(0.0), 0.5))
    ([0.0, 0.0, 2.0], 0.5)
    """
    return _smoothed_positive(x, tau)[0]


def _smoothed_positive(x: Array, tau: Array) -> tuple[Array, Array]:
    """The function, and 1/√(x² + 4τ²). Few roots and divisions: each becomes a kernel of its own, with its derivative."""
    square = x * x + 4.0 * tau * tau
    inverse = _inverse_root(square)
    larger = 0.5 * (jnp.abs(x) + square * inverse)
    smaller = tau * tau / jnp.maximum(larger, _tiny(larger))
    return jnp.where(x > 0.0, larger, smaller), inverse


@smoothed_positive.defjvp
def _smoothed_positive_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (x, tau), (dx, dtau) = primals, tangents
    p, inverse = _smoothed_positive(x, tau)
    return p, inverse * (p * dx + 2.0 * tau * dtau)


@jax.custom_jvp
def smoothed_ball(x: Array, radius: Array, tau: Array) -> Array:
    """`project_ball` with its edge rounded: a smooth function of x and radius ≥ 0 for τ > 0, interior to the ball.

    With S(v) = √(v² + 4τ²), a point at the distance l moves to ½ (S(l + radius) − S(l − radius)).

    >>> [round(float(v), 12) for v in smoothed_ball(jnp.array([3.0, 4.0]), jnp.array(1.0), 0.0)]
    [0.6, 0.8]
    """
    return x * _smoothed_ball(x, radius, tau)[0]


def _smoothed_ball(x: Array, radius: Array, tau: Array) -> tuple[Array, ...]:
    """The factor that x shrinks by, 1/l, (l + radius)/S, (l − radius)/S, and the inverses of both S."""
    square = jnp.maximum(jnp.sum(x * x, axis=0), _tiny(x))
    inverse = lax.rsqrt(square)
    length = square * inverse
    both = jnp.stack([length + radius, length - radius])
    squares = both * both + 4.0 * tau * tau
    inverses = _inverse_root(squares)
    far_root, near_root = squares * inverses
    shrink = 2.0 * radius / (far_root + near_root)
    return shrink, inverse, *(both * inverses), *inverses


@smoothed_ball.defjvp
def _smoothed_ball_jvp(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    (x, radius, tau), (dx, dradius, dtau) = primals, tangents
    shrink, inverse, far, near, far_inverse, near_inverse = _smoothed_ball(x, radius, tau)
    direction = x * inverse
    dlength = jnp.sum(direction * dx, axis=0)
    along = 0.5 * ((far - near) * dlength + (far + near) * dradius) + 2.0 * tau * (far_inverse - near_inverse) * dtau
    return x * shrink, shrink * dx + direction * (along - shrink * dlength)


def _tiny(x: Array) -> float:
    """The square of a length that counts as zero."""
    return float(jnp.finfo(x.dtype).tiny) ** 0.6


def _inverse_root(square: Array) -> Array:
    """1/√ of a sum of squares, which may be zero."""
    return lax.rsqrt(jnp.maximum(square, _tiny(square)))


def project_cylinder(x: Array, radius: Array, half_height: Array) -> Array:
    """Nearest point of the cylinder around the third axis; x is (3, *lanes).

    >>> project_cylinder(jnp.array([3.0, 4.0, -2.0]), 1.0, 0.5).tolist()
    [0.6..., 0.8..., -0.5]
    """
    return jnp.concatenate([project_ball(x[:2], radius), project_ball(x[2:], half_height)])


def project_ellipsoid(x: Array, axes: Array) -> Array:
    """Nearest point of the ellipsoid with the semi-axes `axes` ≥ 0; both are (d, *lanes).

    The point is p_k = s_k² x_k / (s_k² + τ) with the root τ ≥ 0 of the secular equation Σ (s_k x_k / (s_k² + τ))² = 1.

    >>> p = project_ellipsoid(jnp.array([3.0, 0.0]), jnp.array([2.0, 1.0]))
    >>> [round(float(v), 12) for v in p]
    [2.0, 0.0]
    """
    axes = jnp.broadcast_to(axes, x.shape)
    largest = lax.stop_gradient(jnp.max(axes, axis=0))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    s, y = axes / unit, jnp.where(axes > 0.0, x / unit, 0.0)

    def secular(tau: Array, s: Array = s, y: Array = y) -> tuple[Array, Array]:
        """‖(s_k y_k / (s_k² + τ))_k‖ and its derivative."""
        below = jnp.where(s > 0.0, s * s + tau, 1.0)
        w = s * y / below
        square = jnp.sum(w * w, axis=0)
        size = _root(square)
        return jnp.where(square > 0.0, size, 0.0), -jnp.sum(w * w / below, axis=0) / size

    fixed = (lax.stop_gradient(s), lax.stop_gradient(y))
    outside = secular(jnp.zeros_like(unit), *fixed)[0] > 1.0

    # 1/‖w(τ)‖ is concave and nearly linear: Newton's method on it needs few steps, and comes from the left.
    def step(tau: Array) -> Array:
        size, slope = secular(tau, *fixed)
        return tau + jnp.where(slope < 0.0, size * (1.0 - size) / jnp.where(slope < 0.0, slope, -1.0), 0.0)

    start = jnp.maximum(jnp.max(fixed[0] * (jnp.abs(fixed[1]) - fixed[0]), axis=0), 0.0)
    tau = _iterate(step, start, outside)
    size, slope = secular(tau)
    slope = lax.stop_gradient(jnp.where(slope < 0.0, slope, -1.0))
    tau = jnp.where(outside, tau + (1.0 - size) / slope, 0.0)
    nearest = s * s * y / jnp.where(s > 0.0, s * s + tau, 1.0)
    inside = jnp.where(axes > 0.0, x, 0.0)
    return jnp.where(outside | (largest <= 0.0), unit * nearest, inside)


def ellipsoid_direction(x: Array, axes: Array) -> Array:
    """The point of the ellipsoid with the outward normal x: s_k² x_k / ‖s x‖, and zero where x is."""
    axes = jnp.broadcast_to(axes, x.shape)
    square = jnp.sum((axes * x) ** 2, axis=0)
    return axes * axes * x / _root(square)


def ellipsoid_gauge(x: Array, axes: Array) -> Array:
    """How many times the ellipsoid must grow to have x on its boundary, ‖x / s‖; axes of length zero do not count.

    >>> float(ellipsoid_gauge(jnp.array([1.0, 0.0]), jnp.array([0.5, 0.1])))
    2.0
    """
    axes = jnp.broadcast_to(axes, x.shape)
    square = jnp.sum(jnp.where(axes > 0.0, x / jnp.where(axes > 0.0, axes, 1.0), 0.0) ** 2, axis=0)
    return jnp.sqrt(square + 1e-36)  # with a derivative also at zero


def project_contensou(x: Array, force: Array, torque: Array) -> Array:
    """Nearest point of the set B_F of Coulomb–Contensou friction; x = (two forces, one torque) is (3, *lanes).

    B_F is the body of revolution around the third axis with the meridian (force · b_T(u), torque · b_τ(u)), u ∈ [0, ∞], of
    `contensou_boundary`. Its outward normal at u is (κu/force, 1/torque), κ = 16/(3π), so that with s = u/(1+u) the
    nearest point of (x_T, x_τ) is a root of

        φ(s) = (1−s) (x_T − force b_T) force − s κ (x_τ − torque b_τ) torque,    φ(0) ≥ 0 ≥ φ(1),

    and x lies inside where (x − b) at this root points against the normal.

    >>> p = project_contensou(jnp.array([3.0, 0.0, 0.0]), jnp.array(1.0), jnp.array(0.5))
    >>> [round(float(v), 12) for v in p]
    [1.0, 0.0, 0.0]
    """
    largest = lax.stop_gradient(jnp.maximum(force, torque))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    a_T, a_tau, y = force / unit, torque / unit, x / unit
    square = jnp.sum(y[:2] ** 2, axis=0)
    # A point on the axis counts as a little beside it, which gives its projection the right derivative.
    y_T = jnp.sqrt(jnp.maximum(square, 1e-40))
    positive = y[2] >= 0.0
    y_tau = jnp.where(positive, y[2], -y[2])

    def offset(s: Array, point: tuple[Array, ...]) -> tuple[Array, Array, Array, Array]:
        """b(s), and what is missing from it to the point."""
        y_T, y_tau, a_T, a_tau = point
        b_T, b_tau = contensou_boundary(s / jnp.maximum(1.0 - s, 1e-12))
        return a_T * b_T, a_tau * b_tau, y_T - a_T * b_T, y_tau - a_tau * b_tau

    def phi(s: Array, point: tuple[Array, ...]) -> Array:
        _, _, d_T, d_tau = offset(s, point)
        return (1.0 - s) * d_T * point[2] - s * KAPPA * d_tau * point[3]

    point = (y_T, y_tau, a_T, a_tau)
    fixed = jax.tree.map(lax.stop_gradient, point)
    root = _bracketed_root(lambda s: phi(s, fixed), 0.5 * jnp.ones_like(y_T))
    slope = jax.jvp(lambda s: phi(s, fixed), (root,), (jnp.ones_like(root),))[1]
    s = root - jnp.where(slope < 0.0, phi(root, point) / jnp.where(slope < 0.0, slope, 1.0), 0.0)
    p_T, p_tau, _, _ = offset(s, point)
    _, _, d_T, d_tau = offset(root, fixed)
    beyond = (fixed[0] > fixed[2]) | (fixed[1] > fixed[3])  # the box around the set; tells where the set is flat
    outside = beyond | (KAPPA * root * fixed[3] * d_T + (1.0 - root) * fixed[2] * d_tau > 0.0)
    nearest = jnp.concatenate([y[:2] * (p_T / y_T), jnp.where(positive, p_tau, -p_tau)[None]])
    return jnp.where(outside | (largest <= 0.0), unit * nearest, x)


def contensou_direction(x: Array, force: Array, torque: Array) -> Array:
    """The point of B_F with the outward normal x, zero where x is; arguments as in `project_contensou`."""
    square = jnp.sum(x[:2] ** 2, axis=0)
    x_T = jnp.where(square > 0.0, _root(square), 0.0)
    x_tau = jnp.where(x[2] >= 0.0, x[2], -x[2])
    s = force * x_T / jnp.where(force * x_T > 0.0, force * x_T + KAPPA * torque * x_tau, 1.0)
    b_T, b_tau = contensou_boundary(s / jnp.maximum(1.0 - s, 1e-12))
    along = force * b_T * x[:2] / jnp.where(x_T > 0.0, x_T, 1.0)
    turning = jnp.where(x[2] >= 0.0, 1.0, -1.0) * torque * b_tau
    return jnp.where((x_T > 0.0) | (x_tau > 0.0), jnp.concatenate([along, turning[None]]), 0.0)


def contensou_gauge(x: Array, force: Array, torque: Array) -> Array:
    """How many times B_F must grow to have x on its boundary; arguments as in `project_contensou`.

    With y = (‖x_T‖/force, |x_τ|/torque) on the ray of the boundary's point b(u), it is n·y / n·b with the normal (κu, 1).

    >>> round(float(contensou_gauge(jnp.array([1.0, 0.0, 0.0]), jnp.array(0.5), jnp.array(0.1))), 9)
    2.0
    """
    y_T = _root(jnp.sum(x[:2] ** 2, axis=0)) / jnp.where(force > 0.0, force, 1.0)
    y_tau = _root(x[2] ** 2) / jnp.where(torque > 0.0, torque, 1.0)

    def beside(s: Array, y_T: Array, y_tau: Array) -> Array:
        b_T, b_tau = contensou_boundary(s / jnp.maximum(1.0 - s, 1e-12))
        return y_T * b_tau - y_tau * b_T

    fixed = lax.stop_gradient((y_T, y_tau))
    root = _bracketed_root(lambda s: beside(s, *fixed), 0.5 * jnp.ones_like(y_T))
    slope = jax.jvp(lambda s: beside(s, *fixed), (root,), (jnp.ones_like(root),))[1]
    s = root - jnp.where(slope < 0.0, beside(root, y_T, y_tau) / jnp.where(slope < 0.0, slope, 1.0), 0.0)
    b_T, b_tau = contensou_boundary(s / jnp.maximum(1.0 - s, 1e-12))
    return (KAPPA * s * y_T + (1.0 - s) * y_tau) / (KAPPA * s * b_T + (1.0 - s) * b_tau)


@jax.custom_jvp
def contensou_boundary(u: Array) -> tuple[Array, Array]:
    """Sliding force b_T(u) and drilling torque b_τ(u) for u = sliding velocity / (R · drilling velocity) ≥ 0.

    Hertz pressure on a disk of radius R; b_T in units of μλ_N, b_τ in units of R̄μλ_N, R̄ = 3πR/16 (Möller 2011, §3.7.5).

    >>> [round(float(b), 6) for b in contensou_boundary(jnp.array(0.0))]
    [0.0, 1.0]
    """
    inner = jnp.minimum(u, 1.0)
    b_T_in = 3.0 * jnp.pi / 32.0 * (4.0 * inner - inner**3)
    b_tau_in = (3.0 * inner**4 - 8.0 * inner**2 + 8.0) / 8.0
    v, root, angle = _outer(u)
    b_T_out = 3.0 / 16.0 * ((4.0 * v - v**3) * angle + (v * v + 2.0) * root / v)
    b_tau_out = ((3.0 * v**4 - 8.0 * v**2 + 8.0) * angle + (6.0 - 3.0 * v * v) * root) / (4.0 * jnp.pi)
    w = 1.0 / jnp.maximum(u, _FAR)
    b_T_far, b_tau_far = _polynomial(_FORCE, w * w), w * _polynomial(_TORQUE, w * w)
    b_T = jnp.where(u <= 1.0, b_T_in, jnp.where(u <= _FAR, b_T_out, b_T_far))
    return b_T, jnp.where(u <= 1.0, b_tau_in, jnp.where(u <= _FAR, b_tau_out, b_tau_far))


@contensou_boundary.defjvp
def _contensou_boundary_jvp(primals: tuple[Array], tangents: tuple[Array]) -> Any:
    """κ⁻¹ b_τ' = −u b_T': force and torque change at right angles to (sliding, R · drilling)."""
    (u,), (u_dot,) = primals, tangents
    inner = jnp.minimum(u, 1.0)
    v, root, angle = _outer(u)
    w = 1.0 / jnp.maximum(u, _FAR)
    inside = 3.0 * jnp.pi / 32.0 * (4.0 - 3.0 * inner**2)
    outside = 3.0 / 16.0 * ((4.0 - 3.0 * v * v) * angle + (3.0 - 2.0 / (v * v)) * root)
    far = w**3 * _polynomial(_FORCE_SLOPE, w * w)
    slope = jnp.where(u <= 1.0, inside, jnp.where(u <= _FAR, outside, far))
    return contensou_boundary(u), (slope * u_dot, -KAPPA * u * slope * u_dot)


def _far_series(terms: int) -> tuple[list[float], list[float]]:
    """Coefficients of b_T in w² and of b_τ/w in w², w = 1/u, from the series of asin w = Σ a_k w^(2k+1) and
    √(1−w²) = Σ s_k w^(2k). The closed forms lose digits to cancellation for large u; these do not."""
    central = [Fraction(math.comb(2 * k, k), 4**k) for k in range(terms + 2)]
    a = [c / (2 * k + 1) for k, c in enumerate(central)]
    s = [-c / (2 * k - 1) for k, c in enumerate(central)]
    force = [Fraction(3, 16) * (4 * a[k] - a[k + 1] + s[k + 1] + 2 * s[k]) for k in range(terms)]
    torque = [3 * a[k + 2] - 8 * a[k + 1] + 8 * a[k] + 6 * s[k + 1] - 3 * s[k + 2] for k in range(terms)]
    return [float(c) for c in force], [float(c) / (4.0 * math.pi) for c in torque]


_FAR = 4.0
_FORCE, _TORQUE = _far_series(16)
_FORCE_SLOPE = [-2.0 * k * c for k, c in enumerate(_FORCE)][1:]  # of −w² d/dw, over w³


def _polynomial(coefficients: list[float], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def _outer(u: Array) -> tuple[Array, Array, Array]:
    """v = u in [1, _FAR], √(v²−1) and asin(1/v), with finite derivatives at v = 1."""
    v = jnp.clip(u, 1.0, _FAR)
    root = jnp.sqrt(jnp.maximum(v * v - 1.0, jnp.finfo(u.dtype).tiny))
    return v, root, jnp.arctan2(jnp.ones_like(root), root)


def _iterate(step: Callable[[Array], Array], start: Array, wanted: Array) -> Array:
    """A sequence that rises towards a root, until it rises no more; only where it is wanted."""
    eps = float(jnp.finfo(start.dtype).eps)

    def body(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        tau, on, k = state
        new = step(tau)
        return jnp.where(on, new, tau), on & (new - tau > 16.0 * eps * new), k + 1

    state = (lax.stop_gradient(start), wanted, jnp.asarray(0))
    return lax.while_loop(lambda s: jnp.any(s[1]) & (s[2] < 100), body, state)[0]


def _bracketed_root(f: Callable[[Array], Array], start: Array) -> Array:
    """The root in [0, 1] of a function with f(0) ≥ 0 ≥ f(1): Newton's method, halving the bracket where it leaves it."""
    eps = float(jnp.finfo(start.dtype).eps)

    def body(state: Any) -> Any:
        low, high, s, on, k = state
        value, slope = jax.jvp(f, (s,), (jnp.ones_like(s),))
        low, high = jnp.where(value > 0.0, s, low), jnp.where(value > 0.0, high, s)
        newton = s - value / jnp.where(slope < 0.0, slope, -1.0)
        inside = (slope < 0.0) & (newton >= low) & (newton <= high)
        new = jnp.where(inside | (value == 0.0), newton, 0.5 * (low + high))
        return low, high, jnp.where(on, new, s), on & (jnp.abs(new - s) > 16.0 * eps), k + 1

    low = jnp.zeros_like(start)
    state = (low, low + 1.0, lax.stop_gradient(start), jnp.ones(start.shape, bool), jnp.asarray(0))
    return lax.while_loop(lambda s: jnp.any(s[3]) & (s[4] < 100), body, state)[2]
