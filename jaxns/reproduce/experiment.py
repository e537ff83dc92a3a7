"""What an experiment of a paper is, and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Statement:
    """What a paper says, the figure that we get, and whether it bears the paper out."""

    paper: str  # "rolls with 2/7 R ω after the impact"
    ours: str  # "1.42857 m/s, that is 2/7 R ω to 3e-12"
    holds: bool
    settled: str = (
        ""  # why its criterion is what it is, if that was settled after a run; empty: fixed before the first one
    )


@dataclass(frozen=True)
class Outcome:
    """Statements, and figures by their captions ("Fig. 4: percussions for ω = 50 and ω = 10")."""

    statements: tuple[Statement, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper: `run` simulates, draws and judges. It needs float64."""

    name: str  # as in `jaxns reproduce --only NAME`
    paper: str  # "Breuling, Capobianco, Eugster, Leine 2024"
    section: str  # "§5.1, Figs. 2 and 3"
    title: str  # "Bouncing ball"
    run: Callable[[], Outcome]
