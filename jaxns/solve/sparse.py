"""Linear systems with a fixed pattern of nonzero entries: a plan is made once, from the pattern; numbers follow it.

Elimination goes level by level. The pivots of one level have no entries with each other, so all of them are eliminated
at once, by the same few gathers and sums however many they are: a chain of n bodies takes about log₂ n levels, a wheel
with n levers takes five. What remains when no large set of independent pivots is left is solved as a dense matrix. As in
`dense`, pivots come from the diagonal and a vanishing one sets its unknown to zero; arrays may carry trailing lanes.

A Jacobian with a known pattern takes one derivative for each colour: columns that meet in no row share one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import dense

CORE = 8  # as few unknowns as these are not worth another level
FEW = 16  # a level should take at least this fraction of the unknowns that are left, else the rest is dense


@dataclass(frozen=True, eq=False)
class Pattern:
    """Where a matrix may have entries: entry k stands in row rows[k] and column columns[k]."""

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]

    @classmethod
    def of(cls, mask: np.ndarray) -> Pattern:
        """From a matrix of truth values."""
        rows, columns = np.nonzero(mask)
        return cls(rows, columns, mask.shape)

    @property
    def T(self) -> Pattern:
        return Pattern(self.columns, self.rows, self.shape[::-1])

    @cached_property
    def _product(self) -> Sums:
        entries = list(enumerate(self.columns))
        targets: list[list[tuple[int, int]]] = [[] for _ in range(self.shape[0])]
        for (k, column), row in zip(entries, self.rows, strict=True):
            targets[row].append((k, column))
        return Sums.of(targets)

    def multiply(self, values: Array, x: Array) -> Array:
        """A x from the entries of A (entries, *lanes) and x (columns, *lanes)."""
        return self._product.evaluate(values, x)

    @cached_property
    def colours(self) -> np.ndarray:
        """A colour for each column, such that columns of one colour meet in no row."""
        mask = np.zeros(self.shape, bool)
        mask[self.rows, self.columns] = True
        colours = np.zeros(self.shape[1], int)
        taken: list[np.ndarray] = []  # the rows that each colour has entries in
        for column in range(self.shape[1]):
            free = next((c for c, rows in enumerate(taken) if not (rows & mask[:, column]).any()), len(taken))
            if free == len(taken):
                taken.append(np.zeros(self.shape[0], bool))
            taken[free] |= mask[:, column]
            colours[column] = free
        return colours

    def jacobian(self, push: Callable[[Array], Array], dtype: jnp.dtype) -> Array:
        """The entries of a Jacobian with this pattern, from its product with a vector."""
        seeds = np.arange(self.colours.max(initial=0) + 1) == self.colours[:, None]
        compressed = jax.vmap(push, in_axes=1, out_axes=1)(jnp.asarray(seeds, dtype))
        return compressed[self.rows, self.colours[self.columns]]


class Sums(NamedTuple):
    """Sums of products of entries of two vectors, z_t = Σ a_i b_j, with pairs (i, j) that are fixed for each t.

    Sums of similar length are evaluated together, those that are shorter filled up with zeros.
    """

    parts: tuple[tuple[np.ndarray, np.ndarray], ...]  # indices of a and of b, each (targets, terms); −1 is a zero
    order: np.ndarray  # where each target is in the parts one after the other

    @classmethod
    def of(cls, targets: list[list[tuple[int, int]]]) -> Sums:
        lengths = np.array([len(pairs) for pairs in targets], int)
        classes = np.where(lengths > 0, 2 ** np.ceil(np.log2(np.maximum(lengths, 1))), 0).astype(int)
        parts, order = [], []
        for length in np.unique(classes):
            members = np.nonzero(classes == length)[0]
            order.append(members)
            table = np.full((len(members), length, 2), -1)
            for k, target in enumerate(members):
                for c, pair in enumerate(targets[target]):
                    table[k, c] = pair
            parts.append((table[:, :, 0], table[:, :, 1]))
        return cls(tuple(parts), np.argsort(np.concatenate(order)) if order else np.zeros(0, int))

    def evaluate(self, a: Array, b: Array) -> Array:
        """z (targets, *lanes)."""
        zero = jnp.zeros_like(a, shape=(1, *a.shape[1:]))
        a_full, b_full = jnp.concatenate([a, zero]), jnp.concatenate([b, jnp.zeros_like(b, shape=(1, *b.shape[1:]))])
        sums = [zero[:0]]
        for left, right in self.parts:
            if left.shape[1] == 0:
                sums.append(jnp.zeros_like(a, shape=(left.shape[0], *a.shape[1:])))
            else:
                sums.append(jnp.sum(a_full[left] * b_full[right], axis=1))
        return jnp.concatenate(sums)[self.order]


class Level(NamedTuple):
    """Pivots that are eliminated together; indices of entries are places in the vector of entries left so far."""

    pivots: np.ndarray  # places among the unknowns left
    others: np.ndarray
    diagonal: np.ndarray  # entries (k, k)
    column: np.ndarray  # entries (i, k) below the pivots
    column_pivot: np.ndarray  # their pivots, as places in `pivots`
    row: np.ndarray  # entries (k, j)
    rest: np.ndarray  # entries that stay, −1 for those that come anew
    update: Sums  # of column and row entries, subtracted from those
    forward: Sums  # of column entries and values at the pivots, subtracted from values at the others
    backward: Sums  # of row entries and values at the others, subtracted from values at the pivots


@dataclass(frozen=True, eq=False)
class Plan:
    """How to solve A x = b for matrices with one pattern."""

    pattern: Pattern
    symmetric: np.ndarray  # for each entry of the symmetric pattern its entry of A, −1 where A has none
    levels: tuple[Level, ...]
    core: np.ndarray  # (c, c) places of the entries of what is left, −1 for zeros

    @classmethod
    def of(cls, pattern: Pattern, late: np.ndarray) -> Plan:
        """`late` unknowns have no pivot of their own until one of their neighbours is eliminated."""
        return _plan(pattern, late)

    @property
    def work(self) -> int:
        """Multiplications of one factorisation, roughly."""
        return sum(part.size for level in self.levels for part, _ in level.update.parts) + self.core.shape[0] ** 3

    def factorise_and_solve(self, values: Array, b: Array) -> Array:
        """x (n, *lanes) with A x = b, from the entries of A (entries, *lanes)."""
        v = _pick(values, self.symmetric)
        floor = dense.pivot_threshold(values.dtype)
        steps = []
        for level in self.levels:
            pivot = v[level.diagonal]
            regular = ~(jnp.abs(pivot) <= floor)
            inverse = jnp.where(regular, 1.0 / jnp.where(regular, pivot, 1.0), 0.0)
            column = v[level.column] * inverse[level.column_pivot]
            row = v[level.row]
            v = _pick(v, level.rest) - level.update.evaluate(column, row)
            b_pivots = b[level.pivots]
            b = b[level.others] - level.forward.evaluate(column, b_pivots)
            steps.append((inverse, row, b_pivots))
        if self.core.shape[0]:
            b = dense.solve_lanes(_pick(v, self.core), b[:, None])[:, 0]
        for level, (inverse, row, b_pivots) in zip(self.levels[::-1], steps[::-1], strict=True):
            x = inverse * (b_pivots - level.backward.evaluate(row, b))
            b = jnp.concatenate([x, b])[np.argsort(np.concatenate([level.pivots, level.others]))]
        return b


def _pick(v: Array, places: np.ndarray) -> Array:
    """v at places (along its first axis), and zeros where a place is −1."""
    if (places >= 0).all():
        return v[places]
    return jnp.concatenate([v, jnp.zeros_like(v, shape=(1, *v.shape[1:]))])[places]


def _plan(pattern: Pattern, late: np.ndarray) -> Plan:
    n = pattern.shape[0]
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for i, j in zip(pattern.rows, pattern.columns, strict=True):
        if i != j:
            neighbours[i].add(int(j))
            neighbours[j].add(int(i))
    given = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(pattern.rows, pattern.columns, strict=True))}
    entries = [(i, j) for i in range(n) for j in (i, *sorted(neighbours[i]))]
    symmetric = np.array([given.get(e, -1) for e in entries], int)
    left, ready = list(range(n)), ~np.asarray(late)
    levels = []
    while len(left) > CORE:
        pivots = _independent([k for k in left if ready[k]], neighbours)
        if len(pivots) * FEW < len(left):
            break
        level, left, entries = _level(pivots, left, entries, neighbours)
        levels.append(level)
        for k in pivots:
            ready[list(neighbours[k])] = True
    place = {e: k for k, e in enumerate(entries)}
    core = np.array([[place.get((i, j), -1) for j in left] for i in left], int).reshape(len(left), len(left))
    return Plan(pattern, symmetric, tuple(levels), core)


def _independent(candidates: list[int], neighbours: list[set[int]]) -> list[int]:
    """Candidates with no more neighbours than most have, no two of which are neighbours."""
    ordered = sorted(candidates, key=lambda k: len(neighbours[k]))
    most = len(neighbours[ordered[len(ordered) // 2]]) if ordered else 0
    chosen: set[int] = set()
    for k in ordered:
        if len(neighbours[k]) <= most and not (neighbours[k] & chosen):
            chosen.add(k)
    return sorted(chosen)


def _level(
    pivots: list[int], left: list[int], entries: list[tuple[int, int]], neighbours: list[set[int]]
) -> tuple[Level, list[int], list[tuple[int, int]]]:
    """One level, and the unknowns and entries after it; neighbours of eliminated pivots become each other's."""
    place = {e: k for k, e in enumerate(entries)}
    gone = set(pivots)
    others = [k for k in left if k not in gone]
    where = {k: i for i, k in enumerate(others)}
    column: list[int] = []
    column_pivot: list[int] = []
    row: list[int] = []
    products: dict[tuple[int, int], list[tuple[int, int]]] = {}
    forward: list[list[tuple[int, int]]] = [[] for _ in others]
    backward: list[list[tuple[int, int]]] = []
    for number, k in enumerate(pivots):
        around = sorted(neighbours[k])
        first = len(column)
        column += [place[i, k] for i in around]
        column_pivot += [number] * len(around)
        row += [place[k, j] for j in around]
        backward.append([(first + b, where[j]) for b, j in enumerate(around)])
        for a, i in enumerate(around):
            forward[where[i]].append((first + a, number))
            for b, j in enumerate(around):
                products.setdefault((i, j), []).append((first + a, first + b))
            neighbours[i] |= set(around) - {i}
            neighbours[i].discard(k)
    after = [(i, j) for i in others for j in (i, *sorted(neighbours[i]))]
    level = Level(
        pivots=np.array([left.index(k) for k in pivots]),
        others=np.array([i for i, k in enumerate(left) if k not in gone], int),
        diagonal=np.array([place[k, k] for k in pivots]),
        column=np.array(column, int),
        column_pivot=np.array(column_pivot, int),
        row=np.array(row, int),
        rest=np.array([place.get(e, -1) for e in after], int),
        update=Sums.of([products.get(e, []) for e in after]),
        forward=Sums.of(forward),
        backward=Sums.of(backward),
    )
    return level, others, after


class SparseForm(NamedTuple):
    """Newton's method for a large problem without smooth unknowns, with velocities u beside the percussions.

    A matrix in (u, P̂), of which the percussions are the last unknowns and F the last right-hand sides, has the Jacobian
    of the residual as what is left when u is eliminated.
    """

    plans: tuple[Plan, Plan]  # for the matrix and for its transpose
    velocities: int
    entries: Callable[[Array, Array, Array, Array, Array, Any], Array]  # (P̂, ζ̂, r, μ̂, ρ, data) -> (entries,)


class CoupledForm(NamedTuple):
    """Newton's method for a large problem whose Jacobian, in (z, P̂), is sparse itself."""

    plans: tuple[Plan, Plan]  # for the matrix and for its transpose
    velocities: int = 0  # beside the unknowns: none

    @property
    def pattern(self) -> Pattern:
        return self.plans[0].pattern


def solve(plan: Plan, transposed: Plan, values: Array, b: Array) -> Array:
    """Solve A x = b for entries (entries,) and b (n,); differentiable in both modes, batched by `jax.vmap`."""
    return lax.custom_linear_solve(
        lambda x: plan.pattern.multiply(values, x),
        b,
        solve=lambda _, b: _on_lanes(plan)(values, b),
        transpose_solve=lambda _, b: _on_lanes(transposed)(values, b),
    )


def _on_lanes(plan: Plan) -> Callable[[Array, Array], Array]:
    """The solve with batches as last axis."""

    @jax.custom_batching.custom_vmap
    def run(values: Array, b: Array) -> Array:
        return solve_lanes(plan, values, b)

    @run.def_vmap
    def rule(axis_size: int, in_batched: list[bool], values: Array, b: Array) -> tuple[Array, bool]:
        def lanes_last(x: Array, batched: bool) -> Array:
            return jnp.moveaxis(x, 0, -1) if batched else jnp.broadcast_to(x[..., None], (*x.shape, axis_size))

        x = _on_lanes(plan)(lanes_last(values, in_batched[0]), lanes_last(b, in_batched[1]))
        return jnp.moveaxis(x, -1, 0), True

    return run


def solve_lanes(plan: Plan, values: Array, b: Array) -> Array:
    """Solve A x = b in every lane; where pivots from the diagonal fail, by dense elimination with row pivoting."""
    x = plan.factorise_and_solve(values, b)
    tolerance = 1e5 * float(jnp.finfo(values.dtype).eps)

    def wrong(x: Array) -> Array:
        defect = jnp.max(jnp.abs(plan.pattern.multiply(values, x) - b), axis=0)
        size = jnp.max(jnp.abs(b), axis=0) + jnp.max(jnp.abs(values), axis=0) * jnp.max(jnp.abs(x), axis=0)
        return ~(defect <= tolerance * size) & jnp.isfinite(size)

    def repeat() -> Array:
        A = jnp.zeros_like(values, shape=(*plan.pattern.shape, *values.shape[1:]))
        A = A.at[plan.pattern.rows, plan.pattern.columns].set(values)
        x_dense = dense.eliminate_pivoted(A, b[:, None])[:, 0]
        return jnp.where(bad & ~wrong(x_dense), x_dense, x)

    bad = wrong(x)
    return lax.cond(jnp.any(bad), repeat, lambda: x)


def solve_last(plan: Plan, values: Array, b: Array) -> Array:
    """The last unknowns x of a system whose right-hand side is zero but for its last rows b, in every lane."""
    zeros = jnp.zeros_like(b, shape=(plan.pattern.shape[0] - b.shape[0], *b.shape[1:]))
    return solve_lanes(plan, values, jnp.concatenate([zeros, b]))[zeros.shape[0] :]
