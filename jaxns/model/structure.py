"""Which arguments a function's result depends on, read from its trace.

Integrators use it to leave out what a system does not have: forces without velocities make a half step explicit, a
mass matrix without positions has no gyroscopic terms. The answer is conservative: "depends" may be said too often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def depends_on(function: Callable[..., Any], arguments: tuple[Any, ...], index: int) -> bool:
    """Whether `function(*arguments)` may depend on its argument number `index`.

    >>> depends_on(lambda x, y: x + 1.0, (1.0, 2.0), 1)
    False
    """
    jaxpr = jax.make_jaxpr(function)(*arguments).jaxpr
    sizes = [len(jax.tree.leaves(a)) for a in arguments]
    first = sum(sizes[:index])
    tainted = set(jaxpr.invars[first : first + sizes[index]])
    for equation in jaxpr.eqns:
        if any(v in tainted for v in equation.invars if not hasattr(v, "val")):
            tainted.update(equation.outvars)
    return any(v in tainted for v in jaxpr.outvars if not hasattr(v, "val"))
