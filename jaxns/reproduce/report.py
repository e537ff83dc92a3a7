"""Runs experiments and writes one HTML page: a table of what holds, then every figure."""

from __future__ import annotations

import base64
import json
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from ..host.progress import tqdm_bar
from .experiment import Experiment, Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS = {True: "holds", False: "does not hold"}


@dataclass(frozen=True)
class Result:
    """An experiment that was run: its statements and figures, or the traceback of its failure."""

    experiment: Experiment
    statements: tuple[Statement, ...]
    images: Mapping[str, str]  # PNG in base64, by captions
    failure: str  # empty for success
    seconds: float


@dataclass(frozen=True)
class Report:
    """All results, in the order of the papers."""

    results: tuple[Result, ...]

    @property
    def failed(self) -> list[str]:
        """Names of the experiments that broke off."""
        return [r.experiment.name for r in self.results if r.failure]

    def count(self, holds: bool) -> int:
        """How many statements hold, or do not."""
        return sum(s.holds == holds for r in self.results for s in r.statements)

    def settled(self, holds: bool) -> int:
        """How many of them by a criterion that was settled after a run."""
        return sum(s.holds == holds and bool(s.settled) for r in self.results for s in r.statements)

    def rows(self) -> list[dict[str, Any]]:
        """The table: experiment, paper, section, the paper's statement, our figure, whether it holds, and the reason for
        its criterion if that was settled after a run."""
        return [
            {
                "experiment": r.experiment.name,
                "paper": r.experiment.paper,
                "section": r.experiment.section,
                "statement": s.paper,
                "ours": s.ours,
                "holds": s.holds,
                "settled": s.settled,
            }
            for r in self.results
            for s in r.statements
        ]

    def html(self) -> str:
        """The page, with all figures in it."""
        page = resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8")
        for name, text in {"SUMMARY": self._summary(), "TABLE": self._table(), "FIGURES": self._figures()}.items():
            page = page.replace(f"<!--{name}-->", text)
        return page

    def markdown(self) -> str:
        """A short page: how many statements of each experiment hold, and those that do not."""
        lines = ["| experiment | paper | statements that hold |", "|---|---|---|"]
        for r in self.results:
            e, held = r.experiment, sum(s.holds for s in r.statements)
            count = "broke off" if r.failure else f"{held} of {len(r.statements)}"
            lines.append(f"| `{e.name}`: {e.title} | {e.paper}, {e.section} | {count} |")
        rows = self.rows()
        lines += ["", "| does not hold: the paper says | jaxns gives | experiment |", "|---|---|---|"]
        lines += [_line(row["statement"], row["ours"], row["experiment"]) for row in rows if not row["holds"]]
        lines += [
            "",
            "| holds by a criterion settled after a run: the paper says | why | experiment |",
            "|---|---|---|",
        ]
        settled = [row for row in rows if row["holds"] and row["settled"]]
        lines += [_line(row["statement"], row["settled"], row["experiment"]) for row in settled]
        return "\n".join(lines) + "\n"

    def _summary(self) -> str:
        seconds = sum(r.seconds for r in self.results)
        total = self.count(True) + self.count(False)
        text = (
            f"{self.count(True)} of {total} statements hold, {self.settled(True)} of these by a criterion that was settled "
            f"after a run; {len(self.results)} experiments in {seconds:.0f} s."
        )
        if self.failed:
            text += f" Broken off: {', '.join(self.failed)}."
        return escape(text)

    def _table(self) -> str:
        lines = []
        for r in self.results:
            name = f'<a href="#{r.experiment.name}">{escape(r.experiment.name)}</a>'
            if r.failure:
                lines.append(_row([name, "", escape(r.failure.splitlines()[-1]), "broke off"], "no"))
            for s in r.statements:
                cells = [name, escape(s.paper), escape(s.ours) + _reason(s), VERDICTS[s.holds]]
                lines.append(_row(cells, "yes" if s.holds else "no"))
        return "\n".join(lines)

    def _figures(self) -> str:
        parts = []
        for paper, results in groupby(self.results, key=lambda r: r.experiment.paper):
            parts.append(f"<h2>{escape(paper)}</h2>")
            parts += [_section(r) for r in results]
        return "\n".join(parts)


def reproduce(experiments: Iterable[Experiment], out: Path, *, progress: bool = True) -> Report:
    """Run experiments one after the other; writes out/index.html (self-contained), out/results.json and out/summary.md.

    All files are written anew after each experiment, so that an interrupted run leaves what it has. An experiment that
    breaks off does not stop the others; the report shows its traceback.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxns.reproduce import Experiment, Outcome, Statement, reproduce
    >>> def run():
    ...     return Outcome((Statement("one and one is two", f"{1 + 1}", 1 + 1 == 2),))
    >>> sums = Experiment("sums", "A paper", "§1", "Sums", run)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = reproduce([sums], Path(folder), progress=False)
    >>> report.count(True), report.failed
    (1, [])
    """
    out.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    chosen = list(experiments)
    bar = tqdm_bar(iterable=chosen, unit="experiment", disable=not progress)
    for experiment in bar:
        bar.set_postfix_str(experiment.name)
        results.append(_run(experiment))
        _write(Report(tuple(results)), out)
        jax.clear_caches()  # the programs of one experiment are of no use to the next one
    return Report(tuple(results))


def _run(experiment: Experiment) -> Result:
    start = time.perf_counter()
    statements: tuple[Statement, ...] = ()
    images: dict[str, str] = {}
    failure = ""
    try:
        outcome = experiment.run()
        images = {caption: _png(figure) for caption, figure in outcome.figures.items()}
        statements = outcome.statements
    except Exception:  # whatever it is, the other experiments are still of interest
        failure = traceback.format_exc()
    return Result(experiment, statements, images, failure, time.perf_counter() - start)


def _write(report: Report, out: Path) -> None:
    (out / "index.html").write_text(report.html(), encoding="utf-8")
    (out / "summary.md").write_text(report.markdown(), encoding="utf-8")
    results = {
        "statements": report.rows(),
        "seconds": {r.experiment.name: round(r.seconds, 1) for r in report.results},
        "failed": report.failed,
    }
    (out / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _section(result: Result) -> str:
    """One experiment: statements beside figures."""
    e = result.experiment
    parts = [f'<section id="{e.name}"><h3>{escape(e.title)} <small>{escape(e.section)} · {e.name}</small></h3>']
    if result.failure:
        parts.append(f"<pre>{escape(result.failure)}</pre>")
    marks = [
        f'<li class="{"yes" if s.holds else "no"}"><q>{escape(s.paper)}</q><br>{escape(s.ours)}{_reason(s)}</li>'
        for s in result.statements
    ]
    parts.append(f"<ul>{''.join(marks)}</ul>")
    for caption, image in result.images.items():
        tag = f'<img src="data:image/png;base64,{image}" alt="{escape(caption)}" loading="lazy">'
        parts.append(f"<figure>{tag}<figcaption>{escape(caption)}</figcaption></figure>")
    return "\n".join([*parts, "</section>"])


def _reason(statement: Statement) -> str:
    if not statement.settled:
        return ""
    return f"<br><small>Criterion settled after a run: {escape(statement.settled)}</small>"


def _line(statement: str, ours: str, experiment: str) -> str:
    """A line of a table in Markdown."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (statement, ours, f"`{experiment}`")) + " |"


def _row(cells: Sequence[str], kind: str) -> str:
    return f'<tr class="{kind}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _png(figure: Figure) -> str:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return base64.b64encode(buffer.getvalue()).decode()
