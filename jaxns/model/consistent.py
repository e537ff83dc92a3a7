"""The nearest admissible state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..solve import dense
from .system import System
from .values import is_concrete

MOST = 200  # iterations; near the constraints they converge linearly, with a rate of curvature times distance
SOFT = 1e-9  # on the diagonal of WᵀW, relative to the largest entry of WᵀW
CLOSED = 1e-9  # m: gaps up to this size are closed


def consistent(system: System, q: Any, u: Any, t: Any = 0.0) -> tuple[Array, Array]:
    """The state nearest to (q, u) with g = 0, ġ = 0, γ = 0, g_N ≥ 0, and ġ_N ≥ 0 at closed contacts.

    Distances are Euclidean: ½|q⁺ − q|², in the velocity coordinates where there are more q than u, so that quaternions keep
    their length; then ½|u⁺ − u|² at q⁺. Differentiable once with respect to q, u, t and the parameters, in both modes, by
    the implicit function theorem. Where no admissible state is found, an eager call raises, and a traced one returns NaN.

    >>> import jaxns as ns
    >>> rod = ns.System(
    ...     dict(l=2.0), mass=lambda t, q, p: jnp.eye(2), constraint=lambda t, q, p: jnp.stack([q @ q - p["l"] ** 2])
    ... )
    >>> q, u = consistent(rod, [3.0, 0.0], [1.0, 1.0])
    >>> bool(jnp.allclose(q, jnp.array([2.0, 0.0]))), bool(jnp.allclose(u, jnp.array([0.0, 1.0])))
    (True, True)
    """
    q, u = (jnp.asarray(x, float) if not hasattr(x, "dtype") else jnp.asarray(x) for x in (q, u))
    t = jnp.asarray(t, q.dtype)
    q, u, defect = _nearest(system, q, u, t)
    if is_concrete(defect) and not bool(jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(u))):
        raise ValueError(
            f"consistent: no admissible state was found near q; constraints and gaps are left with {_worst(defect)}. Start "
            "closer, or look for constraints that contradict each other."
        )
    return q, u


def _worst(defect: Array) -> str:
    values = np.asarray(defect)
    return f"{np.nanmax(values) if np.any(np.isfinite(values)) else np.nan:.2e}"


@jax.jit
def _nearest(system: System, q: Array, u: Array, t: Array) -> tuple[Array, Array, Array]:
    """The state, NaN where there is none, and what is left of constraints and gaps (2,)."""

    def rows(s: Array, theta: Any) -> tuple[Array, Array]:
        system, q, t = theta
        place = _moved(system, t, q, s)
        return system.g(t, place), system.g_N(t, place)

    s, left_q = _project(rows, jnp.zeros_like(u), (system, q, t))
    q = jnp.where(left_q <= _tolerance(q), _moved(system, t, q, s), jnp.nan)

    def rates(v: Array, theta: Any) -> tuple[Array, Array]:
        system, q, t, open_ = theta
        bilateral = jnp.concatenate([system.g_dot(t, q, v), system.gamma(t, q, v)])
        return bilateral, system.g_N_dot(t, q, v) + open_

    open_ = jnp.where(lax.stop_gradient(system.g_N(t, q)) > CLOSED, jnp.inf, 0.0)
    v, left_u = _project(rates, u, (system, q, t, open_))
    return q, jnp.where(left_u <= _tolerance(u), v, jnp.nan), jnp.stack([left_q, left_u])


def _tolerance(x: Array) -> Array:
    return float(jnp.finfo(x.dtype).eps) ** 0.75 * jnp.maximum(1.0, jnp.max(jnp.abs(lax.stop_gradient(x)), initial=0.0))


def _moved(system: System, t: Array, q: Array, s: Array) -> Array:
    """q after a motion with the velocity s for one second, by the midpoint rule, which keeps the length of quaternions; one
    turn of Newton's method solves it exactly, as their kinematics are linear in q."""
    if system.kinematics is None:
        return q + s

    def defect(new: Array) -> Array:
        here = 0.5 * (q + new)
        return new - q - system.q_dot(t, here, s) + system.q_dot(t, here, jnp.zeros_like(s))

    return q - dense.solve(jax.jacfwd(defect)(q), defect(q))


def _project(rows: Callable[..., tuple[Array, Array]], x0: Array, theta: Any) -> tuple[Array, Array]:
    """The x nearest to x0 with b(x) = 0 and n(x) ≥ 0 for rows (b, n), and what is left of them.

    x = x0 + Wλ, W = (∂(b, n)/∂x)ᵀ at x: linearised again and again; rows n take part where λ − n > 0, so that at the end
    0 ≤ λ ⊥ n ≥ 0. A small ρ on the diagonal makes WᵀW regular where rows are redundant; corrections at the end take back
    what it leaves of the rows. The last turn, with the derivative of all that enters but of its own matrix, is the
    implicit function theorem.
    """
    fixed = lax.stop_gradient((x0, theta))
    n_b, n_n = (r.shape[0] for r in jax.eval_shape(rows, x0, theta))
    if n_b + n_n == 0 or x0.shape[0] == 0:
        return x0, jnp.zeros((), x0.dtype)

    def flat(x: Array, theta: Any) -> Array:
        return jnp.concatenate(rows(x, theta))

    def taking_part(values: Array, lam: Any) -> Array:
        return (jnp.arange(n_b + n_n) < n_b) | (lam - values > 0.0)

    def turn(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        x, lam, _, k = state
        values, W = flat(x, fixed[1]), jax.jacfwd(flat)(x, fixed[1]).T
        on = taking_part(values, lam)
        W = jnp.where(on, W, 0.0)
        G = dense.matmul(W.T, W)
        wanted = jnp.where(on, dense.matmul(W.T, x - fixed[0]) - values, 0.0)
        lam = jnp.where(on, dense.solve(softened(G, on), wanted), 0.0)
        new = fixed[0] + dense.matmul(W, lam)
        return new, lam, jnp.max(jnp.abs(new - x)), k + 1

    def softened(G: Array, on: Array, soft: Any = SOFT) -> Array:
        return G + jnp.diag(jnp.where(on, soft * jnp.maximum(jnp.max(jnp.diagonal(G)), 1e-30), 1.0))

    def corrected(x: Array, on: Array) -> Array:
        """Levenberg's and Marquardt's step, damped as much as is left of the rows: far away, redundant ones contradict."""
        values = jnp.where(on, flat(x, fixed[1]), 0.0)
        W = jnp.where(on, jax.jacfwd(flat)(x, fixed[1]).T, 0.0)
        soft = SOFT + jnp.minimum(jnp.max(jnp.abs(values)), 1e-2)
        return x - dense.matmul(W, dense.solve(softened(dense.matmul(W.T, W), on, soft), values))

    tiny = 1e2 * float(jnp.finfo(x0.dtype).eps) * jnp.maximum(1.0, jnp.max(jnp.abs(fixed[0])))
    near = lax.fori_loop(0, 40, lambda _, x: corrected(x, taking_part(flat(x, fixed[1]), 0.0)), fixed[0])
    start = near, jnp.zeros((n_b + n_n,), x0.dtype), jnp.asarray(jnp.inf, x0.dtype), jnp.asarray(0)
    x, lam, _, _ = lax.while_loop(lambda s: (s[2] > tiny) & (s[3] < MOST), turn, start)
    on = taking_part(flat(x, fixed[1]), lam)
    x = lax.fori_loop(0, 4, lambda _, x: corrected(x, on), x)
    values = flat(x, fixed[1])
    left = jnp.max(jnp.where(jnp.arange(n_b + n_n) < n_b, jnp.abs(values), jnp.maximum(-values, 0.0)))
    x, lam, left = lax.stop_gradient((x, lam, left))
    return _implicit(flat, x, lam, on, x0, theta), left


def _implicit(flat: Callable[..., Array], x: Array, lam: Array, on: Array, x0: Array, theta: Any) -> Array:
    """x, with the derivative that x − x0 − Wλ = 0 and the rows that are on give it."""
    lam = jnp.where(on, lam, 0.0)

    def conditions(z: Array, x0: Array, theta: Any) -> Array:
        place, force = jnp.split(z, [x.shape[0]])
        values, back = jax.vjp(partial(flat, theta=theta), place)
        soft = jnp.where(on, values, 0.0) + 1e-3 * SOFT * (force - lam)
        return jnp.concatenate([place - x0 - back(jnp.where(on, force, 0.0))[0], jnp.where(on, soft, force)])

    z = jnp.concatenate([x, lam])
    fixed = lax.stop_gradient((x0, theta))
    J = lax.stop_gradient(jax.jacfwd(conditions)(z, *fixed))
    step = conditions(z, x0, theta) - lax.stop_gradient(conditions(z, *fixed))
    return (z - dense.solve(J, step))[: x.shape[0]]
