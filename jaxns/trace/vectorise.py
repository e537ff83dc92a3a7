"""A function of one lane, evaluated with a trailing lane axis.

`vectorise` traces a function for one lane and evaluates its operations on arrays with one more, trailing axis. Values
that do not depend on a lane stay without the axis. Operations without a rule here, and those whose rule did not give what
the trace promises, go through `jax.vmap`; with a release of JAX that is not known, all of them do (`by_vmap`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend import core

from . import sines
from .flat import Instruction, flatten
from .primitives import COSTLY, ELEMENTWISE, reads_traces


def vectorise(function: Callable[..., Any], in_lanes: Any, size: int | None) -> Callable[..., Any]:
    """A version of `function` whose arguments carry a trailing lane axis where `in_lanes` is true.

    `in_lanes` is a tuple of pytree prefixes, one for each argument. All results carry the axis. With size None there are
    no lanes, and the function is only staged (see `_stages`).
    """
    if not reads_traces():
        return by_vmap(function, in_lanes, size)

    def lanes_function(*arguments: Any) -> Any:
        values, structure = jax.tree.flatten(arguments)
        flags = _flags(in_lanes, arguments)
        one_lane = [
            jax.ShapeDtypeStruct(jnp.shape(v)[: -1 if flag else None], jnp.result_type(v))
            for v, flag in zip(values, flags, strict=True)
        ]
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, one_lane))
        results = _evaluate(jaxpr, list(zip(values, flags, strict=True)), size)
        return jax.tree.unflatten(jax.tree.structure(shapes), [_spread(r, size) for r in results])

    return lanes_function


def by_vmap(function: Callable[..., Any], in_lanes: Any, size: int | None) -> Callable[..., Any]:
    """What `vectorise` returns, from JAX's public functions alone: neither staged nor fast."""

    def lanes_function(*arguments: Any) -> Any:
        values, structure = jax.tree.flatten(arguments)
        flags = _flags(in_lanes, arguments)

        def flat(*values: Any) -> Any:
            return function(*jax.tree.unflatten(structure, values))

        if any(flags):
            return jax.vmap(flat, [-1 if flag else None for flag in flags], -1, axis_size=size)(*values)
        return jax.tree.map(lambda v: _spread((v, False), size), flat(*values))

    return lanes_function


def _flags(in_lanes: Any, arguments: tuple[Any, ...]) -> list[bool]:
    """Which leaves of the arguments carry lanes."""
    return jax.tree.leaves(jax.tree.map(lambda flag, tree: jax.tree.map(lambda _: flag, tree), in_lanes, arguments))


def materialise(x: Array) -> Array:
    """x itself; where a vectorised function is staged, x is computed once and stored instead of once per use."""
    return checkpoint_name(x, _STORED)


_Value = tuple[Any, bool]  # an array, and whether it carries lanes
_STORED = "jaxns_stored"


def _spread(value: _Value, size: int | None) -> Array:
    """The array with lanes."""
    array, laned = value
    if laned or size is None:
        return array
    return jnp.broadcast_to(jnp.asarray(array)[..., None], (*jnp.shape(array), size))


def _evaluate(closed: core.ClosedJaxpr, arguments: list[_Value], size: int | None) -> list[_Value]:
    instructions, constants, outputs, count = flatten(closed)
    slots: list[_Value | None] = [*arguments, *[None] * (count - len(arguments))]
    for slot, value in constants.items():
        slots[slot] = (value, False)
    times = None
    for stage, stored in _stages(instructions, outputs):
        for instruction in stage:
            results = _apply(instruction, [slots[i] for i in instruction.inputs], size)  # type: ignore[misc]
            for slot, result in zip(instruction.outputs, results, strict=True):
                slots[slot] = result
        times = _evaluate_stored(stored, slots, size, times)
    return [slots[i] for i in outputs]  # type: ignore[misc]


def _evaluate_stored(
    instructions: list[Instruction], slots: list[_Value | None], size: int | None, times: Array | None
) -> Array | None:
    """Evaluate the values that end a stage; returns how many times a loop stores them (`_times`), the same in all stages.

    Without lanes, sines of many angles are one operation on all of them: one kernel to compile and to start. Lanes are
    long enough without, and stacking them costs a tenth of a batch's time.
    """
    groups: dict[Any, list[tuple[int, _Value]]] = {}
    for k, instruction in enumerate(instructions):
        value: _Value = slots[instruction.inputs[0]]  # type: ignore[assignment]
        alone = size is not None or len(instruction.inputs) > 1 or instruction.primitive.name not in ELEMENTWISE
        key = k if alone else (instruction.primitive, str(instruction.params), jnp.shape(value[0]), value[1])
        groups.setdefault(key, []).append((k, value))
    results, members = [], []
    for group in groups.values():
        first = instructions[group[0][0]]
        if len(group) == 1:
            inputs = [slots[i] for i in first.inputs]
        else:
            inputs = [(jnp.stack([array for _, (array, _) in group]), group[0][1][1])]
        results.append(_apply(first, inputs, size)[0])  # type: ignore[arg-type]
        members.append([instructions[k].outputs[0] for k, _ in group])
    arrays = [array for array, _ in results]
    times = _times(arrays) if times is None else times
    for own, stored, (_, laned) in zip(members, _store(arrays, times), results, strict=True):
        for k, slot in enumerate(own):
            slots[slot] = (stored if len(own) == 1 else stored[k], laned)
    return times


def _stages(instructions: list[Instruction], outputs: list[int]) -> list[tuple[list[Instruction], list[Instruction]]]:
    """Split a trace into stages, each with the operations at its end whose results are stored.

    XLA fuses a sine into every element of a Jacobian that needs it, and evaluates it there again and again. So values
    that are costly, or marked by `materialise`, are stored before anything else reads them.
    """
    depth: dict[int, int] = {}
    stages: list[list[Instruction]] = [[]]
    costly: list[list[Instruction]] = [[]]
    used = {slot for i in instructions for slot in i.inputs} | set(outputs)
    for instruction in instructions:
        level = max((depth.get(i, 0) for i in instruction.inputs), default=0)
        marked = instruction.primitive.name == "name" and instruction.params.get("name") == _STORED
        stored = marked or instruction.primitive.name in COSTLY
        while len(stages) <= level + stored:
            stages.append([])
            costly.append([])
        if not stored:
            stages[level].append(instruction)
        elif instruction.outputs[0] in used:
            costly[level].append(instruction)
        depth.update((o, level + stored) for o in instruction.outputs)
    return list(zip(stages, costly, strict=True))


def _times(values: list[Array]) -> Array | None:
    """One, or two: unknown before run time, and both are harmless. None if there is nothing to store."""
    some = next((v for v in values if jnp.size(v)), None)
    return None if some is None else jnp.where(jnp.isnan(jnp.ravel(some)[0]), 2, 1)


def _store(values: list[Array], times: Array | None) -> list[Array]:
    """Pass values through a loop that does nothing, but which the compiler neither fuses across nor can see through."""
    if times is None:
        return values

    def body(carry: tuple[Array, list[Array]]) -> tuple[Array, list[Array]]:
        count, values = carry
        return count + 1, [jnp.where(count < 3, v, jnp.zeros_like(v)) for v in values]

    return lax.while_loop(lambda carry: carry[0] < times, body, (jnp.zeros_like(times), values))[1]


def _apply(instruction: Instruction, inputs: list[_Value], size: int | None) -> list[_Value]:
    """One operation on values with and without lanes."""
    primitive, params = instruction.primitive, instruction.params
    bind = partial(primitive.bind, **params)
    if size is None or not any(laned for _, laned in inputs):
        results = bind(*(v for v, _ in inputs))
        return [(r, False) for r in results] if primitive.multiple_results else [(results, False)]
    results = _by_rule(instruction, inputs, size)
    if results is None:
        axes = tuple(-1 if laned else None for _, laned in inputs)
        results = jax.vmap(bind, in_axes=axes, out_axes=-1, axis_size=size)(*(v for v, _ in inputs))
        results = list(results) if primitive.multiple_results else [results]
    return [(r, True) for r in results]


def _by_rule(instruction: Instruction, inputs: list[_Value], size: int) -> list[Array] | None:
    """The results of an operation with a rule, if they are what the trace promises."""
    name = instruction.primitive.name
    if name in _SINES and instruction.results[0].dtype == jnp.float64 and jax.default_backend() == "cpu":
        results: Any = _SINES[name](inputs[0][0])
    elif name in ELEMENTWISE:
        rank = max(jnp.ndim(v) - laned for v, laned in inputs)
        results = instruction.primitive.bind(*(_align(v, rank, size) for v in inputs), **instruction.params)
    elif name in _RULES:
        results = _RULES[name](instruction, [_spread(v, size) for v in inputs], size)
    else:
        return None
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    actual = [(r.shape, r.dtype) for r in results]
    return results if actual == [((*p.shape, size), p.dtype) for p in instruction.results] else None


def _align(value: _Value, rank: int, size: int) -> Array:
    """The array with lanes and the common rank; scalar operands get leading axes."""
    array = _spread(value, size)
    return array if array.ndim == rank + 1 else array.reshape((1,) * rank + array.shape)


def _dot_general(equation: Any, inputs: list[Array], size: int) -> Array:
    """Small products as sums of elementwise products."""
    (lhs_c, rhs_c), (lhs_b, rhs_b) = equation.params["dimension_numbers"]
    lhs, rhs = (x.astype(equation.results[0].dtype) for x in inputs)
    lhs_free = [i for i in range(lhs.ndim - 1) if i not in (*lhs_c, *lhs_b)]
    rhs_free = [i for i in range(rhs.ndim - 1) if i not in (*rhs_c, *rhs_b)]
    batch = tuple(lhs.shape[i] for i in lhs_b)
    left_shape, right_shape = (tuple(a.shape[i] for i in f) for a, f in ((lhs, lhs_free), (rhs, rhs_free)))
    inner = math.prod(lhs.shape[i] for i in lhs_c)
    lanes = lhs.shape[-1]
    left = lhs.transpose(*lhs_b, *lhs_free, *lhs_c, lhs.ndim - 1)
    left = left.reshape(math.prod(batch), math.prod(left_shape), inner, lanes)
    right = rhs.transpose(*rhs_b, *rhs_c, *rhs_free, rhs.ndim - 1)
    right = right.reshape(math.prod(batch), inner, math.prod(right_shape), lanes)
    product = jnp.zeros((left.shape[0], left.shape[1], right.shape[2], lanes), lhs.dtype)
    for j in range(inner):
        term = left[:, :, j, None] * right[:, None, j]
        product = product + term if j else term
    return product.reshape(*batch, *left_shape, *right_shape, lanes)


def _broadcast_in_dim(equation: Any, inputs: list[Array], size: int) -> Array:
    shape, dims = equation.params["shape"], equation.params["broadcast_dimensions"]
    return lax.broadcast_in_dim(inputs[0], (*shape, inputs[0].shape[-1]), (*dims, len(shape)))


def _reshape(equation: Any, inputs: list[Array], size: int) -> Array:
    (x,), order = inputs, equation.params["dimensions"]
    x = x if order is None else x.transpose(*order, x.ndim - 1)
    return x.reshape(*equation.params["new_sizes"], x.shape[-1])


def _slice(equation: Any, inputs: list[Array], size: int) -> Array:
    (x,), p = inputs, equation.params
    strides = (*(p["strides"] or (1,) * (x.ndim - 1)), 1)
    return lax.slice(x, (*p["start_indices"], 0), (*p["limit_indices"], x.shape[-1]), strides)


def _transpose(equation: Any, inputs: list[Array], size: int) -> Array:
    return lax.transpose(inputs[0], (*equation.params["permutation"], inputs[0].ndim - 1))


def _select_n(equation: Any, inputs: list[Array], size: int) -> Array:
    which, *cases = inputs
    if which.ndim < cases[0].ndim:
        which = jnp.broadcast_to(which, cases[0].shape)
    return lax.select_n(which, *cases)


def _pad(equation: Any, inputs: list[Array], size: int) -> Array:
    x, value = inputs
    config = equation.params["padding_config"]
    if all(low >= 0 and high >= 0 and interior == 0 for low, high, interior in config):
        padded = jnp.pad(x, (*((low, high) for low, high, _ in config), (0, 0)))
        inside = jnp.pad(jnp.ones(x.shape[:-1], bool), [(low, high) for low, high, _ in config])
        return jnp.where(inside[..., None], padded, value)
    return jax.vmap(partial(equation.primitive.bind, **equation.params), in_axes=-1, out_axes=-1)(x, value)


def _same_parameters(equation: Any, inputs: list[Array], size: int) -> Any:
    """Operations whose parameters name leading axes only."""
    return equation.primitive.bind(*inputs, **equation.params)


_SINES = {"sin": sines.sin, "cos": sines.cos}
_RULES: dict[str, Callable[[Any, list[Array], int], Any]] = {
    "dot_general": _dot_general,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
    "select_n": _select_n,
    "pad": _pad,
    **dict.fromkeys(
        "squeeze concatenate stack unstack split reduce_sum reduce_max reduce_min reduce_prod reduce_and reduce_or "
        "argmax argmin cumsum rev optimization_barrier".split(),
        _same_parameters,
    ),
}


def stored(tree: Any) -> Any:
    """The same values, computed once. XLA may compute a value anew for each use, with other roundings: decisions that must
    agree have to start from the same stored one. Not differentiable in reverse mode."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = sorted(enumerate(leaves), key=lambda leaf: not jnp.issubdtype(leaf[1].dtype, jnp.inexact))
    arrays = [leaf for _, leaf in leaves]
    values = _store(arrays, _times(arrays))
    places = {place: value for (place, _), value in zip(leaves, values, strict=True)}
    return jax.tree.unflatten(structure, [places[k] for k in range(len(places))])
