"""Residuals of many records and their Jacobians: chunks of one compiled program, in threads, as in a sweep."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..analysis.least_squares import Box
from ..sweeps.sweep import CPU_LANES, OTHER_LANES, Chunks, batched_program, in_threads
from .data import Residual, filled, measured_part

Derivatives = Literal["forward", "differences"]
LEAST_LANES = 16  # of a call in which most lanes are perturbed runs


class Kind(NamedTuple):
    """Structure and shapes of a pytree of parameters; hashable."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tree: Any, leading: int = 0) -> Kind:
        leaves, kind = jax.tree.flatten(tree)
        return cls(kind, tuple(np.shape(leaf)[leading:] for leaf in leaves))

    @property
    def size(self) -> int:
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def tree_of(self, flat: Any) -> Any:
        """The pytree of a flat vector (…, size); leading axes stay in front."""
        leaves, begin = [], 0
        for shape in self.shapes:
            end = begin + int(np.prod(shape))
            leaves.append(flat[..., begin:end].reshape((*flat.shape[:-1], *shape)))
            begin = end
        return jax.tree.unflatten(self.tree, leaves)

    def flat_of(self, tree: Any, count: int) -> NDArray[Any]:
        """(count, size) from a pytree whose leaves have a leading axis."""
        parts = [np.asarray(leaf).reshape(count, -1) for leaf in jax.tree.leaves(tree)]
        return np.concatenate(parts, axis=1) if parts else np.zeros((count, 0))


class Lane(NamedTuple):
    """What the program gets for one record."""

    own: Any  # z (k,)
    shared: Any  # z (m,)
    box_own: Box
    box_shared: Box
    record: Any


class Values(NamedTuple):
    """Of each record: residuals r (N, n), their Jacobian J (N, n, k + m) in z, the prediction y (N, n').

    J is zero where `sloped` (N,) is False: there it has not been asked for.
    """

    r: NDArray[Any]
    J: NDArray[Any]
    y: NDArray[Any]
    sloped: NDArray[np.bool_]


@dataclass(frozen=True)
class LaneProgram:
    """(r, y) of one record, or (r, y, J) if `slopes`; equal ones share their compilation."""

    predict: Callable[[Any, Any, Any], Any]
    residual: Residual
    kind_own: Kind
    kind_shared: Kind
    slopes: bool = False

    def __call__(self, lane: Lane) -> tuple[Array, ...]:
        k = lane.own.shape[0]

        def values(z: Array) -> tuple[Array, tuple[Array, Array]]:
            own = self.kind_own.tree_of(lane.box_own.inside(z[:k]))
            shared = self.kind_shared.tree_of(lane.box_shared.inside(z[k:]))
            prediction = self.predict(shared, own, lane.record)
            record = filled(prediction, measured_part(prediction, lane.record))
            r = ravel_pytree(self.residual(prediction, record))[0]
            return r, (r, ravel_pytree(prediction)[0])

        z = jnp.concatenate([lane.own, lane.shared])
        if not self.slopes:
            return values(z)[1]
        J, (r, y) = jax.jacfwd(values, has_aux=True)(z)
        return r, y, J


@dataclass(frozen=True)
class Evaluator:
    """Records and bounds, ready to be evaluated at any parameters."""

    program: LaneProgram
    records: Any  # (N, …), on the host
    box_own: Box  # (N, k)
    box_shared: Box  # (m,)
    count: int
    derivatives: Derivatives
    step: float  # of differences, in z
    chunk: int | None = None
    workers: int | None = None
    mesh: Mesh | None = None

    def part(self, index: NDArray[Any]) -> Evaluator:
        """Some of the records alone, or some of them several times, in chunks of the same size: these are compiled."""
        records = jax.tree.map(lambda x: np.asarray(x)[index], self.records)
        box = Box(*(x[index] for x in self.box_own))
        return replace(self, records=records, box_own=box, count=len(index), chunk=self._chunk())

    def __call__(
        self, own: NDArray[Any], shared: NDArray[Any], index: NDArray[Any] | None = None, slopes: bool = True
    ) -> Values:
        """At z of own parameters (N, k) and shared ones (m,); of the records in `index` alone, if given."""
        index = np.arange(self.count) if index is None else index
        return self.at(own[index], shared, index, slopes)

    def at(self, own: NDArray[Any], shared: NDArray[Any], index: NDArray[Any], slopes: bool = True) -> Values:
        """Of the records in `index`, which may repeat some, with own parameters of that order.

        Jacobians cost many times what values cost, so they are there only with `slopes`.
        """
        z = np.concatenate([own, np.broadcast_to(shared, (len(index), len(shared)))], axis=1)
        if slopes and self.derivatives == "forward":
            r, y, J = self._run(replace(self.program, slopes=True), z, index)
            return Values(r, J, y, np.full(len(index), True))
        if not slopes:
            r, y = self._run(self.program, z, index)
            return Values(r, np.zeros((*r.shape, z.shape[1])), y, np.full(len(index), False))
        # Perturbed runs are lanes like all others, so the program is that of the values.
        shifts = self.step * np.eye(z.shape[1])
        lanes = (z + np.concatenate([np.zeros((1, z.shape[1])), shifts, -shifts])[:, None]).reshape(-1, z.shape[1])
        r, y = self._run(self.program, lanes, np.tile(index, 2 * len(shifts) + 1))
        r, y = r.reshape(-1, len(index), r.shape[1]), y[: len(index)]
        forth, back = r[1 : len(shifts) + 1], r[len(shifts) + 1 :]
        return Values(r[0], np.moveaxis(forth - back, 0, 2) / (2.0 * self.step), y, np.full(len(index), True))

    def _run(self, program: LaneProgram, z: NDArray[Any], index: NDArray[Any]) -> list[NDArray[Any]]:
        """The results of a program at z (L, k + m) of the records in `index` (L,)."""

        def repeat(x: Any) -> Any:
            return np.broadcast_to(np.asarray(x), (len(index), *np.shape(x)))

        k = program.kind_own.size
        lanes = Lane(
            z[:, :k],
            z[:, k:],
            jax.tree.map(lambda x: np.asarray(x)[index], self.box_own),
            jax.tree.map(repeat, self.box_shared),
            jax.tree.map(lambda x: np.asarray(x)[index], self.records),
        )
        leaves, structure = jax.tree.flatten(lanes)
        chunks = Chunks(leaves, structure, len(index), self._chunk(), self.mesh)
        run = batched_program(program, self.mesh)
        done: dict[int, Any] = {}

        def task(k: int, arguments: Any) -> Any:
            part = chunks.part(k)
            return [np.asarray(x)[: part.stop - part.start] for x in run(arguments)]

        shapes = (*(np.shape(leaf)[1:] for leaf in leaves), chunks.size)
        known = _compiled_shapes(program, self.mesh)
        first = 0
        if shapes not in known:  # compiled once, before several threads need it
            done[0], first = task(0, chunks.arguments(0)), 1
            known.add(shapes)
        jobs = ((k, chunks.arguments(k)) for k in range(first, len(chunks)))
        done |= dict(in_threads(task, jobs, self._workers()))
        return [np.concatenate([done[k][i] for k in range(len(chunks))]) for i in range(len(done[0]))]

    def _chunk(self) -> int:
        if self.chunk is not None:
            return self.chunk
        lanes = CPU_LANES if jax.default_backend() == "cpu" else OTHER_LANES
        least = 1 if self.derivatives == "forward" else LEAST_LANES
        return max(least, min(lanes, -(-self.count // self._workers())))

    def _workers(self) -> int:
        return 1 if self.mesh is not None else self.workers or os.cpu_count() or 1


@lru_cache(maxsize=16)
def _compiled_shapes(program: LaneProgram, mesh: Mesh | None) -> set[Any]:
    """Shapes for which a program has been compiled."""
    return set()
