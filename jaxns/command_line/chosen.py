"""What the arguments of a command ask for: a problem, by name or from a file, and an integrator."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jaxns as ns

from . import model_files
from .choice import find, integrators, parameters, problems


@dataclass(frozen=True)
class Chosen:
    """What the arguments of a command ask for."""

    name: str
    problem: ns.Problem
    integrator: Any
    t1: float

    @classmethod
    def by(cls, options: argparse.Namespace) -> Chosen:
        of_file = model_files.names_a_file(options.problem)
        name = Path(options.problem).stem if of_file else find("problem", options.problem, problems())
        wanted, _, settings = options.integrator.partition(":")
        make = integrators()[find("integrator", wanted, integrators())]
        assignments = [s for s in settings.split(",") if s]
        integrator = make(**parameters("--integrator", make, assignments))
        if of_file:
            problem = model_files.read(options.problem, options)
        else:
            problem = problems()[name](**parameters("--param", problems()[name], options.param))
        return cls(name, problem, integrator, options.t1 or problem.t1)

    def settings(self, options: argparse.Namespace) -> list[tuple[str, str]]:
        return [("problem", " ".join([self.name, *options.param])), ("integrator", repr(self.integrator))]


# One run --------------------------------------------------------------------------------------------------------------
