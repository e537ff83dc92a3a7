"""Work for some lanes of a batch: they are gathered, worked on in groups, and put back; the others cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
from jax import Array, lax

GROUP = 16  # lanes of a group: two vectors of 512 bits


def until_done(
    turn: Callable[[Any, Any], Any],
    unfinished: Callable[[Any], Array],
    context: Any,
    state: Any,
    together: bool = True,
    group: int = GROUP,
) -> Any:
    """state ← turn(context, state) while it is unfinished; at least once, if `together`.

    Under `jax.vmap` lanes go on in groups, so that few wait for a slow one. With `together` all of them take the first
    turn at once, which is right where most need no other. For code that is not differentiated.

    >>> halve = lambda divisor, x: x / divisor
    >>> run = lambda x: until_done(halve, lambda x: x > 1.0, 2.0, x)
    >>> jax.vmap(run)(jnp.array([0.5, 12.0, 3.0])).tolist()
    [0.25, 0.75, 0.75]
    """

    def once(loop: tuple[Array, Any], context: Any) -> tuple[Array, Any]:
        state = turn(context, loop[1])
        return unfinished(state), state

    @jax.custom_batching.custom_vmap
    def run(context: Any, state: Any) -> Any:
        if not together:
            return lax.while_loop(unfinished, lambda s: turn(context, s), state)
        return lax.while_loop(lambda loop: loop[0], lambda loop: once(loop, context), (jnp.asarray(True), state))[1]

    def go_on(context: Any, state: Any, wanted: Array) -> Any:
        return lax.while_loop(lambda s: wanted & unfinished(s), lambda s: turn(context, s), state)

    @run.def_vmap
    def in_lanes(size: int, in_batched: list[Any], context: Any, state: Any) -> tuple[Any, Any]:
        of_context, of_state = in_batched
        state = _with_lanes(state, of_state, size)
        if together:
            state = jax.vmap(turn, in_axes=(_axes(of_context), 0))(context, state)
        waiting = jax.vmap(unfinished)(state)
        everything = jax.tree.map(lambda _: True, state)
        return _in_groups(go_on, waiting, (context, state), (of_context, everything), state, group), everything

    return run(context, state)


def where_wanted(
    function: Callable[..., Any], wanted: Array, arguments: tuple[Any, ...], otherwise: Any, group: int = GROUP
) -> Any:
    """function(*arguments) where it is wanted, else `otherwise`; under `jax.vmap` for the lanes alone that want it.

    For code that is not differentiated.

    >>> root = lambda x: where_wanted(jnp.sqrt, x > 0.0, (x,), x)
    >>> jax.vmap(root)(jnp.array([4.0, -4.0, 9.0])).tolist()
    [2.0, -4.0, 3.0]
    """

    @jax.custom_batching.custom_vmap
    def run(wanted: Array, arguments: tuple[Any, ...], otherwise: Any) -> Any:
        return lax.cond(wanted, lambda: function(*arguments), lambda: otherwise)

    @run.def_vmap
    def in_lanes(
        size: int, in_batched: list[Any], wanted: Array, arguments: tuple[Any, ...], otherwise: Any
    ) -> tuple[Any, Any]:
        is_batched, batched, of_otherwise = in_batched
        otherwise = _with_lanes(otherwise, of_otherwise, size)
        everything = jax.tree.map(lambda _: True, otherwise)
        if is_batched:
            some = lambda *arguments: function(*arguments[:-1])  # noqa: E731
            return _in_groups(some, wanted, arguments, tuple(batched), otherwise, group), everything
        if not any(jax.tree.leaves(batched)):
            full = lambda: _with_lanes(function(*arguments), None, size)  # noqa: E731
            return lax.cond(wanted, full, lambda: otherwise), everything
        many = jax.vmap(function, in_axes=_axes(tuple(batched)))
        return where_wanted(many, wanted, arguments, otherwise, group), everything

    return run(wanted, arguments, otherwise)


def _in_groups(
    function: Callable[..., Any],
    waiting: Array,
    arguments: tuple[Any, ...],
    batched: tuple[Any, ...],
    results: Any,
    group_size: int = GROUP,
) -> Any:
    """function(*arguments, wanted) of the waiting lanes in place of their results."""
    size = waiting.shape[0]
    width = min(group_size, size)

    def group(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        waiting, results = carry
        order = jnp.cumsum(waiting) - 1
        chosen = waiting & (order < width)
        # The lanes of the group; places that stay empty have a number beyond the last lane, and are not put back.
        lanes = jnp.full((width,), size).at[jnp.where(chosen, order, width)].set(jnp.arange(size), mode="drop")
        mine = jax.tree.map(lambda x, b: x.at[lanes].get(mode="clip") if b else x, arguments, batched)
        new = jax.vmap(function, in_axes=(*_axes(batched), 0))(*mine, lanes < size)
        results = jax.tree.map(lambda all_, some: all_.at[lanes].set(some, mode="drop"), results, new)
        return waiting & ~chosen, results

    def single(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        waiting, results = carry
        lane = jnp.argmax(waiting)
        mine = jax.tree.map(lambda x, b: x[lane] if b else x, arguments, batched)
        new = function(*mine, jnp.asarray(True))
        return waiting.at[lane].set(False), jax.tree.map(lambda all_, one: all_.at[lane].set(one), results, new)

    if width == 1:  # nothing is batched: branches are branches
        group = single

    return lax.while_loop(lambda carry: jnp.any(carry[0]), group, (waiting, results))[1]


def _axes(batched: Any) -> Any:
    return jax.tree.map(lambda b: 0 if b else None, batched)


def _with_lanes(tree: Any, batched: Any, size: int) -> Any:
    if batched is None:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (size, *jnp.shape(x))), tree)
    return jax.tree.map(lambda x, b: x if b else jnp.broadcast_to(x, (size, *jnp.shape(x))), tree, batched)


def linear_map(forward: Callable[[Any], Any], backward: Callable[[Any], Any], x: Any) -> Any:
    """forward(x), a linear function whose transpose is `backward`.

    `lax.custom_linear_solve` has the rules for `vmap` and for transposition; the equation that it pretends to solve is
    never looked at. One vector holds both x and the result, because none of its parts may lack a tangent.
    """
    result = jax.eval_shape(forward, x)
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), result)
    b, unravel = jax.flatten_util.ravel_pytree((x, zero))

    def solve(_: Any, b: Array) -> Array:
        x, _y = unravel(b)
        return jax.flatten_util.ravel_pytree((jax.tree.map(jnp.zeros_like, x), forward(x)))[0]

    def transpose_solve(_: Any, ct: Array) -> Array:
        return jax.flatten_util.ravel_pytree((backward(unravel(ct)[1]), zero))[0]

    return unravel(lax.custom_linear_solve(lambda v: v, b, solve, transpose_solve))[1]
