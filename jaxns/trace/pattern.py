"""Which entries of a matrix or a Jacobian can be other than zero, read from the trace of a function.

Each operation is replaced by one on truth values: which entries of its result may be nonzero, and which of them may have
a derivative with respect to which input. Slices, gathers and sums move these values as they do numbers; functions unite
those of their operands, products intersect them with what is nonzero. Where an operation is not known here, everything
may depend on everything, and so everywhere with a release of JAX that is not known: the answer is conservative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from .primitives import ELEMENTWISE, FLAT, KEEPS_ZERO, SAME, inner_program, reads_traces


def nonzeros(function: Callable[..., Any], *arguments: Any) -> np.ndarray:
    """Which entries of `function(*arguments)` may be nonzero, for whatever values of the arguments.

    >>> nonzeros(lambda a: a * jnp.eye(2), 3.0).tolist()
    [[True, False], [False, True]]
    """
    return _analyse(function, arguments, None).nonzero


def jacobian(function: Callable[..., Any], *arguments: Any, wrt: int = 0) -> np.ndarray:
    """Which entries (rows, columns) of the derivative of a function by its argument number `wrt`, both vectors, may be
    nonzero.

    >>> jacobian(lambda x: x[1:] - x[:-1], jnp.ones(3)).tolist()
    [[True, True, False], [False, True, True]]
    """
    return _analyse(function, arguments, wrt).depends.T


class _Value(NamedTuple):
    """What is known of an array without its arguments."""

    nonzero: np.ndarray  # bool, of the array's shape
    depends: np.ndarray  # (inputs, *shape) bool
    known: np.ndarray | None = None  # the array itself, where it depends on no argument


def _analyse(function: Callable[..., Any], arguments: tuple[Any, ...], wrt: int | None) -> _Value:
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(jnp.shape(a), jnp.result_type(a)), arguments)
    if not reads_traces():
        result = jax.eval_shape(function, *shapes).shape
        return _everything(result, 0 if wrt is None else shapes[wrt].shape[0])
    closed = jax.make_jaxpr(function)(*shapes)
    first = None if wrt is None else len(jax.tree.leaves(shapes[:wrt]))
    size = 0 if wrt is None else shapes[wrt].shape[0]
    inputs = [_opaque(v.aval.shape, size) for v in closed.jaxpr.invars]
    if first is not None:
        inputs[first] = inputs[first]._replace(depends=np.eye(size, dtype=bool))
    with jax.ensure_compile_time_eval():
        (result,) = _interpret(closed, inputs, size)
    return result


def _opaque(shape: tuple[int, ...], size: int) -> _Value:
    """An array of which nothing is known but that it depends on no input."""
    return _Value(np.ones(shape, bool), np.zeros((size, *shape), bool))


def _everything(shape: tuple[int, ...], size: int) -> _Value:
    """An array of which nothing is known."""
    return _Value(np.ones(shape, bool), np.ones((size, *shape), bool))


def _constant(array: Any, size: int) -> _Value:
    if isinstance(array, jax.core.Tracer):
        return _opaque(array.shape, size)
    known = np.asarray(array)
    return _Value(known != 0, np.zeros((size, *known.shape), bool), known)


def _interpret(closed: Any, inputs: list[_Value], size: int) -> list[_Value]:
    environment = dict(zip(closed.jaxpr.invars, inputs, strict=True))
    constants = zip(closed.jaxpr.constvars, closed.consts, strict=True)
    environment.update((variable, _constant(value, size)) for variable, value in constants)

    def read(atom: Any) -> _Value:
        return _constant(atom.val, size) if isinstance(atom, core.Literal) else environment[atom]

    for equation in closed.jaxpr.eqns:
        values = [read(v) for v in equation.invars]
        inner = inner_program(equation)
        results = _apply(equation, values, size) if inner is None else _interpret(inner, values, size)
        environment.update(zip(equation.outvars, results, strict=True))
    return [read(v) for v in closed.jaxpr.outvars]


def _apply(equation: Any, values: list[_Value], size: int) -> list[_Value]:
    """One operation."""
    name, params = equation.primitive.name, equation.params
    shapes = [v.aval.shape for v in equation.outvars]
    if all(v.known is not None for v in values):
        results = equation.primitive.bind(*(v.known for v in values), **params)
        return [_constant(r, size) for r in (results if equation.primitive.multiple_results else [results])]
    if name in FLAT or not any(jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in equation.outvars):
        return [_opaque(shape, size) for shape in shapes]
    if name not in _MOVES and name != "dot_general":
        values = [_grown(v, shapes[0]) for v in values]
    if name in _MOVES:
        moved = _move(equation, values)
        if moved is not None:
            return moved
    elif name in _PRODUCTS:
        return [_product(_PRODUCTS[name](equation), *values)]
    elif name == "div":
        a, b = values
        depends = _any(a.depends, b.depends & a.nonzero, shape=(size, *shapes[0]))
        return [_Value(a.nonzero, depends)]
    elif name == "select_n":
        return [_select(values[0].known, values[1:], (size, *shapes[0]))]
    elif name in ELEMENTWISE or name == "clamp":
        keeps_zero = name in KEEPS_ZERO or (name == "integer_pow" and params["y"] > 0)
        nonzero = _any(*(v.nonzero for v in values), shape=shapes[0]) if keeps_zero else np.ones(shapes[0], bool)
        return [_Value(nonzero, _any(*(v.depends for v in values), shape=(size, *shapes[0])))]
    everything = _any(*(np.asarray(v.depends.any(axis=tuple(range(1, v.depends.ndim)))) for v in values), shape=(size,))
    return [_opaque(s, size)._replace(depends=_columns(everything, s)) for s in shapes]


def _grown(value: _Value, shape: tuple[int, ...]) -> _Value:
    """A scalar, or an array with axes of length one, at its full size: elementwise operations take these with arrays."""
    own = value.nonzero.shape or (1,) * len(shape)
    fits = len(own) == len(shape) and all(n in (1, m) for n, m in zip(own, shape, strict=True))
    if value.nonzero.shape == shape or not fits:
        return value
    size = len(value.depends)
    known = None if value.known is None else np.broadcast_to(value.known, shape)
    depends = np.broadcast_to(value.depends.reshape(size, *own), (size, *shape))
    return _Value(np.broadcast_to(value.nonzero, shape), depends, known)


def _columns(depends: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(depends.reshape((-1, *(1,) * len(shape))), (len(depends), *shape))


def _any(*parts: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Where any part is true."""
    return np.any(parts, axis=0) if parts else np.zeros(shape, bool)


def _move(equation: Any, values: list[_Value]) -> list[_Value] | None:
    """An operation that moves or adds up entries, after the places that it gives to the numbers of the entries.

    Operands that are not floating-point (indices) must be known.
    """
    moving = [jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in equation.invars]
    if not all(m or v.known is not None for m, v in zip(moving, values, strict=True)):
        return None
    operands = [
        np.concatenate([v.nonzero[None], v.depends]) if m else v.known for m, v in zip(moving, values, strict=True)
    ]
    results = _MOVES[equation.primitive.name](equation, *operands)
    results = results if isinstance(results, (list, tuple)) else [results]
    return [_Value(r[0] != 0, r[1:] != 0) for r in map(np.asarray, results)]


def _product(product: Callable[[np.ndarray, np.ndarray], np.ndarray], a: _Value, b: _Value) -> _Value:
    """d(ab) = da b + a db."""
    return _Value(product(a.nonzero, b.nonzero), product(a.depends, b.nonzero) | product(a.nonzero, b.depends))


def _dot(equation: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The product of matrices as that of truth values, which may have more leading axes."""
    (a_inner, b_inner), (a_batch, b_batch) = equation.params["dimension_numbers"]
    rank_a = len(equation.invars[0].aval.shape)
    a_axes = list(range(rank_a))
    b_axes = [rank_a + k for k in range(len(equation.invars[1].aval.shape))]
    for i, j in zip((*a_inner, *a_batch), (*b_inner, *b_batch), strict=True):
        b_axes[j] = a_axes[i]
    batch = [a_axes[i] for i in a_batch]
    inner = {a_axes[i] for i in a_inner}
    free = [x for x in a_axes if x not in inner and x not in batch]
    free += [x for x in b_axes if x not in inner and x not in batch]

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = a.astype(np.float32), b.astype(np.float32)
        return np.asarray(np.einsum(a, [..., *a_axes], b, [..., *b_axes], [..., *batch, *free]) > 0)

    return product


def _select(which: np.ndarray | None, cases: list[_Value], shape: tuple[int, ...]) -> _Value:
    """The case that is chosen, or all of them where the choice is not known."""
    nonzero, depends = np.zeros(shape[1:], bool), np.zeros(shape, bool)
    for k, case in enumerate(cases):
        chosen = np.asarray(True) if which is None else which.astype(int) == k
        nonzero = nonzero | (case.nonzero & chosen)
        depends = depends | (case.depends & chosen)
    return _Value(nonzero, depends)


# Operations that move entries, on truth values with one more leading axis: what is nonzero, and what depends on each input.


def _broadcast_in_dim(equation: Any, x: np.ndarray) -> np.ndarray:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    spread = [1] * len(shape)
    for axis, length in zip(axes, x.shape[1:], strict=True):
        spread[axis] = length
    return np.broadcast_to(x.reshape(len(x), *spread), (len(x), *shape))


def _slice(equation: Any, x: np.ndarray) -> np.ndarray:
    p = equation.params
    strides = p["strides"] or (1,) * (x.ndim - 1)
    cuts = (slice(*s) for s in zip(p["start_indices"], p["limit_indices"], strides, strict=True))
    return x[(slice(None), *cuts)]


def _split(equation: Any, x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(equation.params["sizes"])[:-1], axis=equation.params["axis"] + 1)


def _unstack(equation: Any, x: np.ndarray) -> list[np.ndarray]:
    return list(np.moveaxis(x, equation.params["axis"] + 1, 0))


def _reduce_sum(equation: Any, x: np.ndarray) -> np.ndarray:
    return np.asarray(x.any(axis=tuple(axis + 1 for axis in equation.params["axes"])))


def _transpose(equation: Any, x: np.ndarray) -> np.ndarray:
    return x.transpose(0, *(axis + 1 for axis in equation.params["permutation"]))


def _pad(equation: Any, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    config = equation.params["padding_config"]
    if any(low < 0 or high < 0 or interior for low, high, interior in config):
        return _as_it_is(equation, x, value)
    around = [(low, high) for low, high, _ in config]
    outside = np.pad(np.zeros(x.shape[1:], bool), around, constant_values=True)
    return np.pad(x, [(0, 0), *around]) | (outside & value.reshape(-1, *(1,) * outside.ndim))


def _as_it_is(equation: Any, *operands: Any) -> Any:
    """By the operation itself, on zeros and ones."""
    atoms = [v.aval for v in equation.invars]
    arrays = [jnp.asarray(x, v.dtype) for x, v in zip(operands, atoms, strict=True)]
    axes = [0 if x.ndim > len(v.shape) else None for x, v in zip(arrays, atoms, strict=True)]
    return jax.vmap(partial(equation.primitive.bind, **equation.params), in_axes=axes)(*arrays)


def _reshape(equation: Any, x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), *equation.outvars[0].aval.shape)


def _same(equation: Any, x: np.ndarray) -> np.ndarray:
    return x


# The operations that occur most as numpy; the others would compile one by one.
_MOVES: dict[str, Callable[..., Any]] = {
    "slice": _slice,
    "split": _split,
    "unstack": _unstack,
    "broadcast_in_dim": _broadcast_in_dim,
    "transpose": _transpose,
    "pad": _pad,
    "concatenate": lambda equation, *x: np.concatenate(x, axis=equation.params["dimension"] + 1),
    "stack": lambda equation, *x: np.stack(x, axis=equation.params["axis"] + 1),
    "reduce_sum": _reduce_sum,
    **dict.fromkeys(("reshape", "squeeze"), _reshape),
    **dict.fromkeys((*SAME, "optimization_barrier"), _same),
    **dict.fromkeys(
        "rev gather dynamic_slice scatter scatter-add dynamic_update_slice cumsum".split(),
        _as_it_is,
    ),
}
_PRODUCTS: dict[str, Callable[[Any], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "mul": lambda equation: np.logical_and,
    "dot_general": _dot,
}
