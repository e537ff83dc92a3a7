"""What records can tell, before a fit: unseen directions, errors to expect, gaps, outliers, wrong derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from . import descent
from .data import Residual, measured_part
from .descent import failures
from .evaluate import Evaluator
from .robust import Loss
from .task import Task
from .uncertainty import covariances

TRIED = 8  # records on which derivatives are compared
WRONG = 0.05  # relative difference from which on a derivative counts as wrong


@dataclass(frozen=True)
class RecordsCheck:
    """What `check_records` found; str(check) is a table.

    >>> from jaxns.records.check import check_records
    >>> t = np.linspace(0.0, 1.0, 20)
    >>> check = check_records(lambda s, o, r: s["a"] * s["b"] * t, np.ones((3, 1)) * t, shared={"a": 1.0, "b": 1.0})
    >>> print(check.directions[0])
    0.71·d(a)/a - 0.71·d(b)/b
    """

    names: tuple[str, ...]
    guess: NDArray[Any]  # (m,)
    expected: NDArray[
        Any
    ]  # (m,) standard errors with the noise of the records, if the model were right; infinite: unseen
    directions: tuple[str, ...]  # relative changes that no record sees
    wrong: NDArray[Any]  # (m,) share of the records tried in which derivatives differ from central differences
    noise: dict[str, float]  # of each column, from third differences along the rows
    missing: NDArray[Any]  # (N,) share of missing samples
    outliers: tuple[tuple[int, str, int], ...]  # record, column, row
    failed: NDArray[Any]  # numbers of records that cannot be predicted at the guess

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against a fit."""
        return not (self.directions or len(self.failed) or self.outliers or np.any(self.wrong > 0.0))

    def __str__(self) -> str:
        width = max([9, *(len(n) for n in self.names)])
        lines = [f"{'parameter':{width}s} {'guess':>12s} {'expected ±':>12s}  derivative"]
        for name, value, error, share in zip(self.names, self.guess, self.expected, self.wrong, strict=True):
            verdict = "agrees with differences" if share == 0.0 else f"differs in {share:.0%} of the records tried"
            lines.append(f"{name:{width}s} {value:12.5g} {error:12.2g}  {verdict}")
        lines += [f"not seen by any record: {text}" for text in self.directions]
        lines.append("noise: " + ", ".join(f"{name} {value:.2g}" for name, value in self.noise.items()))
        gaps = np.flatnonzero(self.missing > 0.0)
        lines.append(f"missing samples: {len(gaps)} of {len(self.missing)} records, {np.mean(self.missing):.1%} of all")
        found = ", ".join(f"record {r} {c} row {k}" for r, c, k in self.outliers[:5])
        lines.append(f"outliers: {len(self.outliers)}{': ' + found if found else ''}")
        if len(self.failed):
            lines.append(f"cannot be predicted: records {', '.join(map(str, self.failed[:10]))}")
        if np.any(self.wrong > 0.0):
            lines.append(
                "derivatives that differ from differences are those of a scheme that loses the instant of an impact, or of "
                'a jump: try EventDriven, or derivatives="differences"'
            )
        return "\n".join(lines)


def check_records(
    predict: Callable[[Any, Any, Any], Any],
    records: Any,
    *,
    shared: Any,
    own: Any = None,
    bounds: Any = None,
    own_bounds: Any = None,
    weights: Any = None,
    residual: Residual | None = None,
    step: float = 1e-3,
    chunk: int | None = None,
    workers: int | None = None,
) -> RecordsCheck:
    """Say what records can tell about shared parameters, at the guess and without a fit.

    Arguments are those of `identify_records`. Errors to expect are those of a right model with the noise that neighbouring
    rows show. Derivatives of `predict` are compared with central differences (`step`) on a few records.

    >>> t = np.linspace(0.0, 1.0, 20)
    >>> heights = 1.0 - 4.9 * t**2 + 0.01 * np.random.default_rng(0).standard_normal((5, 20))
    >>> check = check_records(lambda s, o, r: 1.0 - 0.5 * s["g"] * t**2, heights, shared={"g": 9.0})
    >>> check.ok, bool(0.002 < check.expected[0] < 0.02)
    (True, True)
    """
    settings = ("forward", step, chunk, workers, None)
    task = Task.of(predict, records, shared, own, bounds, own_bounds, weights, residual, settings, level=4)  # type: ignore[arg-type]
    evaluator, samples = task.evaluator, task.samples
    values = evaluator(task.own, task.shared)
    noise, outliers = _measured(task)
    sigma = np.array([noise.get(name, np.nan) for name in samples.columns])[samples.column]
    sigma = np.where(sigma > 0.0, sigma, 1.0)
    failed = failures(values, samples.weights)
    # Residuals of the size of the noise: the covariance is then that of a fit to such records.
    small = values._replace(r=np.where(samples.exists, sigma, np.nan) * np.ones_like(values.r))
    state = descent.State(
        task.own, task.own, task.shared, small, samples.weights, Loss("l2"), np.zeros(task.count), samples.position
    )
    state.values.r[failed] = np.nan
    found = covariances(state)
    z = jnp.asarray(task.shared)
    slope = np.asarray(jax.jvp(evaluator.box_shared.inside, (z,), (jnp.ones_like(z),))[1])
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(np.diag(found.plain)) * np.abs(slope)
    lost = np.max(np.abs(found.unseen), axis=0, initial=0.0) > 0.05
    return RecordsCheck(
        names=task.names,
        guess=np.asarray(evaluator.box_shared.centre),
        expected=np.where(lost, np.inf, expected),
        directions=tuple(_in_words(task, state, v, slope) for v in found.unseen),
        wrong=_wrong_derivatives(evaluator, task, values.J, samples.weights, failed),
        noise=noise,
        missing=1.0 - np.mean(samples.exists, axis=1),
        outliers=outliers,
        failed=np.flatnonzero(failed),
    )


def _measured(task: Task) -> tuple[dict[str, float], tuple[tuple[int, str, int], ...]]:
    """Noise of the measured columns and rows that stand out of their neighbours by more than ten times of it."""
    program, evaluator = task.evaluator.program, task.evaluator
    own = program.kind_own.tree_of(task.own[0])
    shared = program.kind_shared.tree_of(np.asarray(evaluator.box_shared.centre))
    one = jax.tree.map(lambda x: np.asarray(x)[0], evaluator.records)
    measured = measured_part(jax.eval_shape(program.predict, shared, own, one), evaluator.records)
    noise: dict[str, float] = {}
    outliers: list[tuple[int, str, int]] = []
    for path, leaf in jax.tree.leaves_with_path(measured):
        base = jax.tree_util.keystr(path).replace("['", ".").replace("']", "").lstrip(".") or "data"
        rows = np.asarray(leaf, float)
        if rows.ndim < 2 or rows.shape[1] < 5:
            continue
        for index in np.ndindex(*rows.shape[2:]):
            name = base + (f"[{', '.join(map(str, index))}]" if index else "")
            y = rows[(slice(None), slice(None), *index)]
            third = np.diff(y, n=3, axis=1)
            if np.isfinite(third).sum() < 5:
                continue
            noise[name] = 1.4826 * float(np.nanmedian(np.abs(third))) / np.sqrt(20.0)
            # A row that lies beside the line of its neighbours, which lie on one line themselves (so it is no impact).
            middle = y[:, 2:-2] - 0.5 * (y[:, 1:-3] + y[:, 3:-1])
            around = y[:, 1:-3] + y[:, 3:-1] - y[:, :-4] - y[:, 4:]
            bound = 10.0 * noise[name] + 5.0 * np.abs(around)
            with np.errstate(invalid="ignore"):
                outliers += [(int(i), name, int(k) + 2) for i, k in np.argwhere(np.abs(middle) > bound)]
    return noise, tuple(sorted(outliers))


def _in_words(task: Task, state: descent.State, direction: NDArray[Any], slope: NDArray[Any]) -> str:
    """A direction in z, in units of the lengths of columns, as relative changes of parameters."""
    values = np.asarray(task.evaluator.box_shared.inside(jnp.asarray(task.shared)))
    k = state.own.shape[1]
    J = np.where(state.weights[..., None] > 0.0, state.values.J[..., k:], 0.0)
    length = np.sqrt(np.sum(np.nan_to_num(J) ** 2, axis=(0, 1)))
    change = direction / np.where(length > 0.0, length, 1.0) * slope / np.where(values == 0.0, 1.0, values)
    change = change / np.linalg.norm(change)
    change = change * np.sign(change[np.argmax(np.abs(change) > 0.05)])
    text = " + ".join(f"{c:.2f}·d({n})/{n}" for n, c in zip(task.names, change, strict=True) if abs(c) > 0.05)
    return text.replace("+ -", "- ")


def _wrong_derivatives(
    evaluator: Evaluator, task: Task, J: NDArray[Any], weights: NDArray[Any], failed: NDArray[Any]
) -> NDArray[Any]:
    """In what share of a few records ∂r/∂p differs from a central difference, for each shared parameter."""
    k = task.own.shape[1]
    index = np.flatnonzero(~failed)
    index = (
        index[np.unique(np.linspace(0, len(index) - 1, min(TRIED, len(index))).astype(int))] if len(index) else index
    )
    if not len(index):
        return np.zeros(len(task.names))
    by_differences = replace(evaluator, derivatives="differences").part(index)
    other = by_differences(task.own[index], task.shared).J
    counts = np.sqrt(weights[index])[..., None]
    a, b = (np.nan_to_num(x[..., k:]) * counts for x in (J[index], other))
    size = np.linalg.norm(b, axis=1) + 1e-9 * np.linalg.norm(b, axis=(0, 1)) + 1e-300
    return np.mean(np.linalg.norm(a - b, axis=1) / size > WRONG, axis=0)
