"""The code of a run: what the sliders say, as the lines that one would have written."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .explorer import Explorer


def written(explorer: Explorer, values: Mapping[str, Any]) -> str:
    """Python code that continues a program in which the problem has the name `explorer.name`."""
    name, lines = explorer.name, []
    changed: dict[str, Any] = {}
    starts = {"q": np.array(explorer.q0), "u": np.array(explorer.u0)}
    for s in (s for s in explorer.sliders if float(values[s.name]) != s.value):
        if s.group in starts:
            starts[s.group][s.index] = float(values[s.name])
        elif s.group == "parameters":
            leaf = changed.setdefault(s.key, np.array(explorer.system.params[s.key], float))
            leaf[() if s.index is None else s.index] = float(values[s.name])
    system = f"{name}.system"
    if changed:
        params = ", ".join(f'"{key}": {_number(value)}' for key, value in changed.items())
        lines.append(f"system = {system}.with_params(**{{{params}}})")
        system = "system"
    q0, u0 = f"{name}.q0", f"{name}.u0"
    if not np.array_equal(starts["q"], explorer.q0) or not np.array_equal(starts["u"], explorer.u0):
        lines.extend(f"{key}0 = {_number(value)}" for key, value in starts.items())
        q0, u0 = "q0", "u0"
    if explorer.projects(values):
        lines.append(f"q0, u0 = ns.consistent({system}, {q0}, {u0})")
        q0, u0 = "q0", "u0"
    integrator, dt, num_steps, _ = explorer.steps(values)
    arguments = f"{system}, {call_of(integrator)}, {q0}, {u0}, dt={dt!r}, num_steps={num_steps}"
    lines.append(f"traj = ns.simulate({arguments})")
    lines.append(f"ns.animate({name if system != 'system' else 'system'}, traj, draw={name}.draw)")
    arrays = any("jnp." in line for line in lines)
    return "\n".join([*(["import jax.numpy as jnp"] if arrays else []), "import jaxns as ns", "", *lines]) + "\n"


def call_of(value: Any) -> str:
    """An integrator as it is written, with the options that are not the usual ones.

    >>> import jaxns as ns
    >>> call_of(ns.Located(ns.Lobatto(stages=2), impacts=2))
    'ns.Located(ns.Lobatto(stages=2), impacts=2)'
    """
    if not dataclasses.is_dataclass(value):
        return repr(value)
    arguments: list[str] = []
    for field in dataclasses.fields(value):
        own = getattr(value, field.name)
        usual = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if own != usual:
            arguments.append(call_of(own) if dataclasses.is_dataclass(own) else f"{field.name}={call_of(own)}")
    return f"ns.{type(value).__name__}({', '.join(arguments)})"


def _number(value: Any) -> str:
    plain = np.asarray(value, float).tolist()
    return f"jnp.array({plain})" if isinstance(plain, list) else repr(plain)
