"""Whether slip, kinematics and velocity constraint are affine in u: their derivatives are force directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..trace.dependence import depends_on
from .system import System

SPEEDS = (1.0, 1e3)  # sizes of the velocities that are tried: a function may bend at some of them alone
NEARBY = 0.1  # how far from the initial position a second one is tried


class _Suspects:
    """Functions of one structure whose trace does not show that they are affine, until they have been tried."""

    def __init__(self, names: tuple[str, ...]):
        self.names = names


def check_affinity(system: System, t: Any, q: Any, u: Any) -> None:
    """Complain about a function that is not affine in u; needs concrete values.

    Most traces show that a function is affine. The others are tried with random velocities, once for each structure.
    """
    leaves, tree = jax.tree.flatten((system, t, q, u))
    suspects = _suspects(tree, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))
    if not suspects.names:
        return
    limit = 10.0 * float(jnp.finfo(q.dtype).eps) ** 0.5
    defects = np.asarray(_defects(system, suspects.names, t, q, u))
    for name, defect in zip(suspects.names, defects, strict=True):
        if defect > limit:  # NaN tells nothing: a position nearby may be none that the function can take
            raise ValueError(
                f"the system's {name} must be affine in u, but its value at the mean of two velocities differs from the "
                f"mean of its values by {defect:.1e} of their size. Its derivative with respect to u is a force direction, "
                "which would be wrong. Return the velocity itself; norms, signs and regularised friction belong elsewhere, "
                "to laws and forces."
            )
    suspects.names = ()


def _functions(system: System) -> dict[str, Callable[..., Array]]:
    """All functions that must be affine in u, by name."""
    given = {"kinematics (t, q, u, p)": system.kinematics}
    given["velocity_constraint (t, q, u, p)"] = system.velocity_constraint
    for i, group in enumerate(system.contacts):
        given[f"slip of contact group {i} (t, q, u, p)"] = group.slip
    return {name: function for name, function in given.items() if function is not None}


@lru_cache(maxsize=64)
def _suspects(tree: Any, shapes: tuple[Any, ...]) -> _Suspects:
    system, t, q, u = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*s) for s in shapes])

    def direction_depends_on_u(function: Callable[..., Array]) -> bool:
        def direction(u: Array, v: Array, rest: Any) -> Array:
            t, q, p = rest
            return jax.jvp(lambda u: function(t, q, u, p), (u,), (v,))[1]

        return depends_on(direction, (u, u, (t, q, system.params)), 0)

    return _Suspects(tuple(name for name, f in _functions(system).items() if direction_depends_on_u(f)))


@partial(jax.jit, static_argnums=1)
def _defects(system: System, names: tuple[str, ...], t: Array, q: Array, u: Array) -> Array:
    """How far each function is from an affine one, relative to its values (functions,)."""
    rng = np.random.default_rng(0)
    functions = _functions(system)

    def defect(function: Callable[..., Array], q: Array, a: Array, b: Array) -> Array:
        at_a, at_b, between = (function(t, q, v, system.params) for v in (a, b, 0.5 * (a + b)))
        size = jnp.maximum(jnp.max(jnp.abs(at_a), initial=0.0), jnp.max(jnp.abs(at_b), initial=0.0))
        return jnp.max(jnp.abs(0.5 * (at_a + at_b) - between), initial=0.0) / jnp.where(size > 0.0, size, 1.0)

    found = []
    for name in names:
        worst = jnp.zeros((), q.dtype)
        for position in (q, q + NEARBY * rng.normal(size=q.shape).astype(q.dtype)):
            for speed in SPEEDS:
                a, b = (u + speed * rng.normal(size=u.shape).astype(u.dtype) for _ in range(2))
                worst = jnp.fmax(worst, defect(functions[name], position, a, b))
        found.append(worst)
    return jnp.stack(found)
