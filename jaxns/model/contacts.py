"""Contacts: gap and slip functions with their laws, as the user writes them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .by_speed import BySpeed
from .values import as_float_leaves

Coefficient = Any  # a number, an array (n,), a function of the parameters, or a `BySpeed`


@jax.tree_util.register_pytree_node_class
class Contacts:
    """A group of n contacts that share a friction law.

    Main arguments:

    - gap: `(t, q, p) -> (n,)`, the distances g_N ≥ 0; None for laws on velocity level alone, such as `jaxns.SpragClutch`
    - slip: `(t, q, u, p) -> (n, d)`, the tangential velocities γ_F, affine in u, with d = 1, 2 or 3 (up to 5 with
      `jaxns.Uncoupled`); None for frictionless contacts

    Laws:

    - e_N, e_F: Newton's restitution coefficients in [0, 1], normal and tangential
    - mu: friction coefficient ≥ 0
    - law: the set of admissible friction percussions; by default `jaxns.Coulomb()`

    Each coefficient is a number, an array (n,), a function of the parameter pytree, or a `jaxns.BySpeed`, where it depends
    on how fast the contact approaches or slides. Laws that have several friction coefficients per contact take `mu` as
    (n, d), one for each component of the slip.

    >>> floor = Contacts(lambda t, q, p: q[1:2] - p["R"], e_N=lambda p: p["e_N"])
    """

    def __init__(
        self,
        gap: Callable[..., Array] | None,
        slip: Callable[..., Array] | None = None,
        *,
        e_N: Coefficient = 0.0,
        e_F: Coefficient = 0.0,
        mu: Coefficient = 0.0,
        law: Any = None,
    ):
        if gap is None and slip is None:
            raise TypeError("Contacts: without a gap there must be a slip function (t, q, u, p) -> (n, d).")
        if gap is not None and not callable(gap):
            raise TypeError(f"Contacts: gap must be a function (t, q, p) -> (n,) or None, got {type(gap).__name__}.")
        if slip is not None and not callable(slip):
            raise TypeError(f"Contacts: slip must be a function (t, q, u, p) -> (n, d) or None, got {slip!r}.")
        if law is not None and not callable(getattr(law, "project", None)):
            raise TypeError(f"Contacts: law must be a friction law such as jaxns.Coulomb(), got {law!r}.")
        if gap is None and getattr(law, "needs_normal_force", True):
            raise ValueError(
                f"Contacts: {type(law).__name__ if law else 'Coulomb'} friction needs a normal force, and contacts without "
                "a gap have none: they would be frictionless. Give a gap; or a law whose forces need no normal force "
                "(jaxns.SpragClutch(), or one of your own with needs_normal_force = False); or, where the normal force is "
                "known, as in a brake, a pad that it presses: docs/laws.md, or friction= of a joint of jaxns.Mechanism."
            )
        self.gap, self.slip, self.law = gap, slip, law
        self.e_N, self.e_F, self.mu = (c if callable(c) else as_float_leaves(c) for c in (e_N, e_F, mu))

    @property
    def follows_speed(self) -> bool:
        """Whether a coefficient depends on speeds."""
        return any(isinstance(c, BySpeed) for c in (self.e_N, self.e_F, self.mu))

    def at_speeds(self, params: Any, approach: Array, sliding: Array) -> Contacts:
        """The same contacts with the values of their coefficients at these speeds (n,)."""
        settled = copy.copy(self)
        for name, speed in (("e_N", approach), ("e_F", sliding), ("mu", sliding)):
            given = getattr(self, name)
            if isinstance(given, BySpeed):
                setattr(settled, name, given.at(speed, params, jnp.inf if name == "mu" else 1.0))
        return settled

    def coefficient(self, name: str, params: Any, n: int, dtype: Any) -> Array:
        """`e_N` or `e_F` as an array (n,)."""
        value = self._value(name, params)
        if value.shape not in ((), (n,)):
            raise ValueError(
                f"Contacts: {name} must be a number or have shape ({n},), one entry for each contact of "
                f"`{self.name}`; got shape {value.shape}."
            )
        return jnp.broadcast_to(value, (n,)).astype(jnp.result_type(value, dtype))

    def friction_coefficients(self, params: Any, n: int, d: int, dtype: Any) -> Array:
        """`mu` with one entry for each friction row (n·d,)."""
        value = self._value("mu", params)
        if value.shape not in ((), (n,), (n, d)):
            raise ValueError(
                f"Contacts: mu must be a number or have shape ({n},) or ({n}, {d}), one entry for each contact of "
                f"`{self.name}` or for each component of its slip; got shape {value.shape}."
            )
        if value.ndim == 2 and d > 1 and (self.law is None or self.law.isotropic):
            raise ValueError(
                f"Contacts `{self.name}`: isotropic Coulomb friction has one coefficient for each contact, got mu of shape "
                f"{value.shape}; use law=jaxns.AnisotropicCoulomb() or jaxns.Contensou()."
            )
        value = value if value.ndim == 2 else jnp.broadcast_to(value, (n,))[:, None]
        return jnp.broadcast_to(value, (n, d)).reshape(-1).astype(jnp.result_type(value, dtype))

    def _value(self, name: str, params: Any) -> Array:
        given = getattr(self, name)
        return jnp.asarray(given(params) if callable(given) else given)

    def check_coefficients(self, params: Any, n: int, d: int) -> None:
        """Raise on coefficients outside of their range; needs concrete values."""
        for name, value in self._coefficients(params, n, d).items():
            if not np.all(_in_range(name, value)):
                allowed = "at least 0 and finite" if name == "mu" else "in [0, 1]"
                raise ValueError(f"Contacts `{self.name}`: {name} must be {allowed}, got {value}.")

    def coefficients_in_range(self, params: Any, n: int, d: int) -> Array:
        """Whether all coefficients are where they may be ()."""
        return jnp.all(jnp.stack([jnp.all(_in_range(*item)) for item in self._coefficients(params, n, d).items()]))

    def _coefficients(self, params: Any, n: int, d: int) -> dict[str, Array]:
        """All of them, by name; without friction `mu` has one entry for each contact."""
        mu = self.friction_coefficients(params, n, d, float) if d else self.coefficient("mu", params, n, float)
        return {**{name: self.coefficient(name, params, n, float) for name in ("e_N", "e_F")}, "mu": mu}

    @property
    def name(self) -> str:
        """The name of the user's function."""
        function = self.gap or self.slip
        return getattr(function, "__name__", repr(function))

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        coefficients = (self.e_N, self.e_F, self.mu)
        leaves = tuple(None if callable(c) else c for c in coefficients)
        functions = tuple(c if callable(c) else None for c in coefficients)
        return leaves, (self.gap, self.slip, self.law, functions)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], leaves: tuple[Any, ...]) -> Contacts:
        self = object.__new__(cls)
        self.gap, self.slip, self.law, functions = static
        self.e_N, self.e_F, self.mu = (leaf if f is None else f for leaf, f in zip(leaves, functions, strict=True))
        return self


def _in_range(name: str, value: Array) -> Array:
    return (value >= 0.0) & (value <= (jnp.finfo(value.dtype).max if name == "mu" else 1.0))
