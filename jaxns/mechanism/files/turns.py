"""Rotation matrices."""

from __future__ import annotations

import numpy as np

from ..parts import matrix_of


def turned(axis: int, angle: float) -> np.ndarray:
    """Of a turn about an axis of the frame."""
    return about(np.eye(3)[axis], angle)


def about(axis: np.ndarray, angle: float) -> np.ndarray:
    """Of a turn about any axis."""
    half = 0.5 * angle
    return matrix_of(np.append(np.cos(half), np.sin(half) * axis / np.linalg.norm(axis)))


def rotation_of(quaternion: np.ndarray) -> np.ndarray:
    """Of a quaternion of any length."""
    return matrix_of(quaternion / np.linalg.norm(quaternion))
