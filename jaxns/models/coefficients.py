"""Contact coefficients that are parameters of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import Array


def _parameter(name: str) -> Callable[[Any], Array]:
    def coefficient(p: Any) -> Array:
        return p[name]

    return coefficient


e_N, e_F, mu = _parameter("e_N"), _parameter("e_F"), _parameter("mu")
FRICTIONAL = {"e_N": e_N, "e_F": e_F, "mu": mu}
