"""The reproduction report: experiments that are quick run through, and the page says what they found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from jaxns.command_line import main as cli
from jaxns.reproduce import EXPERIMENTS, Experiment, Outcome, Statement, reproduce

PAPERS = 5
VERDICTS: dict[str, tuple] = {  # the number of statements, and how those begin that do not hold
    "lobatto-ball": (7,),
    "lobatto-slider-crank": (4,),
    "lobatto-slope": (6,),
    "lobatto-convergence": (8,),
    "rattle-ball": (8,),
    "rattle-slider-crank": (8,),
    "rattle-slope": (12,),
    "rattle-convergence": (9,),
    "rattle-tippedisk": (8,),
    "event-driven-four-bar": (9, "Fig. 4: RKF45 takes the smallest step"),
    "event-driven-block": (14,),
    "event-driven-edge": (6,),
    "ggl-restitution": (13,),
    "ggl-drift": (5,),
    "ggl-energy": (
        6,
        "§3.1: it does not show the expected decreasing trend",
        "Fig. 10: after 4 s they differ slightly",
        "§3.2.2: the unified scheme takes ten times the time",
    ),
    "energy-iterations": (2,),
    "energy-contensou": (7,),
    "energy-sprag-clutch": (5,),
    "energy-levels": (4,),
    "energy-oscillator": (6,),
    "energy-double-pendulum": (4, "the one-step integrator (5.95)"),
    "energy-wheel": (8,),
    "energy-woodpecker": (8,),
    "energy-tippe-top": (11,),
    "energy-scalable-body": (4,),
    "energy-moreau": (1,),
}


def drawing() -> Figure:
    figure = Figure(figsize=(2.0, 1.0))
    figure.subplots().plot([0.0, 1.0])
    return figure


def mixed() -> Outcome:
    statements = (Statement("a < b", "1 < 2", True), Statement("the gap stays open", "it closes at 0.3 s", False))
    return Outcome(statements, {"Fig. 1: a line": drawing()})


def broken() -> Outcome:
    raise FloatingPointError("no root & no reason")


@pytest.fixture
def report(tmp_path):
    experiments = [
        Experiment("mixed", "A paper", "§1", "Mixed", mixed),
        Experiment("broken", "A paper", "§2", "Broken", broken),
    ]
    return reproduce(experiments, tmp_path, progress=False)


def test_names_are_unique_and_all_papers_are_there():
    from jaxns.reproduce import energy_consistent, event_driven, ggl, lobatto, rattle

    files = (energy_consistent, event_driven, ggl, lobatto, rattle)
    assert len(EXPERIMENTS) == sum(len(f.EXPERIMENTS) for f in files)
    assert len({e.paper for e in EXPERIMENTS.values()}) == PAPERS


def test_report_counts_and_keeps_what_does_not_hold(report, tmp_path):
    assert (report.count(True), report.count(False)) == (1, 1)
    page = (tmp_path / "index.html").read_text()
    assert "1 of 2 statements hold" in page
    assert "does not hold" in page
    assert "1 &lt; 2" in page  # escaped
    assert page.count("data:image/png;base64,") == 1
    assert "<!--" not in page.replace("<!doctype", "")  # all places of the template are filled
    summary = (tmp_path / "summary.md").read_text()
    assert "1 of 2" in summary
    assert "| the gap stays open | it closes at 0.3 s | `mixed` |" in summary
    assert "1 < 2" not in summary  # what holds is in the page
    stored = json.loads((tmp_path / "results.json").read_text())
    assert [s["holds"] for s in stored["statements"]] == [True, False]


def test_an_experiment_that_breaks_off_is_shown_and_stops_no_other(report, tmp_path):
    assert report.failed == ["broken"]
    page = (tmp_path / "index.html").read_text()
    assert "Broken off: broken" in page
    assert "no root &amp; no reason" in page


def test_command_runs_one_experiment(tmp_path, capsys):
    assert cli.main(["reproduce", "--only", "sprag-clutch", "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert "holds" in output
    assert "0 do not" in output
    assert (tmp_path / "out" / "index.html").stat().st_size > 10_000


def test_unknown_experiment_exits_with_2(tmp_path, capsys):
    assert cli.main(["reproduce", "--only", "no-such-thing", "--out", str(tmp_path)]) == 2
    assert "unknown experiment" in capsys.readouterr().err


QUICK = ("energy-iterations", "energy-moreau", "energy-levels")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EXPERIMENTS]
)
def test_verdicts_are_those_that_the_page_reports(name):
    """Every experiment judges and draws what it says; no statement begins or ceases to hold unnoticed."""
    outcome = EXPERIMENTS[name].run()
    assert outcome.figures or "Fig" not in EXPERIMENTS[name].section
    number, *failing = VERDICTS[name]
    assert len(outcome.statements) == number
    found = [s.paper for s in outcome.statements if not s.holds]
    assert [bool(paper.startswith(begin)) for paper, begin in zip(found, failing, strict=True)] == [True] * len(failing)


def test_page_counts_what_is_pinned():
    """docs/reproduction.md has the same counts, experiment by experiment."""
    page = (Path(__file__).parents[1] / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for name, (number, *failing) in VERDICTS.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        assert line.endswith(f"| {number - len(failing)} of {number} |")
        assert page.count(f"| `{name}` |") >= len(failing)


def test_page_and_summary_say_which_criteria_were_settled_after_a_run(tmp_path):
    settled = Statement("rises", "by 2", True, "the first bound was 3")
    report = reproduce(
        [Experiment("one", "A paper", "§1", "One", lambda: Outcome((settled,)))], tmp_path, progress=False
    )
    assert report.settled(True) == 1
    assert "the first bound was 3" in (tmp_path / "index.html").read_text()
    assert "| rises | the first bound was 3 | `one` |" in (tmp_path / "summary.md").read_text()
