"""What a command line asks for: problems and integrators by name, parameters as name=value."""

from __future__ import annotations

import argparse
import difflib
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import jaxns as ns


class UsageError(Exception):
    """The command line asks for something that does not exist or cannot be."""


def positive(text: str) -> float:
    value = finite(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


def finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def problems() -> dict[str, Callable[..., ns.Problem]]:
    return {name: getattr(ns.models, name) for name in ns.models.__all__}


def integrators() -> dict[str, Callable[[], Any]]:
    public: dict[str, Any] = {name: getattr(ns, name) for name in ns.__all__}
    return {name: c for name, c in public.items() if isinstance(c, type) and hasattr(c, "start") and hasattr(c, "step")}


def defaults(entry: Callable[..., Any]) -> dict[str, Any]:
    return {p.name: p.default for p in inspect.signature(entry).parameters.values()}


def find(kind: str, name: str, known: Iterable[str]) -> str:
    """The known name that is meant, whatever its case and hyphens."""
    plain = {k.replace("_", "").lower(): k for k in known}
    wanted = name.replace("-", "").replace("_", "").lower()
    if wanted not in plain:
        raise unknown(kind, name, plain.values())
    return plain[wanted]


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    names = list(known)
    lower = {k.lower(): k for k in names}
    near = difflib.get_close_matches(name.replace("-", "_").lower(), lower, n=1, cutoff=0.0)
    hint = f"did you mean {lower[near[0]]!r}? " if near else ""
    return UsageError(f"unknown {kind} {name!r}; {hint}There are: {', '.join(names) or 'none'}.")


def parameters(option: str, make: Callable[..., Any], assignments: Iterable[str]) -> dict[str, Any]:
    """`k=v` pairs as arguments of `make`, with the types of its defaults."""
    known = defaults(make)
    found = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"{option} {assignment!r} must have the form name=value.")
        if name not in known:  # case matters here: r and R may both exist
            raise unknown("parameter", name, known)
        found[name] = value(f"{option} {name}", text, known[name])
    return found


def value(what: str, text: str, default: Any) -> Any:
    """A text as a value of the default's type; numbers where there is no default."""
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{what}: must be true or false, got {text!r}.")
        return text.lower() == "true"
    if isinstance(default, ns.HEM5):  # the method of EventDriven for smooth motion
        methods = {"HEM5": ns.HEM5(), "RKF45": ns.RKF45()}
        return methods[find("method", text, methods)]
    if isinstance(default, ns.Rattle):  # the scheme of Located
        schemes: dict[str, Any] = {"Rattle": ns.Rattle(), "Lobatto": ns.Lobatto(), "Moreau": ns.Moreau()}
        return schemes[find("integrator", text, schemes)]
    try:
        value = finite(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{what}: {error}.") from None
    whole = isinstance(default, int)
    if whole and not value.is_integer():
        raise UsageError(f"{what}: must be a whole number, got {text!r}.")
    return int(value) if whole else value
