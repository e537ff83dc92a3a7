"""Records side by side: their shapes, which samples exist, what they weigh, and which column each of them belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from ..analysis.arguments import place, spread_weights, structure
from ..model.values import as_float_leaves

Residual = Callable[[Any, Any], Any]


def stack_records(records: Sequence[Any]) -> Any:
    """Records of different length as one pytree with a leading axis, filled up with NaN, which marks missing samples.

    >>> stacked = stack_records([{"x": np.array([1.0, 2.0])}, {"x": np.array([3.0])}])
    >>> stacked["x"].tolist()
    [[1.0, 2.0], [3.0, nan]]
    """
    if not len(records):
        raise ValueError("stack_records: there are no records.")
    kinds = {str(structure(record)) for record in records}
    if len(kinds) > 1:
        raise ValueError(f"stack_records: all records need the same structure, but there are {sorted(kinds)}.")

    def stack(*leaves: Any) -> NDArray[Any]:
        arrays = [np.asarray(leaf, float) for leaf in leaves]
        if len({a.shape[1:] for a in arrays}) > 1 or len({a.ndim for a in arrays}) > 1:
            raise ValueError(f"stack_records: rows differ in shape: {sorted({a.shape[1:] for a in arrays})}.")
        if arrays[0].ndim == 0:
            return np.stack(arrays)
        out = np.full((len(arrays), max(len(a) for a in arrays), *arrays[0].shape[1:]), np.nan)
        for row, a in zip(out, arrays, strict=True):
            row[: len(a)] = a
        return out

    return jax.tree.map(stack, *records)


def difference(prediction: Any, record: Any) -> Any:
    """Prediction less record, leaf by leaf: the default residual."""
    return jax.tree.map(lambda p, d: p - d, prediction, record)


def measured_part(prediction: Any, record: Any) -> Any:
    """The part of a record that is predicted: a dict may hold inputs beside it, such as times or forces."""
    if isinstance(prediction, dict) and isinstance(record, dict) and set(prediction) < set(record):
        return {name: record[name] for name in prediction}
    return record


def filled(prediction: Any, record: Any) -> Any:
    """The record, with predictions where samples are missing, so that no NaN enters the residual."""
    return jax.tree.map(lambda p, d: jnp.where(jnp.isfinite(d), d, jax.lax.stop_gradient(p)), prediction, record)


@dataclass(frozen=True)
class Samples:
    """The residuals of all records as flat vectors: n for each of N records."""

    exists: NDArray[np.bool_]  # (N, n)
    weights: NDArray[Any]  # (N, n), zero where there is no sample; the largest is one
    position: NDArray[Any]  # (n,) place along the leading axis, from 0 to 1
    column: NDArray[Any]  # (n,) number of the column
    row: NDArray[Any]  # (n,) number of the row
    columns: tuple[str, ...]  # their names
    like: Any  # pytree of ShapeDtypeStruct of one residual

    def up_to(self, fraction: float) -> NDArray[Any]:
        """Weights (N, n) of the first part of the samples alone."""
        return np.where(self.position <= fraction + 1e-12, self.weights, 0.0)

    def as_tree(self, flat: NDArray[Any]) -> Any:
        """(N, n) as a pytree of residuals with a leading axis."""
        leaves, kind = jax.tree.flatten(self.like)
        ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])
        parts = np.split(flat, ends[:-1], axis=1)
        return jax.tree.unflatten(kind, [x.reshape(-1, *leaf.shape) for x, leaf in zip(parts, leaves, strict=True)])


def samples_of(predicted: Any, records: Any, weights: Any, residual: Residual) -> Samples:
    """From the prediction of one record, as shapes, and the records (N, …)."""
    records = measured_part(predicted, records)
    _check_alike(predicted, records)
    like = jax.eval_shape(residual, predicted, jax.eval_shape(lambda r: jax.tree.map(lambda x: x[0], r), records))
    # A residual of missing samples is NaN: that tells which of its entries exist.
    own = jax.vmap(lambda r: ravel_pytree(residual(r, r))[0])(jax.tree.map(jnp.asarray, records))
    exists = np.isfinite(np.asarray(own))
    many = jax.tree.map(lambda x: jnp.zeros((len(exists), *x.shape), x.dtype), like)
    spread = spread_weights(_with_leading_axis(weights, many, like), many, "identify_records")
    flat = np.concatenate([np.asarray(w).reshape(len(exists), -1) for w in jax.tree.leaves(spread)], axis=1)
    if not np.all(np.where(exists, flat, 0.0) >= 0.0) or not np.any(np.where(exists, flat, 0.0) > 0.0):
        raise ValueError(
            "identify_records: there are no samples with a positive weight, or weights are negative or NaN."
        )
    flat = np.where(exists, flat, 0.0)
    one = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    column, row, names = _columns(like)
    return Samples(
        exists & (flat > 0.0),
        flat / np.max(flat),
        np.asarray(ravel_pytree(jax.tree.map(place, one))[0]),
        column,
        row,
        names,
        like,
    )


def _with_leading_axis(weights: Any, many: Any, like: Any) -> Any:
    """Weights may be those of one record: then they hold for all."""
    if weights is None or structure(weights) != structure(many):
        return weights
    return jax.tree.map(
        lambda w, one: jnp.asarray(w)[None] if jnp.shape(w) == one.shape and one.shape else w, weights, like
    )


def _columns(like: Any) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    """For each entry of a residual the number of its column and of its row, and the names of the columns."""
    column, row = [], []
    names: list[str] = []
    for path, leaf in jax.tree.leaves_with_path(like):
        base = jax.tree_util.keystr(path).replace("['", ".").replace("']", "").lstrip(".") or "data"
        rest = leaf.shape[1:]
        index = np.arange(int(np.prod(rest))) + len(names)
        rows = leaf.shape[0] if leaf.shape else 1
        column.append(np.tile(index, rows))
        row.append(np.repeat(np.arange(rows), len(index)))
        names += [base + (f"[{', '.join(map(str, i))}]" if rest else "") for i in np.ndindex(*rest)]
    return np.concatenate(column), np.concatenate(row), tuple(names)


def _check_alike(predicted: Any, records: Any) -> None:
    if structure(predicted) != structure(records):
        raise ValueError(
            f"identify_records: predict returns {structure(predicted)}, but a record is {structure(records)}; what is not "
            "predicted may stand in a dict beside what is."
        )
    for (path, p), d in zip(jax.tree.leaves_with_path(predicted), jax.tree.leaves(records), strict=True):
        if p.shape != d.shape[1:]:
            name = jax.tree_util.keystr(path) or "the prediction"
            raise ValueError(
                f"identify_records: {name} has shape {p.shape}, but one record there has {d.shape[1:]}; records of "
                "different length are filled up with NaN by ns.stack_records."
            )


def leading_size(**trees: Any) -> int:
    """The number of records N that all leaves have in front."""
    found = {}
    for name, tree in trees.items():
        for path, leaf in jax.tree.leaves_with_path(tree):
            if np.ndim(leaf) == 0:
                raise ValueError(
                    f"identify_records: {name}{jax.tree_util.keystr(path)} is a single number; every leaf of records and"
                    " own needs a leading axis, one entry for each record."
                )
            found[f"{name}{jax.tree_util.keystr(path)}"] = np.shape(leaf)[0]
    if len(set(found.values())) != 1 or 0 in found.values():
        text = ", ".join(f"{name}: {size}" for name, size in found.items()) or "nothing"
        raise ValueError(f"identify_records: records and own need the same leading size, at least 1; got {text}.")
    return next(iter(found.values()))


def as_records(records: Any) -> Any:
    """Records with floating-point leaves, from a pytree with a leading axis or a list of records."""
    if isinstance(records, list):
        records = stack_records(records)
    return as_float_leaves(jax.tree.map(np.asarray, records))
