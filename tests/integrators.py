"""The one list of integrators that contract, vmap, failure and gradient tests are parametrised over.

A new integrator is added here, once, and no test of the contract can then leave it out.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import jaxns as ns


def named(*integrators):
    """Pytest parameters with the class names as ids."""
    return [pytest.param(i, id=type(i).__name__) for i in integrators]


ALL = named(ns.Moreau(), ns.Rattle())
POSITION_LEVEL = named(ns.Rattle())  # gaps and constraints hold on position level
VELOCITY_LEVEL = named(ns.Moreau())  # they hold on velocity level alone, and drift
SECOND_ORDER = named(ns.Rattle())  # in smooth motion and persistent contact
FIRST_ORDER = named(ns.Moreau())


def rests_below_zero(integrator) -> bool:
    """Whether a closed contact must start a little below zero: on velocity level the sign of its gap closes it."""
    return any(p.values[0] == replace(integrator, tol=None) for p in VELOCITY_LEVEL)
