"""Contact coefficients that depend on the speed of their contact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class BySpeed:
    """A coefficient of `Contacts` as a function of the speed v ≥ 0 of each contact and of the parameters.

    - function: `(v, p) -> (n,)` from v (n,), the speed of approach −ġ_N⁻ for e_N, that of sliding ‖γ_F⁻‖ for e_F and mu

    Fixed steps take the value at their beginning, `Located` that at the instant of an impact, too; `EventDriven` the value
    at each instant. A value outside of the range of its coefficient counts as NaN, and so ends a run.

    >>> import jax.numpy as jnp
    >>> softer = BySpeed(lambda v, p: 1.0 / (1.0 + v / p["v_half"]))  # e_N falls as the approach gets faster
    >>> softer.at(jnp.array([0.0, 2.0]), {"v_half": 2.0}, 1.0).tolist()
    [1.0, 0.5]
    >>> stribeck = BySpeed(lambda v, p: p["mu_d"] + (p["mu_s"] - p["mu_d"]) * jnp.exp(-((v / p["v_s"]) ** 2)))
    >>> stribeck.at(jnp.array([0.0, 1.0]), dict(mu_s=0.5, mu_d=0.3, v_s=0.1), jnp.inf).tolist()
    [0.5, 0.3]
    """

    function: Callable[[Array, Any], Array]

    def __call__(self, params: Any) -> Array:
        """A coefficient that is a function of the parameters alone would be called so."""
        raise TypeError(
            "a coefficient given as jaxns.BySpeed is known at a state only: take system.at_speeds(t, q, u)."
        )

    def at(self, speed: Array, params: Any, largest: float) -> Array:
        """The values (n,) at the speeds (n,); NaN outside of [0, largest]."""
        value = jnp.broadcast_to(jnp.asarray(self.function(speed, params)), speed.shape)
        return jnp.where((value >= 0.0) & (value <= largest), value, jnp.nan)
