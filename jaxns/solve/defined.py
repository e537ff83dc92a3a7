"""Values that have no derivative: the identity, with a derivative of NaN or an error in place of a wrong one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_jvp
def accepted_or(accepted: Array, new: Array, old: Array) -> Array:
    """new where it is accepted, else old, with the derivative NaN: nobody asked for that of old.

    In reverse mode NaN meets those derivatives alone that the value has a part in: a zero cotangent stays zero.

    >>> f = lambda x: accepted_or(x > 0.0, x**2, x)
    >>> jax.grad(f)(jnp.array(3.0)).tolist(), f(jnp.array(-3.0)).tolist(), jax.grad(f)(jnp.array(-3.0)).tolist()
    (6.0, -3.0, nan)
    """
    return jnp.where(accepted, new, old)


@accepted_or.defjvp
def _accepted_or_jvp(primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    (accepted, new, old), (_, new_dot, old_dot) = primals, tangents
    one, huge = (jnp.where(accepted, 1.0, other).astype(new.dtype) for other in (0.0, jnp.finfo(new.dtype).max))
    # Reverse mode reads the products backwards: 0 · huge · huge · 0 is 0, and all else becomes infinity · 0 = NaN. It does
    # not see the last summand, which makes forward mode NaN also where all tangents are zero.
    product = (new_dot * one + old_dot * 0.0) * huge * huge
    return accepted_or(accepted, new, old), product + jnp.where(accepted, 0.0, jnp.nan).astype(new.dtype)


def once_differentiable(tree: Any, message: str) -> Any:
    """The same values; their derivative raises NotImplementedError with the message.

    >>> float(once_differentiable(jnp.array(2.0), "no derivative"))
    2.0
    """

    @jax.custom_jvp
    def same(tree: Any) -> Any:
        return tree

    @same.defjvp
    def _raise(primals: Any, tangents: Any) -> Any:
        raise NotImplementedError(message)

    return same(tree)
