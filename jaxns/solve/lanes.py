"""Vectorisation with the batch axis last.

`jax.vmap` puts the batch axis first wherever an operation broadcasts, reshapes or stacks. The arrays of one mechanism are
tiny (nine velocities, fourteen percussions), so the innermost loops become tiny too, and strided. With the batch, here
called *lanes*, as last axis throughout, every loop runs over contiguous lanes and the compiler vectorises it. On a CPU
this is worth a factor of four. How a function of one lane gets its lanes is the business of `vectorise`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..trace.vectorise import vectorise
from .defined import once_differentiable

BLOCK_ENTRIES = 2**16  # of one matrix of a block: 512 kB in float64, half of what the cache of a core holds
FEWEST_LANES, MOST_LANES = 16, 64  # of a block
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


def on_lanes(function: Callable[..., Any], *arguments: Any, rows: int) -> Any:
    """Evaluate `function(lift, *arguments)`, which works on whole lanes; under `jax.vmap` these are its last axis.

    On a CPU many lanes are worked on block by block: a block's matrices, with `rows` rows each, stay in the cache, and
    its operations are too short for XLA to divide them among threads, which costs more than it saves.

    The function sees arguments whose leaves carry a trailing lane axis where `lift.laned` is true, and must return arrays
    that all carry it. It is for code that is not differentiated, and raises where it is.
    """
    block = max(FEWEST_LANES, min(MOST_LANES, BLOCK_ENTRIES // (rows + 1) ** 2))
    in_blocks = partial(_in_blocks, _undifferentiated(function), block if jax.default_backend() == "cpu" else None)
    return _on_lanes(in_blocks, Lift(jax.tree.map(lambda _: False, arguments), None))(*arguments)


_FROM_REVERSE = (
    "the derivative of a reverse pass through a solve is not available (jax.hessian, jax.grad of jax.grad): a reverse pass "
    "keeps solutions, not what their derivatives need. Second derivatives that begin with forward mode are: write "
    "jax.jacfwd(jax.jacfwd(f)) or jax.jacrev(jax.jacfwd(f)) in place of jax.hessian(f)."
)


def _undifferentiated(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; its derivative raises.

    Derivatives of solves are rules around it. JAX drops them from the stored part of a reverse pass, and a derivative of
    that part would then go through the iterations.
    """
    return lambda lift, *arguments: function(lift, *once_differentiable(arguments, _FROM_REVERSE))


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
