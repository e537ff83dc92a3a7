"""Options of XLA for programs that jaxns itself compiles for batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import jax

from ..model.values import inside_trace


@cache
def compiler_options() -> dict[str, int] | None:
    """Options for `jax.jit`: the widest vectors where the processor has AVX-512, else none.

    XLA prefers vectors of 256 bits; loops over the lanes of a batch are faster with 512. Single runs gain nothing.

    >>> compiler_options() in (None, {"xla_cpu_prefer_vector_width": 512})
    True
    """
    if jax.default_backend() != "cpu" or not _has_avx512():
        return None
    options = {"xla_cpu_prefer_vector_width": 512}
    try:
        jax.jit(lambda x: x + 1, compiler_options=options).lower(0).compile()
    except Exception:  # a version of JAX that does not know the option
        return None
    return options


def jit_for_batches(function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    """`jax.jit(function, **arguments)` with `compiler_options()`, but without them where a program is part of another one.

    >>> double = jit_for_batches(lambda x: 2 * x)
    >>> int(double(2)), int(jax.jit(double)(2))
    (4, 4)
    """
    inner = jax.jit(function, **arguments)

    @cache
    def outer() -> Any:  # options are looked up by the first call, for they ask JAX for its devices
        return jax.jit(function, compiler_options=compiler_options(), **arguments)

    @wraps(function)
    def call(*args: Any) -> Any:
        return (inner if inside_trace() else outer())(*args)

    return call


def _has_avx512() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.exists() and " avx512f " in cpuinfo.read_text()
