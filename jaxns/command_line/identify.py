"""The command `jaxns identify`: parameters of a benchmark problem from a measured record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

HORIZONS = (0.25, 0.5, 0.75, 1.0)  # early samples first


def read_record(path: Path) -> dict[str, np.ndarray]:
    """Columns by name (t, q1, q2, …, u1, …) of a CSV file, or of what `jaxns run --save` wrote."""
    if path.suffix != ".npz":
        return ns.read_csv(path)
    with np.load(path) as arrays:
        if "t" not in arrays:
            raise ValueError(f"{path}: there is no array t; it has {sorted(arrays)}.")
        columns = {"t": arrays["t"]}
        for name in ("q", "u"):
            if name in arrays:
                columns |= {f"{name}{k}": column for k, column in enumerate(arrays[name].T, start=1)}
        columns |= {name: arrays[name] for name in arrays if name[:1] in "qu" and name[1:].isdigit()}
    return columns


def choose_columns(record: dict[str, np.ndarray], wanted: Sequence[str] | None, nq: int, nu: int) -> list[str]:
    """The columns to fit: those asked for, or all that are coordinates or velocities of the problem."""
    known = [f"q{k}" for k in range(1, nq + 1)] + [f"u{k}" for k in range(1, nu + 1)]
    names = list(wanted) if wanted else [name for name in record if name in known]
    unknown = [name for name in names if name not in known or name not in record]
    if unknown or not names:
        have = ", ".join(record)
        raise ValueError(
            f"cannot fit columns {unknown or 'none'}: the record has {have}; the problem has {', '.join(known)}."
        )
    return names


def rows_of(t: np.ndarray) -> tuple[float, np.ndarray]:
    """The spacing of a record, and the row of each sample, counted from t = 0."""
    spacing = float(np.min(np.diff(t)))
    rows = np.round(t / spacing).astype(int)
    spacing = float(t[-1] / rows[-1])
    if np.max(np.abs(rows * spacing - t)) > 1e-3 * spacing or rows[0] < 0:
        raise ValueError(
            "the times of the record must be multiples of one spacing, from t = 0 on; missing lines are no harm."
        )
    return spacing, rows


def parse_bounds(texts: Sequence[str], names: Sequence[str]) -> dict[str, tuple[float | None, float | None]]:
    """`mu=0:1` as {"mu": (0, 1)}; an empty side is no bound."""
    bounds = {}
    for text in texts:
        name, equals, pair = text.partition("=")
        low, colon, high = pair.partition(":")
        if not equals or not colon or name not in names:
            raise ValueError(f"--bounds {text!r} must have the form name=low:high, for one of {', '.join(names)}.")
        try:
            bounds[name] = (float(low) if low else None, float(high) if high else None)
        except ValueError:
            raise ValueError(f"--bounds {text!r}: low and high must be numbers.") from None
    return bounds


def predictor(
    problem: ns.Problem, integrator: Any, names: Sequence[str], spacing: float, rows: np.ndarray, dt: float | None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """predict(params) -> the named columns at the rows of the record."""
    every = 1
    if not isinstance(integrator, ns.EventDriven):
        every = max(round(spacing / (dt or problem.dt)), 1)
    num_steps = int(rows[-1]) * every

    def predict(params: dict[str, Any]) -> dict[str, Any]:
        system = problem.system.with_params(**params)
        traj = ns.simulate(
            system, integrator, problem.q0, problem.u0, dt=spacing / every, num_steps=num_steps, save_every=every,
            check=False,
        ).failed_as_nan()  # fmt: skip
        return {name: getattr(traj, name[0])[jnp.asarray(rows), int(name[1:]) - 1] for name in names}

    return jax.jit(predict)


def identify(
    problem: ns.Problem,
    integrator: Any,
    record: dict[str, np.ndarray],
    *,
    fit: Sequence[str],
    bounds: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    dt: float | None = None,
    num_starts: int = 1,
    progress: bool = True,
) -> tuple[ns.Fit, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The fit, and times, data and prediction of the columns that were fitted."""
    params = problem.system.params
    unknown = [name for name in fit if name not in params]
    if unknown or not fit:
        raise ValueError(f"--fit {','.join(fit)}: no parameter {unknown}; there are {', '.join(params)}.")
    names = choose_columns(record, columns, problem.q0.shape[0], problem.u0.shape[0])
    t = record["t"]
    spacing, rows = rows_of(t)
    predict = predictor(problem, integrator, names, spacing, rows, dt)
    data = {name: np.asarray(record[name], float) for name in names}
    guess = {name: params[name] for name in fit}
    # Columns of different units count alike: each is weighted by its own spread.
    weights = {name: 1.0 / max(float(np.nanvar(values)), 1e-30) for name, values in data.items()}
    result = ns.identify(
        predict, data, guess, bounds=parse_bounds(bounds, fit), weights=weights, horizons=HORIZONS,
        num_starts=num_starts, progress=progress,
    )  # fmt: skip
    prediction = {name: np.asarray(values) for name, values in predict(result.params).items()}
    return result, t, data, prediction
