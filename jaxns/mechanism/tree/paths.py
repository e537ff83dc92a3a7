"""Sums along the paths of a tree, from the root to every node at once, in as many operations as log₂ of its depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Compose = Callable[[Array, Array], Array]


class Round(NamedTuple):
    """Nodes from place `first` on take in what their `ancestors` have gathered, both as places in the order of depth."""

    first: int
    ancestors: np.ndarray


@dataclass(frozen=True)
class Paths:
    """A forest by the parent of each node, −1 for a root; parents may come in any order.

    >>> chain = Paths((-1, 0, 1))
    >>> chain.sums(jnp.array([1.0, 10.0, 100.0])).tolist()
    [1.0, 11.0, 111.0]
    >>> chain.sums_of_subtrees(jnp.array([1.0, 10.0, 100.0])).tolist()
    [111.0, 110.0, 100.0]
    """

    parents: tuple[int, ...]

    def compose(self, x: Array, product: Compose) -> Array:
        """x_root ∘ … ∘ x_parent ∘ x_node of all nodes (…, n), for an associative product.

        By pointer jumping: after k rounds a node has the product of the last 2ᵏ of its path (Hillis and Steele, Data
        parallel algorithms, 1986). All nodes of a round are one array, so a long chain has few operations.
        """
        x = _places(x, self._order)
        for first, ancestors in self._rounds:
            x = jnp.concatenate([x[..., :first], product(_places(x, ancestors), x[..., first:])], axis=-1)
        return _places(x, np.argsort(self._order))

    def sums(self, x: Array) -> Array:
        """Σ x over the path from the root to each node (…, n)."""
        return self.compose(x, jnp.add)

    def sums_of_subtrees(self, x: Array) -> Array:
        """Σ x over each node and all that follow it (…, n): the transpose of `sums`."""
        return jax.linear_transpose(self.sums, x)(x)[0]

    @cached_property
    def on_path(self) -> np.ndarray:
        """[i, j]: whether the path to i leads through j, or ends there."""
        mask = np.eye(len(self.parents), dtype=bool)
        for i in self._order:
            if self.parents[i] >= 0:
                mask[i] |= mask[self.parents[i]]
        return mask

    @cached_property
    def depths(self) -> np.ndarray:
        def depth(i: int) -> int:
            n = 0
            while self.parents[i] >= 0:
                i, n = self.parents[i], n + 1
            return n

        return np.array([depth(i) for i in range(len(self.parents))], int)

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.depths, kind="stable")

    @cached_property
    def _rounds(self) -> tuple[Round, ...]:
        place = np.argsort(self._order)
        far = np.array([place[self.parents[i]] if self.parents[i] >= 0 else -1 for i in self._order], int)
        found = []
        while (far >= 0).any():
            first = int(np.argmax(far >= 0))  # deeper nodes have farther ancestors
            found.append(Round(first, far[first:]))
            far = np.where(far >= 0, far[far], -1)
        return tuple(found)


def _places(x: Array, index: np.ndarray) -> Array:
    """x[..., index], as a slice where the places are neighbours."""
    first = int(index[0]) if len(index) else 0
    if np.array_equal(index, np.arange(first, first + len(index))):
        return x if len(index) == x.shape[-1] else x[..., first : first + len(index)]
    return x[..., index]
