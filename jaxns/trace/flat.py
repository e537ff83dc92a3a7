"""A trace as a flat list of operations: inner calls are inlined, and nothing is computed twice.

The functions of a mechanism are traced one by one, and most of them cut the same angle out of q and take its sine. Two
operations that do the same to the same operands are one here, and so are two cuts that take the same entries of a vector,
however they came to them.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from .primitives import CALLS, inner_program


class Instruction(NamedTuple):
    """One operation of a trace, with its operands and results as numbered slots."""

    primitive: Any
    params: dict[str, Any]
    inputs: list[int]
    outputs: list[int]
    results: list[Any]  # what it returns for one lane: shapes and types


class Flat(NamedTuple):
    """A program on numbered slots, of which the first ones hold its arguments."""

    instructions: list[Instruction]
    constants: dict[int, Any]  # values of slots that no operation computes
    outputs: list[int]
    size: int  # number of slots


def flatten(closed: core.ClosedJaxpr, calls: Set[str] = CALLS) -> Flat:
    """The program of a trace, with inner `calls` inlined.

    >>> import jax
    >>> trace = jax.make_jaxpr(lambda q: jax.numpy.sin(q[1:]) + jax.numpy.sin(q[1:]))(jax.numpy.zeros(3))
    >>> [instruction.primitive.name for instruction in flatten(trace).instructions]
    ['slice', 'sin', 'add']
    """
    numbering = _Numbering(len(closed.jaxpr.invars), calls)
    outputs = numbering.program(closed, list(range(numbering.size)))
    return Flat(numbering.instructions, numbering.constants, outputs, numbering.size)


class _Numbering:
    """The slots of values, by what they are."""

    def __init__(self, arguments: int, calls: Set[str]) -> None:
        self.size = arguments
        self._calls = calls
        self.instructions: list[Instruction] = []
        self.constants: dict[int, Any] = {}
        self._known: dict[Any, int] = {}
        self._cuts: dict[int, tuple[int, int]] = {}  # of which vector a slot is a part, and its first entry there

    def program(self, closed: core.ClosedJaxpr, inputs: list[int]) -> list[int]:
        """Append the operations of a trace; returns the slots of its results."""
        slots = dict(zip(closed.jaxpr.invars, inputs, strict=True))
        slots.update((v, self._constant(id(c), c)) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True))

        def slot(atom: Any) -> int:
            if isinstance(atom, core.Literal):
                return self._constant((np.asarray(atom.val).tobytes(), str(atom.aval)), atom.val)
            return slots[atom]

        for equation in closed.jaxpr.eqns:
            operands = [slot(v) for v in equation.invars]
            inner = inner_program(equation, self._calls)
            results = self._operation(equation, operands) if inner is None else self.program(inner, operands)
            slots.update(zip(equation.outvars, results, strict=True))
        return [slot(v) for v in closed.jaxpr.outvars]

    def _constant(self, key: Any, value: Any) -> int:
        slot = self._known.setdefault(key, self.size)
        if slot == self.size:
            self.constants[self._new()] = value
        return slot

    def _operation(self, equation: Any, operands: list[int]) -> list[int]:
        """The slots of the results of an operation, which is appended unless all of them are known."""
        keys = self._keys(equation, operands)
        fresh = [self._new() if key not in self._known else None for key in keys]
        results = [self._known[key] if slot is None else slot for key, slot in zip(keys, fresh, strict=True)]
        if any(slot is not None for slot in fresh) or not keys:
            outputs = [self._new() if slot is None else slot for slot in fresh]
            promised = [v.aval for v in equation.outvars]
            self.instructions.append(Instruction(equation.primitive, equation.params, operands, outputs, promised))
        for key, slot in zip(keys, results, strict=True):
            self._known[key] = slot
            if key[0] == "entries":
                self._cuts[slot] = key[1:3]
        if equation.primitive.name == "optimization_barrier" and len(operands) == 1 and operands[0] in self._cuts:
            self._cuts[results[0]] = self._cuts[operands[0]]
        return results

    def _keys(self, equation: Any, operands: list[int]) -> list[Any]:
        """What each result is: entries [start, stop) of a vector, or the k-th result of an operation on slots."""
        places = _cut_places(equation)
        if places is not None:
            vector, first = self._cuts.get(operands[0], (operands[0], 0))
            return [("entries", vector, first + start, first + stop) for start, stop in places]
        operation = (equation.primitive, tuple(equation.params.items()), *operands)
        try:
            hash(operation)
        except TypeError:  # parameters that cannot be compared: an operation of its own
            operation = (object(),)
        return [("result", operation, k) for k in range(len(equation.outvars))]

    def _new(self) -> int:
        self.size += 1
        return self.size - 1


def _cut_places(equation: Any) -> list[tuple[int, int]] | None:
    """Start and stop of each result of an operation that cuts a vector, or None for other operations."""
    name, p = equation.primitive.name, equation.params
    if name not in ("slice", "split") or len(equation.invars[0].aval.shape) != 1:
        return None
    if name == "split":
        return list(pairwise(accumulate(p["sizes"], initial=0)))
    return [(p["start_indices"][0], p["limit_indices"][0])] if p["strides"] in (None, (1,)) else None
