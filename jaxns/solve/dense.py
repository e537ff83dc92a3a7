"""Small dense linear systems from plain XLA arithmetic, safe for singular matrices.

Batched LAPACK calls run matrix by matrix on a CPU and can deadlock in XLA's thread pool, so nothing here calls
LAPACK. The elimination runs on whole blocks of independent systems at once: matrix axes come first, any number of
*lane* axes (one entry per independent system) come last and stay contiguous in memory.

Matrices that come from contact problems may be singular: redundant contacts make rows of the Delassus matrix
linearly dependent. Their systems are still consistent, and any solution will do. Two eliminations serve:

- `eliminate` takes pivots from the diagonal, in order. That is exact for the positive semidefinite (scaled Delassus)
  structure of contact problems: there a vanishing pivot means that its whole row and column depend on earlier ones,
  and the unknown is set to zero.
- `eliminate_pivoted` searches each column for its largest entry and also solves rank-deficient systems in general
  (row-echelon form, dependent unknowns set to zero).

`solve_lanes` runs the first, checks the result, and repeats with the second the lanes that fail the check.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from .lanes import Lift, largest, on_lanes

BLOCK, LANES_BLOCK = 5, 7  # pivots at least, of one system and of many
MOST_OF_BLOCK = 10  # pivots at most: sums of more terms are not vectorised
MANY = 64  # rows from which on unrolled sums compile for too long
FEW = 24  # rows up to which a single system needs neither blocks nor products of matrices


def pivot_threshold(dtype: jnp.dtype) -> float:
    """Pivots below this fraction of the largest entry count as zero."""
    return 1e3 * float(jnp.finfo(dtype).eps)


def _diagonal_size(A: Array) -> Array:
    if A.shape[0] > MANY:
        return jnp.max(jnp.abs(jnp.diagonal(A)), axis=-1)
    return largest(jnp.stack([A[i, i] for i in range(A.shape[0])]))


def eliminate(A: Array, b: Array) -> Array:
    """Solve A x = b with diagonal pivots; a vanishing pivot sets its unknown to zero.

    A has shape (n, n, *lanes), b has shape (n, k, *lanes): k right-hand sides for each lane. Blocks of pivots, each by
    Gauss-Jordan elimination as a loop: unrolled code compiles slowly, and XLA repeats work when it fuses the steps. The
    loop runs over the rows of the block alone, and all rows below lose them at once, so that a block passes through memory
    once; a single system of a few rows is small enough to be changed in each step.
    """
    floor = pivot_threshold(A.dtype) * _diagonal_size(A)
    least = BLOCK if A.ndim == 2 else LANES_BLOCK
    block = min(max(least, A.shape[0] // 8), MOST_OF_BLOCK)  # few blocks, for the sake of compilation
    left = jnp.concatenate([A, b], axis=1)
    finished = []  # for each block of rows the columns to the right of it
    while left.shape[0]:
        size = min(block, left.shape[0])
        step = lambda k, Ab: _gauss_jordan(k, Ab, floor)[0]  # noqa: E731
        if A.ndim == 2 and A.shape[0] <= FEW:
            left = lax.fori_loop(0, size, step, left)
            finished.append(left[:size, size:])
            left = left[size:, size:]
            continue
        rows = lax.fori_loop(0, size, step, left[:size])[:, size:]
        finished.append(rows)
        below = left[size:]
        left = below[:, size:] - matmul_lanes(below[:, :size], rows) if below.shape[0] else below[:, size:]
    x = finished[-1]
    for rows in finished[-2::-1]:
        known = x.shape[0]
        x = jnp.concatenate([rows[:, known:] - matmul_lanes(rows[:, :known], x), x])
    return x


def eliminate_with_sign(A: Array, b: Array) -> tuple[Array, Array]:
    """The same for one system, with the sign of det A: one loop over the whole matrix, which compiles faster."""
    floor = pivot_threshold(A.dtype) * _diagonal_size(A)

    def column(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        Ab, pivot = _gauss_jordan(k, carry[0], floor)
        return Ab, jnp.where(pivot < 0.0, -carry[1], carry[1])

    start = jnp.concatenate([A, b], axis=1), jnp.ones_like(A[0, 0])
    Ab, sign = lax.fori_loop(0, A.shape[0], column, start)
    return Ab[:, A.shape[0] :], sign


def _gauss_jordan(k: Array, Ab: Array, floor: Array) -> tuple[Array, Array]:
    """Column k of Gauss-Jordan elimination with its diagonal pivot, and the pivot."""
    row_index = lax.broadcasted_iota(jnp.int32, (Ab.shape[0], *Ab.shape[2:]), 0)
    row = Ab[k]
    pivot = row[k]
    regular = ~(jnp.abs(pivot) <= floor)  # NaN is not "small": it must show in the result
    inverse = jnp.where(regular, 1.0 / jnp.where(regular, pivot, 1.0), 0.0)
    # Row k itself becomes row k / pivot, i.e. loses (1 − 1/pivot) of itself; a dependent row becomes zero.
    own = jnp.where(regular, 1.0 - inverse, 1.0)
    factor = jnp.where(row_index == k, own, Ab[:, k] * inverse)
    return Ab - factor[:, None] * row[None], pivot


def eliminate_pivoted(A: Array, b: Array) -> Array:
    """Solve A x = b by Gauss-Jordan elimination with row pivoting; shapes as in `eliminate`.

    Dependent columns set their unknown to zero, dependent rows are dropped: a solution of every consistent system.
    """
    n = A.shape[0]
    floor = pivot_threshold(A.dtype) * jnp.max(jnp.abs(A), axis=(0, 1))
    row_index = lax.broadcasted_iota(jnp.int32, (n, *A.shape[2:]), 0)

    def column(k: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        A, b, used, owner = carry
        candidates = jnp.where(used, -1.0, jnp.abs(A[:, k]))
        largest = jnp.max(candidates, axis=0)
        first = jnp.min(jnp.where(candidates == largest, row_index, n), axis=0)
        is_pivot = (row_index == first) & (largest > floor)
        A_p = jnp.sum(jnp.where(is_pivot[:, None], A, 0.0), axis=0)
        b_p = jnp.sum(jnp.where(is_pivot[:, None], b, 0.0), axis=0)
        pivot = jnp.where(largest > floor, A_p[k], 1.0)
        factor = jnp.where(is_pivot, pivot - 1.0, A[:, k]) / pivot
        factor = jnp.where(largest > floor, factor, 0.0)
        A, b = A - factor[:, None] * A_p, b - factor[:, None] * b_p
        return A, b, used | is_pivot, jnp.where(is_pivot, k, owner)

    start = (A, b, jnp.zeros(A[:, 0].shape, bool), jnp.full(A[:, 0].shape, -1))
    _, b, _, owner = lax.fori_loop(0, n, column, start)

    def unknown(k: Array) -> Array:
        return jnp.sum(jnp.where((owner == k)[:, None], b, 0.0), axis=0)

    return jax.vmap(unknown)(jnp.arange(n))


def solve_lanes(A: Array, b: Array) -> Array:
    """Solve A x = b in every lane. A: (n, n, *lanes), b: (n, k, *lanes), both with the same lanes."""
    if A.shape[0] == 0:
        return b
    x = eliminate(A, b)
    tolerance = 1e5 * float(jnp.finfo(A.dtype).eps)

    def wrong(x: Array) -> Array:
        defect = largest(matmul_lanes(A, x) - b)
        size = largest(b) + _diagonal_size(A) * largest(x)
        return jnp.any(~(defect <= tolerance * size) & jnp.isfinite(size), axis=0)

    def repeat() -> Array:
        x_pivoted = eliminate_pivoted(A, b)
        return jnp.where(bad & ~wrong(x_pivoted), x_pivoted, x)

    bad = wrong(x)
    return lax.cond(jnp.any(bad), repeat, lambda: x)


def _is_long(A: Array) -> bool:
    """Whether the sums of A @ B are too long for fused arithmetic."""
    return A.shape[1] > (FEW if A.ndim == 2 else MANY)


@jax.custom_jvp
def matmul_lanes(A: Array, B: Array) -> Array:
    """A @ B in every lane; (n, m, *lanes) and (m, k, *lanes), as fused arithmetic instead of small BLAS calls.

    A column that is cut out of a matrix becomes, in reverse mode, a matrix of zeros with one column, a kernel for each. So
    the derivative is a product and a sum, of which reverse mode makes products and sums.
    """
    if A.shape[1] == 0:
        return jnp.zeros((A.shape[0], *B.shape[1:]), A.dtype)
    if _is_long(A):
        return jnp.einsum("ij...,jk...->ik...", A, B)
    product = A[:, 0, None] * B[None, 0]
    for j in range(1, A.shape[1]):
        product = product + A[:, j, None] * B[None, j]
    return product


@partial(matmul_lanes.defjvp, symbolic_zeros=True)
def _matmul_jvp(primals: tuple[Array, Array], tangents: tuple[Any, Any]) -> tuple[Array, Any]:
    (A, B), (A_dot, B_dot) = primals, tangents
    moved = [
        jnp.einsum("ij...,jk...->ik...", X, Y) if _is_long(A) else jnp.sum(X[:, :, None] * Y[None], axis=1)
        for X, Y in ((A_dot, B), (A, B_dot))
        if not (isinstance(X, SymbolicZero) or isinstance(Y, SymbolicZero))
    ]
    product = matmul_lanes(A, B)
    return product, sum(moved) if moved else jnp.zeros_like(product)


def matmul(A: Array, B: Array) -> Array:
    """A @ B for small A (n, m) and B (m,) or (m, k), as fused arithmetic.

    >>> matmul(jnp.array([[1.0, 2.0]]), jnp.array([3.0, 4.0])).tolist()
    [11.0]
    """
    return matmul_lanes(A, B[:, None])[:, 0] if B.ndim == 1 else matmul_lanes(A, B)


def _solve(A: Array, b: Array) -> Array:
    """`solve_lanes` for one lane, as one operation of a trace: a solve is some thousand of them."""
    if A.shape[0] == 0:
        return b
    shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
    return on_lanes(_solve_on_lanes, A, b, rows=A.shape[0], result=shape, whole=_one_matrix)


def _one_matrix(laned: tuple[bool, bool]) -> bool:
    """A single matrix for all lanes is eliminated once, not once for each block of lanes."""
    return not laned[0]


def _solve_on_lanes(lift: Lift, A: Array, b: Array) -> Array:
    A_laned, b_laned = lift.laned
    if lift.size is None:
        return solve_lanes(A, b)
    if not A_laned:  # one matrix, many right-hand sides: columns
        return solve_lanes(A, b.reshape(b.shape[0], -1)).reshape(b.shape)
    return solve_lanes(A, b if b_laned else jnp.broadcast_to(b[..., None], (*b.shape, lift.size)))


@partial(jax.jit, inline=True)
def solve(A: Array, b: Array) -> Array:
    """Solve A x = b for A (n, n) and b (n,) or (n, k); differentiable in both modes, batched by `jax.vmap`.

    A singular but consistent system yields one of its solutions.

    >>> import jax.numpy as jnp
    >>> solve(jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.array([2.0, 5.0])).tolist()
    [1.0, 1.0]
    """
    if b.ndim == 1:
        return solve(A, b[:, None])[:, 0]
    return lax.custom_linear_solve(
        lambda x: A @ x,
        b,
        solve=lambda _, b: _solve(A, b),
        transpose_solve=lambda _, b: _solve(A.T, b),
    )


def solve_definite(A: Array, b: Array) -> Array:
    """Solve A x = b for A (n, n) with positive definite symmetric part, b (n,): diagonal pivots suffice, unchecked.

    >>> solve_definite(jnp.array([[1.0, -1.0], [1.0, 1.0]]), jnp.array([0.0, 2.0])).tolist()
    [1.0, 1.0]
    """

    def by_elimination(A: Array, b: Array) -> Array:
        return eliminate(A, b[:, None])[:, 0]

    return lax.custom_linear_solve(
        lambda x: matmul(A, x),
        b,
        solve=lambda _, b: by_elimination(A, b),
        transpose_solve=lambda _, b: by_elimination(A.T, b),
    )


@jax.custom_jvp
def inverse(A: Array) -> Array:
    """A⁻¹ for A (n, n); its derivative −A⁻¹ dA A⁻¹ needs no further elimination.

    >>> inverse(jnp.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return _solve(A, jnp.eye(A.shape[0], dtype=A.dtype))


@inverse.defjvp
def _inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (A,), (A_dot,) = primals, tangents
    A_inv = inverse(A)
    return A_inv, -matmul(matmul(A_inv, A_dot), A_inv)
