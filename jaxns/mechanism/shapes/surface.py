"""Surfaces given by a signed distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import MechanismError
from ..frames import Vector
from .base import Shape, Values


@dataclass(frozen=True, init=False)
class Surface(Shape):
    """Any surface, by its signed distance `sdf(x, p) -> scalar`, x (d,); p has the shape's own parameters, given by name.

    >>> hill = Surface(lambda x, p: x[1] - p["height"] * jnp.cos(x[0]), height=0.1)  # a distance up to second order
    >>> hill.parameters()
    {'height': 0.1}
    """

    sdf: Callable[..., Array]
    own: tuple[tuple[str, Any], ...]
    solid: ClassVar[bool] = False

    def __init__(self, sdf: Callable[..., Array], **parameters: Any):
        if not callable(sdf):
            raise MechanismError(f"Surface: sdf must be a function (x, p) -> scalar, got {sdf!r}.")
        object.__setattr__(self, "sdf", sdf)
        object.__setattr__(self, "own", tuple(parameters.items()))

    @property
    def kind(self) -> Any:
        return _SurfaceKind(self.sdf)

    def parameters(self) -> dict[str, Any]:
        return dict(self.own)


@dataclass(frozen=True)
class _SurfaceKind:
    sdf: Callable[..., Array]
    whole: ClassVar[bool] = False
    pointed: ClassVar[str] = ""
    measured: ClassVar[bool] = True

    def distance(self, v: Values, x: Vector, r: Array) -> Array:
        own = {name: value[0] if value.shape == (1,) else value for name, value in v.items()}
        return jax.vmap(lambda y: self.sdf(y, own))(jnp.stack(x, axis=1)) - r
