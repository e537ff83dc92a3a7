"""A trajectory in a few lines: as text, and as a card in a notebook."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ..host.cards import card, sparkline
from ..integrators.event_driven.events import EventKind
from ..model.values import is_concrete
from ..solve.status import Status

if TYPE_CHECKING:
    from .trajectory import Trajectory

MOST_CURVES = 6


def lines(traj: Trajectory) -> list[str]:
    """Size and span, outcome, effort, events: as far as values are known."""
    if traj.t.ndim != 1:
        return [_heading(traj), *([_of_batch(traj)] if is_concrete(traj) else [])]
    if not is_concrete(traj):
        return [f"{_heading(traj)}, traced"]
    return [_heading(traj), outcome(traj), *_effort(traj), *_events(traj)]


def card_of(traj: Trajectory) -> str:
    """The card of a trajectory: its lines, with the first positions over time and marks where events were."""
    if not is_concrete(traj):
        return card(_heading(traj), ok=True, state="traced")
    single = traj.t.ndim == 1
    ok = bool(np.all(np.asarray(traj.status) == Status.OK))
    if not single:
        return card(_heading(traj), ok=ok, state=_of_batch(traj))
    q = np.asarray(traj.q)
    shown = min(q.shape[1], MOST_CURVES)
    marks = np.zeros(0) if traj.events is None else np.asarray(traj.events.trimmed().t)
    curves = sparkline(np.asarray(traj.t), [(f"q[{k}]", q[:, k]) for k in range(shown)], marks)
    head, state, *more = lines(traj)
    return card(head, ok=ok, state=state, lines=more, curves=curves)


def outcome(traj: Trajectory) -> str:
    """Whether all steps converged; else the first failure."""
    status = np.asarray(traj.status)
    failed = np.flatnonzero(status != Status.OK)
    if not len(failed):
        return "all steps converged"
    first = Status(int(status[failed[0]]))
    return f"{first.name} in the row after t = {float(traj.t[failed[0]]):g} s: {first.message}"


def _heading(traj: Trajectory) -> str:
    *runs, rows = traj.t.shape
    batch = f"batch of {' × '.join(map(str, runs))} runs, " if runs else ""
    span = f", t = {float(traj.t[0]):g} … {float(traj.t[-1]):g} s" if not runs and is_concrete(traj) else ""
    sizes = f"{traj.q.shape[-1]} positions, {traj.u.shape[-1]} velocities"
    rows_of = {"constraints": traj.P_g.shape[-1] + traj.P_gamma.shape[-1], "contacts": traj.P_N.shape[-1]}
    counted = "".join(f", {count} {what if count > 1 else what[:-1]}" for what, count in rows_of.items() if count)
    return f"Trajectory: {batch}{rows} rows{span}; {sizes}{counted}"


def _of_batch(traj: Trajectory) -> str:
    ok = np.all(np.asarray(traj.status) == Status.OK, axis=-1)
    if ok.all():
        return "all runs converged"
    counts = Counter(int(s) for s in np.asarray(traj.status).ravel() if s not in (Status.OK, Status.STOPPED))
    kinds = ", ".join(f"{count} {Status(kind).name}" for kind, count in sorted(counts.items()))
    return f"{int((~ok).sum())} of {ok.size} runs failed: {kinds}"


def _effort(traj: Trajectory) -> list[str]:
    iterations = np.asarray(traj.iterations)
    if not iterations.size:
        return []
    residual = np.asarray(traj.residual)
    largest = f"{np.nanmax(residual):.1e}" if np.isfinite(residual).any() else "not finite"
    return [f"{iterations.mean():.3g} iterations per row, at most {iterations.max()}; largest residual {largest}"]


def _events(traj: Trajectory) -> list[str]:
    if traj.events is None:
        return []
    counts = Counter(EventKind(int(k)).name for k in np.asarray(traj.events.trimmed().kind))
    total = int(traj.events.count)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    lost = total - sum(counts.values())
    more = f" ({lost} more than the log holds)" if lost else ""
    return [f"events: {kinds}{more}"] if total else ["no events"]
