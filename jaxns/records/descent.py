"""Levenberg–Marquardt for many records: one damping for the shared parameters, and one for each record's own.

A joint step is judged by the loss of all records. Records that it made worse, or that failed, then move their own
parameters alone, each judged by itself, so that a few hard records neither stop the others nor get lost. Now and then all
records search for better own parameters (`_search`), since no step leads back over a jump of the loss.
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
DRAWS = (1.0,) * 4  # widths of the draws that such a record tries, in errors of own parameters
SEARCH = 3  # joint steps after which records look for better own parameters, while that is of use
REACHES = (1.0, 3.0, 10.0, 30.0)  # widths of the draws of a search, in errors of own parameters
# Parts of a record to which a search fits own parameters, one after the other: from the first rows on, and all at once.
HORIZONS = (0.25, 0.4, 0.55, 0.7, 0.85, 1.0)
WHOLE = (1.0, 1.0)
SEARCH_STEPS = 4  # own steps for each of them


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
    position: Floats  # (n,) place of a sample along its record, from 0 to 1
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


def begin(
    evaluator: Evaluator, own: Floats, shared: Floats, weights: Floats, name: LossName, position: Floats
) -> State:
    """The state at the start; the scale of a robust loss comes from its residuals."""
    values = evaluator(own, shared, slopes=False)
    state = State(own, own.copy(), shared, values, weights, Loss(name), np.full(len(own), FIRST_DAMPING), position)
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
            followed = state.own + within_reach(step.follow, bounded(evaluator.box_own))
            _repair(evaluator, trial, np.flatnonzero(worse), np.stack([followed, state.own]), before)
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


def _repair(evaluator: Evaluator, state: State, index: NDArray[Any], others: Floats, before: Floats) -> None:
    """Records that a joint step made worse move by themselves; then those that still are try other own parameters.

    Where the order of impacts changes, the loss of a record jumps, and no derivative sees the other side of the jump. Own
    parameters drawn as the record itself determines them, and those of before the step, look there.
    """
    _try_others(evaluator, state, index, others)
    own_steps(evaluator, state, REPAIRS, index)
    still = index[state.losses()[index] > 1.01 * before[index]]
    if len(still):
        rng = np.random.default_rng(len(state.history))  # the same draws in each run
        look(evaluator, state, still)
        _try_others(evaluator, state, still, _draws(state, still, rng, state.own, DRAWS))


def _search(evaluator: Evaluator, state: State) -> float:
    """Each record looks for better own parameters where shared ones are; the relative decrease of the loss.

    While shared parameters are wrong, own ones bend to hide it, and may end beyond a jump of the loss, where another order
    of impacts fits nearly as well. No step leads back, and enough such records hold the shared parameters where they are.
    So records begin again from their guesses: from all rows, and from the first rows on, as what comes first decides the
    order of what follows. Records that fit worse than most do so from draws around their guesses, too.
    """
    before = state.losses()
    fine = np.isfinite(before)
    if not state.own.shape[1] or not fine.any():
        return 0.0
    everyone = np.arange(len(before))
    each = before / np.maximum(np.sum(state.weights, axis=1), 1e-300)
    middle = np.median(each[fine])
    far = np.flatnonzero(~(each <= middle + 2.0 * 1.4826 * np.median(np.abs(each[fine] - middle))))
    _begin_again(evaluator, state, everyone, state.guess, WHOLE)
    _begin_again(evaluator, state, everyone, state.guess, HORIZONS)
    look(evaluator, state, far)
    draws = _draws(state, far, np.random.default_rng(len(state.history)), state.guess, REACHES)
    _begin_again(evaluator, state, np.tile(far, len(draws)), draws[:, far].reshape(-1, draws.shape[2]), WHOLE)
    return _gain(before, state.losses(), float(np.sum(before[fine])))


def _begin_again(
    evaluator: Evaluator, state: State, index: NDArray[Any], own: Floats, horizons: tuple[float, ...]
) -> None:
    """The records in `index`, which may repeat some, begin at `own` and are fitted to more and more of their rows."""
    if not len(index):
        return
    part = evaluator.part(index)
    weights = state.weights[index]
    values = part(own, state.shared, slopes=False)
    trial = replace(state, own=own.copy(), values=values)
    reach = np.max(state.position, where=np.any(state.weights > 0.0, axis=0), initial=0.0)  # of the rows fitted now
    for horizon in horizons:
        trial.weights = np.where(state.position <= horizon * reach * (1.0 + 1e-12), weights, 0.0)
        trial.damping_own = np.full(len(index), FIRST_DAMPING)
        own_steps(part, trial, SEARCH_STEPS)
    after, mine = trial.losses(), state.losses()
    order = np.argsort(-after, kind="stable")  # of several starts of one record the best is written last
    better = order[after[order] < mine[index[order]]]
    state.own = state.own.copy()
    state.own[index[better]] = trial.own[better]
    state.damping_own[index[better]] = trial.damping_own[better]
    _place(state, index[better], Values(*(x[better] for x in trial.values)))


def _draws(
    state: State, index: NDArray[Any], rng: np.random.Generator, centre: Floats, reaches: tuple[float, ...]
) -> Floats:
    """Own parameters (c, N, k) around `centre`, with the covariance that each record's own residuals give."""
    R = triangles(state, index)
    k = state.own.shape[1]
    rows, _ = arrow.eliminate_own(R, k, np.full(len(index), 1e-3))
    spread = np.sqrt(triangle_losses(state)[index] / np.maximum(np.sum(state.weights[index] > 0.0, axis=1), 1))
    found = np.tile(centre, (len(reaches), 1, 1))
    for own, reach in zip(found, reaches, strict=True):
        moved = np.linalg.solve(rows[:, :, :k], rng.standard_normal((len(index), k, 1)))[..., 0]
        own[index] += np.clip(reach * spread[:, None] * moved, -1.0, 1.0)
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
    idle, settled, searching = 0, False, True
    state.converged = False
    for turn in range(num_iters):
        taken, promised, brought = joint_step(evaluator, state, tol)
        # The scale is estimated anew until it stays, and then kept, so that losses can be compared.
        if taken and not settled and turn < num_iters // 2:
            settled = not rescale(state, state.shared.size) and turn > 3
        idle = idle + 1 if max(promised, brought) <= tol or (taken and brought <= tol) else 0
        ends = idle >= 2 or state.damping > LARGEST
        if ends or (searching and turn % SEARCH == SEARCH - 1):
            searching = _search(evaluator, state) > tol
            if searching:  # on with steps as long as at first: what held the shared parameters may be gone
                ends, settled, idle = False, False, 0
                state.damping = min(state.damping, FIRST_DAMPING)
        state.history.append(state.loss)
        watch(state)
        if ends:
            state.converged = True
            break
    look(evaluator, state)
