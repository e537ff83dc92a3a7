"""jaxns: a differentiable simulator for mechanical systems with impacts and friction."""

from . import contact_problems, models, scene
from .analysis.contact_forces import ContactForces, contact_forces
from .analysis.convergence import ConvergenceStudy, convergence_study
from .analysis.energy import Energy, ImpactGains, energy, impact_gains
from .analysis.identification import Fit, IdentifiabilityWarning, IdentificationError, identify
from .analysis.records import read_csv
from .analysis.sensitivity import GradientReport, Sensitivity, gradient_report, sensitivity
from .analysis.shooting import Shooting
from .animate import Animation, animate
from .cache import cache
from .contact_problems.solution import ContactSolution, solve_contacts
from .integrators.energy_consistent import (
    EnergyConstantMass,
    EnergyCoordinateMass,
    EnergyDecomposedMass,
    EnergyQuaternion,
    EnergyQuaternionTwoStep,
    EnergyTwoStep,
)
from .integrators.event_driven import EventDriven
from .integrators.events import EventKind, Events
from .integrators.generalized_alpha import GeneralizedAlpha
from .integrators.ggl import GGLUnified
from .integrators.ggl_decoupled import GGLDecoupled
from .integrators.lobatto import Lobatto
from .integrators.moreau import Moreau
from .integrators.rattle import Rattle
from .integrators.runge_kutta import HEM5, RKF45
from .laws.friction import AnisotropicCoulomb, Contensou, Coulomb, FrictionLaw, SpragClutch
from .model import bodies
from .model.contacts import Contacts
from .model.system import Problem, System
from .scene import Scene
from .simulate import SimulationError, Trajectory, simulate
from .solve.lemke import Complementarity, lemke
from .solve.status import Status
from .sweep import SweepError, SweepWarning, failed_lanes, sweep

__all__ = [
    "HEM5",
    "RKF45",
    "Animation",
    "AnisotropicCoulomb",
    "Complementarity",
    "ContactForces",
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
    "EventDriven",
    "EventKind",
    "Events",
    "Fit",
    "FrictionLaw",
    "GGLDecoupled",
    "GGLUnified",
    "GeneralizedAlpha",
    "GradientReport",
    "IdentifiabilityWarning",
    "IdentificationError",
    "ImpactGains",
    "Lobatto",
    "Moreau",
    "Problem",
    "Rattle",
    "Scene",
    "Sensitivity",
    "Shooting",
    "SimulationError",
    "SpragClutch",
    "Status",
    "SweepError",
    "SweepWarning",
    "System",
    "Trajectory",
    "animate",
    "bodies",
    "cache",
    "contact_forces",
    "contact_problems",
    "convergence_study",
    "energy",
    "failed_lanes",
    "gradient_report",
    "identify",
    "impact_gains",
    "lemke",
    "models",
    "read_csv",
    "scene",
    "sensitivity",
    "simulate",
    "solve_contacts",
    "sweep",
]
__version__ = "0.1.0"
