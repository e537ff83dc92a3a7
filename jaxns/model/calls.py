"""Calls of the user's functions, traced once, with every vector cut once.

A function of a mechanism reads single entries, `q[7]`. In reverse mode each of these becomes a vector of zeros with one
entry, and the vectors are added up: a hundred small kernels in the gradient of a step, each of which takes time to compile.
Cut into all of its pieces at once, a vector gets its derivative as one concatenation of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core

MOST = 8  # operands of a concatenation that XLA fuses with what makes them


class _Part(NamedTuple):
    """Entries [start, stop) of a vector of the trace."""

    of: Any  # a variable
    start: int
    stop: int


class _Trace(NamedTuple):
    closed: Any  # a jaxpr with its constants
    result: Any  # the structure of what the function returns
    parts: dict[Any, _Part]  # variables that are parts of a vector
    cuts: dict[Any, list[int]]  # where each of these vectors is cut


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, in a form that compiles and differentiates faster.

    >>> float(jax.jit(lambda q: call(lambda q: q[0] * q[2], q))(jnp.array([2.0, 1.0, 3.0])))
    6.0
    """
    leaves, structure = jax.tree.flatten(arguments)
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return function(*arguments)
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    try:
        trace = _traced(function, structure, shapes)
    except _DependsOnTracedValues:
        return function(*arguments)
    results = [lax.optimization_barrier(result) for result in _evaluate(trace, leaves)]
    return jax.tree.unflatten(trace.result, results)


class _DependsOnTracedValues(Exception):
    """The function closes over values of a trace that is under way: its own trace must not outlive that one."""


@lru_cache(maxsize=1024)
def _traced(function: Callable[..., Any], structure: Any, shapes: tuple[Any, ...]) -> _Trace:
    arguments = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*s) for s in shapes])
    closed, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
    if any(isinstance(c, jax.core.Tracer) for c in closed.consts):
        raise _DependsOnTracedValues
    parts = _parts(closed.jaxpr)
    cuts: dict[Any, set[int]] = {}
    for part in parts.values():
        cuts.setdefault(part.of, {0, part.of.aval.shape[0]}).update((part.start, part.stop))
    return _Trace(closed, jax.tree.structure(result), parts, {v: sorted(c) for v, c in cuts.items()})


def _parts(jaxpr: Any) -> dict[Any, _Part]:
    """The variables that are slices of a vector, each as a part of one that is none itself."""
    parts: dict[Any, _Part] = {}
    for equation in jaxpr.eqns:
        if equation.primitive.name != "slice" or isinstance(equation.invars[0], core.Literal):
            continue
        (source,), p = equation.invars, equation.params
        if len(source.aval.shape) == 1 and p["strides"] in (None, (1,)):
            above = parts.get(source, _Part(source, 0, source.aval.shape[0]))
            start, stop = (above.start + p[k][0] for k in ("start_indices", "limit_indices"))
            parts[equation.outvars[0]] = _Part(above.of, start, stop)
    return parts


def _evaluate(trace: _Trace, arguments: list[Array]) -> list[Array]:
    jaxpr = trace.closed.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*trace.closed.consts, *arguments), strict=True))
    pieces: dict[Any, dict[int, Array]] = {}

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    def part(p: _Part) -> Array:
        if p.of not in pieces:
            pieces[p.of] = dict(zip(trace.cuts[p.of], _split(values[p.of], trace.cuts[p.of]), strict=False))
        own = [piece for start, piece in pieces[p.of].items() if p.start <= start < p.stop]
        return own[0] if len(own) == 1 else jnp.concatenate([values[p.of][:0], *own])

    for equation in jaxpr.eqns:
        first = equation.outvars[0]
        if first in trace.parts:
            values[first] = part(trace.parts[first])
        else:
            results = equation.primitive.bind(*map(value, equation.invars), **equation.params)
            results = results if equation.primitive.multiple_results else [results]
            values.update(zip(equation.outvars, results, strict=True))
    return [value(v) for v in jaxpr.outvars]


def _split(vector: Array, cuts: Sequence[int]) -> list[Array]:
    """The pieces between the cuts; in several turns where there are many, behind barriers, so that XLA does not make one
    long concatenation of their derivatives."""
    if len(cuts) <= MOST + 1:
        return list(lax.split(vector, [b - a for a, b in pairwise(cuts)]))
    coarse = [*cuts[:-1:MOST], cuts[-1]]
    inner = [[c - a for c in cuts if a <= c <= b] for a, b in pairwise(coarse)]
    return [
        p
        for piece, fine in zip(_split(vector, coarse), inner, strict=True)
        for p in _split(lax.optimization_barrier(piece), fine)
    ]
