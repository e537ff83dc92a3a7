"""jaxns: a differentiable simulator for mechanical systems with impacts and friction."""

from . import models
from .analysis.energy import Energy, energy
from .integrators.moreau import Moreau
from .integrators.rattle import Rattle
from .laws.friction import Coulomb
from .model.contacts import Contacts
from .model.system import Problem, System
from .simulate import SimulationError, Trajectory, simulate
from .solve.status import Status

__all__ = [
    "Contacts",
    "Coulomb",
    "Energy",
    "Moreau",
    "Problem",
    "Rattle",
    "SimulationError",
    "Status",
    "System",
    "Trajectory",
    "energy",
    "models",
    "simulate",
]
__version__ = "0.1.0"
