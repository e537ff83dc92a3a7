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
    """Of each record: residuals r (N, n), their Jacobian J (N, n, k + m) in z, the prediction y (N, n')."""

    r: NDArray[Any]
    J: NDArray[Any]
    y: NDArray[Any]


@dataclass(frozen=True)
class LaneProgram:
    """(r, J, y) of one record; equal ones share their compilation."""

    predict: Callable[[Any, Any, Any], Any]
    residual: Residual
    kind_own: Kind
    kind_shared: Kind
    derivatives: Derivatives
    step: float  # of differences, in z

    def __call__(self, lane: Lane) -> tuple[Array, Array, Array]:
        k = lane.own.shape[0]
        z = jnp.concatenate([lane.own, lane.shared])

        def values(z: Array) -> tuple[Array, tuple[Array, Array]]:
            own = self.kind_own.tree_of(lane.box_own.inside(z[:k]))
            shared = self.kind_shared.tree_of(lane.box_shared.inside(z[k:]))
            prediction = self.predict(shared, own, lane.record)
            record = filled(prediction, measured_part(prediction, lane.record))
            r = ravel_pytree(self.residual(prediction, record))[0]
            return r, (r, ravel_pytree(prediction)[0])

        if self.derivatives == "forward":
            J, (r, y) = jax.jacfwd(values, has_aux=True)(z)
            return r, J, y
        # All perturbed runs and the unperturbed one are one batch, so the program holds one simulation.
        shifts = self.step * jnp.eye(z.shape[0], dtype=z.dtype)
        rs, (_, ys) = jax.vmap(values)(jnp.concatenate([z + shifts, z - shifts, z[None]]))
        forth, back = rs[: z.shape[0]], rs[z.shape[0] : -1]
        return rs[-1], (forth - back).T / (2.0 * self.step), ys[-1]


@dataclass(frozen=True)
class Evaluator:
    """Records and bounds, ready to be evaluated at any parameters."""

    program: LaneProgram
    records: Any  # (N, …), on the host
    box_own: Box  # (N, k)
    box_shared: Box  # (m,)
    count: int
    chunk: int | None = None
    workers: int | None = None
    mesh: Mesh | None = None

    def part(self, index: NDArray[Any]) -> Evaluator:
        """Some of the records alone."""
        records = jax.tree.map(lambda x: np.asarray(x)[index], self.records)
        return replace(self, records=records, box_own=Box(*(x[index] for x in self.box_own)), count=len(index))

    def __call__(self, own: NDArray[Any], shared: NDArray[Any], index: NDArray[Any] | None = None) -> Values:
        """At z of own parameters (N, k) and shared ones (m,); of the records in `index` alone, if given."""
        index = np.arange(self.count) if index is None else index
        return self.at(own[index], shared, index)

    def at(self, own: NDArray[Any], shared: NDArray[Any], index: NDArray[Any]) -> Values:
        """Of the records in `index`, which may repeat some, with own parameters of that order."""

        def repeat(x: Any) -> Any:
            return np.broadcast_to(np.asarray(x), (len(index), *np.shape(x)))

        lanes = Lane(
            own,
            repeat(shared),
            jax.tree.map(lambda x: np.asarray(x)[index], self.box_own),
            jax.tree.map(repeat, self.box_shared),
            jax.tree.map(lambda x: np.asarray(x)[index], self.records),
        )
        leaves, structure = jax.tree.flatten(lanes)
        chunks = Chunks(leaves, structure, len(index), self._chunk(), self.mesh)
        run = batched_program(self.program, self.mesh)
        done: dict[int, Any] = {}

        def task(k: int, arguments: Any) -> Any:
            part = chunks.part(k)
            return [np.asarray(x)[: part.stop - part.start] for x in run(arguments)]

        shapes = (*(np.shape(leaf)[1:] for leaf in leaves), chunks.size)
        known = _compiled_shapes(self.program, self.mesh)
        first = 0
        if shapes not in known:  # compiled once, before several threads need it
            done[0], first = task(0, chunks.arguments(0)), 1
            known.add(shapes)
        jobs = ((k, chunks.arguments(k)) for k in range(first, len(chunks)))
        done |= dict(in_threads(task, jobs, self._workers()))
        return Values(*(np.concatenate([done[k][i] for k in range(len(chunks))]) for i in range(3)))

    def _chunk(self) -> int:
        if self.chunk is not None:
            return self.chunk
        lanes = CPU_LANES if jax.default_backend() == "cpu" else OTHER_LANES
        return max(1, min(lanes, -(-self.count // self._workers())))

    def _workers(self) -> int:
        return 1 if self.mesh is not None else self.workers or os.cpu_count() or 1


@lru_cache(maxsize=16)
def _compiled_shapes(program: LaneProgram, mesh: Mesh | None) -> set[Any]:
    """Shapes for which a program has been compiled."""
    return set()
