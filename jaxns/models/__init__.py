"""Benchmark problems: each function takes physical parameters and returns a `Problem`.

The arguments are also the keys of `system.params`, so a study can write `problem.system.with_params(mu=0.02)`.
"""

from .ball_chain import ball_chain
from .bouncing_ball import bouncing_ball
from .double_pendulum import double_pendulum
from .edge_sphere import edge_sphere
from .four_bar import four_bar
from .impact_oscillator import impact_oscillator
from .mass_on_slope import mass_on_slope
from .overbalanced_wheel import overbalanced_wheel
from .rocking_block import rocking_block
from .slider_crank import slider_crank
from .slider_crank_angles import slider_crank_bilateral, slider_crank_minimal
from .sprag_clutch import sprag_clutch
from .tippe_top import tippe_top
from .tippedisk import tippedisk
from .woodpecker import woodpecker

__all__ = [
    "ball_chain",
    "bouncing_ball",
    "double_pendulum",
    "edge_sphere",
    "four_bar",
    "impact_oscillator",
    "mass_on_slope",
    "overbalanced_wheel",
    "rocking_block",
    "slider_crank",
    "slider_crank_bilateral",
    "slider_crank_minimal",
    "sprag_clutch",
    "tippe_top",
    "tippedisk",
    "woodpecker",
]
