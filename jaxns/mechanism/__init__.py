"""Mechanisms from parts: bodies, joints, force elements, shapes that touch."""

from . import shapes
from .actuators import Actuator
from .coupling import Coupling
from .errors import MechanismError
from .files import ModelFileError, ModelFileWarning, from_mjcf, from_urdf
from .forces import Damper, Force, Signal, Spring, Torque, TorsionSpring
from .geometry import Geometry
from .joints import Cylindrical, Distance, Fixed, Joint, Prismatic, Revolute, Spherical, Universal
from .mechanism import Mechanism
from .parts import Body
from .rolling import Rolling, Skate
from .touch import Touch

__all__ = [
    "Actuator",
    "Body",
    "Coupling",
    "Cylindrical",
    "Damper",
    "Distance",
    "Fixed",
    "Force",
    "Geometry",
    "Joint",
    "Mechanism",
    "MechanismError",
    "ModelFileError",
    "ModelFileWarning",
    "Prismatic",
    "Revolute",
    "Rolling",
    "Signal",
    "Skate",
    "Spherical",
    "Spring",
    "Torque",
    "TorsionSpring",
    "Touch",
    "Universal",
    "from_mjcf",
    "from_urdf",
    "shapes",
]
