"""Mechanisms from files: URDF and MJCF."""
