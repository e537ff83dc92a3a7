"""Coefficients of Lobatto IIIA–IIIB for any number of stages."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import cache
from math import comb
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

Polynomial = list[Decimal]  # coefficients, constant term first


class Tableau(NamedTuple):
    """Nodes c (s,), weights b (s,), IIIA matrix a (s, s) and IIIB matrix a_hat (s, s), as float64."""

    c: np.ndarray
    b: np.ndarray
    a: np.ndarray
    a_hat: np.ndarray


@cache
def lobatto(stages: int) -> Tableau:
    """The tableau of s stages: collocation at the Lobatto nodes (IIIA), and its symplectic partner (IIIB).

        Σ_j a_ij c_j^{k−1} = c_i^k / k   (k = 1..s),        â_ij = b_j (1 − a_ji / b_i)

    Computed in decimal arithmetic with enough digits that every float64 entry is correctly rounded, and checked.

    >>> lobatto(3).b.tolist()
    [0.16666666666666666, 0.6666666666666666, 0.16666666666666666]
    """
    s = stages
    with localcontext() as context:
        context.prec = 40 + 4 * s
        small = Decimal(10) ** -(30 + s)
        c = _nodes(s)
        integrals = [_integral(_lagrange(c, j)) for j in range(s)]
        a = [[_value(integral, x) for integral in integrals] for x in c]
        b = a[-1]
        a_hat = [[b[j] * (1 - a[j][i] / b[i]) for j in range(s)] for i in range(s)]
        powers = [[x**k if k else Decimal(1) for x in c] for k in range(2 * s)]

        def moment(weights: list[Decimal], k: int) -> Decimal:
            """Σ_j w_j c_j^{k−1}."""
            return sum((w * x for w, x in zip(weights, powers[k - 1], strict=True)), Decimal(0))

        defects = [
            *a[0],  # Q¹ = q_n
            *(row[-1] for row in a_hat),  # R^s reaches v⁺ alone
            *(row[0] - b[0] for row in a_hat),
            *(moment(a[i], k) - powers[k][i] / k for i in range(s) for k in range(1, s + 1)),
            *(moment(b, k) - Decimal(1) / k for k in range(1, 2 * s - 1)),  # quadrature of order 2s − 2
        ]
        assert all(abs(d) < small for d in defects), f"the Lobatto tableau of {s} stages fails its conditions"
        assert all(weight > 0 for weight in b)
        return Tableau(*(np.array(v, dtype=float) for v in (c, b, a, a_hat)))


def _nodes(s: int) -> list[Decimal]:
    """0, the zeros of the derivative of the shifted Legendre polynomial P_{s−1}(2x − 1), and 1."""
    n = s - 1
    legendre = [Decimal((-1) ** (n + k) * comb(n, k) * comb(n + k, k)) for k in range(n + 1)]
    slope = _derivative(legendre)
    curvature = _derivative(slope)
    inner = []
    for guess in np.sort(np.polynomial.Legendre.basis(n).deriv().roots().real):
        x = (1 + Decimal(float(guess))) / 2
        for _ in range(12):  # Newton's method doubles the 15 digits of the guess each time
            x -= _value(slope, x) / _value(curvature, x)
        inner.append(x)
    return [Decimal(0), *inner, Decimal(1)]


def _lagrange(c: list[Decimal], j: int) -> Polynomial:
    """The polynomial that is one at c_j and zero at the other nodes."""
    result = [Decimal(1)]
    for k, node in enumerate(c):
        if k != j:
            scale = 1 / (c[j] - node)
            shifted = [Decimal(0), *result]
            result = [scale * (high - node * low) for high, low in zip(shifted, [*result, Decimal(0)], strict=True)]
    return result


def _integral(p: Polynomial) -> Polynomial:
    return [Decimal(0), *(coefficient / (k + 1) for k, coefficient in enumerate(p))]


def _derivative(p: Polynomial) -> Polynomial:
    return [k * coefficient for k, coefficient in enumerate(p)][1:]


def _value(p: Polynomial, x: Decimal) -> Decimal:
    result = Decimal(0)
    for coefficient in reversed(p):
        result = result * x + coefficient
    return result


def combine(weights: np.ndarray, x: Array) -> Array:
    """weights (m, k) times x (k, …), with the weights as constants of the program."""
    terms = [[float(w) * x[j] for j, w in enumerate(row) if w] for row in weights]
    return jnp.stack([sum(t[1:], t[0]) if t else jnp.zeros_like(x[0]) for t in terms])
