"""Which rows of a system stand in an inclusion: on which levels, and at how many stages.

A system has rows of four kinds, in the order (g, γ, N, F). A level is a string of the kinds that stand on it; an inclusion
may hold several levels, or one level at several stages. In its own vectors (y, P) all bilateral rows come first, then all
normals, then friction, each level by level and stage by stage: the order of a `LawTable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from ...laws.table import LawTable
from ...model.system import Rows, System
from ..base import law_table

ALL = "gγNF"
POSITION = "gN"  # the rows that exist on position level
_CLASSES = ("gγ", "N", "F")  # the order of a `LawTable`


@dataclass(frozen=True)
class Layout:
    """The rows of an inclusion.

    Values of a level are vectors (rows of the level,), or (stages, rows of the level) where there are several stages.
    """

    rows: Rows
    levels: tuple[str, ...] = (ALL,)
    stages: int = 1

    def _count(self, kinds: str) -> int:
        rows = self.rows
        counts = {"g": rows.n_g, "γ": rows.n_gamma, "N": rows.n_N, "F": law_table(rows).n_F}
        return sum(counts[kind] for kind in kinds)

    def _parts(self) -> Iterator[tuple[int, int, int]]:
        """(level, first row in it, rows) in the order of the law table."""
        for kinds in _CLASSES:
            for number, level in enumerate(self.levels):
                before = [kind for kind in level if ALL.index(kind) < ALL.index(kinds[0])]
                yield number, self._count("".join(before)), self._count("".join(k for k in kinds if k in level))

    @property
    def laws(self) -> LawTable:
        """The law of each row; a level without friction rows has normals alone."""
        table = law_table(self.rows)
        bilateral = sum(self._count("".join(kind for kind in "gγ" if kind in level)) for level in self.levels)
        groups: tuple = ()
        for level in self.levels:
            if "N" in level:
                groups += table.groups if "F" in level else tuple((n, 0, law) for n, _, law in table.groups)
        return LawTable(self.stages * bilateral, self.stages * groups)

    def join(self, *values: Array) -> Array:
        """The vector of the inclusion from the values of its levels."""
        if len(values) == 1 and self.stages == 1:
            return values[0]
        return jnp.concatenate([values[level][..., a : a + n].reshape(-1) for level, a, n in self._parts()])

    def split(self, x: Array) -> tuple[Array, ...]:
        """The values of the levels: the inverse of `join`."""
        if len(self.levels) == 1 and self.stages == 1:
            return (x,)
        pieces: list[list[Array]] = [[] for _ in self.levels]
        at = 0
        for level, _, n in self._parts():
            shape = (n,) if self.stages == 1 else (self.stages, n)
            pieces[level].append(x[at : at + self.stages * n].reshape(shape))
            at += self.stages * n
        return tuple(jnp.concatenate(p, axis=-1) for p in pieces)

    def of(self, level: str, values: Array) -> Array:
        """Out of values of all rows (g, γ, N, F), those of the kinds of a level."""
        if level == ALL:
            return values
        ends = np.cumsum([self._count(kind) for kind in ALL])
        slices = [values[end - self._count(kind) : end] for kind, end in zip(ALL, ends, strict=True) if kind in level]
        return jnp.concatenate(slices) if slices else values[:0]

    def place(self, level: str, values: Array) -> Array:
        """Values of a level among all rows (g, γ, N, F), of which the others are zero."""
        at, pieces = 0, []
        for kind in ALL:
            n = self._count(kind)
            pieces.append(values[at : at + n] if kind in level else jnp.zeros((n,), values.dtype))
            at += n if kind in level else 0
        return jnp.concatenate(pieces)

    def at_all_stages(self, values: Array) -> Array:
        """The same values at each stage."""
        return values if self.stages == 1 else jnp.broadcast_to(values, (self.stages, *values.shape))

    def by_kind(self, level: str, position: Array, velocity: Array) -> Array:
        """One value for the rows g and g_N of a level, another for γ and γ_F."""
        parts = [jnp.broadcast_to(position if k in POSITION else velocity, (self._count(k),)) for k in level]
        return jnp.concatenate(parts) if parts else jnp.zeros((0,), jnp.result_type(position))

    def row_of_system(self) -> Array:
        """For each row of the inclusion the row (g, γ, N, F) of the system that it belongs to."""
        names = jnp.arange(law_table(self.rows).size)
        return self.join(*(self.at_all_stages(self.of(level, names)) for level in self.levels))

    def mu(self, system: System, dtype: jnp.dtype) -> Array:
        """Friction coefficients of all friction rows."""
        mu = system.coefficients(self.rows, dtype)[2]
        return jnp.tile(mu, self.stages * sum("F" in level for level in self.levels))

    def closed(self, *normals: Array) -> Array:
        """Flags of the contacts (n_N,) of the levels that have normals, at all stages."""
        return jnp.concatenate([jnp.tile(flags, self.stages) for flags in normals])

    @property
    def all_closed(self) -> Array:
        """For gaps: on position level the law itself tells open from closed."""
        return jnp.ones((self.laws.n_N,), bool)
