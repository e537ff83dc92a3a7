"""Starting guesses for steps with two solves: percussions of a first part, then of the whole step."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from ...laws.table import LawTable


class Memory(NamedTuple):
    """What a step remembers of the last one: few arrays, because each is a kernel to compile.

    `first` holds percussions of the first solve with their guess, `whole` those of the whole step. From both the next step
    makes its guess: P, unless it differs from its guess by little more than rounding. In a steady state such a correction
    undoes rounding errors that have piled up over many steps, and will not be needed again: its guess is the better one.
    Corrections in two steps running mean that the guess was wrong.
    """

    first: Array  # (2, n_first) P and its guess
    whole: Array  # (2, n)
    flags: (
        Array  # (3,) bool: an impact in the last step; P of `first`, of `whole`, corrected in the step before the last
    )

    @classmethod
    def start(cls, first_size: int, size: int, dtype: jnp.dtype) -> Memory:
        return cls(jnp.zeros((2, first_size), dtype), jnp.zeros((2, size), dtype), jnp.zeros((3,), bool))

    def first_guess(self) -> Array:
        """What an impact leaves is a bad guess for what follows."""
        return jnp.where(self.flags[0], 0.0, _guess(self.first, self.flags[1]))

    def whole_guess(self, first_guess: Array, first: Array, proportional: Array) -> Array:
        """In a steady state the first solve accepts its guess as it is, and P is as before; else P is in proportion."""
        steady = jnp.all(first_guess == first)
        return lax.stop_gradient(jnp.where(steady, _guess(self.whole, self.flags[2]), proportional))

    def after(
        self, laws: LawTable, first: tuple[Array, Array], whole: tuple[Array, Array], proportional: Array
    ) -> Memory:
        """The memory after a step, from (P, guess) of both solves; without an impact P is about `proportional`."""
        _, expected, _ = laws.split(proportional)
        _, P_N, _ = laws.split(whole[0])
        impact = ~jnp.all(jnp.abs(P_N - expected) <= 0.1 * jnp.abs(expected))
        corrected = [_differs(*old) & _differs(*new) for old, new in ((self.first, first), (self.whole, whole))]
        return lax.stop_gradient(Memory(jnp.stack(first), jnp.stack(whole), jnp.stack([impact, *corrected])))


def _guess(last: Array, corrected: Array) -> Array:
    P, P_guess = last
    little = jnp.max(jnp.abs(P - P_guess), initial=0.0) <= 1e-6 * jnp.max(jnp.abs(P), initial=0.0)
    return jnp.where(little & ~corrected, P_guess, P)


def _differs(P: Array, P_guess: Array) -> Array:
    return jnp.any(P_guess != P)
