"""The search for the instant at which an indicator changes its sign: a bracket that trial steps make smaller.

Regula falsi in the Illinois form, and bisection where the left value is unknown or zero: a contact that has just bounced
starts at a closed gap, and the root sought is the next one.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

NEAR = 1e-9  # indicators this near to their zero, relative to their range in the step, are reached at the same instant
PATIENCE = 30  # trials of regula falsi before bisection takes over
LIMIT = 120


class Verdict(NamedTuple):
    """What a trial step means for the search."""

    fired: Array  # bool: some indicator is negative
    located: Array  # bool: this trial ends at the instant
    reached: Array  # (m,) bool: the indicators that vanish there
    which: Array  # the first of them
    weight: Array  # (m,)
    first: Array  # value at the beginning of the step
    value: Array  # and at the end of the trial


class Search(NamedTuple):
    """A bracket [lo, hi] of step sizes with the values of the smallest indicator that is sought."""

    on: Array  # bool
    lo: Array
    hi: Array
    f_lo: Array
    f_hi: Array
    guess: Array  # step size to try first
    weight: Array  # (m,) one over the range of the indicators sought, zero for the others
    side: Array  # the end that moved last
    trials: Array

    @classmethod
    def off(cls, m: int, t: Array) -> Search:
        zero = 0.0 * t
        weight = jnp.zeros((m,), t.dtype)
        return cls(jnp.asarray(False), zero, zero, zero, zero, zero, weight, jnp.asarray(0), jnp.asarray(0))

    def candidate(self) -> Array:
        """The step size to try next."""
        falsi = (self.f_lo > 0.0) & (self.f_hi < 0.0) & (self.trials < PATIENCE)
        fraction = jnp.where(falsi, self.f_lo / jnp.where(falsi, self.f_lo - self.f_hi, 1.0), 0.5)
        guessed = (self.trials == 0) & (self.guess > self.lo) & (self.guess < self.hi)
        return jnp.where(guessed, self.guess, self.lo + fraction * (self.hi - self.lo))

    def judge(self, values: Array, first: Array, noise: Array, h: Array, t: Array) -> Verdict:
        """The meaning of indicators `values` at the end of a trial of size h; `first` at its beginning, where known.

        An indicator that is below zero by less than its noise does not begin a search.
        """
        eps, tiny = jnp.finfo(h.dtype).eps, jnp.finfo(h.dtype).tiny
        negative = values < -noise
        size = jnp.maximum(jnp.where(negative, -values, 0.0), jnp.maximum(first, tiny))
        weight = jnp.where(self.on, self.weight, jnp.where(negative, 1.0 / size, 0.0))
        sought = weight > 0.0
        scaled = jnp.where(sought, weight * values, jnp.inf)
        value = jnp.min(scaled, initial=jnp.inf)
        width = jnp.where(value <= 0.0, h - self.lo, self.hi - h)
        narrow = width <= 4.0 * eps * (jnp.abs(t) + h)
        located = (jnp.abs(value) <= 8.0 * eps) | narrow | (self.trials >= LIMIT)
        return Verdict(
            jnp.any(negative),
            self.on & located,
            sought & (scaled <= NEAR),
            jnp.argmin(scaled) if values.shape[0] else jnp.asarray(-1),
            weight,
            jnp.min(jnp.where(sought, weight * first, jnp.inf), initial=jnp.inf),
            value,
        )

    def after(self, verdict: Verdict, h: Array, begins: Array, ends: Array, guess: Array) -> Search:
        """The search after a trial of size h: begun with a guess, narrowed or ended."""
        v = verdict
        right = v.value <= 0.0
        again = self.side == jnp.where(right, 1, -1)
        # Illinois: the end that stays for a second time counts half.
        f_lo = jnp.where(right, jnp.where(again, 0.5, 1.0) * self.f_lo, v.value)
        f_hi = jnp.where(right, v.value, jnp.where(again, 0.5, 1.0) * self.f_hi)
        narrowed = self.on & ~ends

        def pick(begun: Array, narrower: Array) -> Array:
            return jnp.where(begins, begun, jnp.where(narrowed, narrower, 0.0))

        return Search(
            on=begins | narrowed,
            lo=pick(jnp.zeros_like(h), jnp.where(right, self.lo, h)),
            hi=pick(h, jnp.where(right, h, self.hi)),
            f_lo=pick(v.first, f_lo),
            f_hi=pick(v.value, f_hi),
            guess=pick(guess, self.guess),
            weight=jnp.where(begins | narrowed, v.weight, 0.0),
            side=jnp.where(narrowed, jnp.where(right, 1, -1), 0),
            trials=jnp.where(narrowed, self.trials + 1, 0),
        )


def descent(value_0: Array, slope_0: Array, value_1: Array) -> Array:
    """Where in (0, 1] the parabola through two values, with the slope at the first, falls through zero; 1 if it does not.

    >>> import jax.numpy as jnp
    >>> float(descent(jnp.array(0.0), jnp.array(1.0), jnp.array(-1.0)))
    0.5
    """
    c = value_1 - value_0 - slope_0
    root = jnp.sqrt(jnp.maximum(slope_0 * slope_0 - 4.0 * c * value_0, 0.0))
    rises = slope_0 > 0.0
    # (−slope_0 − root) / 2c in both cases, without cancellation.
    numerator = jnp.where(rises, -(slope_0 + root), 2.0 * value_0)
    denominator = jnp.where(rises, 2.0 * c, root - slope_0)
    s = numerator / jnp.where(denominator == 0.0, 1.0, denominator)
    return jnp.where((value_1 < 0.0) & (s > 0.0) & (s < 1.0), s, 1.0)


def dip(value_0: Array, slope_0: Array, value_1: Array, slope_1: Array, tol: Array) -> Array:
    """Where in [0, 1] the cubic through two positive values falls below −tol and comes back; 1 where it does not.

    >>> import jax.numpy as jnp
    >>> float(dip(jnp.array(1.0), jnp.array(-8.0), jnp.array(1.0), jnp.array(8.0), 0.0))
    0.5
    """
    rise = value_1 - value_0
    b, c = 3.0 * rise - 2.0 * slope_0 - slope_1, slope_0 + slope_1 - 2.0 * rise
    turns = (slope_0 < 0.0) & (slope_1 > 0.0) & (value_1 > 0.0)
    root = jnp.sqrt(jnp.maximum(b * b - 3.0 * c * slope_0, 0.0))
    denominator = jnp.where(turns & (b + root > 0.0), b + root, 1.0)
    s = jnp.where(turns, -slope_0 / denominator, 1.0)
    lowest = value_0 + s * (slope_0 + s * (b + s * c))
    return jnp.where(turns & (lowest < -tol) & (s > 0.0) & (s < 0.95), s, 1.0)
