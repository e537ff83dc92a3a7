"""Measured records: a time column and named columns."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

DELIMITERS = (",", ";", "\t")


def read_csv(path: str | Path, time: str = "t") -> dict[str, np.ndarray]:
    """Columns of a CSV file by their names in its first line; empty fields and "nan" become NaN. Units are yours.

    Fields are separated by commas, semicolons or tabs, whichever the first line has most of. The time column must rise.
    Lines that start with # are comments.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "drop.csv"
    >>> _ = file.write_text("t;q2\\n0.0;1.0\\n0.1;\\n0.2;0.80\\n")
    >>> read_csv(file)["q2"].tolist()
    [1.0, nan, 0.8]
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        kept = [(number, line) for number, line in enumerate(file, start=1) if line.strip() and line[0] != "#"]
    if len(kept) < 2:
        raise ValueError(f"{path}: a line of names and at least one line of numbers are needed.")
    delimiter = max(DELIMITERS, key=kept[0][1].count)
    rows = [(number, next(csv.reader([line], delimiter=delimiter))) for number, line in kept]
    names = [name.strip() for name in rows[0][1]]
    if len(set(names)) != len(names):
        raise ValueError(f"{path}: column names must differ, got {names}.")
    for number, row in rows[1:]:
        if len(row) != len(names):
            raise ValueError(f"{path}: line {number} has {len(row)} fields, the first line has {len(names)}.")
    columns = {n: np.array([_number(path, n, line, row[k]) for line, row in rows[1:]]) for k, n in enumerate(names)}
    if time not in columns:
        raise ValueError(f"{path}: there is no time column {time!r}; the columns are {names}.")
    t = columns[time]
    wrong = np.flatnonzero(~(np.diff(t) > 0.0) | ~np.isfinite(t[1:]))
    if not np.isfinite(t[0]) or len(wrong):
        line = rows[1][0] if not np.isfinite(t[0]) else rows[wrong[0] + 2][0]
        raise ValueError(f"{path}: line {line}: the time column {time!r} must rise from line to line, without gaps.")
    return columns


def _number(path: str | Path, name: str, line: int, field: str) -> float:
    try:
        return float(field) if field.strip() else np.nan
    except ValueError as error:
        raise ValueError(f"{path}: line {line}, column {name!r}: {error}.") from None
