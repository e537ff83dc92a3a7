"""Energy, convergence, identification and sensitivity of trajectories."""

from .sensitivity import gradient_report

__all__ = ["gradient_report"]
