"""Mechanisms from files: URDF and MJCF."""

from .errors import ModelFileError, ModelFileWarning
from .mjcf import from_mjcf
from .urdf import from_urdf

__all__ = ["ModelFileError", "ModelFileWarning", "from_mjcf", "from_urdf"]
