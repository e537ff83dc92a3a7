"""Loops of many lanes, of which few go on after the first turn: those are gathered, worked on in groups, and put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

GROUP = 16  # lanes that go on together: two vectors of 512 bits


def until_done(
    turn: Callable[[Any, Any], Any], unfinished: Callable[[Any], Array], context: Any, state: Any, group: int = GROUP
) -> Any:
    """state ← turn(context, state), once, and again while it is unfinished.

    Under `jax.vmap` all lanes take the first turn together; a lane that goes on costs nothing to those that are done. For
    code that is not differentiated.

    >>> halve = lambda divisor, x: x / divisor
    >>> run = lambda x: until_done(halve, lambda x: x > 1.0, 2.0, x)
    >>> jax.vmap(run)(jnp.array([0.5, 12.0, 3.0])).tolist()
    [0.25, 0.75, 0.75]
    """

    @jax.custom_batching.custom_vmap
    def run(context: Any, state: Any) -> Any:
        def once(loop: tuple[Array, Any]) -> tuple[Array, Any]:
            state = turn(context, loop[1])
            return unfinished(state), state

        return lax.while_loop(lambda loop: loop[0], once, (jnp.asarray(True), state))[1]

    @run.def_vmap
    def in_lanes(size: int, in_batched: list[Any], context: Any, state: Any) -> tuple[Any, Any]:
        of_context, of_state = in_batched
        axes = jax.tree.map(lambda b: 0 if b else None, of_context)
        state = jax.tree.map(lambda x, b: x if b else jnp.broadcast_to(x, (size, *jnp.shape(x))), state, of_state)
        state = jax.vmap(turn, in_axes=(axes, 0))(context, state)
        go_on = _to_its_end(turn, unfinished)

        def some(carry: tuple[Array, Any]) -> tuple[Array, Any]:
            waiting, state = carry
            order = jnp.cumsum(waiting) - 1
            chosen = waiting & (order < width)
            # Places in the group, and lanes that fill it: beyond the last one, so that nothing of them is put back.
            lanes = jnp.full((width,), size).at[jnp.where(chosen, order, width)].set(jnp.arange(size), mode="drop")
            mine = jax.tree.map(lambda x: x.at[lanes].get(mode="clip"), state)
            here = jax.tree.map(lambda x, b: x.at[lanes].get(mode="clip") if b else x, context, of_context)
            mine = jax.vmap(go_on, in_axes=(axes, 0, 0))(here, mine, lanes < size)
            state = jax.tree.map(lambda all_, new: all_.at[lanes].set(new, mode="drop"), state, mine)
            return waiting & ~chosen, state

        width = min(group, size)
        waiting = jax.vmap(unfinished)(state)
        _, state = lax.while_loop(lambda carry: jnp.any(carry[0]), some, (waiting, state))
        return state, jax.tree.map(lambda _: True, state)

    return run(context, state)


def _to_its_end(turn: Callable[..., Any], unfinished: Callable[..., Array]) -> Callable[..., Any]:
    """The loop of a lane of a group, which may be there to fill it."""

    def loop(context: Any, state: Any, wanted: Array) -> Any:
        return lax.while_loop(lambda s: wanted & unfinished(s), lambda s: turn(context, s), state)

    return loop
