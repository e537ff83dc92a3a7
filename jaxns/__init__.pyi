"""jaxns: a differentiable simulator for mechanical systems with impacts and friction."""

from . import contact_problems, models, scene
from .analysis.arguments import FitWarning
from .analysis.contact_forces import ContactForces, contact_forces
from .analysis.convergence import ConvergenceStudy, convergence_study
from .analysis.energy import Energy, ImpactGains, energy, impact_gains
from .analysis.identification import Fit, IdentifiabilityWarning, IdentificationError, identify
from .analysis.records import read_csv
from .analysis.sensitivity import GradientReport, Sensitivity, gradient_report, sensitivity
from .analysis.shooting import Shooting
from .contact_problems.solution import ContactSolution, solve_contacts
from .exploring.explore import explore
from .host.cache import cache
from .integrators.energy.one_step import EnergyConstantMass, EnergyCoordinateMass, EnergyDecomposedMass
from .integrators.energy.quaternion import EnergyQuaternion, EnergyQuaternionTwoStep
from .integrators.energy.two_step import EnergyTwoStep
from .integrators.event_driven.events import EventKind, Events
from .integrators.event_driven.integrator import EventDriven
from .integrators.event_driven.runge_kutta import HEM5, RKF45
from .integrators.generalized_alpha import GeneralizedAlpha
from .integrators.ggl import GGLUnified
from .integrators.ggl_decoupled import GGLDecoupled
from .integrators.lobatto import Lobatto
from .integrators.located.integrator import Located
from .integrators.moreau import Moreau
from .integrators.rattle import Rattle
from .laws.friction import AnisotropicCoulomb, Contensou, Coulomb, FrictionLaw, SpragClutch, Uncoupled
from .mechanism import (
    Actuator,
    Body,
    Coupling,
    Cylindrical,
    Damper,
    Distance,
    Fixed,
    Force,
    Geometry,
    Mechanism,
    MechanismError,
    ModelFileError,
    ModelFileWarning,
    Prismatic,
    Revolute,
    Rolling,
    Signal,
    Skate,
    Spherical,
    Spring,
    Torque,
    TorsionSpring,
    Touch,
    Universal,
    from_mjcf,
    from_urdf,
    shapes,
)
from .model import bodies
from .model.by_speed import BySpeed
from .model.consistent import consistent
from .model.contacts import Contacts
from .model.system import Problem, System
from .pictures.animate import Animation, animate
from .records.check import RecordsCheck, check_records
from .records.data import stack_records
from .records.fit import RecordsFit
from .records.identify import identify_records
from .records.pose import pose_residual
from .records.posterior import LogPosterior, log_posterior
from .scene import Scene
from .simulation.simulate import SimulationError, Trajectory, simulate
from .solve.inclusion import Solver
from .solve.lemke import Complementarity, lemke
from .solve.status import Status
from .sweeps.sweep import SweepError, SweepWarning, failed_lanes, sweep

__all__ = [
    "HEM5",
    "RKF45",
    "Actuator",
    "Animation",
    "AnisotropicCoulomb",
    "Body",
    "BySpeed",
    "Complementarity",
    "ContactForces",
    "ContactSolution",
    "Contacts",
    "Contensou",
    "ConvergenceStudy",
    "Coulomb",
    "Coupling",
    "Cylindrical",
    "Damper",
    "Distance",
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
    "FitWarning",
    "Fixed",
    "Force",
    "FrictionLaw",
    "GGLDecoupled",
    "GGLUnified",
    "GeneralizedAlpha",
    "Geometry",
    "GradientReport",
    "IdentifiabilityWarning",
    "IdentificationError",
    "ImpactGains",
    "Lobatto",
    "Located",
    "LogPosterior",
    "Mechanism",
    "MechanismError",
    "ModelFileError",
    "ModelFileWarning",
    "Moreau",
    "Prismatic",
    "Problem",
    "Rattle",
    "RecordsCheck",
    "RecordsFit",
    "Revolute",
    "Rolling",
    "Scene",
    "Sensitivity",
    "Shooting",
    "Signal",
    "SimulationError",
    "Skate",
    "Solver",
    "Spherical",
    "SpragClutch",
    "Spring",
    "Status",
    "SweepError",
    "SweepWarning",
    "System",
    "Torque",
    "TorsionSpring",
    "Touch",
    "Trajectory",
    "Uncoupled",
    "Universal",
    "animate",
    "bodies",
    "cache",
    "check_records",
    "consistent",
    "contact_forces",
    "contact_problems",
    "convergence_study",
    "energy",
    "explore",
    "failed_lanes",
    "from_mjcf",
    "from_urdf",
    "gradient_report",
    "identify",
    "identify_records",
    "impact_gains",
    "lemke",
    "log_posterior",
    "models",
    "pose_residual",
    "read_csv",
    "scene",
    "sensitivity",
    "shapes",
    "simulate",
    "solve_contacts",
    "stack_records",
    "sweep",
]
__version__: str
