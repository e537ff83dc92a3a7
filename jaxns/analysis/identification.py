"""Parameter identification: least squares between predictions and measurements."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from ..host.compiler import jit_for_batches
from ..host.progress import Notice, tqdm_bar
from ..model.values import as_float_leaves, is_concrete
from ..solve import dense
from . import least_squares
from .arguments import (
    check_alike,
    check_horizons,
    flat_bounds,
    parameter_names,
    place,
    spread_weights,
    warn_of_nonsense,
    warn_of_outsiders,
)
from .fit_card import card_of_fit
from .least_squares import Box, Descent, Method

if TYPE_CHECKING:
    import optax

RANK_TOLERANCE = 1e-12  # eigenvalues of JᵀJ, for relative parameters, below this fraction of the largest count as zero
CHUNK = 5  # iterations between two movements of a progress bar


class IdentificationError(RuntimeError):
    """No start of a fit led anywhere.

    >>> try:
    ...     identify(lambda p: jnp.log(-p), jnp.array(1.0), 2.0, num_iters=1)
    ... except IdentificationError as error:
    ...     print(str(error)[:66])
    identify: the prediction is not finite for any of the 1 starts. Lo
    """


class IdentifiabilityWarning(UserWarning):
    """The data do not determine some of the parameters.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     fit = identify(lambda p: (p["a"] + p["b"]) * jnp.arange(3.0), jnp.arange(3.0), {"a": 1.0, "b": 2.0})
    >>> caught[0].category.__name__, float(fit.standard_errors["a"])
    ('IdentifiabilityWarning', inf)
    """


class Starts(NamedTuple):
    """All starts of a fit; leaves have a leading axis of their number S."""

    initial: Any  # pytree of parameters
    params: Any  # where each start ended
    loss: Array  # (S,)
    converged: Array  # (S,) bool: stopped by itself, with a finite loss


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False)
class Fit:
    """What `identify` returns; str(fit) is a short report.

    `covariance` is that of the parameters in the order of `names`, s² (JᵀJ)⁻¹ from the Jacobian of the residuals at the
    solution and their scatter s. It is infinite for parameters that the data do not determine.

    >>> fit = identify(lambda p: p["a"] * jnp.arange(4.0), jnp.array([0.0, 2.0, 4.1, 6.0]), {"a": 1.0})
    >>> print(fit)
    a  2.01429 ± 0.013
    loss 0.001786, 4 samples, 1 of 1 starts converged
    """

    params: Any  # pytree like the guess
    loss: Array  # weighted mean of the squared residuals
    history: Array  # (S, K) losses of all starts, the first one at the start; starts that stopped repeat their last one
    covariance: Array  # (m, m)
    standard_errors: Any  # pytree like the guess
    starts: Starts
    samples: Array  # number of samples that count
    names: tuple[str, ...] = field(metadata={"static": True})

    @property
    def ok(self) -> Array:
        """Whether the best start stopped by itself."""
        return self.starts.converged[jnp.argmin(self.starts.loss)]

    def _repr_html_(self) -> str:
        return card_of_fit(self)

    def __repr__(self) -> str:
        return str(self) if is_concrete(self) else f"Fit of {', '.join(self.names)}, traced"

    def __str__(self) -> str:
        values, errors = ravel_pytree(self.params)[0], ravel_pytree(self.standard_errors)[0]
        width = max(len(name) for name in self.names)
        lines = [f"{n:{width}s} {v: .6g} ± {e:.2g}" for n, v, e in zip(self.names, values, errors, strict=True)]
        converged = int(jnp.sum(self.starts.converged))
        tail = (
            f"loss {float(self.loss):.4g}, {int(self.samples)} samples, {converged} of {len(self.starts.loss)} starts"
        )
        return "\n".join([*lines, f"{tail} converged"])


def identify(
    predict: Callable[[Any], Any],
    data: Any,
    guess: Any,
    *,
    bounds: Any = None,
    optimizer: optax.GradientTransformation | str | None = None,
    num_iters: int = 200,
    num_starts: int = 1,
    key: Array | None = None,
    weights: Any = None,
    horizons: Sequence[float] = (1.0,),
    tol: float = 1e-9,
    forward: bool = True,
    progress: bool | None = None,
) -> Fit:
    """Find parameters for which predict(params) is nearest to the data, in the sense of weighted least squares.

    Main arguments:

    - predict: `(params) -> pytree like data`, pure; a prediction that is not finite counts as failed
    - data: pytree of arrays; NaN marks missing samples
    - guess: pytree of parameters, the first start

    Other arguments:

    - bounds: pytree like the guess with (low, high) for each parameter; None, inside or outside a pair, is no bound. A dict
      may leave parameters out. Bounds are kept by a transformation
    - optimizer: None or "levenberg-marquardt", or any optax optimizer, which then works on the transformed parameters
    - num_starts, key: further starts are random, uniform between two bounds, else around the guess; all run as one batch
    - weights: pytree like the data, or broadcasting to it; for independent errors 1/σ²
    - horizons: fractions of the leading axis (time) of the data, fitted one after the other, each from where the last one
      ended: early samples first, before later ones can mislead. The last should be 1
    - tol: relative decrease of the loss (Levenberg–Marquardt) or relative gradient (optax) at which a start stops
    - forward: derivatives in forward mode, for few parameters; otherwise in reverse mode (optax alone)
    - progress: True for a bar with the loss, False for silence; by default a line says that the fit is being compiled

    Called under `jax.vmap` or `jax.jit` (say, over many noisy data sets) it raises and warns about nothing.

    >>> import jax.numpy as jnp
    >>> t = jnp.linspace(0.0, 1.0, 20)
    >>> fit = identify(lambda p: p["h"] - 0.5 * p["g"] * t**2, 2.0 - 4.905 * t**2, {"h": 1.0, "g": 5.0})
    >>> round(float(fit.params["g"]), 6)
    9.81
    """
    guess = as_float_leaves(guess)
    problem = _Problem.of(predict, data, guess, bounds, weights)
    traced = not is_concrete((problem.data, problem.weights, problem.box))
    method = _method(optimizer, tol, forward)
    horizons = check_horizons(horizons, "identify", level=3)
    starts = problem.box.centre[None]
    if num_starts > 1:
        key = jax.random.key(0) if key is None else key
        starts = jnp.concatenate([starts, problem.box.sample(key, num_starts - 1)])
    total = num_iters * len(horizons)
    waiting = (
        f"compiling the fit of {starts.shape[1]} parameter{'s' * (starts.shape[1] != 1)}; once for this prediction"
    )
    notice = Notice(waiting, show=False if traced or progress else progress)
    with notice, tqdm_bar(total=total, desc="identify", disable=not progress or traced) as bar:
        z, losses = problem.box.outside(starts), []
        for fraction in horizons:
            stage = problem.up_to(fraction)
            descents, history = _fit(predict, method, stage, z, num_iters, bar, notice)
            z = descents.z
            losses.append(history)
    return stage.finish(predict, method, starts, descents, jnp.concatenate(losses, axis=1), traced)


def _method(optimizer: Any, tol: float, forward: bool) -> Method:
    if optimizer is None or optimizer == "levenberg-marquardt":
        return least_squares.levenberg_marquardt(tol)
    import optax  # takes a quarter of the time of `import jax`

    if isinstance(optimizer, optax.GradientTransformation):
        return least_squares.by_optax(optimizer, tol, forward)
    raise TypeError(
        f'identify: optimizer must be None, "levenberg-marquardt" or an optax optimizer, got {optimizer!r}.'
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Problem:
    """Flat data, weights and bounds of a fit."""

    data: Array  # (n,) zero where missing
    weights: Array  # (n,) zero where missing; their sum is one
    box: Box
    like: Any  # the guess, whose structure the parameters have
    position: Array  # (n,) place of each sample along its leading axis, from 0 to 1
    samples: Array
    names: tuple[str, ...] = field(metadata={"static": True})

    @classmethod
    def of(cls, predict: Callable[[Any], Any], data: Any, guess: Any, bounds: Any, weights: Any) -> _Problem:
        data = as_float_leaves(data)
        check_alike(predict, data, guess)
        flat, _ = ravel_pytree(data)
        spread = spread_weights(weights, data)
        exists = jnp.isfinite(flat)
        w = jnp.where(exists, ravel_pytree(spread)[0], 0.0)
        if is_concrete(w) and not (bool(jnp.all(w >= 0.0)) and bool(jnp.any(w > 0.0))):
            raise ValueError("identify: there are no samples with a positive weight, or weights are negative or NaN.")
        position = ravel_pytree(jax.tree.map(place, data))[0]
        centre, _ = ravel_pytree(guess)
        lo, hi = flat_bounds(bounds, guess)
        names = tuple(parameter_names(guess))
        if is_concrete((centre, lo, hi)):
            warn_of_outsiders("identify", names, centre, lo, hi, level=4)
        box = Box(lo, hi, centre)
        return cls(jnp.where(exists, flat, 0.0), w / jnp.sum(w), box, guess, position, jnp.sum(w > 0.0), names)

    def up_to(self, fraction: float) -> _Problem:
        """The problem with the first part of the samples alone."""
        w = jnp.where(self.position <= fraction, self.weights, 0.0)
        total = jnp.sum(w)
        if is_concrete(total) and not bool(total > 0.0):
            raise ValueError(f"identify: no sample with a positive weight lies within the horizon {fraction:g}.")
        return _Problem(self.data, w / total, self.box, self.like, self.position, jnp.sum(w > 0.0), self.names)

    def _data_size(self) -> tuple[float, float]:
        """Weighted mean square of the samples, and their variance."""
        square = jnp.sum(self.weights * self.data**2)
        return float(square), float(square - (self.weights @ self.data) ** 2)

    def params(self, flat: Array) -> Any:
        return ravel_pytree(self.like)[1](flat)

    def residual(self, predict: Callable[[Any], Any], flat: Array) -> Array:
        """√w (prediction − data), zero where there is no sample."""
        prediction = ravel_pytree(predict(self.params(flat)))[0]
        counts = self.weights > 0.0
        return jnp.where(counts, jnp.sqrt(self.weights) * (prediction - self.data), 0.0)

    def finish(
        self,
        predict: Callable[[Any], Any],
        method: Method,
        starts: Array,
        descents: Descent,
        history: Array,
        traced: bool,
    ) -> Fit:
        """The best start, with its covariance."""
        if not traced and not bool(jnp.any(jnp.isfinite(descents.loss))):
            raise IdentificationError(
                f"identify: the prediction is not finite for any of the {len(starts)} starts. Look at predict(guess): do "
                "its simulations converge, does it return a number for every sample? Bounds keep random starts sensible."
            )
        best = jnp.argmin(descents.loss)
        chosen = jax.tree.map(lambda x: x[best], descents)
        flat, slope = jax.jvp(self.box.inside, (chosen.z,), (jnp.ones_like(chosen.z),))
        if method.curvature is None:
            J = _jacobian(predict, self, flat)
            information = J.T @ J
        else:
            information = method.curvature(chosen) / (slope[:, None] * slope)
        # Scaled by the size of the parameters, so that their units do not matter.
        size = jnp.where(flat == 0.0, self.box.scale, jnp.abs(flat))
        relative = information * size[:, None] * size
        left = self.samples - flat.shape[0]  # without samples to spare, there is no scatter to see
        variance = jnp.where(left > 0, chosen.loss / jnp.maximum(left, 1), jnp.inf)
        inverse = dense.inverse(relative) * size[:, None] * size
        covariance = jnp.where(left > 0, jnp.where(left > 0, variance, 1.0) * inverse, jnp.inf)
        if not traced:
            covariance = self._warn_if_singular(np.asarray(relative), covariance, int(left))
            errors = np.sqrt(np.diag(covariance))
            lo, hi = np.asarray(self.box.lo), np.asarray(self.box.hi)
            square, spread = self._data_size()
            warn_of_nonsense("identify", self.names, errors, lo, hi, float(chosen.loss), square, spread, level=4)
        unravel = self.params
        return Fit(
            params=unravel(flat),
            loss=chosen.loss,
            history=history,
            covariance=covariance,
            standard_errors=unravel(jnp.sqrt(jnp.diag(covariance))),
            starts=Starts(
                jax.vmap(unravel)(starts),
                jax.vmap(lambda z: unravel(self.box.inside(z)))(descents.z),
                descents.loss,
                descents.done & jnp.isfinite(descents.loss),
            ),
            samples=self.samples,
            names=self.names,
        )

    def _warn_if_singular(self, information: np.ndarray, covariance: Array, left: int) -> Array:
        """Name the parameters of directions that no sample sees; their covariance is infinite."""
        if left <= 0:
            warnings.warn(
                f"identify: {int(self.samples)} samples for {len(self.names)} parameters leave nothing to estimate errors "
                "from; standard errors are infinite.",
                IdentifiabilityWarning,
                stacklevel=4,
            )
            return covariance
        if not np.all(np.isfinite(information)):
            return covariance
        curvatures, directions = np.linalg.eigh(information)
        unseen = directions.T[curvatures <= RANK_TOLERANCE * max(curvatures[-1], 1e-300)]
        if not len(unseen):
            return covariance
        lost = np.max(np.abs(unseen), axis=0) > 0.05
        text = "; ".join(
            " + ".join(f"{c:.2f}·d({n})/{n}" for n, c in zip(self.names, v, strict=True) if abs(c) > 0.05)
            for v in unseen
        )
        warnings.warn(
            f"the data do not determine {', '.join(n for n, x in zip(self.names, lost, strict=True) if x)}: the prediction "
            f"does not change along {text}. Fix one of them, or measure what tells them apart.",
            IdentifiabilityWarning,
            stacklevel=4,
        )
        return jnp.where(lost[:, None] | lost, jnp.inf, covariance)


@partial(jit_for_batches, static_argnums=(0, 1))
def _iterate(
    predict: Any, method: Method, problem: _Problem, descents: Descent, history: Array, begin: Array, end: Array
) -> tuple[Descent, Array]:
    return least_squares.iterate(method, _on_z(predict, problem), descents, history, begin, end)


@partial(jax.jit, static_argnums=0)
def _jacobian(predict: Callable[[Any], Any], problem: _Problem, flat: Array) -> Array:
    return jax.jacfwd(partial(problem.residual, predict))(flat)


def _on_z(predict: Callable[[Any], Any], problem: _Problem) -> least_squares.Residual:
    return lambda z: problem.residual(predict, problem.box.inside(z))


def _fit(
    predict: Callable[[Any], Any],
    method: Method,
    problem: _Problem,
    z: Array,
    num_iters: int,
    bar: Any,
    notice: Notice,
) -> tuple[Descent, Array]:
    """All iterations of one horizon, in pieces if a bar is to move between them."""
    descents = least_squares.descend(method, z)
    history = jnp.full((z.shape[0], num_iters), jnp.inf, z.dtype)
    piece = num_iters if bar.disable else CHUNK
    for begin in range(0, num_iters, piece):
        end = min(begin + piece, num_iters)
        descents, history = _iterate(predict, method, problem, descents, history, jnp.asarray(begin), jnp.asarray(end))
        notice.close()
        if not bar.disable:
            bar.set_postfix(loss=f"{float(jnp.min(descents.loss)):.3e}", running=int(jnp.sum(~descents.done)))
            bar.update(end - begin)
            if bool(jnp.all(descents.done)):
                bar.update(num_iters - end)
                break
    return descents, history
