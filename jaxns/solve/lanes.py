"""Vectorisation with the batch axis last.

`jax.vmap` puts the batch axis first wherever an operation broadcasts, reshapes or stacks. The arrays of one mechanism are
tiny (nine velocities, fourteen percussions), so the innermost loops become tiny too, and strided. With the batch, here
called *lanes*, as last axis throughout, every loop runs over contiguous lanes and the compiler vectorises it. On a CPU
this is worth a factor of four.

`vectorise` traces a function for one lane and evaluates its operations on arrays with one more, trailing axis. Values
that do not depend on a lane stay without the axis. Operations without a rule here go through `jax.vmap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend import core


class Instruction(NamedTuple):
    """One operation of a trace, with its operands and results as numbered slots."""

    primitive: Any
    params: dict[str, Any]
    inputs: list[int]
    outputs: list[int]


def vectorise(function: Callable[..., Any], in_lanes: Any, size: int | None) -> Callable[..., Any]:
    """A version of `function` whose arguments carry a trailing lane axis where `in_lanes` is true.

    `in_lanes` is a tuple of pytree prefixes, one for each argument. All results carry the axis. With size None there are
    no lanes, and the function is only staged (see `_stages`).
    """

    def lanes_function(*arguments: Any) -> Any:
        values, structure = jax.tree.flatten(arguments)
        prefix = jax.tree.map(lambda flag, tree: jax.tree.map(lambda _: flag, tree), in_lanes, arguments)
        flags = jax.tree.leaves(prefix)
        one_lane = [
            jax.ShapeDtypeStruct(jnp.shape(v)[: -1 if flag else None], jnp.result_type(v))
            for v, flag in zip(values, flags, strict=True)
        ]
        jaxpr, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, one_lane))
        results = _evaluate(jaxpr, list(zip(values, flags, strict=True)), size)
        return jax.tree.unflatten(jax.tree.structure(shapes), [_spread(r, size) for r in results])

    return lanes_function


class Lift(NamedTuple):
    """How functions of one lane become functions of all."""

    laned: Any  # which leaves of the arguments carry lanes
    size: int | None  # how many lanes there are; None without a lane axis

    def arguments(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of the arguments; its results all carry lanes."""
        return vectorise(function, self.laned, self.size)

    def values(self, function: Callable[..., Any], count: int) -> Callable[..., Any]:
        """A function of `count` values that already carry lanes."""
        return vectorise(function, (self.size is not None,) * count, self.size)


def on_lanes(function: Callable[..., Any], *arguments: Any, rows: int) -> Any:
    """Evaluate `function(lift, *arguments)`, which works on whole lanes; under `jax.vmap` these are its last axis.

    On a CPU many lanes are worked on block by block: a block's matrices, with `rows` rows each, stay in the cache, and
    its operations are too short for XLA to divide them among threads, which costs more than it saves.

    The function sees arguments whose leaves carry a trailing lane axis where `lift.laned` is true, and must return arrays
    that all carry it. It is for code that is not differentiated.
    """
    block = max(FEWEST_LANES, min(MOST_LANES, BLOCK_ENTRIES // (rows + 1) ** 2))
    in_blocks = partial(_in_blocks, function, block if jax.default_backend() == "cpu" else None)
    return _on_lanes(in_blocks, Lift(jax.tree.map(lambda _: False, arguments), None))(*arguments)


def _in_blocks(function: Callable[..., Any], block: int | None, lift: Lift, *arguments: Any) -> Any:
    """`function(lift, *arguments)` for at most `block` lanes at once, in blocks of equal size; the last is filled up."""
    if block is None or lift.size is None or lift.size <= block:
        return function(lift, *arguments)
    size, count = lift.size, -(-lift.size // block)
    block = -(-size // count)
    leaves, structure = jax.tree.flatten(arguments)
    laned = jax.tree.leaves(lift.laned)

    def divide(v: Array) -> Array:
        filled = jnp.pad(v, (*[(0, 0)] * (v.ndim - 1), (0, count * block - size)), mode="edge")
        return jnp.moveaxis(filled.reshape(*v.shape[:-1], count, block), -2, 0)

    def one_block(some: list[Array]) -> Any:
        own = iter(some)
        values = [next(own) if is_laned else v for v, is_laned in zip(leaves, laned, strict=True)]
        return function(Lift(lift.laned, block), *jax.tree.unflatten(structure, values))

    results = lax.map(one_block, [divide(v) for v, is_laned in zip(leaves, laned, strict=True) if is_laned])
    return jax.tree.map(lambda v: jnp.moveaxis(v, 0, -2).reshape(*v.shape[1:-1], count * block)[..., :size], results)


def _on_lanes(function: Callable[..., Any], lift: Lift) -> Callable[..., Any]:
    @jax.custom_batching.custom_vmap
    def evaluate(*arguments: Any) -> Any:
        return function(lift, *arguments)

    @evaluate.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *arguments: Any) -> tuple[Any, Any]:
        """One more batch axis: merged with the lanes that are there already."""
        batched = tuple(in_batched)
        old = 1 if lift.size is None else lift.size

        def merge(v: Array, was_laned: bool, is_batched: bool) -> Array:
            if not (was_laned or is_batched):
                return v
            v = v if was_laned else v[..., None]
            v = jnp.moveaxis(v, 0, -2) if is_batched else v[..., None, :]
            return jnp.broadcast_to(v, (*v.shape[:-2], axis_size, old)).reshape(*v.shape[:-2], axis_size * old)

        def split(v: Array) -> Array:
            lanes = (axis_size,) if lift.size is None else (axis_size, lift.size)
            return jnp.moveaxis(v.reshape(*v.shape[:-1], *lanes), v.ndim - 1, 0)

        flags = jax.tree.map(lambda a, b: a or b, lift.laned, batched)
        merged = jax.tree.map(merge, arguments, lift.laned, batched)
        result = _on_lanes(function, Lift(flags, axis_size * old))(*merged)
        return jax.tree.map(split, result), jax.tree.map(lambda _: True, result)

    return evaluate


def materialise(x: Array) -> Array:
    """x itself; where a vectorised function is staged, x is computed once and stored instead of once per use."""
    return checkpoint_name(x, _STORED)


def largest(x: Array) -> Array:
    """max |x| over the first axis, as a chain of elementwise operations, which beats a reduction over few rows."""
    if x.shape[0] > _MANY:
        return jnp.max(jnp.abs(x), axis=0)
    result = jnp.abs(x[0])
    for row in range(1, x.shape[0]):
        result = jnp.maximum(result, jnp.abs(x[row]))
    return result


def total(x: Array) -> Array:
    """Sum over the first axis, likewise."""
    if x.shape[0] > _MANY:
        return jnp.sum(x, axis=0)
    result = x[0]
    for row in range(1, x.shape[0]):
        result = result + x[row]
    return result


def norm(x: Array) -> Array:
    """√Σx² over the first axis, likewise."""
    return jnp.sqrt(total(x * x))


_Value = tuple[Any, bool]  # an array, and whether it carries lanes
_STORED = "jaxns_stored"
BLOCK_ENTRIES = 2**14  # of one matrix of a block: 128 kB in float64
FEWEST_LANES, MOST_LANES = 16, 96  # of a block
_MANY = 64  # rows from which on a chain of operations compiles for too long


def _spread(value: _Value, size: int | None) -> Array:
    """The array with lanes."""
    array, laned = value
    if laned or size is None:
        return array
    return jnp.broadcast_to(jnp.asarray(array)[..., None], (*jnp.shape(array), size))


def _evaluate(closed: core.ClosedJaxpr, arguments: list[_Value], size: int | None) -> list[_Value]:
    slots: list[_Value | None] = []
    instructions: list[Instruction] = []

    def new(value: _Value | None = None) -> int:
        slots.append(value)
        return len(slots) - 1

    outputs = _flatten(closed, [new(a) for a in arguments], instructions, new)
    for stage, stored in _stages(instructions, outputs):
        for instruction in stage:
            results = _apply(instruction, [slots[i] for i in instruction.inputs], size)  # type: ignore[misc]
            for slot, result in zip(instruction.outputs, results, strict=True):
                slots[slot] = result
        for slot, value in zip(stored, _store([slots[i][0] for i in stored]), strict=True):  # type: ignore[index]
            slots[slot] = (value, slots[slot][1])  # type: ignore[index]
    return [slots[i] for i in outputs]  # type: ignore[misc]


def _flatten(
    closed: core.ClosedJaxpr, inputs: list[int], instructions: list[Instruction], new: Callable[..., int]
) -> list[int]:
    """Append the operations of a trace, with inner calls inlined; returns the slots of its results."""
    environment = dict(zip(closed.jaxpr.invars, inputs, strict=True))
    environment.update((v, new((c, False))) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True))

    def slot(atom: Any) -> int:
        return new((atom.val, False)) if isinstance(atom, core.Literal) else environment[atom]

    for equation in closed.jaxpr.eqns:
        operands = [slot(v) for v in equation.invars]
        if equation.primitive.name in _INLINED:
            inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
            inner = inner if hasattr(inner, "consts") else core.ClosedJaxpr(inner, ())
            results = _flatten(inner, operands, instructions, new)
        else:
            results = [new() for _ in equation.outvars]
            instructions.append(Instruction(equation.primitive, equation.params, operands, results))
        environment.update(zip(equation.outvars, results, strict=True))
    return [slot(v) for v in closed.jaxpr.outvars]


def _stages(instructions: list[Instruction], outputs: list[int]) -> list[tuple[list[Instruction], list[int]]]:
    """Split a trace into stages, each with the slots to be stored at its end.

    XLA fuses a sine into every element of a Jacobian that needs it, and evaluates it there again and again. So values
    that are costly, or marked by `materialise`, are stored before anything else reads them.
    """
    depth: dict[int, int] = {}
    stages: list[list[Instruction]] = [[]]
    costly: list[list[int]] = [[]]
    for instruction in instructions:
        level = max((depth.get(i, 0) for i in instruction.inputs), default=0)
        marked = instruction.primitive.name == "name" and instruction.params.get("name") == _STORED
        stored = marked or instruction.primitive.name in _COSTLY
        while len(stages) <= level + stored:
            stages.append([])
            costly.append([])
        stages[level].append(instruction)
        costly[level].extend(instruction.outputs if stored else ())
        depth.update((o, level + stored) for o in instruction.outputs)
    used = {slot for i in instructions for slot in i.inputs} | set(outputs)
    return [(stage, [s for s in slots if s in used]) for stage, slots in zip(stages, costly, strict=True)]


def _store(values: list[Array]) -> list[Array]:
    """Pass values through a loop that does nothing, but which the compiler neither fuses across nor can see through."""
    some = next((v for v in values if jnp.size(v)), None)
    if some is None:
        return values
    times = jnp.where(jnp.isnan(jnp.ravel(some)[0]), 2, 1)  # unknown before run time, and both are harmless

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
    if primitive.name in _ELEMENTWISE:
        rank = max(jnp.ndim(v) - laned for v, laned in inputs)
        return [(bind(*(_align(v, rank, size) for v in inputs)), True)]
    if primitive.name in _RULES:
        results = _RULES[primitive.name](instruction, [_spread(v, size) for v in inputs], size)
        return [(r, True) for r in (results if isinstance(results, (list, tuple)) else [results])]
    axes = tuple(-1 if laned else None for _, laned in inputs)
    results = jax.vmap(bind, in_axes=axes, out_axes=-1, axis_size=size)(*(v for v, _ in inputs))
    return [(r, True) for r in results] if primitive.multiple_results else [(results, True)]


def _align(value: _Value, rank: int, size: int) -> Array:
    """The array with lanes and the common rank; scalar operands get leading axes."""
    array = _spread(value, size)
    return array if array.ndim == rank + 1 else array.reshape((1,) * rank + array.shape)


_COSTLY = set(
    "sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 expm1 log log1p pow sqrt rsqrt cbrt erf".split()
)

_INLINED = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat"}

_ELEMENTWISE = set(
    "add sub mul div rem max min neg sign abs sqrt rsqrt cbrt exp exp2 expm1 log log1p sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh atan2 pow integer_pow square floor ceil round is_finite eq ne lt le gt ge and or not "
    "xor convert_element_type copy copy_p add_any erf logistic stop_gradient name real imag nextafter".split()
)


def _dot_general(equation: Any, inputs: list[Array], size: int) -> Array:
    """Small products as sums of elementwise products."""
    (lhs_c, rhs_c), (lhs_b, rhs_b) = equation.params["dimension_numbers"]
    lhs, rhs = inputs
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
    product = jnp.zeros((left.shape[0], left.shape[1], right.shape[2], lanes), jnp.result_type(lhs, rhs))
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
        "argmax argmin cumsum rev".split(),
        _same_parameters,
    ),
}


def stored(tree: Any) -> Any:
    """The same values, computed once. XLA may compute a value anew for each use, with other roundings: decisions that must
    agree have to start from the same stored one. Not differentiable in reverse mode."""
    leaves, structure = jax.tree.flatten(tree)
    leaves = sorted(enumerate(leaves), key=lambda leaf: not jnp.issubdtype(leaf[1].dtype, jnp.inexact))
    values = _store([leaf for _, leaf in leaves])
    places = {place: value for (place, _), value in zip(leaves, values, strict=True)}
    return jax.tree.unflatten(structure, [places[k] for k in range(len(places))])


@jax.custom_batching.custom_vmap
def anywhere(flag: Array) -> Array:
    """Whether a flag is set in any lane: a predicate for `lax.cond` that stays a real branch under `jax.vmap`."""
    return flag


@anywhere.def_vmap
def _anywhere_vmap(axis_size: int, in_batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return anywhere(jnp.any(flag, axis=0) if in_batched[0] else flag), False
