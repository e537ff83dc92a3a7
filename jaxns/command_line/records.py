"""The command `jaxns identify` for a folder of measured records of a benchmark problem."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxns as ns

from ..records.robust import LossName
from .choice import UsageError, positive
from .chosen import Chosen
from .identify import choose_columns, parse_bounds

UNITS = {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "s": 1.0, "ms": 1e-3, "rad": 1.0, "deg": np.pi / 180.0}
UNITS |= {f"{unit}/s": factor for unit, factor in UNITS.items() if unit not in ("s", "ms")}
KINDS = {"t": "time", "q": "a coordinate", "u": "a velocity"}


def parse_map(text: str | None) -> dict[str, str]:
    """`time=t,height=q2` as {"time": "t", "height": "q2"}."""
    pairs = [pair.partition("=") for pair in text.split(",")] if text else []
    if any(not equals or not name or not target for name, equals, target in pairs):
        raise ValueError(f"--map {text!r} must have the form column=name,…, such as time=t,height=q2.")
    return {name: target for name, _, target in pairs}


def read_folder(folder: Path, names: dict[str, str]) -> tuple[list[str], list[dict[str, np.ndarray]]]:
    """File names and records of all CSV files, in SI units: a unit may stand in brackets, as in `height [mm]`."""
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise ValueError(f"{folder}: there are no files *.csv in this folder.")
    time = next((column for column, name in names.items() if name == "t"), "t")
    records = []
    for file in files:
        header = _header(file)
        whole = next((column for column in header if _split(column)[0] == time), time)
        columns = {}
        for column, values in ns.read_csv(file, time=whole).items():
            name, unit = _split(column)
            if unit and unit not in UNITS:
                raise ValueError(
                    f"{file}: line 1: unknown unit {unit!r} of column {name!r}; there are {', '.join(UNITS)}."
                )
            target = names.get(name, name)
            if unit and not _fits(unit, target):
                raise ValueError(
                    f"{file}: line 1: {unit!r} of column {name!r} is no unit of {KINDS[target[0]]} ({target})."
                )
            columns[target] = values * UNITS.get(unit, 1.0)
        if columns["t"][0] < 0.0:
            raise ValueError(f"{file}: times must not be negative, the first is {columns['t'][0]:g} s.")
        records.append(columns)
    return [file.name for file in files], records


def _fits(unit: str, target: str) -> bool:
    """Whether t, q… or u… can have this unit; other columns may have any."""
    kind = "t" if unit in ("s", "ms") else "u" if unit.endswith("/s") else "q"
    return target[:1] not in KINDS or kind == target[:1]


def _header(file: Path) -> list[str]:
    with open(file, encoding="utf-8-sig") as lines:
        first = next((line for line in lines if line.strip() and line[0] != "#"), "")
    return [part.strip() for part in first.replace(";", ",").replace("\t", ",").split(",")]


def _split(column: str) -> tuple[str, str]:
    """`height [mm]` as ("height", "mm")."""
    name, bracket, unit = column.partition("[")
    return name.strip(), unit.rstrip("] ").strip() if bracket else ""


def predictor(problem: ns.Problem, integrator: Any, columns: Sequence[str], end: float, dt: float) -> Any:
    """predict(shared, own, record): columns at the times of a record, linear between rows of the simulation."""
    num_steps = max(int(np.ceil(end / dt)), 1)
    nq = problem.q0.shape[0]

    def predict(shared: Any, own: Any, record: Any) -> Any:
        start = jnp.concatenate([problem.q0, problem.u0])
        for name, value in own.items():
            start = start.at[(0 if name[0] == "q" else nq) + int(name[1:]) - 1].set(value)
        system = problem.system.with_params(**shared)
        traj = ns.simulate(
            system, integrator, start[:nq], start[nq:], dt=dt, num_steps=num_steps, check=False
        ).failed_as_nan()  # fmt: skip
        t = jnp.nan_to_num(record["t"])
        return {name: jnp.interp(t, traj.t, getattr(traj, name[0])[:, int(name[1:]) - 1]) for name in columns}

    return predict


def identify(
    problem: ns.Problem,
    integrator: Any,
    folder: Path,
    *,
    fit: Sequence[str],
    own: Sequence[str] = (),
    bounds: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    names: dict[str, str] | None = None,
    loss: LossName = "huber",
    test: float | None = None,
    dt: float | None = None,
    progress: bool = True,
) -> tuple[ns.RecordsFit, list[str]]:
    """The fit and the names of the files. Own parameters are entries of the initial state, such as q2 and u2."""
    params = problem.system.params
    unknown = [name for name in fit if name not in params]
    if unknown or not fit:
        raise ValueError(f"--fit {','.join(fit)}: no parameter {unknown}; there are {', '.join(params)}.")
    nq, nu = problem.q0.shape[0], problem.u0.shape[0]
    states = [f"q{k}" for k in range(1, nq + 1)] + [f"u{k}" for k in range(1, nu + 1)]
    if set(own) - set(states):
        raise ValueError(f"--own {','.join(own)}: entries of the initial state are {', '.join(states)}.")
    files, records = read_folder(folder, names or {})
    for file, record in zip(files, records, strict=True):
        missing = sorted(set(records[0]) ^ set(record))
        if missing:
            raise ValueError(f"{folder / file}: line 1: columns {missing} are not in all files.")
    chosen = choose_columns(records[0], columns, nq, nu)
    stacked = ns.stack_records([{name: record[name] for name in ("t", *chosen)} for record in records])
    begin = np.concatenate([problem.q0, problem.u0])
    start = {name: np.full(len(files), begin[states.index(name)]) for name in own}
    for name in set(own) & set(chosen):  # the first sample is a better guess than the problem's own state
        first = [values[np.isfinite(values)][0] if np.isfinite(values).any() else begin[states.index(name)]
                 for values in (record[name] for record in records)]  # fmt: skip
        start[name] = np.array(first)
    event = isinstance(integrator, ns.EventDriven)
    spacing = float(np.nanmedian(np.diff(stacked["t"], axis=1)))
    end = float(np.nanmax(stacked["t"]))
    predict = predictor(problem, integrator, chosen, end, dt or (0.25 * spacing if event else problem.dt))
    weights = {name: 1.0 / max(float(np.nanvar(stacked[name])), 1e-30) for name in chosen}
    result = ns.identify_records(
        predict, stacked, shared={name: params[name] for name in fit}, own=start, bounds=parse_bounds(bounds, fit),
        loss=loss, test=test, weights=weights, progress=progress,
    )  # fmt: skip
    return result, files


def add_arguments(identify: argparse.ArgumentParser) -> None:
    """Arguments of `identify` for a folder of records."""
    help_own = "of a folder: entries of the initial state that each record has for itself, such as q2,u2"
    identify.add_argument("--own", default="", metavar="A,B", help=help_own)
    identify.add_argument(
        "--map", metavar="COLUMN=NAME,…", help="of a folder: other column names, as in time=t,height=q2"
    )
    identify.add_argument(
        "--loss", default="huber", choices=["l2", "huber", "cauchy"], help="of a folder; default huber"
    )
    identify.add_argument(
        "--test", type=positive, metavar="X", help="of a folder: fraction of the records to leave out"
    )


def run(options: argparse.Namespace) -> None:
    """Many records: the report as text, and as a page where it is asked for."""
    try:
        chosen = Chosen.by(options)
        fit, files = identify(
            chosen.problem, chosen.integrator, options.data, fit=options.fit.split(","),
            own=options.own.split(",") if options.own else (), bounds=options.bounds,
            columns=options.columns.split(",") if options.columns else None, names=parse_map(options.map),
            loss=options.loss, test=options.test, dt=options.dt,
        )  # fmt: skip
    except (ValueError, OSError, ns.IdentificationError) as error:
        raise UsageError(str(error)) from error
    report = "\n".join([*(f"{name}: {value}" for name, value in chosen.settings(options)), str(fit)])
    report += "".join(f"\nfailed: {files[k]}" for k in fit.failed)
    print(report)
    if options.report and options.report.suffix == ".html":
        fit.report(options.report, title=f"{chosen.name}: {options.data.name}")
    elif options.report:
        options.report.write_text(report + "\n")
