"""Discrete derivatives: matrices Df(a, b) with Df(a, b)(b − a) = f(b) − f(a) (Gonzalez 1996; Möller 2011, eq. 5.19)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array


def discrete_derivative(f: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """Df(a, b) = ∂f(m) + (f(b) − f(a) − ∂f(m)(b − a)) (b − a)ᵀ / ‖b − a‖² with the midpoint m; (n, k) for f: (k,) -> (n,).

    For quadratic functions it is the derivative at the midpoint. Where the second term is rounding error, near a = b above
    all, it is dropped: divided by a small ‖b − a‖ it would be noise. All derivatives are finite at a = b.

    >>> D = discrete_derivative(lambda x: x**3, jnp.array([1.0]), jnp.array([3.0]))
    >>> D.tolist()  # (27 − 1) / (3 − 1)
    [[13.0]]
    """
    middle, d = 0.5 * (a + b), b - a
    J = jax.jacfwd(f)(middle)
    return J + _defect(f, a, b, jnp.sum(J * d, axis=-1))[:, None] * _along(d)


def weighted(weights: Array, f: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """Σ_i weights_i Df_i(a, b) (k,), by one reverse pass instead of a matrix."""
    middle, d = 0.5 * (a + b), b - a
    linear, pull = jax.vjp(lambda x: jax.jvp(f, (middle,), (x,))[1], d)
    return pull(weights)[0] + jnp.sum(weights * _defect(f, a, b, linear)) * _along(d)


def discrete_gradient(f: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """The same for a scalar function: (k,)."""
    return weighted(jnp.ones_like(a, shape=(1,)), lambda x: f(x)[None], a, b)


def _defect(f: Callable[[Array], Array], a: Array, b: Array, linear: Array) -> Array:
    """f(b) − f(a) − ∂f(m)(b − a) (n,), zero where it is rounding error."""
    f_a, f_b = f(a), f(b)
    defect = f_b - f_a - linear
    middle = jax.lax.stop_gradient(0.5 * (a + b))
    terms = jnp.sum(jnp.abs(jax.jacfwd(f)(middle) * middle), axis=-1)
    size = jax.lax.stop_gradient(jnp.abs(f_a) + jnp.abs(f_b) + terms + jnp.abs(linear))
    return jnp.where(jnp.abs(defect) > 8.0 * jnp.finfo(a.dtype).eps * size, defect, 0.0)


def _along(d: Array) -> Array:
    """d / ‖d‖², zero at d = 0."""
    square = jnp.sum(d * d)
    return d / jnp.where(square > 0.0, square, 1.0)
