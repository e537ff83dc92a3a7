"""Measured records: a time column and named columns."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np


def read_csv(path: str | Path, time: str = "t") -> dict[str, np.ndarray]:
    """Columns of a CSV file by their names in its first line; empty fields and "nan" become NaN. Units are yours.

    The time column must rise. Lines that start with # are comments.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "drop.csv"
    >>> _ = file.write_text("t,q2\\n0.0,1.0\\n0.1,\\n0.2,0.80\\n")
    >>> read_csv(file)["q2"].tolist()
    [1.0, nan, 0.8]
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = [row for row in csv.reader(line for line in file if line.strip() and not line.startswith("#"))]
    if len(lines) < 2:
        raise ValueError(f"{path}: a line of names and at least one line of numbers are needed.")
    names = [name.strip() for name in lines[0]]
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: column names must differ, got {names}.")
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(names):
            raise ValueError(f"{path}: line {number} has {len(row)} fields, the first line has {len(names)}.")
    columns = {name: _numbers(path, name, [row[k] for row in lines[1:]]) for k, name in enumerate(names)}
    if time not in columns:
        raise ValueError(f"{path}: there is no time column {time!r}; the columns are {names}.")
    t = columns[time]
    if not np.all(np.isfinite(t)) or not np.all(np.diff(t) > 0.0):
        raise ValueError(f"{path}: the time column {time!r} must rise from line to line, without gaps.")
    return columns


def _numbers(path: str | Path, name: str, fields: list[str]) -> np.ndarray:
    try:
        return np.array([float(f) if f.strip() else np.nan for f in fields])
    except ValueError as error:
        raise ValueError(f"{path}: column {name!r}: {error}.") from None
