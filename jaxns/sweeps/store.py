"""The directory of a sweep: finished chunks, and what they belong to.

    sweep.json         format version, fingerprints of fn and batch, number of lanes, chunk, names of the leaves
    chunk_00000.npz    results of lanes 0 to chunk − 1, one array for each leaf in tree order: arr_0, arr_1, …
    chunk_00001.npz    …
    failures.json      failed lanes with their reasons, once the sweep has finished

Files appear under their names only when they are complete. Each chunk carries the identity of its sweep, so that one from
elsewhere, or one that is damaged, counts as missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from ..trace.digest import array_bytes, digest

FORMAT = 1
PATIENCE = 0.2  # seconds between two looks for the header that process 0 writes


@dataclass(frozen=True)
class Store:
    """An open directory."""

    folder: Path
    header: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, identity: dict[str, Any], wanted: int | None, size: int) -> Store:
        """The directory of the sweep with this identity; made if it is not there, an error if it is of another sweep.

        `size` is the chunk of a new directory. An old one keeps its own unless another one is `wanted`.
        """
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"sweep: path must be a directory, but {folder} is a file. Give another path.")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "sweep.json"
        while jax.process_index() > 0 and not file.exists():  # process 0 decides about the chunk
            time.sleep(PATIENCE)
        there = _read_header(file)
        chunk = size
        if there is not None and wanted in (None, there.get("chunk")):
            chunk = there.get("chunk", size)
        here = {"format": FORMAT, **identity, "chunk": chunk}
        # Alone, a directory without results may be taken over: say, after the first chunk was too large for the memory.
        vacant = jax.process_count() == 1 and not any(folder.glob("chunk_*.npz"))
        if there is None or (vacant and there != here):
            _write(file, lambda stream: stream.write(json.dumps(here, indent=1).encode()))
        elif there != here:
            raise ValueError(_difference(folder, there, here))
        return cls(folder, here)

    @property
    def chunk(self) -> int:
        return self.header["chunk"]

    @property
    def failures(self) -> Path:
        return self.folder / "failures.json"

    def write(self, k: int, leaves: list[np.ndarray]) -> None:
        """Store the results of chunk k."""
        _write(self._file(k), lambda stream: np.savez(stream, *leaves, sweep=np.array(self._mark)))

    def read(self, k: int, like: list[np.ndarray]) -> list[np.ndarray] | None:
        """The results of chunk k, with the shapes and dtypes of `like`; None if they are missing or damaged."""
        try:
            with open(self._file(k), "rb") as stream, np.load(stream) as file:
                if file["sweep"] != self._mark:
                    return None
                leaves = [file[f"arr_{i}"] for i in range(len(like))]
        except Exception:  # whatever is wrong with the file, its lanes can be computed again
            return None
        # numpy stores dtypes that are not its own, such as bfloat16, as plain bytes.
        leaves = [a.view(b.dtype) if a.dtype.kind == "V" else a for a, b in zip(leaves, like, strict=True)]
        fits = all(a.shape == b.shape and a.dtype == b.dtype for a, b in zip(leaves, like, strict=True))
        return leaves if fits else None

    def write_failures(self, reasons: dict[int, str]) -> None:
        failed = [{"lane": lane, "reason": reason} for lane, reason in reasons.items()]
        _write(self.failures, lambda stream: stream.write(json.dumps({"failed": failed}, indent=1).encode()))

    def _file(self, k: int) -> Path:
        return self.folder / f"chunk_{k:05d}.npz"

    @property
    def _mark(self) -> str:
        return hashlib.sha256(json.dumps(self.header, sort_keys=True).encode()).hexdigest()


def _write(file: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write under another name, then rename: whoever finds the file finds all of it."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            write(stream)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _read_header(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    try:
        return dict(json.loads(file.read_bytes()))
    except ValueError as error:
        raise ValueError(
            f"sweep: {file} cannot be read ({error}). Delete {file.parent}, or give another path."
        ) from error


def _difference(folder: Path, there: dict[str, Any], here: dict[str, Any]) -> str:
    """What is different between two headers, and what to do."""
    names = [n for n in here if there.get(n) != here[n]]
    numbers = "".join(f"; {n} is {there.get(n)} there and {here[n]} here" for n in names if n not in ("fn", "batch"))
    finished = len(list(folder.glob("chunk_*.npz")))
    advice = " To go on with that sweep, leave chunk out." if names == ["chunk"] else ""
    return (
        f"sweep: {folder} holds {finished} chunks of another sweep: {' and '.join(names)} changed{numbers}. Give another "
        f"path, or delete this one.{advice}"
    )


# What a sweep is ----------------------------------------------------------------------------------------------------


def fingerprint(fn: Callable[[Any], Any], leaves: list[Any], structure: Any) -> dict[str, Any]:
    """What must agree between two calls of a sweep that share a directory.

    fn enters through its program, with all constants, traced for two lanes: neither chunk nor devices play a role.
    """
    two = jax.device_put(jax.tree.unflatten(structure, [leaf[np.array([0, -1])] for leaf in leaves]))
    closed, shapes = jax.make_jaxpr(jax.vmap(fn), return_shape=True)(two)
    batch = hashlib.sha256(str(structure).encode())
    for leaf in leaves:
        batch.update(array_bytes(leaf))
    return {
        "fn": digest(closed),
        "batch": batch.hexdigest(),
        "lanes": leaves[0].shape[0],
        "leaves": [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(shapes)],
    }
