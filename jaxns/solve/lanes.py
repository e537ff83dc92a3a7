"""Vectorisation with the batch axis last.

`jax.vmap` puts the batch axis first wherever an operation broadcasts, reshapes or stacks. The arrays of one mechanism are
tiny (nine velocities, fourteen percussions), so the innermost loops become tiny too, and strided. With the batch, here
called *lanes*, as last axis throughout, every loop runs over contiguous lanes and the compiler vectorises it. On a CPU
this is worth a factor of four. How a function of one lane gets its lanes is the business of `vectorise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.extend import core
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ..trace.vectorise import vectorise

BLOCK_ENTRIES = 2**16  # of one matrix of a block: 512 kB in float64, half of what the cache of a core holds
FEWEST_LANES, MOST_LANES = 32, 64  # of a block
VECTOR = 16  # lanes: two of the widest vectors. Loops over another number of lanes take half as long again
_MANY = 64  # rows from which on a chain of operations compiles for too long


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


@dataclass(frozen=True)
class _Program:
    """A function on lanes; it is traced when it is lowered, with the lanes that it has by then."""

    function: Callable[..., Any]
    structure: Any  # of its arguments
    results: tuple[Any, ...]  # shapes and dtypes of the leaves of its result, for one lane
    rows: int
    whole: Callable[[Any], bool] | None  # of which arguments carry lanes: whether lanes stay together

    def evaluate(self, leaves: Sequence[Array], laned: tuple[bool, ...], size: int | None) -> list[Array]:
        """The leaves of the result."""
        block = max(FEWEST_LANES, min(MOST_LANES, BLOCK_ENTRIES // (self.rows + 1) ** 2 // VECTOR * VECTOR))
        lift = Lift(jax.tree.unflatten(self.structure, laned), size)
        arguments = jax.tree.unflatten(self.structure, leaves)
        divided = jax.default_backend() == "cpu" and not (self.whole is not None and self.whole(lift.laned))
        result = _in_blocks(self.function, block if divided else None, lift, *arguments)
        return [x.astype(s.dtype) for x, s in zip(jax.tree.leaves(result), self.results, strict=True)]

    def traced(self, equation: Any) -> core.ClosedJaxpr:
        """What an equation of a trace does, which holds this program, for who wants to know."""
        laned, size = equation.params["laned"], equation.params["size"]
        arguments = [v.aval for v in equation.invars]
        return jax.make_jaxpr(lambda *leaves: self.evaluate(leaves, laned, size))(*arguments)


def on_lanes(
    function: Callable[..., Any],
    *arguments: Any,
    rows: int,
    result: Any = None,
    whole: Callable[[Any], bool] | None = None,
) -> Any:
    """Evaluate `function(lift, *arguments)`, which works on whole lanes; under `jax.vmap` these are its last axis.

    On a CPU many lanes are worked on block by block: a block's matrices, with `rows` rows each, stay in the cache, and
    its operations are too short for XLA to divide them among threads, which costs more than it saves. Where `whole(laned)`
    is true, they stay together.

    The function sees arguments whose leaves carry a trailing lane axis where `lift.laned` is true, and must return arrays
    that all carry it. It is for code that is not differentiated, and raises where it is. `result` has the shapes and dtypes
    for one lane, if they are known: then the function is traced once, when the program around it is complete. (With
    `jax.custom_vmap` it would be traced once without lanes, and again by every transformation of the loops around it.)
    """
    leaves, structure = jax.tree.flatten(arguments)
    if result is None:
        result = jax.eval_shape(partial(function, Lift(jax.tree.map(lambda _: False, arguments), None)), *arguments)
    shapes, structure_of_result = jax.tree.flatten(result)
    program = _Program(function, structure, tuple(jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes), rows, whole)
    results = _on_lanes.bind(*leaves, program=program, laned=(False,) * len(leaves), size=None)
    return jax.tree.unflatten(structure_of_result, results)


_on_lanes = Primitive("on_lanes")
_on_lanes.multiple_results = True


def _evaluate(*leaves: Array, program: _Program, laned: tuple[bool, ...], size: int | None) -> list[Array]:
    return program.evaluate(leaves, laned, size)


def _shapes(*_: Any, program: _Program, laned: tuple[bool, ...], size: int | None) -> list[Any]:
    lanes = () if size is None else (size,)
    return [jax.core.ShapedArray((*s.shape, *lanes), s.dtype) for s in program.results]


def _more_lanes(
    leaves: Sequence[Array], axes: Sequence[int | None], *, program: _Program, laned: tuple[bool, ...], size: int | None
) -> tuple[list[Array], list[int]]:
    """One more batch axis: merged with the lanes that are there already."""
    new = next(x.shape[axis] for x, axis in zip(leaves, axes, strict=True) if axis is not None)
    old = 1 if size is None else size

    def merge(x: Array, was_laned: bool, axis: int | None) -> Array:
        if not was_laned and axis is None:
            return x
        if not was_laned:
            x, axis = x[..., None], axis if axis is None or axis >= 0 else axis - 1
        x = jnp.moveaxis(x, axis, -2) if axis is not None else x[..., None, :]
        return jnp.broadcast_to(x, (*x.shape[:-2], new, old)).reshape(*x.shape[:-2], new * old)

    def split(x: Array) -> Array:
        """The new axis comes first: JAX takes the batch axes of a function with a derivative rule for those of the rule."""
        lanes = (new,) if size is None else (new, old)
        return jnp.moveaxis(x.reshape(*x.shape[:-1], *lanes), x.ndim - 1, 0)

    merged = [merge(x, flag, axis) for x, flag, axis in zip(leaves, laned, axes, strict=True)]
    flags = tuple(flag or axis is not None for flag, axis in zip(laned, axes, strict=True))
    results = _on_lanes.bind(*merged, program=program, laned=flags, size=new * old)
    return [split(x) for x in results], [0] * len(results)


def _no_derivative(*_: Any, **__: Any) -> Any:
    """Derivatives of solves are rules around it. JAX drops them from the stored part of a reverse pass, and a derivative of
    that part would then go through the iterations."""
    raise NotImplementedError(
        "the derivative of a reverse pass through a solve is not available (jax.hessian, jax.grad of jax.grad): a reverse "
        "pass keeps solutions, not what their derivatives need. Second derivatives that begin with forward mode are: write "
        "jax.jacfwd(jax.jacfwd(f)) or jax.jacrev(jax.jacfwd(f)) in place of jax.hessian(f)."
    )


_on_lanes.def_impl(_evaluate)
_on_lanes.def_abstract_eval(_shapes)
batching.primitive_batchers[_on_lanes] = _more_lanes
ad.primitive_jvps[_on_lanes] = _no_derivative
mlir.register_lowering(_on_lanes, mlir.lower_fun(_evaluate, multiple_results=True))


def _in_blocks(function: Callable[..., Any], block: int | None, lift: Lift, *arguments: Any) -> Any:
    """`function(lift, *arguments)` for at most `block` lanes at once, in blocks of equal size; the last is filled up."""
    if block is None or lift.size is None or lift.size <= block:
        return function(lift, *arguments)
    size = lift.size
    # The least to fill up, and then the fewest blocks.
    block = min(range(block, 0, -VECTOR), key=lambda lanes: -(-size // lanes) * lanes)
    count = -(-size // block)
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


@jax.custom_batching.custom_vmap
def anywhere(flag: Array) -> Array:
    """Whether a flag is set in any lane: a predicate for `lax.cond` that stays a real branch under `jax.vmap`."""
    return flag


@anywhere.def_vmap
def _anywhere_vmap(axis_size: int, in_batched: list[bool], flag: Array) -> tuple[Array, bool]:
    return anywhere(jnp.any(flag, axis=0) if in_batched[0] else flag), False
