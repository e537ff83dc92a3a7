"""Levenberg–Marquardt for many records: one damping for the shared parameters, and one for each record's own.

A joint step is judged by the loss of all records. Records that it made worse, or that failed, then move their own
parameters alone, each judged by itself, so that a few hard records neither stop the others nor get lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import arrow
from .evaluate import Evaluator, Values
from .robust import Loss, LossName, scale_of

Floats = NDArray[Any]
FIRST_DAMPING = 5e-2
LARGEST = 1e8  # damping beyond which no step helps
TRIES = 5  # dampings of one joint step, each larger by twice the factor of the one before
REPAIRS = 1  # own steps of a record that a joint step made worse
DRAWS = 4  # other own parameters that such a record tries
RESCUE = 3  # joint steps after which records far worse than most try other own parameters
CONCENTRATE = 4  # steps of the better half
RETURN = 8  # steps of all records, from their guesses


@dataclass
class State:
    """Where the descent is, and what is known there."""

    guess: Floats  # z (N, k) of own parameters, where records begin
    own: Floats  # z (N, k)
    shared: Floats  # z (m,)
    values: Values
    weights: Floats  # (N, n)
    loss_of: Loss
    damping_own: Floats  # (N,)
    damping: float = FIRST_DAMPING
    history: list[float] = field(default_factory=list)
    converged: bool = False

    @property
    def residuals(self) -> Floats:
        """√w r, zero where there is no sample."""
        return weighted(self.values.r, self.weights)

    @property
    def failed(self) -> NDArray[np.bool_]:
        return failures(self.values, self.weights)

    def losses(self) -> Floats:
        """The loss of each record (N,), infinite where it failed."""
        return losses(self.values, self.weights, self.loss_of)

    @property
    def loss(self) -> float:
        """Mean loss of the samples of all records that did not fail."""
        fine = ~self.failed
        return float(np.sum(self.losses()[fine]) / max(np.sum(self.weights[fine]), 1e-300))


def weighted(r: Floats, weights: Floats) -> Floats:
    return np.where(weights > 0.0, np.sqrt(weights) * np.where(np.isfinite(r), r, 0.0), 0.0)


def failures(values: Values, weights: Floats) -> NDArray[np.bool_]:
    """Which records have samples without a finite prediction or derivative (N,)."""
    counts = weights > 0.0
    with np.errstate(invalid="ignore"):
        fine = np.isfinite(values.r) & np.all(np.isfinite(values.J), axis=2)  # a J not asked for is zero
    return np.any(counts & ~fine, axis=1)


def losses(values: Values, weights: Floats, loss: Loss) -> Floats:
    each = np.sum(loss.rho(weighted(values.r, weights)), axis=1)
    return np.where(failures(values, weights), np.inf, each)


def begin(evaluator: Evaluator, own: Floats, shared: Floats, weights: Floats, name: LossName) -> State:
    """The state at the start; the scale of a robust loss comes from its residuals."""
    values = evaluator(own, shared, slopes=False)
    state = State(own, own.copy(), shared, values, weights, Loss(name), np.full(len(own), FIRST_DAMPING))
    rescale(state, shared.size)
    return state


def rescale(state: State, num_shared: int) -> bool:
    """Estimate the scale of a robust loss anew; whether it changed by more than a hundredth."""
    if state.loss_of.name == "l2":
        return False
    fine = (state.weights > 0.0) & ~state.failed[:, None]
    parameters = state.own.shape[1] * int(np.sum(~state.failed)) + num_shared
    old, new = state.loss_of.scale, scale_of(state.residuals[fine], parameters)
    state.loss_of = Loss(state.loss_of.name, new)
    return abs(new / old - 1.0) > 1e-2


def triangles(state: State, index: NDArray[Any] | slice = slice(None)) -> Floats:
    """The least squares problem with the weights of the robust loss, squeezed; failed records weigh nothing."""
    r = state.residuals[index]
    w = np.where(state.failed[index, None], 0.0, state.weights[index] * state.loss_of.weight(r))
    J = np.where(w[..., None] > 0.0, state.values.J[index], 0.0) * np.sqrt(w)[..., None]
    return arrow.triangles(J, np.where(w > 0.0, r * np.sqrt(state.loss_of.weight(r)), 0.0))


def within_reach(step: Floats, bounded: NDArray[np.bool_]) -> Floats:
    """Variables of bounded parameters move by 3 at most, which is most of the way from bound to bound."""
    return np.where(bounded, np.clip(step, -3.0, 3.0), step)


def look(evaluator: Evaluator, state: State, index: NDArray[Any] | None = None) -> None:
    """Jacobians of the records (of those in `index`) that count and lack them."""
    missing = ~state.values.sloped & np.any(state.weights > 0.0, axis=1)
    index = np.flatnonzero(missing) if index is None else index[missing[index]]
    if len(index):
        state.values = Values(*(x.copy() for x in state.values))  # other states may share them
        _place(state, index, evaluator(state.own, state.shared, index))


def joint_step(evaluator: Evaluator, state: State, tol: float) -> tuple[bool, float, float]:
    """One step of all parameters: whether it was taken, the decrease that it promised, and that it brought, relative.

    If it makes things worse, others follow with more damping, until one does not, or promises less than `tol`.
    """
    look(evaluator, state)
    k, R, growth = state.own.shape[1], triangles(state), 4.0
    before, here = state.losses(), triangle_losses(state)
    total = float(np.sum(before[~state.failed]))
    for _ in range(TRIES):
        step = arrow.step(R, k, state.damping_own, state.damping)
        own = state.own + within_reach(step.own, bounded(evaluator.box_own))
        shared = state.shared + within_reach(step.shared, bounded(evaluator.box_shared))
        values = evaluator(own, shared, slopes=False)
        trial = replace(state, own=own, shared=shared, values=values, damping_own=state.damping_own.copy())
        worse = ~(trial.losses() <= before)
        if k and worse.any():
            _repair(evaluator, trial, np.flatnonzero(worse), state.own, before)
        brought = _gain(before, trial.losses(), total)
        promised = float(np.sum((here - step.predicted)[~state.failed])) / max(total, 1e-300)
        if brought > 0.0 or (state.failed.all() and not trial.failed.all()):
            state.own, state.shared, state.values = trial.own, trial.shared, trial.values
            state.damping = max(state.damping / 5.0, 1e-12)
            state.damping_own = np.where(worse, state.damping_own * 4.0, np.maximum(state.damping_own / 5.0, 1e-12))
            state.damping_own = np.minimum(state.damping_own, LARGEST)
            return True, promised, brought
        state.damping *= growth
        growth *= 2.0
        if promised <= tol:
            break
    return False, promised, brought


def _gain(before: Floats, after: Floats, total: float) -> float:
    """The relative decrease of the loss of the records that did not fail before.

    A record that fails counts as much worse than it was, but cannot veto a step that helps all others.
    """
    fine = np.isfinite(before)
    penalty = 10.0 * before[fine] + 10.0 * total / max(int(np.sum(fine)), 1)
    return (total - float(np.sum(np.where(np.isfinite(after[fine]), after[fine], penalty)))) / max(total, 1e-300)


def triangle_losses(state: State) -> Floats:
    """The squares of the weighted problem at its start (N,)."""
    r = state.residuals
    return np.sum(np.where(state.failed[:, None], 0.0, state.loss_of.weight(r) * r * r), axis=1)


def bounded(box: Any) -> NDArray[np.bool_]:
    return np.isfinite(np.asarray(box.lo)) | np.isfinite(np.asarray(box.hi))


def _repair(evaluator: Evaluator, state: State, index: NDArray[Any], old_own: Floats, before: Floats) -> None:
    """Records that a joint step made worse move by themselves; then those that still are try other own parameters.

    Where the order of impacts changes, the loss of a record jumps, and no derivative sees the other side of the jump. Own
    parameters drawn as the record itself determines them, and those of before the step, look there.
    """
    _try_others(evaluator, state, index[state.failed[index]], old_own[None])
    own_steps(evaluator, state, REPAIRS, index)
    still = index[state.losses()[index] > 1.01 * before[index]]
    if len(still):
        rng = np.random.default_rng(len(state.history))  # the same draws in each run
        look(evaluator, state, still)
        _try_others(evaluator, state, still, np.stack([old_own, *_draws(state, still, rng)]))


def _rescue(evaluator: Evaluator, state: State) -> None:
    """Records whose loss is far above that of most may sit behind a jump: they try other own parameters, too."""
    each = state.losses()
    fine = np.isfinite(each)
    if not state.own.shape[1] or not fine.any():
        return
    index = np.flatnonzero(fine & (each > 2.0 * np.median(each[fine])))
    if len(index):
        look(evaluator, state, index)
        _try_others(evaluator, state, index, np.stack(_draws(state, index, np.random.default_rng(len(state.history)))))
        state.damping_own[index] = np.minimum(state.damping_own[index], 1.0)  # from a new place a record may move again
        own_steps(evaluator, state, REPAIRS, index)


def _restart(evaluator: Evaluator, state: State, tol: float) -> bool:
    """Begin again from what the better half of the records says of the shared parameters; whether that led lower.

    While shared parameters are wrong, own ones bend to hide it, and may end beyond a jump of the loss, where another order
    of impacts fits nearly as well. Enough such records hold the shared parameters where they are, and no step leads back.
    But most of them fit worse than the others: without them the shared parameters move on (least trimmed squares), and then
    all records begin again from their guesses, as some of the better half sit beyond a jump, too; each keeps what is best.
    """
    before = state.losses()
    fine = np.isfinite(before)
    if not state.own.shape[1] or not fine.any():
        return False
    worse = ~(before <= np.median(before[fine]))
    half = replace(
        state, weights=np.where(worse[:, None], 0.0, state.weights), damping=FIRST_DAMPING, history=[],
        damping_own=state.damping_own.copy(),
    )  # fmt: skip
    for _ in range(CONCENTRATE):
        joint_step(evaluator, half, tol)
    values = evaluator(state.guess, half.shared, slopes=False)
    again = replace(half, own=state.guess.copy(), values=values, weights=state.weights)
    again.damping_own = np.full(len(before), FIRST_DAMPING)
    everyone = np.arange(len(before))
    own_steps(evaluator, again, RETURN, everyone)
    _try_others(evaluator, again, everyone, np.stack([state.own, half.own]))
    joint_step(evaluator, again, tol)
    if _gain(before, again.losses(), float(np.sum(before[fine]))) <= tol:
        return False
    state.own, state.shared, state.values = again.own, again.shared, again.values
    state.damping, state.damping_own = again.damping, again.damping_own
    return True


def _draws(state: State, index: NDArray[Any], rng: np.random.Generator) -> list[Floats]:
    """Own parameters from normal distributions with the covariance that each record's own residuals give."""
    R = triangles(state, index)
    k = state.own.shape[1]
    rows, _ = arrow.eliminate_own(R, k, np.full(len(index), 1e-3))
    spread = np.sqrt(triangle_losses(state)[index] / max(np.sum(state.weights[index] > 0.0) / len(index), 1.0))
    found = []
    for _ in range(DRAWS):
        moved = np.linalg.solve(rows[:, :, :k], rng.standard_normal((len(index), k, 1)))[..., 0]
        own = state.own.copy()
        own[index] += np.clip(spread[:, None] * moved, -1.0, 1.0)
        found.append(own)
    return found


def _try_others(evaluator: Evaluator, state: State, index: NDArray[Any], candidates: Floats) -> None:
    """Take the best of several own parameters (c, N, k) for the records in `index`, if better than what they have."""
    if not len(index):
        return
    many = np.tile(index, len(candidates))
    values = evaluator.at(candidates[:, index].reshape(len(many), -1), state.shared, many, slopes=False)
    found = losses(values, state.weights[many], state.loss_of).reshape(len(candidates), -1)
    best, column = np.argmin(found, axis=0), np.arange(len(index))
    better = found[best, column] < state.losses()[index]
    chosen = (best * len(index) + column)[better]
    taken = index[better]
    state.own = state.own.copy()
    state.own[taken] = candidates[best[better], taken]
    _place(state, taken, Values(*(x[chosen] for x in values)))


def own_steps(evaluator: Evaluator, state: State, count: int, index: NDArray[Any] | None = None) -> None:
    """Steps of own parameters alone, each record by itself, until it moves no more."""
    index = np.arange(len(state.own)) if index is None else index
    k = state.own.shape[1]
    for _ in range(count):
        index = index[(~state.failed[index]) & (state.damping_own[index] < LARGEST)]
        if not len(index) or not k:
            return
        look(evaluator, state, index)
        step = arrow.step(triangles(state, index), k, state.damping_own[index], 0.0, free=False)
        trial = state.own.copy()
        trial[index] += within_reach(step.own, bounded(evaluator.box_own)[index])
        values = evaluator(trial, state.shared, index, slopes=False)
        before = state.losses()[index]
        after = losses(values, state.weights[index], state.loss_of)
        better = after < before
        state.damping_own[index] = np.where(
            better, np.maximum(state.damping_own[index] / 5.0, 1e-12), state.damping_own[index] * 4.0
        )
        taken = index[better]
        state.own[taken] = trial[taken]
        _place(state, taken, Values(*(x[better] for x in values)))
        moving = ~better | (before - after > 1e-4 * before)
        index = index[moving]


def _place(state: State, index: NDArray[Any], values: Values) -> None:
    for mine, new in zip(state.values, values, strict=True):
        mine[index] = new


def descend(evaluator: Evaluator, state: State, num_iters: int, tol: float, watch: Any) -> None:
    """Joint steps until their gain is below `tol`, relative to the loss, twice in a row; `watch(state)` after each."""
    idle, settled, restarts = 0, False, True
    state.converged = False
    for turn in range(num_iters):
        taken, promised, brought = joint_step(evaluator, state, tol)
        # The scale is estimated anew until it stays, and then kept, so that losses can be compared.
        if taken and not settled and turn < num_iters // 2:
            settled = not rescale(state, state.shared.size) and turn > 3
        idle = idle + 1 if max(promised, brought) <= tol or (taken and brought <= tol) else 0
        ends = idle >= 2 or state.damping > LARGEST
        if taken and turn % RESCUE == RESCUE - 1:
            _rescue(evaluator, state)
        if ends or (restarts and turn % RESCUE == RESCUE - 1):
            restarts = _restart(evaluator, state, tol)
            ends, settled = ends and not restarts, settled and not restarts
        state.history.append(state.loss)
        watch(state)
        if ends:
            state.converged = True
            break
    look(evaluator, state)
