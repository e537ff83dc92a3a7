"""This commit beside an older one: the same small program runs on both, each in a process of its own, without a cache.

A benchmark that compares commits is started twice: as the parent, which prints the table, and, with a JSON argument after
`--child`, as the child, which measures one line on whatever jaxns its PYTHONPATH names. A child may use only what both
commits have: `jax.jit` over a traced `ns.simulate`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OLD = "4c02ad9"


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The files of a commit, in a folder that exists for as long as the context."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Child:
    """A process that measures one line on one commit: it prints one JSON value for each value that it is sent."""

    def __init__(self, script: str, tree: Path, line: dict[str, Any], cores: Sequence[int] | None = None) -> None:
        settings = {"PYTHONPATH": str(tree), "JAX_ENABLE_X64": "1", "JAX_ENABLE_COMPILATION_CACHE": "0"}
        unset = ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")
        environment = {k: v for k, v in os.environ.items() if k not in unset} | settings
        command = [sys.executable, script, "--child", json.dumps({**line, "tree": str(tree), "cores": cores})]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: Any = None) -> Any:
        """The child's next answer."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the measuring process ended with code {self.process.wait()}: its message is above")
        return json.loads(answer)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def child() -> dict[str, Any] | None:
    """What the parent asks this process to measure, or None in the parent. Call it before importing jax."""
    if sys.argv[1:2] != ["--child"]:
        return None
    line = json.loads(sys.argv[2])
    if line["cores"] is not None:
        os.sched_setaffinity(0, line["cores"])  # before XLA counts them for its pool of threads
    import jaxns

    assert Path(jaxns.__file__).is_relative_to(Path(line["tree"]).resolve()), jaxns.__file__
    return line


def questions() -> Iterator[Any]:
    """In the child: what the parent asks, one after the other."""
    for text in sys.stdin:
        yield json.loads(text)


def answer(value: Any) -> None:
    """In the child: the answer to the last question."""
    print(json.dumps(value), flush=True)


@dataclass(frozen=True)
class Row:
    """One line of the table; `bound` is the largest allowed value of new / old, or None where there is none."""

    name: str
    new: float
    old: float
    bound: float | None = None

    @property
    def ratio(self) -> float:
        return self.new / self.old

    def __str__(self) -> str:
        limit = "" if self.bound is None else f"{self.bound:8.2f}  {'holds' if self.ratio <= self.bound else 'FAILS'}"
        return f"{self.name:44s} {self.new:12.4g} {self.old:12.4g} {self.ratio:8.2f} {limit}".rstrip()


HEAD = f"{'':44s} {'new':>12s} {'old':>12s} {'new/old':>8s} {'bound':>8s}"


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that all comparisons have."""
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--old", default=OLD, metavar="COMMIT", help=f"the commit to compare with (default: {OLD})")
    made.add_argument("--only", default="", metavar="TEXT", help="only lines whose name has this text; stores nothing")
    return made


def store(name: str, options: argparse.Namespace, unit: str, rows: Iterable[Row], **more: Any) -> None:
    """Keep the table of a whole run, with commits and machine, in benchmarks/results/."""
    if options.only:
        return
    commits = {"commit": git("describe", "--always", "--dirty"), "old commit": git("rev-parse", "--short", options.old)}
    machine = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "unit": unit}
    table = {r.name: {"new": r.new, "old": r.old, "ratio": r.ratio, "bound": r.bound} for r in rows}
    file = Path(__file__).parent / "results" / f"{name}.json"
    file.write_text(json.dumps(commits | machine | {"rows": table} | more, indent=2) + "\n")
