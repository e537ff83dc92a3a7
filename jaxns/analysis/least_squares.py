"""Least squares in bounds: transformations that keep bounds, Levenberg–Marquardt, and optax optimizers, for many starts.

Parameters are flat vectors here. With unconstrained variables z,

    p = lo + (hi − lo) σ(z)     both bounds         p = lo + eᶻ     lower bound alone
    p = c + s z                 no bound            p = hi − eᶻ     upper bound alone

the loss is F(z) = Σ w_i r_i(p(z))² / Σ w_i over the samples that exist.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..solve import dense

if TYPE_CHECKING:
    import optax

Residual = Callable[[Array], Array]  # p (m,) -> (n,), weighted so that the loss is the sum of its squares


class Box(NamedTuple):
    """Bounds (m,), infinite where there are none, and the centre and scale of unbounded parameters."""

    lo: Array
    hi: Array
    centre: Array

    @property
    def scale(self) -> Array:
        return jnp.where(self.centre == 0.0, 1.0, jnp.abs(self.centre))

    def inside(self, z: Array) -> Array:
        """p(z)."""
        lo, hi, below, above = self._finite()
        growth = jnp.exp(jnp.clip(z, -700.0, 300.0))
        one_sided = jnp.where(below, lo + growth, hi - growth)
        unbounded = self.centre + self.scale * z
        p = jnp.where(below | above, one_sided, unbounded)
        return jnp.where(below & above, lo + (hi - lo) * jax.nn.sigmoid(z), p)

    def outside(self, p: Array) -> Array:
        """z(p); points on or beyond a bound are moved inside by a thousandth of the range."""
        lo, hi, below, above = self._finite()
        fraction = jnp.clip((p - lo) / jnp.where(below & above, hi - lo, 1.0), 1e-3, 1.0 - 1e-3)
        distance = jnp.where(below, p - lo, hi - p)
        one_sided = jnp.log(jnp.maximum(distance, 1e-3 * self.scale))
        z = jnp.where(below | above, one_sided, (p - self.centre) / self.scale)
        return jnp.where(below & above, jnp.log(fraction / (1.0 - fraction)), z)

    def _finite(self) -> tuple[Array, Array, Array, Array]:
        below, above = jnp.isfinite(self.lo), jnp.isfinite(self.hi)
        return jnp.where(below, self.lo, 0.0), jnp.where(above, self.hi, 0.0), below, above

    def sample(self, key: Array, count: int) -> Array:
        """Random starts (count, m): uniform between two bounds, else spread around the centre by half a scale."""
        lo, hi, below, above = self._finite()
        uniform, normal = jax.random.split(key)
        shape = (count, self.lo.shape[0])
        within = lo + (hi - lo) * jax.random.uniform(uniform, shape, self.centre.dtype)
        spread = self.centre + 0.5 * self.scale * jax.random.normal(normal, shape, self.centre.dtype)
        spread = jnp.clip(spread, self.lo, self.hi)
        return jnp.where(below & above, within, spread)


class Descent(NamedTuple):
    """One start of a fit: where it is, and how it goes."""

    z: Array  # (m,)
    loss: Array
    state: Any  # the method's
    done: Array  # bool
    iterations: Array


class Method(NamedTuple):
    """A way to descend: `begin(z)` and `advance(residual, descent)`, for one start.

    A start begins with an infinite loss; its first advance evaluates it where it is. `curvature(descent)` is JᵀJ at its z,
    for a method that knows it.
    """

    begin: Callable[[Array], Descent]
    advance: Callable[[Residual, Descent], Descent]
    curvature: Callable[[Descent], Array] | None = None


def _loss(r: Array) -> Array:
    """Infinite where the prediction failed."""
    loss = jnp.sum(r * r)
    return jnp.where(jnp.isfinite(loss), loss, jnp.inf)


# Levenberg–Marquardt --------------------------------------------------------------------------------------------------


class _Quadratic(NamedTuple):
    """The model of the loss at z."""

    gradient: Array  # Jᵀr
    curvature: Array  # JᵀJ
    damping: Array


@lru_cache(maxsize=64)  # the same arguments give the same method object, and so the same compilation
def levenberg_marquardt(tol: float) -> Method:
    """(JᵀJ + λ diag(JᵀJ)) δ = −Jᵀr, with λ ← λ/5 after a success and λ ← 4λ after a failure.

    Stops when the predicted and the actual decrease fall below `tol` times the loss, or when no step helps any more.
    """

    def evaluate(residual: Residual, z: Array) -> tuple[Array, Array, Array]:
        def both(z: Array) -> tuple[Array, Array]:
            r = residual(z)
            return r, r

        J, r = jax.jacfwd(both, has_aux=True)(z)
        loss = jnp.where(jnp.all(jnp.isfinite(J)), _loss(r), jnp.inf)
        J, r = jnp.nan_to_num(J, posinf=0.0, neginf=0.0), jnp.nan_to_num(r, posinf=0.0, neginf=0.0)
        return loss, r @ J, J.T @ J

    def begin(z: Array) -> Descent:
        model = _Quadratic(0.0 * z, 0.0 * z[:, None] * z, jnp.asarray(5e-2, z.dtype))
        return Descent(z, jnp.asarray(jnp.inf, z.dtype), model, jnp.asarray(False), jnp.asarray(0))

    def advance(residual: Residual, d: Descent) -> Descent:
        g, A, damping = d.state
        first = d.iterations == 0
        diagonal = jnp.diag(A)
        floor = jnp.finfo(A.dtype).eps * jnp.max(diagonal) + jnp.finfo(A.dtype).tiny
        step = -dense.solve(A + damping * jnp.diag(jnp.maximum(diagonal, floor)), g)
        step = jnp.clip(step, -3.0, 3.0)  # in units of a bounded parameter's range or an unbounded one's scale
        loss, gradient, curvature = evaluate(residual, d.z + step)
        better = loss < d.loss
        predicted = -(2.0 * g @ step + step @ A @ step)
        small = ~first & (jnp.maximum(predicted, jnp.where(better, d.loss - loss, 0.0)) <= tol * d.loss)
        stuck = ~better & ((damping > 1e8) | first)
        model = _Quadratic(gradient, curvature, jnp.maximum(damping / 5.0, 1e-12))
        kept = _Quadratic(g, A, damping * 4.0)
        moved = Descent(d.z + step, loss, model, small, d.iterations + 1)
        stayed = Descent(d.z, d.loss, kept, stuck | small, d.iterations + 1)
        new = jax.tree.map(lambda a, b: jnp.where(better, a, b), moved, stayed)
        return jax.tree.map(lambda a, b: jnp.where(d.done, a, b), d, new)

    return Method(begin, advance, lambda d: d.state.curvature)


# Optax ----------------------------------------------------------------------------------------------------------------


class _Walk(NamedTuple):
    at: Array  # z of the optimizer; the descent keeps the best one
    optimizer: Any
    last: Array  # loss at it


@lru_cache(maxsize=64)
def by_optax(optimizer: optax.GradientTransformation, tol: float, forward: bool) -> Method:
    """Any optax optimizer, on z. Stops when the gradient is below `tol` times the loss."""
    import optax

    transformation = optax.with_extra_args_support(optimizer)

    def value_and_gradient(residual: Residual, z: Array) -> tuple[Array, Array]:
        def loss(z: Array) -> Array:
            return jnp.sum(residual(z) ** 2)

        if forward:
            gradient, value = jax.jacfwd(lambda z: (loss(z), loss(z)), has_aux=True)(z)
        else:
            value, gradient = jax.value_and_grad(loss)(z)
        fine = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        return jnp.where(fine, value, jnp.inf), jnp.where(fine, gradient, 0.0)

    def begin(z: Array) -> Descent:
        loss = jnp.asarray(jnp.inf, z.dtype)
        return Descent(z, loss, _Walk(z, transformation.init(z), loss), jnp.asarray(False), jnp.asarray(0))

    def advance(residual: Residual, d: Descent) -> Descent:
        walk: _Walk = d.state
        value, gradient = value_and_gradient(residual, walk.at)
        updates, state = transformation.update(
            gradient, walk.optimizer, walk.at, value=value, grad=gradient, value_fn=lambda z: jnp.sum(residual(z) ** 2)
        )
        better = value < d.loss
        best = jnp.where(better, walk.at, d.z)
        # From a point where the prediction fails, go back half-way to the best one.
        failed = ~jnp.isfinite(value)
        onward = jnp.where(failed, 0.5 * (walk.at + best), optax.apply_updates(walk.at, updates))
        flat = jnp.max(jnp.abs(gradient)) <= tol * value
        done = jnp.where(failed, d.iterations == 0, flat)
        new = Descent(best, jnp.where(better, value, d.loss), _Walk(onward, state, value), done, d.iterations + 1)
        return jax.tree.map(lambda a, b: jnp.where(d.done, a, b), d, new)

    return Method(begin, advance)


# All starts together --------------------------------------------------------------------------------------------------


def descend(method: Method, starts: Array) -> Descent:
    """The descents of all starts (S, m) at their beginning."""
    return jax.vmap(method.begin)(starts)


def iterate(
    method: Method, residual: Residual, descents: Descent, history: Array, begin: Array, end: Array
) -> tuple[Descent, Array]:
    """Iterations `begin` to `end`, fewer if all starts are done; column k of the history (S, K) gets iteration k."""

    def body(carry: tuple[Array, Descent, Array]) -> tuple[Array, Descent, Array]:
        k, descents, history = carry
        descents = jax.vmap(lambda d: method.advance(residual, d))(descents)
        return k + 1, descents, history.at[:, k].set(descents.loss)

    def unfinished(carry: tuple[Array, Descent, Array]) -> Array:
        k, descents, _ = carry
        return (k < end) & ~jnp.all(descents.done)

    k, descents, history = lax.while_loop(unfinished, body, (begin, descents, history))
    # What is not needed any more repeats the last loss.
    filled = jnp.where(jnp.arange(history.shape[1]) >= k, descents.loss[:, None], history)
    return descents, filled
