"""A function that computes nothing twice, before derivatives are taken of it.

Mass matrix, forces, gaps and slips of a mechanism are functions of their own, and each finds the poses of all bodies. The
compiler merges what is the same, but only after each derivative has made two of every operation, and a second one four:
what is merged before is traced, differentiated and lowered once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax

from .flat import Flat, Instruction, flatten
from .primitives import PLAIN_CALLS, reads_traces


def distinct(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of pytrees of arrays; what it does twice, or in vain, is done once, or not at all.

    >>> twice = lambda x: jax.numpy.sin(x[1:]) * jax.numpy.sin(x[1:])
    >>> str(jax.make_jaxpr(distinct(twice))(jax.numpy.ones(3))).count("sin")
    1
    """

    @wraps(function)
    def merged(*arguments: Any) -> Any:
        if not reads_traces():
            return function(*arguments)
        closed, result = jax.make_jaxpr(function, return_shape=True)(*arguments)
        values = _evaluate(flatten(closed, PLAIN_CALLS), jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(result), values)

    return merged


def _evaluate(program: Flat, arguments: list[Any]) -> list[Any]:
    slots = dict(enumerate(arguments)) | program.constants
    for instruction in _needed(program):
        primitive = instruction.primitive
        results = primitive.bind(
            *(slots[i] for i in instruction.inputs), **primitive.get_bind_params(instruction.params)
        )
        slots.update(zip(instruction.outputs, results if primitive.multiple_results else [results], strict=True))
    return [slots[i] for i in program.outputs]


def _needed(program: Flat) -> list[Instruction]:
    """The operations that lead to a result, or have none."""
    wanted, found = set(program.outputs), []
    for instruction in reversed(program.instructions):
        if not instruction.outputs or not wanted.isdisjoint(instruction.outputs):
            wanted.update(instruction.inputs)
            found.append(instruction)
    return found[::-1]
