"""Sliders: which numbers of a system they move, and how far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..mechanism import Mechanism

MOST_PARAMETERS, MOST_COORDINATES = 8, 6  # that have a slider if nobody says which
PLANAR = {"q": ("x", "y", "angle"), "u": ("vx", "vy", "spin")}
SPATIAL = {"q": ("x", "y", "z", "e0", "e1", "e2", "e3"), "u": ("vx", "vy", "vz", "spin_x", "spin_y", "spin_z")}
Range = tuple[float, float]


@dataclass(frozen=True)
class Slider:
    """One number: its name, where it is, its range and its value at the beginning."""

    name: str
    group: str  # "parameters", "q", "u" or "time"
    key: str  # of the parameter
    index: int | None  # in the parameter, if it is a vector, or in q or u
    low: float
    high: float
    value: float
    logarithmic: bool = False

    def described(self) -> dict[str, Any]:
        """As the page reads it."""
        return asdict(self)


def of_parameters(params: Any, wanted: Iterable[str] | Mapping[str, Range] | None) -> list[Slider]:
    """Sliders for parameters: those wanted, by name or "name[k]", with ranges or without; or the first scalar ones.

    >>> [s.name for s in of_parameters({"mu": 0.3, "l": np.ones(2)}, ["mu", "l[1]"])]
    ['mu', 'l[1]']
    """
    if not isinstance(params, dict):
        raise TypeError("explore: the parameters of the system must be a dict, for sliders go by their names.")
    leaves = {key: np.asarray(value, float) for key, value in params.items() if np.ndim(value) <= 1}
    every = {name: (key, index, value) for key, leaf in leaves.items() for name, index, value in _entries(key, leaf)}
    if wanted is None:
        wanted = [name for name, (_, index, _) in every.items() if index is None][:MOST_PARAMETERS]
    ranges = _ranges("params", wanted, every)
    return [
        Slider(name, "parameters", key, index, *(given or _usual_range(key, value)), value)
        for name, given in ranges.items()
        for key, index, value in [every[name]]
    ]


def of_state(problem: Any, q0: Any, u0: Any, wanted: Iterable[str] | Mapping[str, Range] | None) -> list[Slider]:
    """Sliders for entries of the initial state: "q[0]", "u[2]", and of mechanisms "box.x", "box.spin".

    >>> [s.name for s in of_state(None, np.zeros(3), np.ones(3), None)]
    ['q[0]', 'q[1]', 'q[2]', 'u[0]', 'u[1]', 'u[2]']
    """
    every: dict[str, tuple[str, int, float]] = {}
    for group, values in (("q", np.asarray(q0, float)), ("u", np.asarray(u0, float))):
        for k, name in enumerate(coordinates(problem, group, len(values))):
            every[name] = (group, k, float(values[k]))
    if wanted is None:
        names = {group: [n for n, (g, _, _) in every.items() if g == group][:MOST_COORDINATES] for group in "qu"}
        wanted = [*names["q"], *names["u"]]
    ranges = _ranges("initial", wanted, every)
    return [
        Slider(name, group, group, k, *(given or (value - max(1.0, abs(value)), value + max(1.0, abs(value)))), value)
        for name, given in ranges.items()
        for group, k, value in [every[name]]
    ]


def _entries(key: str, leaf: np.ndarray) -> list[tuple[str, int | None, float]]:
    if leaf.ndim == 0:
        return [(key, None, float(leaf))]
    return [(f"{key}[{k}]", k, float(value)) for k, value in enumerate(leaf)]


def _ranges(argument: str, wanted: Any, every: Mapping[str, Any]) -> dict[str, Range | None]:
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    unknown = [name for name in names if name not in every]
    if unknown:
        raise ValueError(f"explore: {argument} has {unknown}, which do not exist; there are {', '.join(every)}.")
    ranges = {name: wanted[name] if isinstance(wanted, Mapping) else None for name in names}
    for name, given in ranges.items():
        if given is not None and not (len(given) == 2 and given[0] < given[1]):
            raise ValueError(f"explore: the range of {name!r} must be (low, high) with low < high, got {given!r}.")
    return ranges


def _usual_range(key: str, value: float) -> Range:
    """How far people would move a parameter of this name and value."""
    if re.search(r"(^|\.)e_[NF]$", key):
        return 0.0, 1.0
    if re.search(r"(^|\.)mu$", key):
        return 0.0, max(1.0, 2.0 * value)
    if value == 0.0:
        return -1.0, 1.0
    low, high = sorted((0.2 * value, 3.0 * value))
    return low, high


def coordinates(problem: Any, group: str, count: int) -> list[str]:
    """Names of the entries of q or u.

    >>> coordinates(None, "q", 2)
    ['q[0]', 'q[1]']
    """
    if isinstance(problem, Mechanism) and problem.coordinates == "bodies":
        own = (PLANAR if problem.frames.dimension == 2 else SPATIAL)[group]
        names = [f"{body}.{name}" for body in problem.frames.moving for name in own]
        if len(names) == count:
            return names
    return [f"{group}[{k}]" for k in range(count)]
