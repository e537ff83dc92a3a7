"""Lemke's method for linear complementarity problems."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from . import dense
from .status import Status


class Complementarity(NamedTuple):
    """Solution of a linear complementarity problem, and how it was found.

    >>> import jax.numpy as jnp
    >>> z, status, iterations, residual = lemke(2.0 * jnp.eye(2), jnp.array([-1.0, 1.0]))
    >>> z.tolist(), int(status)
    ([0.5, 0.0], 0)
    """

    z: Array  # (n,); zeros where there is no solution
    status: Array  # () `jaxns.Status`
    iterations: Array  # () pivots
    residual: Array  # () largest |min(z_i, (Mz + q)_i)|, with rows and columns of M scaled to one and q to its size


def lemke(M: Array, q: Array, *, max_pivots: int | None = None) -> Complementarity:
    """Solve 0 ≤ z ⊥ Mz + q ≥ 0 for M (n, n) and q (n,) by complementary pivoting.

    The method ends with a solution, or on a ray (`Status.RAY`). For copositive-plus matrices, positive semidefinite ones
    among them, a ray means that the problem is infeasible. Ties of the ratio test are broken lexicographically, so that
    degenerate problems do not cycle. Works under `jit` and `vmap`; derivatives of z with respect to M and q follow from
    the equations of the basic variables, and never pass through the pivots.

    - max_pivots: by default 50 + 10 n

    >>> import jax.numpy as jnp
    >>> solution = lemke(jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([-5.0, -6.0]))
    >>> [round(float(z), 12) for z in solution.z], int(solution.status)
    ([1.333333333333, 2.333333333333], 0)
    """
    M, q = jnp.asarray(M), jnp.asarray(q)
    if q.ndim != 1 or M.shape != (q.shape[0], q.shape[0]):
        raise ValueError(f"lemke: M must be (n, n) and q (n,), got {M.shape} and {q.shape}; use jax.vmap for batches.")
    dtype = jnp.result_type(M, q, float)
    limit = 50 + 10 * q.shape[0] if max_pivots is None else max_pivots
    return _implicit(limit, M.astype(dtype), q.astype(dtype))[0]


class _State(NamedTuple):
    tableau: Array  # (n, 2n + 2): w, z, z_0 and the right-hand side
    basis: Array  # (n,) which variable is basic in each row
    entering: Array  # () variable that enters next
    status: Array  # −1 while pivoting
    pivots: Array


def _solve(max_pivots: int, M: Array, q: Array) -> tuple[Complementarity, Array]:
    """The solution, and which z are basic."""
    n = q.shape[0]
    if n == 0:
        zero = jnp.asarray(0)
        return Complementarity(q, zero, zero, jnp.zeros((), q.dtype)), jnp.zeros((0,), bool)
    cover = 2 * n  # the variable z_0, whose column covers q
    # Rows and columns scaled alike keep the solution and make one tolerance serve all rows.
    sizes = jnp.max(jnp.abs(M), axis=1)
    sizes = jnp.where(sizes > 1e-14 * jnp.max(sizes), sizes, jnp.max(sizes))  # rows of zeros have no scale of their own
    scale = 1.0 / jnp.sqrt(jnp.where(sizes > 0.0, sizes, 1.0))
    size = jnp.maximum(jnp.max(jnp.abs(scale * q), initial=0.0), jnp.finfo(q.dtype).tiny)
    A, b = scale[:, None] * M * scale[None], scale * q / size
    identity = jnp.eye(n, dtype=q.dtype)
    tableau = jnp.concatenate([identity, -A, -jnp.ones((n, 1), q.dtype), b[:, None]], axis=1)
    small = 1e4 * float(jnp.finfo(q.dtype).eps)
    solved = jnp.all(b >= 0.0)
    finite = jnp.all(jnp.isfinite(tableau))

    first = _pivot(tableau, jnp.arange(n), jnp.argmin(b), jnp.asarray(cover))
    start = _State(
        tableau=jnp.where(solved, tableau, first[0]),
        basis=jnp.where(solved, jnp.arange(n), first[1]),
        entering=jnp.argmin(b) + n,
        status=jnp.where(finite, jnp.where(solved, Status.OK, -1), Status.NONFINITE),
        pivots=jnp.where(solved, 0, 1),
    )

    def body(state: _State) -> _State:
        row, ray = _leaving_row(state, cover, small)
        leaving = state.basis[row]
        tableau, basis = _pivot(state.tableau, state.basis, row, state.entering)
        done = leaving == cover
        status = jnp.where(ray, Status.RAY, jnp.where(done, Status.OK, -1))
        status = jnp.where((status == -1) & (state.pivots + 1 >= max_pivots), Status.NOT_CONVERGED, status)
        entering = jnp.where(leaving < n, leaving + n, leaving - n)
        return _State(
            jnp.where(ray, state.tableau, tableau),
            jnp.where(ray, state.basis, basis),
            jnp.where(done | ray, state.entering, entering),
            status,
            state.pivots + 1,
        )

    end = lax.while_loop(lambda state: state.status == -1, body, start)
    basic = jnp.zeros((2 * n + 1,), bool).at[end.basis].set(True)
    values = jnp.zeros((2 * n + 1,), q.dtype).at[end.basis].set(end.tableau[:, -1])
    # What many pivots lost to rounding, one solve for the basic variables gets back.
    pivoted = jnp.maximum(values[n : 2 * n], 0.0)
    refined = jnp.maximum(dense.solve(_basic_rows(A, basic[n : 2 * n]), jnp.where(basic[n : 2 * n], -b, 0.0)), 0.0)

    def defect(z: Array) -> Array:
        return jnp.max(jnp.abs(jnp.minimum(z, A @ z + b))) / jnp.maximum(1.0, jnp.max(z))

    z = jnp.where(defect(refined) <= defect(pivoted), refined, pivoted)
    residual = defect(z)
    # The pivots may have lost what they sought to rounding: the solution itself decides.
    wrong = (end.status == Status.OK) & ~(residual <= jnp.sqrt(jnp.finfo(q.dtype).eps))
    status = jnp.where(wrong, Status.NOT_CONVERGED, end.status)
    ok = status == Status.OK
    z = jnp.where(ok, size * scale * z, 0.0)
    return Complementarity(z, status, end.pivots, residual), basic[n : 2 * n] & ok


def _basic_rows(M: Array, basic: Array) -> Array:
    """M for the basic variables, the identity for all others."""
    return jnp.where(basic[:, None], jnp.where(basic[None], M, 0.0), jnp.eye(M.shape[0], dtype=M.dtype))


def _pivot(tableau: Array, basis: Array, row: Array, entering: Array) -> tuple[Array, Array]:
    pivot_row = tableau[row] / tableau[row, entering]
    factors = tableau[:, entering].at[row].set(0.0)
    tableau = (tableau - factors[:, None] * pivot_row[None]).at[row].set(pivot_row)
    return tableau, basis.at[row].set(entering)


def _leaving_row(state: _State, cover: int, small: float) -> tuple[Array, Array]:
    """The row of the lexicographic ratio test, and whether there is none."""
    column = state.tableau[:, state.entering]
    n = column.shape[0]
    candidates = column > small
    ray = ~jnp.any(candidates)
    safe = jnp.where(candidates, column, 1.0)

    def narrow(k: Array, candidates: Array) -> Array:
        ratio = jnp.where(candidates, state.tableau[:, jnp.where(k == 0, 2 * n + 1, k - 1)] / safe, jnp.inf)
        return candidates & (ratio <= jnp.min(ratio) + small * (1.0 + jnp.abs(jnp.min(ratio))))

    ties = narrow(jnp.asarray(0), candidates)
    # z_0 leaves as soon as it may: then the problem is solved.
    last = ties & (state.basis == cover)
    ties = jnp.where(jnp.any(last), last, lax.fori_loop(1, n + 1, narrow, ties))
    return jnp.argmax(ties), ray


def _implicit(max_pivots: int, M: Array, q: Array) -> Any:
    @jax.custom_jvp
    def solve(M: Array, q: Array) -> tuple[Complementarity, Array]:
        return _solve(max_pivots, M, q)

    @solve.defjvp
    def solve_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> Any:
        """Basic z: M_bb dz_b = −(dM z + dq)_b; the others stay zero."""
        (M, q), (M_dot, q_dot) = primals, tangents
        solution, basic = solve(M, q)
        z_dot = -dense.solve(_basic_rows(M, basic), jnp.where(basic, M_dot @ solution.z + q_dot, 0.0))
        nothing: Any = np.zeros((), jax.dtypes.float0)
        tangent = Complementarity(z_dot, nothing, nothing, jnp.zeros_like(solution.residual))
        return (solution, basic), (tangent, np.zeros(basic.shape, jax.dtypes.float0))

    return solve(M, q)
