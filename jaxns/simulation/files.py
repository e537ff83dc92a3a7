"""Trajectories in files: arrays by name, without pickle."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from ..integrators.event_driven.events import Events
from ..integrators.event_driven.state import Effort

if TYPE_CHECKING:
    from .trajectory import Trajectory


def arrays(traj: Trajectory) -> dict[str, np.ndarray]:
    """What a file keeps of a trajectory: its fields, those of events and effort as events_t, effort_accepted and so on."""
    groups = {"events": traj.events, "effort": traj.effort}
    found = {f.name: getattr(traj, f.name) for f in fields(traj) if f.name not in groups}
    for group, values in groups.items():
        names = _names(group) if values is not None else ()
        found |= {f"{group}_{name}": getattr(values, name) for name in names}
    return {name: np.asarray(value) for name, value in found.items() if value is not None}


def write(traj: Trajectory, path: str | Path) -> None:
    """See `Trajectory.save`."""
    if Path(path).suffix != ".npz":
        raise ValueError(f"a trajectory is saved as .npz, got {str(path)!r}.")
    contents: dict[str, Any] = arrays(traj)
    np.savez(path, **contents)


def read(path: str | Path) -> Trajectory:
    """See `Trajectory.load`."""
    from .trajectory import Trajectory

    with np.load(path, allow_pickle=False) as stored:
        contents = {name: _as_stored(stored[name], path) for name in stored.files}
    known = {f.name for f in fields(Trajectory)} - {"events", "effort"}
    required = {"t", "q", "u", "P_g", "P_gamma", "P_N", "P_F", "status"}
    if not required <= set(contents):
        missing = ", ".join(sorted(required - set(contents)))
        raise ValueError(f"{path} holds no trajectory: there is no {missing}.")
    groups: dict[str, Any] = {}
    for group, kind in (("events", Events), ("effort", Effort)):
        if f"{group}_{_names(group)[0]}" in contents:
            groups[group] = kind(**{name: contents[f"{group}_{name}"] for name in _names(group)})
    return Trajectory(**{name: contents[name] for name in known & set(contents)}, **groups)


def _names(group: str) -> tuple[str, ...]:
    return tuple(f.name for f in fields(Events)) if group == "events" else Effort._fields


def _as_stored(values: np.ndarray, path: str | Path) -> Any:
    """The same on the device, bit by bit."""
    placed = jnp.asarray(values) if jnp.result_type(values) == values.dtype else None
    if placed is None:
        raise TypeError(
            f"{path} was written in {values.dtype.name}, which this process would round: set JAX_ENABLE_X64=1, or "
            'jax.config.update("jax_enable_x64", True), before loading it.'
        )
    return placed
