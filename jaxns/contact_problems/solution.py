"""One frictional contact problem on its own: the linear inclusion that time stepping and impacts pose."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ..integrators.base import tolerance
from ..laws.friction import Coulomb, FrictionLaw
from ..laws.table import LawTable
from ..solve import dense, implicit
from ..solve.inclusion import Problem, Scaling, Solver


class ContactSolution(NamedTuple):
    """Percussions of a contact problem, and how they were found.

    >>> import jax.numpy as jnp
    >>> s = solve_contacts(jnp.eye(2), jnp.array([-3.0, 0.1]), mu=0.5)  # pressed, and sticking
    >>> s.P_N.shape, s.P_F.shape, bool(abs(s.xi).max() < 1e-9)
    ((1,), (1, 1), True)
    """

    P_N: Array  # (n,)
    P_F: Array  # (n, d)
    P_b: Array  # (n_bilateral,)
    xi: Array  # (rows,) G P + c
    status: Array  # () `jaxns.Status`
    iterations: Array  # () Newton iterations or sweeps
    residual: Array  # () largest natural residual, relative to the size of c


def solve_contacts(
    G: Array,
    c: Array,
    mu: Any,
    *,
    d: int = 1,
    method: str | Solver = "newton",
    n_bilateral: int = 0,
    law: FrictionLaw | None = None,
    P_guess: Array | None = None,
    tol: float | None = None,
    max_sweeps: int = 20_000,
) -> ContactSolution:
    """Solve ξ = G P + c with 0 ≤ ξ_N ⊥ P_N ≥ 0 and ξ_F ∈ N_{C_F(P_N)}(−P_F).

    Main arguments:

    - G (rows, rows), c (rows,): rows are `n_bilateral` bilateral ones with ξ = 0, n normals, then n·d friction rows,
      contact by contact
    - mu: friction coefficients, a number, (n,), or (n, d) for laws with one for each friction row
    - d: friction rows of each contact: 0, 1, 2 or 3
    - method: "newton" (semismooth Newton, then "path" where that does not suffice); "path" (the smoothed path alone);
      "natural_newton" (semismooth Newton on the natural residual, as in the papers, without a safeguard);
      "projected_jacobi", "recovered_jacobi", "projected_gauss_seidel", "recovered_gauss_seidel" (sweeps of projections);
      "projected_newton" (the same as "projected_jacobi" for this linear problem); "lemke" (pivoting, for d = 0 and 1).
      Laws with `transformed=True` make any of them a transformed method; a `jaxns.Solver` also says the factor α of prox
      parameters

    Other arguments:

    - n_bilateral: number of bilateral rows
    - law: the friction law, by default `jaxns.Coulomb()`
    - P_guess (rows,): percussions to start from, by default zero
    - tol: tolerance on the natural residual, relative to the size of c
    - max_sweeps: limit of the projected methods

    Works under `jit` and `vmap`, and is differentiable with respect to G, c and mu by the implicit function theorem. A
    failure shows in `status`; G may be singular. Where the status is INFEASIBLE, the percussions are large ones that hold
    each other in balance: their contacts wedge.

    >>> import jax.numpy as jnp
    >>> G = jnp.array([[1.0, 0.0], [0.0, 2.0]])
    >>> s = solve_contacts(G, jnp.array([-3.0, 1.0]), 0.1)  # pressed, and sliding
    >>> s.P_N.tolist(), [round(float(p), 12) for p in s.P_F[0]]
    ([3.0], [-0.3])
    """
    G, c, mu = jnp.asarray(G), jnp.asarray(c), jnp.asarray(mu)
    dtype = jnp.result_type(G, c, mu, float)
    G, c, mu = G.astype(dtype), c.astype(dtype), mu.astype(dtype)
    solver = Solver.of(method, "solve_contacts: method")
    if c.ndim != 1 or G.shape != (c.shape[0], c.shape[0]):
        raise ValueError(
            f"solve_contacts: G must be (m, m) and c (m,), got {G.shape} and {c.shape}; use jax.vmap for batches."
        )
    n, rest = divmod(c.shape[0] - n_bilateral, 1 + d)
    if rest or n < 0:
        raise ValueError(
            f"solve_contacts: {c.shape[0]} rows are not {n_bilateral} bilateral ones and n contacts with 1 + {d} rows each."
        )
    law = law or Coulomb()
    laws = LawTable(n_bilateral, ((n, d, law),))
    if mu.shape not in ((), (n,), (n, d)):
        raise ValueError(f"solve_contacts: mu must be a number, ({n},) or ({n}, {d}), got shape {mu.shape}.")
    if mu.ndim == 2 and d > 1 and law.isotropic:
        raise ValueError(
            f"solve_contacts: {law} has one mu for each contact, got shape {mu.shape}; see AnisotropicCoulomb."
        )
    mu = jnp.broadcast_to(mu if mu.ndim == 2 else jnp.broadcast_to(mu, (n,))[:, None], (n, d)).reshape(-1)
    guess = jnp.zeros_like(c) if P_guess is None else jnp.asarray(P_guess, dtype)
    if guess.shape != c.shape:
        raise ValueError(f"solve_contacts: P_guess must have the shape of c, {c.shape}, got {guess.shape}.")
    theta = _Theta(G, c, mu, jax.lax.stop_gradient(guess), jnp.asarray(tolerance(tol, dtype), dtype))
    problem = Problem(
        laws,
        partial(_prepare, laws),
        partial(_direct, laws),
        _guess,
        _equations,
        _outputs,
        _jacobian,
        solver,
        max_sweeps,
    )
    (P, xi), stats = implicit.solve(problem, theta)
    P_b, P_N, P_F = laws.split(P)
    return ContactSolution(P_N, P_F.reshape(n, d), P_b, xi, stats.status, stats.iterations, stats.residual)


class _Theta(NamedTuple):
    G: Array
    c: Array
    mu: Array  # (n·d,)
    guess: Array
    tol: Array


class _Data(NamedTuple):
    scaling: Scaling
    G: Array
    c: Array
    guess: Array


def _data(laws: LawTable, theta: _Theta, r: Array) -> _Data:
    size = jnp.max(jnp.abs(jax.lax.stop_gradient(theta.c)), initial=0.0)
    unit = jnp.broadcast_to(1.0 / jnp.where(size > 0.0, size, 1.0), theta.c.shape)
    closed = jnp.ones((laws.n_N,), bool)
    return _Data(Scaling(r, theta.mu, closed, unit[:0], unit, theta.tol), theta.G, theta.c, theta.guess)


def _prepare(laws: LawTable, theta: _Theta) -> _Data:
    return _data(laws, theta, laws.prox_parameters(jnp.diagonal(theta.G), theta.mu))


def _direct(laws: LawTable, theta: _Theta) -> _Data:
    return _data(laws, theta, jnp.ones_like(theta.c))


def _guess(data: _Data) -> tuple[Array, Array]:
    return data.c[:0], data.guess


def _equations(z: Array, P: Array, data: _Data) -> tuple[Array, Array]:
    return z, dense.matmul(data.G, P) + data.c


def _jacobian(z: Array, P: Array, data: _Data) -> Array:
    return data.G


def _outputs(z: Array, P: Array, data: _Data) -> tuple[Array, Array]:
    return P, dense.matmul(data.G, P) + data.c
