"""Fits in notebooks: parameters with standard errors, whether the fit converged, and how the loss fell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jax.flatten_util import ravel_pytree

from ..host.cards import card, sparkline, table
from ..model.values import is_concrete

if TYPE_CHECKING:
    from ..records.fit import RecordsFit
    from .identification import Fit

MOST_STARTS = 6  # whose losses are drawn


def card_of_fit(fit: Fit) -> str:
    """The card of what `identify` returns."""
    if not is_concrete(fit):
        return card("Fit", ok=True, state=f"of {', '.join(fit.names)}, traced")
    order = np.argsort(np.asarray(fit.starts.loss))[:MOST_STARTS]
    losses = [(f"start {k}", np.asarray(fit.history)[k]) for k in order]
    values, errors = ravel_pytree(fit.params)[0], ravel_pytree(fit.standard_errors)[0]
    ok = bool(fit.ok)
    tail = str(fit).splitlines()[-1]
    return _card("Fit", ok, fit.names, values, errors, [tail], losses)


def card_of_records_fit(fit: RecordsFit) -> str:
    """The card of what `identify_records` returns."""
    text = str(fit).splitlines()[len(fit.names) :]
    errors = np.sqrt(np.diag(fit.covariance))
    return _card("Fit of records", fit.ok, fit.names, fit.values, errors, text, [("loss", fit.history)])


def _card(
    title: str, ok: bool, names: Any, values: Any, errors: Any, text: list[str], losses: list[tuple[str, Any]]
) -> str:
    cells = [(n, f"{float(v):.6g}", f"± {float(e):.2g}") for n, v, e in zip(names, values, errors, strict=True)]
    iterations = np.arange(max(len(y) for _, y in losses))
    curves = sparkline(iterations, losses, log=True)
    parameters = table(("parameter", "value", "standard error"), cells)
    return card(title, ok=ok, state="converged" if ok else "not converged", lines=text, curves=parameters + curves)
