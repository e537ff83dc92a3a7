"""Identification from many records: shared parameters, and own ones of each record."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from ..analysis.arguments import FitWarning, check_horizons
from ..analysis.identification import IdentifiabilityWarning, IdentificationError
from ..host.progress import tqdm_bar
from . import descent
from .data import Residual
from .evaluate import Derivatives, Kind, Values
from .fit import Part, RecordsFit
from .resume import Bookmark
from .robust import THRESHOLD, Loss, LossName
from .task import Task, chosen_records
from .uncertainty import FEW, Covariances, columns_of, covariances, doubts

FIRST_OWN_STEPS = 4  # of own parameters alone, before shared ones move
OWN_STEPS = 30  # of the own parameters of records that were left out
UNFINISHED = (
    "the fit has not converged: standard errors and intervals leave out the way to the minimum that remains, so they are "
    "too small. Give more num_iters, or a better guess"
)
LEFT = 0.3  # of a standard error: a step that the descent should not leave undone


def identify_records(
    predict: Callable[[Any, Any, Any], Any],
    records: Any,
    *,
    shared: Any,
    own: Any = None,
    bounds: Any = None,
    own_bounds: Any = None,
    loss: LossName = "l2",
    weights: Any = None,
    residual: Residual | None = None,
    horizons: Sequence[float] = (1.0,),
    test: Any = None,
    test_rows: int | None = None,
    num_iters: int = 50,
    tol: float = 1e-6,
    derivatives: Derivatives = "forward",
    step: float = 1e-3,
    chunk: int | None = None,
    workers: int | None = None,
    mesh: Mesh | None = None,
    path: str | Path | None = None,
    progress: bool = False,
) -> RecordsFit:
    """Find parameters that N records share, and own ones of each record, by robust least squares.

    Main arguments:

    - predict: `(shared, own, record) -> pytree like one record`, pure; a prediction that is not finite is a failure of that
      record. Of a record that is a dict, predict may return some entries alone: the others are inputs (times, forces)
    - records: pytree of arrays (N, …), NaN where samples are missing; or a list of records, see `stack_records`
    - shared: pytree, the guess of the shared parameters
    - own: pytree with leading axis N, the guesses of the own parameters (initial states, phases of clocks), or None

    Other arguments:

    - bounds, own_bounds: as in `identify`, for the shared parameters and for the own ones of any record
    - loss: "l2", "huber" or "cauchy"; the scale of the robust ones is estimated from the residuals
    - weights: pytree like the residual of one record or of all, or broadcasting to it; 1/σ² up to a factor
    - residual: `(prediction, record) -> pytree of arrays`, by default the difference; `pose_residual` for orientations
    - horizons: as in `identify`, fractions of the rows
    - test: records to leave out: a fraction, a mask (N,) or numbers. Their own parameters are fitted to their first
      `test_rows` rows (all, if None) when the shared ones are known; the rows after that are what errors count
    - derivatives: "forward", or "differences" with `step` (relative to the parameters, or to the range between bounds),
      which compiles faster, and looks past the jumps of fixed-step schemes at impacts
    - chunk, workers, mesh: as in `sweep`
    - path: a file that keeps the state after each step; the same call, made again, goes on from there
    - progress: show a bar with the loss

    Own parameters are eliminated record by record (`arrow.py`), so that time grows in proportion to N.

    >>> t = np.linspace(0.0, 1.0, 30)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal((20, 30))
    >>> heights = np.linspace(1.0, 2.0, 20)
    >>> fit = identify_records(
    ...     lambda shared, own, record: own["h"] - 0.5 * shared["g"] * t**2,
    ...     heights[:, None] - 4.905 * t**2 + noise,
    ...     shared={"g": 5.0},
    ...     own={"h": np.ones(20)},
    ... )
    >>> bool(abs(fit.shared["g"] - 9.81) < 3.0 * fit.standard_errors["g"]), fit.own["h"].shape
    (True, (20,))
    """
    if loss not in THRESHOLD:
        raise ValueError(f"identify_records: loss must be one of {tuple(THRESHOLD)}, got {loss!r}.")
    if derivatives not in ("forward", "differences"):
        raise ValueError(f'identify_records: derivatives must be "forward" or "differences", got {derivatives!r}.')
    stages = check_horizons(horizons, "identify_records", level=3)
    settings = (derivatives, step, chunk, workers, mesh)
    task = Task.of(predict, records, shared, own, bounds, own_bounds, weights, residual, settings, level=4)
    left_out = chosen_records(test, task.count)
    train, rest = np.flatnonzero(~left_out), np.flatnonzero(left_out)
    options = {"loss": loss, "stages": stages, "test": rest.tolist()}
    bookmark = Bookmark(path, task.evaluator, (task.own, task.shared_lanes()), options)
    part = task.part(train)
    with tqdm_bar(total=num_iters * len(stages), desc="identify_records", disable=not progress) as bar:
        state = run_stages(part, stages, loss, num_iters, tol, bookmark, bar)
    # What is told of residuals and errors is of all samples, also where the last horizon left some out of the fit.
    held = hold_out(task, rest, state, loss, test_rows) if len(rest) else None
    return conclude(task, part, train, state, held)


def run_stages(
    task: Task, stages: Sequence[float], loss: LossName, num_iters: int, tol: float, bookmark: Bookmark, bar: Any
) -> descent.State:
    """All horizons, one after the other."""
    stored = bookmark.read()
    own, shared, history, first = task.own, task.shared, [], 0
    if stored is not None:
        own, shared, history, first = stored["own"], stored["shared"], stored["history"].tolist(), int(stored["stage"])
    for number, fraction in enumerate(stages):
        if number < first:
            continue
        state = descent.begin(task.evaluator, own, shared, task.samples.up_to(fraction), loss, task.samples.position)
        state.guess = task.own
        if state.failed.all():
            raise IdentificationError(
                f"identify_records: predict is not finite for any of the {task.count} records at the guess. Look at "
                "predict(shared, own_i, record_i): does it return a number for every sample, do its simulations converge?"
            )
        if stored is not None and number == first:
            state.damping_own, state.damping = stored["damping_own"], float(stored["damping"])
            state.loss_of = Loss(loss, float(stored["scale"]))
        else:
            descent.own_steps(task.evaluator, state, FIRST_OWN_STEPS)
            descent.rescale(state, len(shared))
        state.history = [*history, state.loss]

        def watch(state: descent.State, number: int = number) -> None:
            bookmark.write(state, number)
            bar.set_postfix(loss=f"{state.loss:.3e}", failed=int(state.failed.sum()))
            bar.update(1)

        descent.descend(task.evaluator, state, num_iters, tol, watch)
        own, shared, history = state.own, state.shared, state.history
    return state


def hold_out(task: Task, index: NDArray[Any], state: descent.State, loss: LossName, rows: int | None) -> Part:
    """Records left out: own parameters from their first rows, errors from the others."""
    part = task.part(index)
    weights = part.samples.weights
    known = np.full(weights.shape[1], True) if rows is None else part.samples.row < rows
    first = descent.begin(
        part.evaluator, part.own, state.shared, np.where(known, weights, 0.0), "l2", part.samples.position
    )
    # Guesses may be far off, where a loss with the scale of the fit sees outliers alone: first squares, then that loss.
    for first.loss_of in (Loss("l2"), *([] if loss == "l2" else [state.loss_of])):
        first.damping_own[:] = descent.FIRST_DAMPING
        descent.own_steps(part.evaluator, first, OWN_STEPS)
    first.weights = weights
    judged = part.samples.exists & (True if rows is None or known.all() else ~known)
    return part_of(task, part, index, first.own, first.values, descent.failures(first.values, weights), judged)


def part_of(
    task: Task, part: Task, index: NDArray[Any], z: NDArray[Any], values: Values, failed: Any, judged: Any
) -> Part:
    program, samples = task.evaluator.program, part.samples
    own = program.kind_own.tree_of(np.asarray(part.evaluator.box_own.inside(jnp.asarray(z))))
    r = np.where(samples.exists, values.r, np.nan)
    return Part(
        index, own, _predictions(task, values.y), samples.as_tree(r), samples.weights, r, np.asarray(failed), judged
    )


def _predictions(task: Task, y: NDArray[Any]) -> Any:
    """(N, n') as a pytree of predictions with a leading axis."""
    program, evaluator = task.evaluator.program, task.evaluator
    shared = program.kind_shared.tree_of(jnp.asarray(task.shared))
    own = jax.tree.map(jnp.asarray, program.kind_own.tree_of(task.own[0]))
    record = jax.tree.map(lambda x: jnp.asarray(x[0]), evaluator.records)
    return Kind.of(jax.eval_shape(program.predict, shared, own, record)).tree_of(y)


def conclude(task: Task, part: Task, index: NDArray[Any], state: descent.State, held: Part | None) -> RecordsFit:
    """Everything about the solution, and warnings."""
    program, box = task.evaluator.program, task.evaluator.box_shared
    flat, slope = jax.jvp(box.inside, (jnp.asarray(state.shared),), (jnp.ones_like(jnp.asarray(state.shared)),))
    flat, slope = np.asarray(flat), np.asarray(slope)
    found = covariances(state)
    lost = unseen_parameters(found, task.names)
    plain, sandwich = (_in_p(C, slope, lost) for C in (found.plain, found.sandwich))
    covariance = sandwich if np.sum(~state.failed) >= max(FEW, 3 * len(flat)) else plain
    errors = np.sqrt(np.diag(covariance))
    trained = part_of(task, part, index, state.own, state.values, state.failed, part.samples.exists)
    fitted = (state.weights > 0.0) & ~state.failed[:, None]
    columns = tuple(columns_of(part.samples, np.where(fitted, trained.flat_residuals, np.nan)))
    own = _merged(task, trained, held)
    with np.errstate(invalid="ignore", divide="ignore"):
        moves, left = (
            np.nan_to_num(x * slope / errors, posinf=0.0, neginf=0.0) for x in (found.deviations, found.left)
        )
    fit = RecordsFit(
        shared=program.kind_shared.tree_of(flat), own=own, covariance=covariance, covariance_plain=plain,
        covariance_sandwich=sandwich, standard_errors=program.kind_shared.tree_of(errors), names=task.names,
        bounds=(np.asarray(box.lo), np.asarray(box.hi)), loss=state.loss, loss_name=state.loss_of.name,
        scale=state.loss_of.scale, history=np.array(state.history), converged=state.converged, train=trained, test=held,
        columns=columns, doubts=tuple(_all_doubts(task, state, columns, flat, errors, left)), deviations=moves,
        left=left, samples=part.samples, records=task.evaluator.records,
    )  # fmt: skip
    for text in fit.doubts:
        warnings.warn(f"identify_records: {text}.", FitWarning, stacklevel=3)
    if lost.any():
        warnings.warn(
            f"identify_records: the records do not determine {', '.join(np.array(task.names)[lost])}: predictions do not "
            "change along some combination of them. Fix one of them, or measure what tells them apart.",
            IdentifiabilityWarning,
            stacklevel=3,
        )
    return fit


def _in_p(C: NDArray[Any], slope: NDArray[Any], lost: NDArray[np.bool_]) -> NDArray[Any]:
    with np.errstate(invalid="ignore"):
        return np.where(lost[:, None] | lost, np.inf, C * slope[:, None] * slope)


def unseen_parameters(found: Covariances, names: Sequence[str]) -> NDArray[np.bool_]:
    """Which parameters take part in a direction that no record sees (m,)."""
    return np.max(np.abs(found.unseen), axis=0, initial=0.0) > 0.05 if len(found.unseen) else np.zeros(len(names), bool)


def _all_doubts(
    task: Task, state: descent.State, columns: Any, flat: NDArray[Any], errors: NDArray[Any], left: NDArray[Any]
) -> list[str]:
    texts = [*([] if state.converged else [UNFINISHED]), *doubts(list(columns))]
    lo, hi = (np.asarray(x) for x in task.evaluator.box_shared[:2])
    wide = np.isfinite(errors) & np.isfinite(hi - lo) & (errors > hi - lo)
    texts += [f"the standard error of {task.names[k]} is wider than its bounds" for k in np.flatnonzero(wide)]
    reach = 1e-3 * np.where(np.isfinite(hi - lo), hi - lo, np.inf)
    at = (flat - lo < reach) | (hi - flat < reach)
    texts += [f"{task.names[k]} = {flat[k]:.4g} ended at a bound; its error means little" for k in np.flatnonzero(at)]
    undone = np.flatnonzero((np.abs(left) > LEFT) & ~at)
    if state.converged and len(undone):
        named = ", ".join(f"{task.names[k]}: {abs(left[k]):.1f}" for k in undone)
        texts.append(
            f"the descent ended with a step undone, in standard errors {named}. Give a smaller tol; if it stays, records "
            "sit beside jumps of their loss, which no step crosses, and errors exceed what is stated"
        )
    if state.failed.any():
        numbers = np.flatnonzero(state.failed)
        texts.append(f"{len(numbers)} of {len(state.failed)} records could not be predicted and were left out")
    return texts


def _merged(task: Task, train: Part, held: Part | None) -> Any:
    """Own parameters of all records, in their order."""
    if held is None:
        return train.own
    index = np.concatenate([train.index, held.index])
    order = np.argsort(index)
    return jax.tree.map(lambda a, b: np.concatenate([a, b])[order], train.own, held.own)
