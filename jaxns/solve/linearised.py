"""A problem at a point: its residual, its matrix, and the linear inclusion of the contacts that its linearisation leaves.

The smooth unknowns and the bilateral percussions are eliminated from the linearised problem. What is left is solved by
projected sweeps (`projected`), pivots (`pivoting`), or along its smoothed path (`path`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from . import dense, path, pivoting, projected
from .lanes import Lift, largest, norm

if TYPE_CHECKING:
    from .inclusion import Problem


class Laws(projected.Laws, path.Laws, Protocol):
    """Force laws as equations in scaled variables; arrays are (rows, *lanes)."""

    @property
    def size(self) -> int: ...
    def scale_mu(self, mu: Array, r: Array) -> Array: ...
    def cone_residual(self, y: Array, P: Array, mu: Array, closed: Array) -> Array: ...
    def times_slope(self, K: Array, zeta: Array, mu: Array, closed: Array) -> Array: ...


class Result(NamedTuple):
    """Where an iteration ended, in every lane."""

    x: Array  # (m+n, *lanes) z and P̂
    error: Array  # (*lanes) natural residual over the tolerance
    iterations: Array  # (*lanes)
    row: Array  # (*lanes) the row of y with the largest residual, negative for a smooth equation
    ray: Array  # (*lanes) bool: the linearised problem has no solution, as far as its path can tell


class Evaluation(NamedTuple):
    """The equations at a point."""

    F: Array  # (m+n, *lanes) S and the natural residual of the laws
    y: Array  # (n, *lanes) scaled
    error: Array  # (*lanes)
    row: Array  # (*lanes)


def evaluation(problem: Problem, lift: Lift, data: Any) -> Callable[[Array], Evaluation]:
    """The function that evaluates a problem at x = (z, P̂)."""
    laws, s = problem.laws, data.scaling
    root_r = jnp.sqrt(s.r)
    unit = jnp.concatenate([s.unit_S, s.unit_y / root_r])
    mu = laws.scale_mu(s.mu, s.r)
    equations = lift.values(problem.equations, 3)
    m = s.unit_S.shape[0]

    def evaluate(x: Array) -> Evaluation:
        S, y = equations(x[:m], root_r * x[m:], data)
        y = root_r * y
        F = jnp.concatenate([S, laws.residual(y, x[m:], mu, s.closed)])
        error = jnp.where(jnp.isfinite(norm(F)), largest(F * unit) / s.tol, jnp.inf)
        return Evaluation(F, y, error, jnp.argmax(jnp.abs(F) * unit, axis=0) - m)

    return evaluate


def matrix(problem: Problem, lift: Lift, data: Any, x: Array) -> Array:
    """∂(S, ŷ)/∂(z, P̂)."""
    root_r = jnp.sqrt(data.scaling.r)
    m = x.shape[0] - root_r.shape[0]
    K = lift.values(problem.linearisation, 3)(x[:m], root_r * x[m:], data)
    scale = jnp.concatenate([jnp.ones_like(K[:m, 0]), root_r])
    return scale[:, None] * K * scale[None]


def natural_law(problem: Problem, scaling: Any) -> Callable[[Array, Array], Array]:
    """P̂ + prox(α ŷ − P̂) as a function of (ŷ, P̂): with a set for each force, or with one cone for each contact."""
    laws, alpha = problem.laws, problem.solver.alpha or 1.0
    mu = laws.scale_mu(scaling.mu, scaling.r)
    residual = laws.cone_residual if problem.solver.cone else laws.residual
    return lambda y, P: residual(alpha * y, P, mu, scaling.closed)


def natural_jacobian(K: Array, x: Array, y: Array, law: Callable[[Array, Array], Array]) -> Array:
    """The generalized Jacobian of (S, law), from K = ∂(S, ŷ)/∂(z, P̂) and the piece in force of each law."""
    m = x.shape[0] - y.shape[0]
    identity = jnp.eye(K.shape[0], dtype=K.dtype)[m:].reshape(-1, K.shape[0], *(1,) * (K.ndim - 2))
    push = jax.linearize(law, y, x[m:])[1]
    rows = jax.vmap(push, in_axes=1, out_axes=1)(K[m:], jnp.broadcast_to(identity, K[m:].shape))
    return jnp.concatenate([K[:m], rows])


class Step(NamedTuple):
    """The way to the solution of the linearised problem."""

    dx: Array  # (m+n, *lanes)
    iterations: Array  # (*lanes)
    ray: Array  # (*lanes) bool: there is no solution, as far as the path can tell


@partial(jax.jit, static_argnames=("laws", "method", "max_iterations", "alpha"))  # the solves of a step share one trace
def contact_step(
    laws: Laws,
    K: Array,
    x: Array,
    F: Array,
    y: Array,
    scaling: Any,
    method: str,
    max_iterations: int,
    warm: Array,
    alpha: float | None = None,
) -> Step:
    """The step to the solution of the linearised inclusion; `path` takes one lane, all others take all.

    The smooth unknowns and the bilateral percussions (b) are eliminated, so that only contact rows (c) iterate.
    """
    s = scaling
    n_b = laws.n_bilateral
    b = x.shape[0] - y.shape[0] + n_b
    head = jnp.concatenate([F[: b - n_b], y[:n_b]])
    right = jnp.concatenate([K[:b, b:], head[:, None]], axis=1)
    if not b:
        reduced = right
    elif method == "path":
        reduced, _ = dense.eliminate_with_sign(K[:b, :b], right)
    else:
        reduced = dense.eliminate(K[:b, :b], right)
    condensed = dense.matmul_lanes(K[b:, :b], reduced)
    contacts = projected.Contacts(
        G=K[b:, b:] - condensed[:, :-1],
        y=y[n_b:] - condensed[:, -1],
        P=x[b:],
        mu=laws.scale_mu(s.mu, s.r),
        closed=s.closed,
        unit=(s.unit_y / jnp.sqrt(s.r))[n_b:],
        tol=0.5 * s.tol,  # room for what the linearisation leaves
    )
    ray = jnp.zeros(s.tol.shape, bool)
    if contacts.y.shape[0] == 0:
        P, iterations = contacts.P, jnp.ones(s.tol.shape, int)
    elif method == "path":
        P, iterations, ray = path.solve(laws, contacts, warm, max_iterations)
    elif method == "lemke":
        P, iterations = pivoting.solve(laws, contacts)
    else:
        P, iterations = projected.solve(laws, contacts, method, max_iterations, alpha)
    dP = P - contacts.P
    return Step(
        jnp.concatenate([-reduced[:, -1] - dense.matmul_lanes(reduced[:, :-1], dP[:, None])[:, 0], dP]), iterations, ray
    )
