"""Calls of the user's functions, traced once, with every argument cut once.

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

from .primitives import reads_traces

MOST = 8  # operands of a concatenation that XLA fuses with what makes them


class _Part(NamedTuple):
    """Entries [start, stop) of an argument."""

    of: Any  # a variable
    start: int
    stop: int


class _Trace(NamedTuple):
    run: Callable[..., Any]  # the function of its arguments and of parts of them
    result: Any  # the structure of what the function returns
    parts: tuple[tuple[int, int, int], ...]  # number of the argument, start and stop of each part
    cuts: dict[int, list[int]]  # where these arguments are cut


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)`, in a form that compiles and differentiates faster.

    >>> float(jax.jit(lambda q: call(lambda q: q[0] * q[2], q))(jnp.array([2.0, 1.0, 3.0])))
    6.0
    """
    leaves, structure = jax.tree.flatten(arguments)
    if not reads_traces() or not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return function(*arguments)
    shapes = tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
    try:
        trace = _traced(function, structure, shapes)
    except _DependsOnTracedValues:
        return function(*arguments)
    pieces = {k: dict(zip(cuts, _split(leaves[k], cuts), strict=False)) for k, cuts in trace.cuts.items()}

    def part(k: int, start: int, stop: int) -> Array:
        own = [piece for place, piece in pieces[k].items() if start <= place < stop]
        return own[0] if len(own) == 1 else jnp.concatenate([leaves[k][:0], *own])

    results = trace.run(*leaves, *(part(*p) for p in trace.parts))
    return jax.tree.unflatten(trace.result, [lax.optimization_barrier(result) for result in results])


class _DependsOnTracedValues(Exception):
    """The function closes over values of a trace that is under way: its own trace must not outlive that one."""


@lru_cache(maxsize=1024)
def _traced(function: Callable[..., Any], structure: Any, shapes: tuple[Any, ...]) -> _Trace:
    arguments = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*s) for s in shapes])
    closed, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
    if any(isinstance(c, jax.core.Tracer) for c in closed.consts):
        raise _DependsOnTracedValues
    jaxpr = closed.jaxpr
    number = {variable: k for k, variable in enumerate(jaxpr.invars)}
    found = _parts(jaxpr)
    cuts: dict[int, set[int]] = {}
    for part in found.values():
        cuts.setdefault(number[part.of], {0, part.of.aval.shape[0]}).update((part.start, part.stop))
    program = jaxpr.replace(
        invars=[*jaxpr.invars, *found],
        eqns=[e for e in jaxpr.eqns if not (e.outvars and e.outvars[0] in found)],
        debug_info=jaxpr.debug_info.with_unknown_names(),
    )
    return _Trace(
        jax.jit(core.jaxpr_as_fun(core.ClosedJaxpr(program, closed.consts))),
        jax.tree.structure(result),
        tuple((number[part.of], part.start, part.stop) for part in found.values()),
        {k: sorted(c) for k, c in cuts.items()},
    )


def _parts(jaxpr: Any) -> dict[Any, _Part]:
    """The variables that are slices of an argument that is a vector, or slices of such slices."""
    parts = {v: _Part(v, 0, v.aval.shape[0]) for v in jaxpr.invars if len(v.aval.shape) == 1}
    slices: dict[Any, _Part] = {}
    for equation in jaxpr.eqns:
        if equation.primitive.name != "slice" or equation.params["strides"] not in (None, (1,)):
            continue
        (source,), p = equation.invars, equation.params
        if not isinstance(source, core.Literal) and source in parts:
            start, stop = (parts[source].start + p[k][0] for k in ("start_indices", "limit_indices"))
            parts[equation.outvars[0]] = slices[equation.outvars[0]] = _Part(parts[source].of, start, stop)
    return slices


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
