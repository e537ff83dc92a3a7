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
    f_a, f_b, linear = f(a), f(b), jnp.sum(J * d, axis=-1)
    defect = f_b - f_a - linear
    size = jnp.abs(f_a) + jnp.abs(f_b) + jnp.sum(jnp.abs(J * middle), axis=-1) + jnp.abs(linear)
    noise = 8.0 * jnp.finfo(d.dtype).eps * jax.lax.stop_gradient(size)
    defect = jnp.where(jnp.abs(defect) > noise, defect, 0.0)
    square = jnp.sum(d * d)
    return J + defect[:, None] * d / jnp.where(square > 0.0, square, 1.0)


def discrete_gradient(f: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """The same for a scalar function: (k,)."""
    return discrete_derivative(lambda x: f(x)[None], a, b)[0]
