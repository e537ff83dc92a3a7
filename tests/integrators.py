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


MOREAU, RATTLE, LOBATTO = ns.Moreau(), ns.Rattle(), ns.Lobatto(stages=3)
DECOUPLED, UNIFIED, ALPHA = ns.GGLDecoupled(), ns.GGLUnified(), ns.GeneralizedAlpha()
EVENT = ns.EventDriven()
ALL = named(MOREAU, RATTLE, LOBATTO, DECOUPLED, UNIFIED, ALPHA, EVENT)
# For systems of one form; tests/test_energy_consistent.py keeps their side of the contract.
CONSISTENT = named(
    ns.EnergyConstantMass(),
    ns.EnergyCoordinateMass(),
    ns.EnergyDecomposedMass(),
    ns.EnergyTwoStep(),
    ns.EnergyQuaternion(),
    ns.EnergyQuaternionTwoStep(),
)
STEADY = named(MOREAU, RATTLE, LOBATTO, UNIFIED, ALPHA)  # a contact that stays closed has a percussion in every step
POSITION_LEVEL = named(RATTLE, LOBATTO, UNIFIED, ALPHA)  # gaps and constraints hold on position and velocity level
VELOCITY_LEVEL = named(MOREAU)  # they hold on velocity level alone, and drift
SECOND_ORDER = named(RATTLE, LOBATTO, UNIFIED, ALPHA)  # at least, in smooth motion and persistent contact
FIRST_ORDER = named(MOREAU, DECOUPLED)
SMOOTH_ORDER = {"Moreau": 1, "GGLDecoupled": 1, "GGLUnified": 2, "Rattle": 2, "GeneralizedAlpha": 2, "Lobatto": 4}
NONHOLONOMIC_ORDER = SMOOTH_ORDER | {"Rattle": 1, "Lobatto": 2}  # s − 1 for Lobatto
MIDPOINT_CONTACT = named(
    MOREAU, DECOUPLED
)  # a contact is closed where its gap at the predicted midpoint is not positive


def rests_below_zero(integrator) -> bool:
    """Whether a closed contact must start a little below zero: on velocity level the sign of its gap closes it."""
    return any(p.values[0] == replace(integrator, tol=None) for p in MIDPOINT_CONTACT)
