"""jaxns: a differentiable simulator for mechanical systems with impacts and friction."""

from . import models
from .analysis.convergence import ConvergenceStudy, convergence_study
from .analysis.energy import Energy, energy
from .integrators.generalized_alpha import GeneralizedAlpha
from .integrators.ggl import GGLDecoupled, GGLUnified
from .integrators.lobatto import Lobatto
from .integrators.moreau import Moreau
from .integrators.rattle import Rattle
from .laws.friction import Coulomb
from .model.contacts import Contacts
from .model.system import Problem, System
from .simulate import SimulationError, Trajectory, simulate
from .solve.status import Status

__all__ = [
    "Contacts",
    "ConvergenceStudy",
    "Coulomb",
    "Energy",
    "GGLDecoupled",
    "GGLUnified",
    "GeneralizedAlpha",
    "Lobatto",
    "Moreau",
    "Problem",
    "Rattle",
    "SimulationError",
    "Status",
    "System",
    "Trajectory",
    "convergence_study",
    "energy",
    "models",
    "simulate",
]
__version__ = "0.1.0"
