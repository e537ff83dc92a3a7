"""What makes two functions the same: a hash of their programs, with all constants."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import jax
import numpy as np
from jax.extend import core


def digest(closed: core.ClosedJaxpr) -> str:
    """A hash of a program with its constants, also those of programs inside.

    The text of a jaxpr would not do: it leaves constants out, and depends on what JAX found in its caches.

    >>> program = lambda x: digest(jax.make_jaxpr(lambda y: x * y)(1.0))
    >>> program(np.ones(2)) == program(np.ones(2)), program(np.ones(2)) == program(np.zeros(2))
    (True, False)
    """
    return _digest(closed, {})


def is_key(leaf: Any) -> bool:
    """Whether a leaf holds random keys, which numpy cannot."""
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _digest(closed: core.ClosedJaxpr | core.Jaxpr, known: dict[int, tuple[Any, str]]) -> str:
    """The same, with the programs that were met before and their hashes: a program that is kept keeps its address."""
    if id(closed) in known:
        return known[id(closed)][1]
    jaxpr, constants = (closed.jaxpr, closed.consts) if isinstance(closed, core.ClosedJaxpr) else (closed, ())
    numbers: dict[Any, int] = {}
    result = hashlib.sha256()

    def add(*variables: Any) -> None:
        for v in variables:
            if isinstance(v, core.Literal):
                result.update(array_bytes(v.val))
            else:
                result.update(f"{numbers.setdefault(v, len(numbers))} {v.aval}\n".encode())

    def parameter(value: Any) -> bytes:
        if isinstance(value, core.ClosedJaxpr | core.Jaxpr):
            return _digest(value, known).encode()
        if isinstance(value, np.ndarray | jax.Array):
            return array_bytes(value)
        if isinstance(value, frozenset):  # its order changes from process to process
            value = sorted(map(str, value))
        return re.sub(r"0x[0-9a-fA-F]+", "", str(value)).encode()  # without addresses of objects

    for constant in constants:
        result.update(array_bytes(constant))
    add(*jaxpr.constvars, *jaxpr.invars)
    for equation in jaxpr.eqns:
        result.update(equation.primitive.name.encode())
        add(*equation.invars)
        for name, value in sorted(equation.params.items()):
            leaves, structure = jax.tree.flatten(value)
            for leaf in (name, structure, *leaves):
                untraced = hasattr(leaf, "traced")  # an operation of ours that is traced when it is lowered
                result.update(parameter(leaf.traced(equation) if untraced else leaf) + b"\n")
        add(*equation.outvars)
    add(*jaxpr.outvars)
    known[id(closed)] = closed, result.hexdigest()
    return result.hexdigest()


def array_bytes(x: Any) -> bytes:
    """An array with its shape and dtype."""
    kind = str(x.dtype) if is_key(x) else ""
    array = np.asarray(jax.random.key_data(x) if is_key(x) else x)
    return f"{kind}{array.dtype}{array.shape}".encode() + array.tobytes()
