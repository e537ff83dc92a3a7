"""The reproduction report: experiments that are quick run through, and the page says what they found."""

from __future__ import annotations

import json

import pytest
from matplotlib.figure import Figure

from jaxns import cli
from jaxns.reproduce import EXPERIMENTS, Experiment, Outcome, Statement, reproduce

PAPERS = 5


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


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_runs(name):
    """It judges something, and draws what it says to draw."""
    experiment = EXPERIMENTS[name]
    outcome = experiment.run()
    assert outcome.statements
    assert outcome.figures or "Fig" not in experiment.section
