"""Benchmark problems: each function takes physical parameters and returns a `Problem`.

The arguments are also the keys of `system.params`, so a study can write `problem.system.with_params(mu=0.02)`.
"""

from .bouncing_ball import bouncing_ball
from .mass_on_slope import mass_on_slope
from .slider_crank import slider_crank
from .slider_crank_angles import slider_crank_bilateral, slider_crank_minimal
from .tippedisk import tippedisk

__all__ = [
    "bouncing_ball",
    "mass_on_slope",
    "slider_crank",
    "slider_crank_bilateral",
    "slider_crank_minimal",
    "tippedisk",
]
