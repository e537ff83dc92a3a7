"""The implicit derivative: the one place where derivatives pass through an iterative solve.

A solve returns x with F(x, θ) = 0 and outputs o(x, θ). By the implicit function theorem

    dx = −(∂F/∂x)⁻¹ ∂F/∂θ dθ,        do = ∂o/∂x dx + ∂o/∂θ dθ,

so no derivative ever passes through the iterations, and forward and reverse mode cost one linear solve. With redundant
contacts ∂F/∂x is singular: dx is then one of many, but its effect on positions and velocities is unique.

The root carries the name `ROOT`, so that a checkpoint policy can save it: a reverse pass then never repeats a solve.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.ad_checkpoint import checkpoint_name

from . import inclusion
from .derivative_only import with_derivative_of

ROOT = "jaxns_root"


def solve(problem: inclusion.Problem, theta: Any) -> tuple[Any, inclusion.Stats]:
    """Solve an inclusion problem; returns its outputs and stats, differentiable with respect to theta."""
    if problem.laws.n_bilateral + problem.laws.n_N == 0:
        z, P = jax.eval_shape(lambda theta: problem.guess(problem.prepare(theta)), theta)
        if z.shape[0] == 0:  # neither smooth unknowns nor rows: nothing to solve
            data = problem.direct(theta)
            zero = jnp.asarray(0)
            stats = inclusion.Stats(zero, zero, jnp.zeros((), P.dtype), zero - 1)
            return problem.outputs(jnp.zeros(z.shape, z.dtype), jnp.zeros(P.shape, P.dtype), data), stats
    outputs, stats = _solve(problem, theta)
    # Batched tangents of empty outputs can come back with a wrong shape: empty arrays are made anew.
    return jax.tree.map(lambda v: v if v.size else jnp.zeros(v.shape, v.dtype), outputs), stats


def known(problem: inclusion.Problem, root: inclusion.Root, theta: Any) -> Any:
    """The outputs of a problem whose root was found before, with first and second derivatives with respect to theta.

    Two turns of Newton's method with the Jacobian of the root, x ← x − J⁻¹ (F(x, θ) − F(x₀, θ₀)), leave the value as it is:
    the first one brings the derivative, the second one, off by O(dθ³), that of the derivative. Plain arithmetic, so that
    forward and reverse mode may be combined in any order.
    """
    root, fixed = jax.lax.stop_gradient((root, theta))
    data = problem.direct(theta)
    if not root.x.size:  # neither smooth unknowns nor rows
        return problem.solution(root.x, root.r, data)
    J = inclusion.jacobian(problem, root, fixed)
    F = problem.residual(root.x, root.r, data)
    F_0 = jax.lax.stop_gradient(F)
    x = root.x - problem.linear_solve(J, F - F_0)
    x = x - problem.linear_solve(J, problem.residual(x, root.r, data) - F_0)
    return problem.solution(x, root.r, data)


def known_once(problem: inclusion.Problem, root: inclusion.Root, theta: Any) -> Any:
    """The same with first derivatives alone, at half the price: second ones would be wrong, and it is for the caller to
    refuse them."""
    root, fixed = jax.lax.stop_gradient((root, theta))
    J = inclusion.jacobian(problem, root, fixed)
    data = problem.direct(theta)
    x = with_derivative_of(-problem.linear_solve(J, problem.residual(root.x, root.r, data)), root.x)
    return problem.solution(x, root.r, data)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve(problem: inclusion.Problem, theta: Any) -> tuple[Any, inclusion.Stats]:
    solved = inclusion.solve(problem, theta)
    return solved.outputs, solved.stats


@_solve.defjvp
def _solve_jvp(problem: inclusion.Problem, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    def outputs(theta: Any) -> tuple[Any, inclusion.Stats]:
        root, stats = _root(problem, theta)
        return problem.solution(root.x, root.r, problem.direct(theta)), stats

    return jax.jvp(outputs, primals, tangents)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _root(problem: inclusion.Problem, theta: Any) -> tuple[inclusion.Root, inclusion.Stats]:
    solved = inclusion.solve(problem, theta)
    return solved.root, solved.stats


@_root.defjvp
def _root_jvp(problem: inclusion.Problem, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (theta,), (theta_dot,) = primals, tangents
    root, stats = jax.tree.map(lambda v: checkpoint_name(v, ROOT), _root(problem, theta))
    J = _jacobian(problem, root, theta)
    _, F_dot = jax.jvp(lambda theta: problem.residual(root.x, root.r, problem.direct(theta)), (theta,), (theta_dot,))
    x_dot = -problem.linear_solve(J, F_dot)
    # r decides which element of the generalized Jacobian is used, never the solution: it carries no derivative.
    root_dot = inclusion.Root(x_dot, jnp.zeros_like(root.r))
    return (root, stats), (root_dot, jax.tree.map(zero_tangent, stats))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _jacobian(problem: inclusion.Problem, root: inclusion.Root, theta: Any) -> Array:
    """∂F/∂x at the root, with a derivative of its own for the sake of second derivatives."""
    return inclusion.jacobian(problem, root, theta)


@_jacobian.defjvp
def _jacobian_jvp(
    problem: inclusion.Problem, primals: tuple[inclusion.Root, Any], tangents: tuple[inclusion.Root, Any]
) -> tuple[Array, Array]:
    (root, theta), (root_dot, theta_dot) = primals, tangents

    def jacobian(x: Array, theta: Any) -> Array:
        if problem.sparse is not None:
            data = problem.prepare(theta)
            return problem.sparse_jacobian(x, data._replace(scaling=data.scaling._replace(r=root.r)))
        return jax.jacfwd(problem.residual)(x, root.r, problem.direct(theta))

    _, J_dot = jax.jvp(jacobian, (root.x, theta), (root_dot.x, theta_dot))
    return _jacobian(problem, root, theta), J_dot


def zero_tangent(value: Array) -> Any:
    """The tangent of a value that has no derivative."""
    if jnp.issubdtype(value.dtype, jnp.inexact):
        return jnp.zeros_like(value)
    return np.zeros(value.shape, jax.dtypes.float0)
