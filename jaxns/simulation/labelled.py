"""Trajectories as data sets with named axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..integrators.event_driven.events import EventKind
from ..solve.status import Status
from .files import arrays

if TYPE_CHECKING:
    from .trajectory import Trajectory

AXES = {  # of one run
    "q": ("t", "position"),
    "u": ("t", "velocity"),
    "q_dot": ("t", "position"),
    "P_g": ("t", "constraint"),
    "P_gamma": ("t", "velocity_constraint"),
    "P_N": ("t", "contact"),
    "P_F": ("t", "contact", "direction"),
    "stage_iterations": ("step", "solve"),
    "events_before": ("event", "component"),
    "events_after": ("event", "component"),
    "events_count": (),
}


def dataset(traj: Trajectory) -> Any:
    """See `Trajectory.to_xarray`."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_xarray needs xarray: pip install 'jaxns-mechanics[xarray]'") from error
    contents = arrays(traj)
    t = contents.pop("t")
    runs = t.ndim - 1
    leading = ("run",) if runs == 1 else tuple(f"run_{k}" for k in range(runs))
    times = t.reshape(-1, t.shape[-1])
    if not np.all(times == times[0]):
        raise ValueError("to_xarray: the runs of the batch have different times; take one of them, or save them alone.")
    coordinates = {
        "t": ("t", times[0], {"units": "s"}),
        "step": ("step", times[0][1:], {"units": "s", "long_name": "end of the step"}),
    }
    variables: dict[str, tuple[Any, ...]] = {
        name: ((*leading, *_axes(name)), values) for name, values in contents.items()
    }
    for name, kinds in (("status", Status), ("events_kind", EventKind)):
        if name in variables:
            legend = ", ".join(f"{int(kind)}: {kind.name}" for kind in kinds)
            variables[name] = (*variables[name], {"legend": legend})
    return xarray.Dataset(variables, coordinates)


def _axes(name: str) -> tuple[str, ...]:
    """Those of a field of one run."""
    return AXES.get(name, ("event",) if name.startswith("events_") else ("step",))
