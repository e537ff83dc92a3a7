"""jaxns: a differentiable simulator for mechanical systems with impacts and friction."""

from . import models
from .analysis.convergence import ConvergenceStudy, convergence_study
from .analysis.energy import Energy, energy
from .contact_problem import ContactSolution, solve_contacts
from .integrators.energy_consistent import (
    EnergyConstantMass,
    EnergyCoordinateMass,
    EnergyDecomposedMass,
    EnergyQuaternion,
    EnergyQuaternionTwoStep,
    EnergyTwoStep,
)
from .integrators.generalized_alpha import GeneralizedAlpha
from .integrators.ggl import GGLDecoupled, GGLUnified
from .integrators.lobatto import Lobatto
from .integrators.moreau import Moreau
from .integrators.rattle import Rattle
from .laws.friction import AnisotropicCoulomb, Contensou, Coulomb, FrictionLaw, SpragClutch
from .model import bodies
from .model.contacts import Contacts
from .model.system import Problem, System
from .simulate import SimulationError, Trajectory, simulate
from .solve.lemke import Complementarity, lemke
from .solve.status import Status

__all__ = [
    "AnisotropicCoulomb",
    "Complementarity",
    "ContactSolution",
    "Contacts",
    "Contensou",
    "ConvergenceStudy",
    "Coulomb",
    "Energy",
    "EnergyConstantMass",
    "EnergyCoordinateMass",
    "EnergyDecomposedMass",
    "EnergyQuaternion",
    "EnergyQuaternionTwoStep",
    "EnergyTwoStep",
    "FrictionLaw",
    "GGLDecoupled",
    "GGLUnified",
    "GeneralizedAlpha",
    "Lobatto",
    "Moreau",
    "Problem",
    "Rattle",
    "SimulationError",
    "SpragClutch",
    "Status",
    "System",
    "Trajectory",
    "bodies",
    "convergence_study",
    "energy",
    "lemke",
    "models",
    "simulate",
    "solve_contacts",
]
__version__ = "0.1.0"
