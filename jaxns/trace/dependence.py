"""Which arguments a function's result depends on, read from its trace.

Integrators use it to leave out what a system does not have: forces without velocities make a half step explicit, a
mass matrix without positions has no gyroscopic terms. The answer is conservative: "depends" may be said too often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .primitives import inner_program


def depends_on(function: Callable[..., Any], arguments: tuple[Any, ...], index: int) -> bool:
    """Whether `function(*arguments)` may depend on its argument number `index`.

    >>> depends_on(lambda x, y: x + 1.0, (1.0, 2.0), 1)
    False
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    sizes = [len(jax.tree.leaves(a)) for a in arguments]
    first = sum(sizes[:index])
    return any(_reached(jaxpr, [first <= i < first + sizes[index] for i in range(len(jaxpr.invars))]))


def _reached(jaxpr: Any, marked: list[bool]) -> list[bool]:
    """Which outputs of a trace the marked inputs may reach."""
    tainted = {v for v, mark in zip(jaxpr.invars, marked, strict=True) if mark}
    for equation in jaxpr.eqns:
        inputs = [not hasattr(v, "val") and v in tainted for v in equation.invars]
        inner = inner_program(equation)  # many functions of jax.numpy are calls: look inside
        outputs = [any(inputs)] * len(equation.outvars) if inner is None else _reached(inner.jaxpr, inputs)
        tainted.update(v for v, mark in zip(equation.outvars, outputs, strict=True) if mark)
    return [not hasattr(v, "val") and v in tainted for v in jaxpr.outvars]
