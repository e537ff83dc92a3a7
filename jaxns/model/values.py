"""Numbers as pytree leaves."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def as_float_leaves(tree: Any) -> Any:
    """Python numbers and integer arrays become floating-point arrays, so that every leaf can be differentiated."""

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, (bool, int, float)):
            return jnp.asarray(leaf, dtype=float)
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.integer):
            return jnp.asarray(leaf, dtype=float)
        return leaf

    return jax.tree.map(convert, tree)


def is_concrete(tree: Any) -> bool:
    """Whether all leaves have values, i.e. none is traced by jit, vmap or grad."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def inside_trace() -> bool:
    """Whether the caller is being traced by `jit`, `scan` or the like: there, what is computed has no values.

    >>> inside_trace(), jax.eval_shape(lambda: jnp.asarray(inside_trace())).shape
    (False, ())
    """
    return isinstance(jnp.add(0, 0), jax.core.Tracer)
