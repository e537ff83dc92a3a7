"""What is known of JAX's primitives, by their names, in one table; and whether traces are read at all.

JAX promises the form of a trace (`jax.extend.core`), but neither the names of its operations nor their parameters. So
traces are read operation by operation with the releases of JAX that the tests have seen. With any other, public functions
of JAX do the same work: `jax.vmap` with the lanes last in place of `vectorise`, dense matrices in place of patterns. That
is slower, and never wrong. The environment variable JAXNS_TRACES, "read" or "public", decides otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Set
from typing import Any

import jax
from jax.extend import core

TESTED = ("0.10",)  # releases of JAX whose primitives are those below


def reads_traces() -> bool:
    """Whether traces are read operation by operation; else JAX's public functions do the work."""
    chosen = os.environ.get("JAXNS_TRACES", "")
    if chosen not in ("", "read", "public"):
        raise ValueError(f'JAXNS_TRACES must be "read" or "public", got {chosen!r}.')
    return chosen == "read" or (not chosen and jax.__version__.rpartition(".")[0] in TESTED)


PLAIN_CALLS = set("jit closed_call call".split())  # of a program inside
CALLS = PLAIN_CALLS | set("custom_jvp_call custom_vjp_call remat2".split())  # the same, where no derivative is to come

COSTLY = set(  # operations on entries that are worth storing
    "sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 expm1 log log1p pow sqrt rsqrt cbrt erf".split()
)
FLAT = set("sign floor ceil round is_finite eq ne lt le gt ge and or not xor stop_gradient".split())  # derivative zero
SMOOTH = COSTLY | set(
    "add sub mul div rem max min neg abs asinh acosh atanh integer_pow square add_any logistic".split()
)
SAME = set("copy name convert_element_type reduce_precision real".split())  # the entries as they are, or rounded
ELEMENTWISE = SMOOTH | FLAT | SAME | set("imag nextafter".split())  # entry by entry
KEEPS_ZERO = set(  # zero where all operands are zero
    "add sub add_any neg max min abs sqrt cbrt sin tan asin atan sinh tanh square erf expm1 log1p".split()
)


def inner_program(equation: Any, calls: Set[str] = CALLS) -> core.ClosedJaxpr | None:
    """The program that an equation of a trace calls once with its own operands, or None."""
    if equation.primitive.name not in calls:
        return None
    inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return inner if inner is None or isinstance(inner, core.ClosedJaxpr) else core.ClosedJaxpr(inner, ())
