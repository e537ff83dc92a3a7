"""Arithmetic that matters to derivatives alone: values of the program do not depend on it, and it is not compiled for them.

JAX's `custom_jvp` forgets its rule where reverse mode goes through a loop, and a second derivative would miss it. These are
operations of their own, with rules for derivatives of any order.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def with_derivative_of(other: Any, value: Any) -> Any:
    """A pytree of values with the derivatives of another, which is the same value by another computation.

    >>> jax.value_and_grad(lambda x: with_derivative_of(x**2, jnp.array(9.0)))(jnp.array(3.0))[1].tolist()
    6.0
    """
    return jax.tree.map(lambda v, o: _attach.bind(jax.lax.stop_gradient(v), o), value, other)


def vanishing(s: Array, x: Any) -> Any:
    """s·x for a scalar s that is zero, but has a derivative, and a pytree x.

    >>> step = lambda s: vanishing(s, jnp.array(5.0))
    >>> step(jnp.array(0.0)).tolist(), jax.grad(step)(jnp.array(0.0)).tolist()
    (0.0, 5.0)
    """
    return jax.tree.map(lambda x: _vanish.bind(jnp.broadcast_to(s, x.shape), x), x)


def tie_of(tree: Any) -> Array:
    """A number that has a derivative, and lanes, as soon as any leaf has them."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact) and leaf.size]
    return jnp.asarray(sum(jnp.ravel(leaf)[0] for leaf in leaves), jnp.result_type(float))


def tied(tree: Any, tie: Array) -> Any:
    """The same values, with lanes, and numbers with a derivative, as soon as `tie` has them.

    JAX goes through the body of a loop twice if its state gets one of these only in the first turn. So the state is tied
    to other values by a choice that never falls on them.

    >>> value, slope = jax.jvp(lambda x: tied(jnp.array(2.0), x), (jnp.array(3.0),), (jnp.array(1.0),))
    >>> value.tolist(), slope.tolist()
    (2.0, 0.0)
    """

    def choose(value: Array) -> Array:
        other = jnp.broadcast_to(tie.astype(value.dtype), value.shape)
        return jax.lax.select_n(jnp.zeros(value.shape, bool), value, other)

    return jax.tree.map(choose, tree)


def _batched(primitive: Primitive) -> Any:
    def rule(arguments: tuple[Array, Array], axes: tuple[Any, Any]) -> tuple[Array, int]:
        size = next(x.shape[a] for x, a in zip(arguments, axes, strict=True) if a is not None)
        full = (
            jnp.broadcast_to(x, (size, *x.shape)) if a is None else jnp.moveaxis(x, a, 0)
            for x, a in zip(arguments, axes, strict=True)
        )
        return primitive.bind(*full), 0

    return rule


_attach = Primitive("with_derivative_of")
_attach.def_impl(lambda value, other: value)
_attach.def_abstract_eval(lambda value, other: value)
batching.primitive_batchers[_attach] = _batched(_attach)
mlir.register_lowering(_attach, lambda context, value, other: [value])


def _attach_jvp(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    return _attach.bind(*primals), tangents[1]


ad.primitive_jvps[_attach] = _attach_jvp

_vanish = Primitive("vanishing")
_vanish.def_impl(lambda s, x: jnp.zeros_like(x))
_vanish.def_abstract_eval(lambda s, x: x)
batching.primitive_batchers[_vanish] = _batched(_vanish)
mlir.register_lowering(_vanish, mlir.lower_fun(lambda s, x: jnp.zeros_like(x), multiple_results=False))


def _vanish_jvp(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (s, x), (s_dot, x_dot) = primals, tangents
    x_part = x_dot if isinstance(x_dot, ad.Zero) else _vanish.bind(s, x_dot)
    if isinstance(s_dot, ad.Zero):
        return _vanish.bind(s, x), x_part
    return _vanish.bind(s, x), s_dot * x if isinstance(x_dot, ad.Zero) else s_dot * x + x_part


def _vanish_transpose(cotangent: Any, s: Any, x: Any) -> tuple[Any, Any]:
    """It is linear in x; where s is a tangent, its rule above has made a product of it."""
    if ad.is_undefined_primal(s):
        raise NotImplementedError("vanishing: linear in its first argument only through its derivative.")
    return None, cotangent if isinstance(cotangent, ad.Zero) else _vanish.bind(s, cotangent)


ad.primitive_jvps[_vanish] = _vanish_jvp
ad.primitive_transposes[_vanish] = _vanish_transpose
