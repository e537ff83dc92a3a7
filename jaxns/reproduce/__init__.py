"""The experiments of the five papers, with what the papers say about them: `jaxns reproduce`. Needs matplotlib.

One file for each paper, with its `EXPERIMENTS`; `report.py` runs them and writes the page.
"""

from . import energy_consistent, event_driven, ggl, lobatto, rattle
from .experiment import Experiment, Outcome, Statement
from .report import VERDICTS, Report, Result, reproduce

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for paper in (lobatto, rattle, event_driven, ggl, energy_consistent)
    for experiment in paper.EXPERIMENTS
}

__all__ = ["EXPERIMENTS", "VERDICTS", "Experiment", "Outcome", "Report", "Result", "Statement", "reproduce"]
