"""What the user hands to a fit: names of parameters, bounds, weights, horizons, and the checks of their shapes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..model.values import is_concrete


class FitWarning(UserWarning):
    """A fit that ended, but should not be trusted as it stands; the message says why.

    >>> import jax.numpy as jnp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_outsiders("identify", ["mu"], jnp.array([2.0]), jnp.array([0.0]), jnp.array([1.0]), level=1)
    >>> print(caught[0].message)
    identify: the guess mu = 2 lies outside of its bounds (0, 1); the fit starts inside, next to the bound.
    """


def structure(tree: Any) -> Any:
    return jax.tree.structure(tree)


def place(leaf: Array) -> Array:
    """Where each sample is along the leading axis, from 0 to 1; 0 for a scalar."""
    if leaf.ndim == 0:
        return jnp.zeros_like(leaf)
    along = (jnp.arange(leaf.shape[0], dtype=leaf.dtype) + 1) / leaf.shape[0]
    return jnp.broadcast_to(along.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf.shape)


def parameter_names(guess: Any) -> list[str]:
    """One name for each parameter: `mu`, `q0[1]`."""
    names = []
    for path, leaf in jax.tree.leaves_with_path(guess):
        name = "".join(str(k) for k in path).replace("['", ".").replace("']", "").lstrip(".") or "p"
        shape = jnp.shape(leaf)
        names += [name if shape == () else f"{name}[{', '.join(map(str, i))}]" for i in np.ndindex(*shape)]
    return names


def flat_bounds(bounds: Any, guess: Any, who: str = "identify") -> tuple[Array, Array]:
    """Lower and upper bounds (m,)."""
    if isinstance(guess, dict) and isinstance(bounds, dict):
        unknown = sorted(set(bounds) - set(guess))
        if unknown:
            raise ValueError(f"{who}: bounds for {unknown}, but the parameters are {sorted(guess)}.")
        bounds = {name: bounds.get(name) for name in guess}
    leaves = jax.tree.leaves(guess)
    try:
        pairs = [None] * len(leaves) if bounds is None else structure(guess).flatten_up_to(bounds)
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{who}: bounds must look like the guess, {structure(guess)}, with a pair (low, high) or None for each "
            f"parameter; got {bounds!r}."
        ) from None
    low, high = [], []
    for leaf, pair, name in zip(leaves, pairs, [str(p) for p, _ in jax.tree.leaves_with_path(guess)], strict=True):
        if pair is not None and not (isinstance(pair, Sequence | np.ndarray | Array) and len(pair) == 2):
            raise ValueError(f"{who}: bounds of {name} must be a pair (low, high) or None, got {pair!r}.")
        lo, hi = (None, None) if pair is None else pair
        low.append(jnp.broadcast_to(jnp.asarray(-jnp.inf if lo is None else lo, leaf.dtype), leaf.shape).ravel())
        high.append(jnp.broadcast_to(jnp.asarray(jnp.inf if hi is None else hi, leaf.dtype), leaf.shape).ravel())
    lo, hi = jnp.concatenate(low), jnp.concatenate(high)
    if is_concrete((lo, hi)) and not bool(jnp.all(lo < hi)):
        raise ValueError(f"{who}: every lower bound must be below its upper bound, got {lo} and {hi}.")
    return lo, hi


def warn_of_outsiders(who: str, names: Sequence[str], guess: Array, lo: Array, hi: Array, level: int) -> None:
    """Name the parameters whose guess lies outside of its bounds."""
    outside = np.flatnonzero(np.asarray((guess < lo) | (guess > hi))).tolist()
    if outside:
        text = ", ".join(
            f"{names[k]} = {guess[k]:g} lies outside of its bounds ({lo[k]:g}, {hi[k]:g})" for k in outside
        )
        message = f"{who}: the guess {text}; the fit starts inside, next to the bound."
        warnings.warn(message, FitWarning, stacklevel=level)


def spread_weights(weights: Any, data: Any, who: str = "identify") -> Any:
    """Weights of the shapes of the data."""
    weights = 1.0 if weights is None else weights
    alike = structure(weights) == structure(data)
    if not alike and structure(weights) != structure(0):
        raise ValueError(
            f"{who}: weights must be one array, or look like the data, {structure(data)}; got {structure(weights)}."
        )

    def spread(path: Any, d: Array, w: Any) -> Array:
        try:
            return jnp.broadcast_to(jnp.asarray(w, d.dtype), d.shape)
        except ValueError:
            name = f"data{jax.tree_util.keystr(path)}"
            raise ValueError(
                f"{who}: weights of shape {jnp.shape(w)} do not fit {name} of shape {d.shape}; give one number, or an "
                "array that broadcasts to that shape."
            ) from None

    if alike:
        return jax.tree_util.tree_map_with_path(spread, data, weights)
    return jax.tree_util.tree_map_with_path(lambda path, d: spread(path, d, weights), data)


def check_horizons(horizons: Sequence[float], who: str, level: int) -> tuple[float, ...]:
    """The horizons as numbers in (0, 1]; a warning if the last of them leaves out samples."""
    given = (horizons,) if isinstance(horizons, int | float) else tuple(horizons)
    if not given or not all(math.isfinite(h) and 0.0 < h <= 1.0 for h in given):
        raise ValueError(
            f"{who}: horizons must be fractions of the record in (0, 1], at least one, such as (0.5, 1.0); got "
            f"{horizons!r}."
        )
    if given[-1] < 1.0:
        warnings.warn(
            f"{who}: the last horizon is {given[-1]:g}, so samples after that part of the record are left out of the fit. "
            "End with 1.0 to use them.",
            FitWarning,
            stacklevel=level,
        )
    return given


def check_alike(predict: Callable[[Any], Any], data: Any, guess: Any) -> None:
    """Raise if the prediction does not have the structure and shapes of the data."""
    predicted = jax.eval_shape(predict, guess)
    if structure(predicted) != structure(data):
        raise ValueError(f"identify: predict returns {structure(predicted)}, but the data are {structure(data)}.")
    for (path, p), d in zip(jax.tree.leaves_with_path(predicted), jax.tree.leaves(data), strict=True):
        if p.shape != d.shape:
            name = jax.tree_util.keystr(path) or "the prediction"
            raise ValueError(f"identify: {name} has shape {p.shape}, but the data there have {d.shape}.")


def warn_of_nonsense(
    who: str,
    names: Sequence[str],
    errors: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    loss: float,
    size: float,
    spread: float,
    level: int,
) -> None:
    """Warn where the model explains nothing, or where the data leave a parameter anywhere between its bounds.

    - loss, size, spread: mean squares of the residuals, of the data, and of the data less their mean
    """
    reasons = []
    varies = spread > 1e-12 * size  # zeros as targets, or one sample, have no mean to be compared with
    negligible = loss > spread and abs(loss / max(size, 1e-300) - 1.0) < 0.1
    if varies and (negligible or loss > 4.0 * spread):
        reasons.append(
            f"the prediction is {math.sqrt(loss / spread):.3g} times as far from the data as their own mean is (look at "
            "units, signs, offsets and the order of columns)"
        )
    with np.errstate(invalid="ignore"):
        vague = np.isfinite(errors) & np.isfinite(hi - lo) & (errors > hi - lo)
    reasons += [
        f"the standard error of {names[k]}, {errors[k]:.3g}, is wider than its bounds ({lo[k]:g}, {hi[k]:g}), so the data "
        "say nothing about it"
        for k in np.flatnonzero(vague).tolist()
    ]
    if reasons:
        warnings.warn(f"{who}: do not trust this fit: {'; '.join(reasons)}.", FitWarning, stacklevel=level)
