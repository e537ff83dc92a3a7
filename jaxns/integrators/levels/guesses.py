"""Starting guesses for steps with two solves: percussions of a first part, then of the whole step."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from ...laws.table import LawTable


class Record(NamedTuple):
    """Percussions of the last step with their guess, from which the next step guesses its own."""

    P: Array
    P_guess: Array
    corrected: Array  # () bool: the step before the last had to correct its guess, too

    def guess(self) -> Array:
        """P, unless it differs from its guess by little more than rounding.

        In a steady state such a correction undoes rounding errors that have piled up over many steps, and will not be
        needed again: its guess is the better one. Corrections in two steps running mean that the guess was wrong.
        """
        little = jnp.max(jnp.abs(self.P - self.P_guess), initial=0.0) <= 1e-6 * jnp.max(jnp.abs(self.P), initial=0.0)
        return jnp.where(little & ~self.corrected, self.P_guess, self.P)

    def after(self, P: Array, P_guess: Array) -> Record:
        return Record(P, P_guess, jnp.any(self.P_guess != self.P) & jnp.any(P_guess != P))


class Memory(NamedTuple):
    """What a step remembers of the last one."""

    first: Record  # percussions of the first solve
    whole: Record  # those of the whole step
    calm: Array  # () bool: no impact in the last step

    @classmethod
    def start(cls, first_size: int, size: int, dtype: jnp.dtype) -> Memory:
        first, whole = jnp.zeros((first_size,), dtype), jnp.zeros((size,), dtype)
        no = jnp.asarray(False)
        return cls(Record(first, first, no), Record(whole, whole, no), jnp.asarray(True))

    def first_guess(self) -> Array:
        """What an impact leaves is a bad guess for what follows."""
        return jnp.where(self.calm, self.first.guess(), 0.0)

    def whole_guess(self, first_guess: Array, first: Array, proportional: Array) -> Array:
        """In a steady state the first solve accepts its guess as it is, and P is as before; else P is in proportion."""
        steady = jnp.all(first_guess == first)
        return lax.stop_gradient(jnp.where(steady, self.whole.guess(), proportional))

    def after(
        self, laws: LawTable, first: tuple[Array, Array], whole: tuple[Array, Array], proportional: Array
    ) -> Memory:
        """The memory after a step, from (P, guess) of both solves; without an impact P is about `proportional`."""
        _, expected, _ = laws.split(proportional)
        _, P_N, _ = laws.split(whole[0])
        calm = jnp.all(jnp.abs(P_N - expected) <= 0.1 * jnp.abs(expected))
        return lax.stop_gradient(Memory(self.first.after(*first), self.whole.after(*whole), calm))
