"""The error of a mechanism whose parts do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np


class MechanismError(ValueError):
    """A part that cannot be: what was given, in which part, and what was expected.

    >>> import jaxns as ns
    >>> try:
    ...     ns.Mechanism(ns.Body("box", mass=-1.0, inertia=0.1))
    ... except ns.MechanismError as error:
    ...     print(error)
    Body 'box': mass must be positive, got -1.0.
    """


def vector(owner: str, name: str, value: Any, sizes: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of one of the given lengths."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise MechanismError(f"{owner}: {name} must be numbers, got {value!r}.") from None
    if array.ndim != 1 or array.shape[0] not in sizes:
        raise MechanismError(
            f"{owner}: {name} must have {' or '.join(map(str, sizes))} entries, got {value!r}. A mechanism is planar with "
            "two entries of gravity and spatial with three."
        )
    if not np.all(np.isfinite(array)):
        raise MechanismError(f"{owner}: {name} must be finite, got {value!r}.")
    return array


def direction(owner: str, name: str, value: Any, size: int) -> np.ndarray:
    """A unit vector."""
    array = vector(owner, name, value, (size,))
    length = float(np.linalg.norm(array))
    if length < 1e-12:
        raise MechanismError(f"{owner}: {name} must have a direction, got {value!r}, which has length zero.")
    return array / length


def number(owner: str, name: str, value: Any, *, least: float | None = None, positive: bool = False) -> float:
    """A finite number, perhaps positive or at least `least`."""
    try:
        x = float(value)
    except (TypeError, ValueError):
        raise MechanismError(f"{owner}: {name} must be a number, got {value!r}.") from None
    if not np.isfinite(x):
        raise MechanismError(f"{owner}: {name} must be finite, got {value!r}.")
    if positive and x <= 0.0:
        raise MechanismError(f"{owner}: {name} must be positive, got {value!r}.")
    if least is not None and x < least:
        raise MechanismError(f"{owner}: {name} must be at least {least:g}, got {value!r}.")
    return x
