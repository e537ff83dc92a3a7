"""Records and parameters of a fit, flat and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..analysis.arguments import flat_bounds, parameter_names, warn_of_outsiders
from ..analysis.least_squares import Box
from ..model.values import as_float_leaves, is_concrete
from .data import Residual, Samples, as_records, difference, leading_size, samples_of
from .evaluate import Derivatives, Evaluator, Kind, LaneProgram

Settings = tuple[Derivatives, float, int | None, int | None, Mesh | None]  # derivatives, step, chunk, workers, mesh


@dataclass(frozen=True)
class Task:
    """Records and parameters, flat and checked."""

    evaluator: Evaluator
    samples: Samples
    own: NDArray[Any]  # z (N, k)
    shared: NDArray[Any]  # z (m,)
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        return self.evaluator.count

    @classmethod
    def of(
        cls, predict: Any, records: Any, shared: Any, own: Any, bounds: Any, own_bounds: Any, weights: Any,
        residual: Residual | None, settings: Settings, level: int,
    ) -> Task:  # fmt: skip
        derivatives, step, chunk, workers, mesh = settings
        if not is_concrete((records, shared, own)):
            raise TypeError("identify_records runs on the host, chunk by chunk; call it outside of jit, vmap and grad.")
        records, shared = as_records(records), as_float_leaves(shared)
        own = as_float_leaves(jax.tree.map(np.asarray, {} if own is None else own))
        count = leading_size(records=records, own=own)
        kind_own, kind_shared = Kind.of(own, leading=1), Kind.of(shared)
        one_own, one_record = (jax.tree.map(lambda x: jnp.asarray(x[0]), tree) for tree in (own, records))
        residual = difference if residual is None else residual
        samples = samples_of(jax.eval_shape(predict, shared, one_own, one_record), records, weights, residual)
        flat_shared = np.asarray(ravel_pytree(shared)[0], float).reshape(-1)
        flat_own = kind_own.flat_of(own, count)
        names = tuple(parameter_names(shared))
        lo, hi = _flat_bounds(bounds, shared)
        warn_of_outsiders("identify_records", names, jnp.asarray(flat_shared), jnp.asarray(lo), jnp.asarray(hi), level)
        lo_own, hi_own = (np.broadcast_to(x, flat_own.shape) for x in _flat_bounds(own_bounds, one_own))
        box, box_own = (Box(*map(jnp.asarray, b)) for b in ((lo, hi, flat_shared), (lo_own, hi_own, flat_own)))
        program = LaneProgram(predict, residual, kind_own, kind_shared)
        evaluator = Evaluator(program, records, box_own, box, count, derivatives, float(step), chunk, workers, mesh)
        return cls(
            evaluator, samples, np.array(box_own.outside(box_own.centre)), np.array(box.outside(box.centre)), names
        )

    def part(self, index: NDArray[Any]) -> Task:
        s = self.samples
        samples = Samples(s.exists[index], s.weights[index], s.position, s.column, s.row, s.columns, s.like)
        return Task(self.evaluator.part(index), samples, self.own[index], self.shared, self.names)

    def shared_lanes(self) -> NDArray[Any]:
        return np.broadcast_to(self.shared, (self.count, len(self.shared)))


def _flat_bounds(bounds: Any, like: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    if not jax.tree.leaves(like):
        return np.zeros(0), np.zeros(0)
    lo, hi = flat_bounds(bounds, like, "identify_records")
    return np.asarray(lo), np.asarray(hi)


def chosen_records(test: Any, count: int) -> NDArray[np.bool_]:
    """Which records are left out (N,): a fraction of them, spread at random but the same each time; a mask, or numbers."""
    mask = np.zeros(count, bool)
    if test is None:
        return mask
    given = np.asarray(test)
    if given.ndim == 0 and given.dtype.kind == "f" and 0.0 < float(given) < 1.0:
        mask[np.random.default_rng(0).permutation(count)[: round(float(given) * count)]] = True
    elif given.dtype == bool and given.shape == (count,):
        mask = given.copy()
    elif given.ndim == 1 and given.dtype.kind in "iu" and np.all((given >= 0) & (given < count)):
        mask[given] = True
    else:
        raise ValueError(
            f"identify_records: test must be a fraction between 0 and 1, a mask ({count},) or numbers of records, got "
            f"{test!r}."
        )
    if mask.all():
        raise ValueError("identify_records: test leaves no record to fit.")
    return mask
