"""A file that keeps where a long fit is, so that the same call, made again, goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..sweeps.store import fingerprint
from .descent import State
from .evaluate import Evaluator


class Bookmark:
    """The state of a fit on disk, written after each step; nothing without a path."""

    def __init__(self, path: str | Path | None, evaluator: Evaluator, start: Any, options: dict[str, Any]):
        self.path = None if path is None else Path(path)
        self.identity = ""
        if self.path is None:
            return
        program = evaluator.program
        whole = {"start": start, "records": evaluator.records, "bounds": (evaluator.box_own, _lanes(evaluator))}
        leaves, structure = jax.tree.flatten(whole)

        def lane(element: Any) -> Any:
            shared, own = (
                program.kind_shared.tree_of(element["start"][1]),
                program.kind_own.tree_of(element["start"][0]),
            )
            return program.predict(shared, own, element["records"])

        print_of = fingerprint(lane, [np.asarray(x) for x in leaves], structure)
        self.identity = json.dumps({**print_of, **options}, sort_keys=True, default=str)

    def read(self) -> dict[str, Any] | None:
        """What was stored by the same call; an error if the file belongs to another one."""
        if self.path is None or not self.path.exists():
            return None
        with np.load(self.path) as file:
            stored = {name: file[name] for name in file}
        if str(stored["identity"]) != self.identity:
            raise ValueError(
                f"identify_records: {self.path} belongs to another fit (other records, guess, bounds, options or predict). "
                "Give another path, or remove the file."
            )
        return stored

    def write(self, state: State, stage: int) -> None:
        """Store in one go: a process that is killed leaves the last file whole."""
        if self.path is None:
            return
        draft = self.path.with_name(self.path.name + ".part")
        with open(draft, "wb") as file:
            np.savez(
                file,
                identity=self.identity,
                own=state.own,
                shared=state.shared,
                damping_own=state.damping_own,
                damping=state.damping,
                history=np.array(state.history),
                scale=state.loss_of.scale,
                stage=stage,
            )
        draft.replace(self.path)


def _lanes(evaluator: Evaluator) -> Any:
    """The bounds of shared parameters, once for each record."""
    return tuple(np.broadcast_to(np.asarray(x), (evaluator.count, *np.shape(x))) for x in evaluator.box_shared)
