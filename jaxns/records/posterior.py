"""The log-density of parameters given records, for samplers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from ..analysis.arguments import structure
from .data import Residual, filled, measured_part
from .evaluate import Evaluator
from .task import Task

Noise = Literal["normal", "student"]
FREEDOM = 4.0  # of Student's distribution


@dataclass(frozen=True)
class LogPosterior:
    """The log-density that `log_posterior` makes: a function of a position {"shared": (m,), "own": (N, k)}.

    Positions are unconstrained variables, bounds are kept by transformations, and the density has their log-determinant;
    `start` is the position of the guess, `params(position)` the parameters.

    >>> from jaxns.records.posterior import log_posterior
    >>> density = log_posterior(lambda s, o, r: s["a"] * jnp.ones(4), jnp.ones((2, 4)), shared={"a": 0.5}, noise=1.0)
    >>> isinstance(density, LogPosterior), float(density.params(density.start)["shared"]["a"])
    (True, 0.5)
    """

    evaluator: Evaluator
    lanes: Any  # what each record needs, on the device
    start: dict[str, Array]
    noise: Array  # (N, n) standard deviations, infinite where there is no sample
    distribution: Noise
    priors: Callable[[Any], Array]  # of the shared parameters
    own_priors: Callable[[Any], Array]  # of the own parameters of one record

    def params(self, position: dict[str, Array]) -> dict[str, Any]:
        """Shared and own parameters at a position, as pytrees like the guesses; also of many positions, by `jax.vmap`."""
        program = self.evaluator.program
        own = self.evaluator.box_own.inside(position["own"])
        return {
            "shared": program.kind_shared.tree_of(self.evaluator.box_shared.inside(position["shared"])),
            "own": program.kind_own.tree_of(own),
        }

    def __call__(self, position: dict[str, Array]) -> Array:
        """The log-density, up to a constant; −∞ where a prediction fails."""
        program = self.evaluator.program
        params = self.params(position)

        def record(own: Any, record: Any, noise: Array) -> Array:
            prediction = program.predict(params["shared"], own, record)
            measured = filled(prediction, measured_part(prediction, record))
            r = ravel_pytree(program.residual(prediction, measured))[0]
            exists = jnp.isfinite(noise)
            u = jnp.where(exists, r, 0.0) / jnp.where(exists, noise, 1.0)
            each = -0.5 * u * u
            if self.distribution == "student":
                each = -0.5 * (FREEDOM + 1.0) * jnp.log1p(u * u / FREEDOM)
            return jnp.sum(jnp.where(exists, each, 0.0)) + self.own_priors(own)

        likelihood = jnp.sum(jax.vmap(record)(params["own"], self.lanes, self.noise))
        _, slope = jax.jvp(
            self.evaluator.box_shared.inside, (position["shared"],), (jnp.ones_like(position["shared"]),)
        )
        _, slope_own = jax.jvp(self.evaluator.box_own.inside, (position["own"],), (jnp.ones_like(position["own"]),))
        volume = jnp.sum(jnp.log(jnp.abs(slope))) + jnp.sum(jnp.log(jnp.abs(slope_own)))
        density = likelihood + self.priors(params["shared"]) + volume
        return jnp.where(jnp.isfinite(density), density, -jnp.inf)


def log_posterior(
    predict: Callable[[Any, Any, Any], Any],
    records: Any,
    *,
    shared: Any,
    own: Any = None,
    noise: Any,
    priors: Any = None,
    own_priors: Any = None,
    bounds: Any = None,
    own_bounds: Any = None,
    residual: Residual | None = None,
    distribution: Noise = "normal",
) -> LogPosterior:
    """The log-density of shared and own parameters given records, for the samplers of blackjax or numpyro.

    Arguments are those of `identify_records`, and

    - noise: standard deviation of the samples, one number or an array that broadcasts to the residual of one record
    - priors, own_priors: dicts by name; (mean, standard deviation) of a normal prior, or a function from the value to its
      log-density. What is left out has a flat prior (between its bounds)
    - distribution: of the noise, "normal" or "student" (four degrees of freedom), for outliers

    `blackjax.nuts(density, …)` takes it as it stands, with `density.start`; numpyro's `NUTS` takes
    `potential_fn=lambda position: -density(position)`. It is pure: `jax.grad`, `jit` and `vmap` apply.

    >>> t = jnp.linspace(0.0, 1.0, 10)
    >>> density = log_posterior(
    ...     lambda shared, own, record: own["h"] - 0.5 * shared["g"] * t**2,
    ...     jnp.array([[1.0]]) - 4.9 * t**2,
    ...     shared={"g": 9.0}, own={"h": jnp.ones(1)}, noise=0.01, priors={"g": (9.8, 0.1)},
    ... )  # fmt: skip
    >>> density.start["own"].shape, bool(jax.grad(density)(density.start)["shared"][0] > 0.0)
    ((1, 1), True)
    """
    settings = ("forward", 1e-3, None, None, None)
    task = Task.of(predict, records, shared, own, bounds, own_bounds, None, residual, settings, level=4)  # type: ignore[arg-type]
    spread = np.broadcast_to(_flat_noise(noise, task), task.samples.exists.shape)
    if not np.all(spread > 0.0):
        raise ValueError(f"log_posterior: noise must be positive, got {noise!r}.")
    if distribution not in ("normal", "student"):
        raise ValueError(f'log_posterior: distribution must be "normal" or "student", got {distribution!r}.')
    return LogPosterior(
        task.evaluator,
        jax.tree.map(jnp.asarray, task.evaluator.records),
        {"shared": jnp.asarray(task.shared), "own": jnp.asarray(task.own)},
        jnp.asarray(np.where(task.samples.exists, spread, np.inf)),
        distribution,
        _prior(priors, shared, "priors"),
        _prior(own_priors, {} if own is None else own, "own_priors"),
    )


def _flat_noise(noise: Any, task: Task) -> Any:
    """(n,) from a pytree like the residual, or from what broadcasts to it."""
    like = task.samples.like
    if structure(noise) == structure(like):
        full = jax.tree.map(lambda s, x: np.broadcast_to(np.asarray(s, float), x.shape).ravel(), noise, like)
    else:
        full = jax.tree.map(lambda x: np.broadcast_to(np.asarray(noise, float), x.shape).ravel(), like)
    return np.concatenate(jax.tree.leaves(full))


def _prior(given: Any, like: Any, which: str) -> Callable[[Any], Array]:
    """The sum of the priors by name."""
    given = {} if given is None else given
    unknown = sorted(set(given) - set(like)) if isinstance(like, dict) else sorted(given)
    if unknown:
        raise ValueError(f"log_posterior: {which} for {unknown}, but the parameters are {sorted(like)}.")

    def density(params: Any) -> Array:
        total = jnp.zeros(())
        for name, prior in given.items():
            if callable(prior):
                total = total + jnp.sum(prior(params[name]))
            else:
                mean, deviation = prior
                total = total - jnp.sum(0.5 * ((params[name] - mean) / deviation) ** 2 + math.log(float(deviation)))
        return total

    return density
