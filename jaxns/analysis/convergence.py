"""Convergence studies: errors of many step sizes against a reference run, in one compiled program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..integrators.base import Integrator, tolerance
from ..model.checks import check_initial_values, check_shapes
from ..model.system import System
from ..model.values import as_float_leaves, inside_trace, is_concrete
from ..simulation.loop import simulate_each_dt
from ..simulation.simulate import SimulationError, Trajectory, simulate

NORMS = ("sum", "max", "hausdorff")
QUANTITIES = ("q", "u", "P_g", "P_gamma", "P_N", "P_F")
ROUND_OFF = 1e3  # errors below this many units of round-off say nothing about the order


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConvergenceStudy:
    """Errors of one integrator over step sizes; quantities are "q", "u", "P_g", "P_gamma", "P_N" and "P_F".

    Percussions are the functions of time P(t_n) = P^1 + … + P^n, the sums of the increments of all steps.

    >>> dts = jnp.array([0.1, 0.2, 0.4])
    >>> study = ConvergenceStudy(dts, dts > 0.0, {"sum": {"q": 3.0 * dts**2}}, {"q": jnp.zeros(())})
    >>> round(float(study.order_q), 6)
    2.0
    """

    dts: Array  # (K,)
    ok: Array  # (K,) bool: whether all steps of the run converged; its errors are NaN otherwise
    errors: dict[str, dict[str, Array]]  # norm -> quantity -> (K,)
    floors: dict[str, Array]  # quantity -> () errors below this are round-off or solver tolerance
    norm: str = field(default="sum", metadata={"static": True})  # the one that the short names below refer to

    @property
    def error_q(self) -> Array:
        """Errors of the positions (K,)."""
        return self.error("q")

    @property
    def error_u(self) -> Array:
        """Errors of the velocities (K,)."""
        return self.error("u")

    @property
    def order_q(self) -> Array:
        """Fitted order of the positions ()."""
        return self.order("q")

    @property
    def order_u(self) -> Array:
        """Fitted order of the velocities ()."""
        return self.order("u")

    def error(self, quantity: str, norm: str | None = None) -> Array:
        """Errors (K,) of a quantity; norm: "sum", "max" or "hausdorff"."""
        return self.errors[norm or self.norm][quantity]

    def order(self, quantity: str, norm: str | None = None) -> Array:
        """Slope of log error over log Δt: the median over all pairs of runs whose error is above the floor; else NaN.

        The median (Theil–Sen) does not follow one step that is too coarse to show the order, as least squares do.
        """
        error = self.error(quantity, norm)
        used = self.ok & (error > self.floors[quantity])
        x, y = jnp.log(self.dts), jnp.log(jnp.where(used, error, 1.0))
        i, j = np.triu_indices(x.shape[0], 1)
        pair = used[i] & used[j] & (x[i] != x[j])
        slopes = (y[j] - y[i]) / jnp.where(x[i] != x[j], x[j] - x[i], 1.0)
        return jnp.nanmedian(jnp.where(pair, slopes, jnp.nan)) if len(i) else jnp.asarray(jnp.nan, x.dtype)

    def local_orders(self, quantity: str, norm: str | None = None) -> Array:
        """Order between neighbouring step sizes (K−1,)."""
        error = self.error(quantity, norm)
        return jnp.diff(jnp.log(error)) / jnp.diff(jnp.log(self.dts))


def convergence_study(
    system: System,
    integrator: Integrator,
    q0: Array,
    u0: Array,
    *,
    t1: float,
    dts: Sequence[float],
    dt_ref: float,
    t0: float = 0.0,
    reference: Integrator | Trajectory | None = None,
    norm: str = "sum",
    throw: bool = True,
) -> ConvergenceStudy:
    """Errors of all step sizes against a reference run with the small step dt_ref, and the orders they show.

    Main arguments:

    - dts: step sizes, each a multiple of dt_ref; each run ends with its last whole step before t1
    - reference: the integrator of the reference run, by default the same one; or a `Trajectory` with step dt_ref

    Other arguments:

    - norm: which errors the names `error_q`, `order_u`, … refer to; the others are there as well
    - throw: raise `SimulationError` when a run fails (eager calls only; otherwise see `ConvergenceStudy.ok`)

    With t_n the grid points of a run, x the quantity and x̄ that of the reference, the norms are

        "sum":        Δt Σ_n Σ_k |x_k(t_n) − x̄_k(t_n)|         (Capobianco et al. 2024, eq. 74)
        "max":        max_k Δt Σ_n |x_k(t_n) − x̄_k(t_n)|       (Breuling et al. 2024, eq. 56)
        "hausdorff":  Hausdorff distance between the graphs (t, x(t)), jumps filled in by straight lines

    The Hausdorff distance forgives an impact that comes a little early or late; straight lines between grid points
    limit its order to two. Works under `jit`, `vmap` and `grad` with respect to the system and the initial state; there,
    all runs advance together in one batched loop as long as the longest of them.

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> study = ns.convergence_study(
    ...     slope.system, ns.Rattle(), slope.q0, slope.u0, t1=0.4, dts=[0.01, 0.02, 0.04], dt_ref=1e-3
    ... )
    >>> study.error_q.shape, bool(abs(study.order_q - 2.0) < 0.1)
    ((3,), True)
    """
    if norm not in NORMS:
        raise ValueError(f"convergence_study: norm must be one of {', '.join(NORMS)}, got {norm!r}.")
    q0, u0 = as_float_leaves((jnp.asarray(q0), jnp.asarray(u0)))
    rows = check_shapes(system, q0, u0)
    grid = _Grid.of(t0, t1, dts, dt_ref)
    eager = is_concrete((system, q0, u0)) and not inside_trace()
    if eager:
        check_initial_values(system, rows, np.asarray(t0, q0.dtype), q0, u0)
    if isinstance(reference, Trajectory):
        grid.check_reference(reference, q0, u0)
        given, other = reference, integrator
    else:
        given, other = None, reference or integrator
    runs: list[Trajectory] | None = None
    if eager:  # one program for all runs, and for those of the next study
        run = partial(simulate, system, q0=q0, u0=u0, t0=t0, throw=False, check=False)
        given = given or run(other, dt=dt_ref, num_steps=grid.reference_rows * grid.spacing)
        runs = [run(integrator, dt=dt, num_steps=n) for dt, n in zip(grid.dts, grid.counts, strict=True)]
        given, *runs = (replace(traj, events=None) for traj in (given, *runs))
    study, status = _study(system, integrator, other, grid, norm, q0, u0, given, runs)
    if throw and is_concrete(study.ok):
        if not bool(status[-1] == 0):
            raise SimulationError(f"the reference run with dt = {dt_ref:g} failed; try a smaller dt_ref.")
        failed = [f"{dt:g}" for dt, ok in zip(grid.dts, study.ok, strict=True) if not ok]
        if failed:
            advice = "Leave them out, or call with throw=False: their errors are NaN and orders ignore them."
            raise SimulationError(f"the runs with dt = {', '.join(failed)} failed. {advice}")
    return study


@dataclass(frozen=True)
class _Grid:
    """Step sizes and the numbers of steps that follow from them."""

    t0: float
    dts: tuple[float, ...]
    dt_ref: float
    counts: tuple[int, ...]  # steps of each run
    ratios: tuple[int, ...]  # Δt over the step of the reference

    @classmethod
    def of(cls, t0: float, t1: float, dts: Sequence[float], dt_ref: float) -> _Grid:
        sizes = tuple(float(dt) for dt in np.ravel(np.asarray(dts)))
        if not sizes or not all(math.isfinite(dt) and dt > 0.0 for dt in (*sizes, dt_ref)):
            raise ValueError(f"convergence_study: dts and dt_ref must be positive, got {sizes} and {dt_ref}.")
        if not math.isfinite(t1) or not math.isfinite(t0):
            raise ValueError(f"convergence_study: t0 and t1 must be finite, got {t0} and {t1}.")
        ratios = tuple(round(dt / dt_ref) for dt in sizes)
        for dt, ratio in zip(sizes, ratios, strict=True):
            if abs(dt / dt_ref - ratio) > 1e-6 * ratio or ratio < 1:
                raise ValueError(f"convergence_study: dt = {dt:g} is not a multiple of dt_ref = {dt_ref:g}.")
        counts = tuple(math.floor((t1 - t0) / dt + 1e-6) for dt in sizes)
        if min(counts) < 1:
            raise ValueError(f"convergence_study: dt = {max(sizes):g} is longer than the time span {t1 - t0:g}.")
        return cls(float(t0), sizes, float(dt_ref), counts, ratios)

    @property
    def spacing(self) -> int:
        """Steps of the reference between two of its rows that matter."""
        return math.gcd(*self.ratios)

    @property
    def reference_rows(self) -> int:
        """How many of these rows there are."""
        return max(n * r for n, r in zip(self.counts, self.ratios, strict=True)) // self.spacing

    def check_reference(self, reference: Trajectory, q0: Array, u0: Array) -> None:
        steps = self.reference_rows * self.spacing
        if reference.q.shape[1:] != q0.shape or reference.u.shape[1:] != u0.shape:
            raise ValueError(
                f"convergence_study: the reference has {reference.q.shape[1:]} positions and {reference.u.shape[1:]} "
                f"velocities, the initial state has {q0.shape} and {u0.shape}."
            )
        t = np.asarray(reference.t)
        if len(t) < steps + 1 or abs(t[1] - t[0] - self.dt_ref) > 1e-6 * self.dt_ref or abs(t[0] - self.t0) > 1e-9:
            raise ValueError(
                f"convergence_study: the reference must start at t0 = {self.t0:g}, have the step dt_ref = {self.dt_ref:g}, "
                f"save every row and be at least {steps} steps long; it has {len(t) - 1} rows {t[1] - t[0]:g} s apart."
            )


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _study(
    system: System,
    integrator: Integrator,
    reference_integrator: Integrator,
    grid: _Grid,
    norm: str,
    q0: Array,
    u0: Array,
    given: Trajectory | None,
    runs: list[Trajectory] | None,
) -> tuple[ConvergenceStudy, Array]:
    """The study, and the status of each run with that of the reference as last."""
    steps = grid.reference_rows * grid.spacing
    if given is None:
        given = simulate(system, reference_integrator, q0, u0, dt=grid.dt_ref, num_steps=steps, t0=grid.t0, throw=False)
    dts = jnp.asarray(grid.dts, q0.dtype)
    if runs is None:
        runs = simulate_each_dt(system, integrator, q0, u0, dts, grid.counts, grid.t0)
    status = jnp.stack([*(jnp.max(run.status) for run in runs), jnp.max(given.status)])
    ok = (status[:-1] == 0) & (status[-1] == 0)  # without a reference there are no errors

    # All runs as one array (K, rows, components); the shorter ones repeat their last row.
    counts, strides = np.array(grid.counts)[:, None], np.array(grid.ratios)[:, None] // grid.spacing
    rows = np.minimum(np.arange(max(grid.counts) + 1), counts)
    inside = jnp.asarray(np.arange(max(grid.counts) + 1) <= counts)[:, :, None]
    reference = {name: x[: steps + 1] for name, x in _quantities(given).items()}
    # Graphs need corners of the reference between those of the finest run.
    dense = max(k for k in range(1, 9) if grid.spacing % k == 0)
    graph_rows = np.minimum(np.arange(dense * grid.reference_rows + 1), dense * counts * strides)
    quantities = [_quantities(run) for run in runs]
    errors: dict[str, dict[str, Array]] = {name: {} for name in NORMS}
    for name in QUANTITIES:
        x = jnp.stack([run[name][index] for run, index in zip(quantities, rows, strict=True)])
        exact, graph = reference[name][:: grid.spacing], reference[name][:: grid.spacing // dense]
        e = jnp.where(inside & ok[:, None, None], jnp.abs(x - exact[rows * strides]), 0.0)
        distance = jax.vmap(_hausdorff)(
            _graph(x, jnp.asarray(rows) * dts[:, None]),
            _graph(graph[graph_rows], jnp.asarray(graph_rows) * (grid.spacing // dense * grid.dt_ref)),
        )
        errors["sum"][name] = jnp.where(ok, dts * jnp.sum(e, axis=(1, 2)), jnp.nan)
        errors["max"][name] = jnp.where(ok, dts * jnp.max(jnp.sum(e, axis=1), axis=1, initial=0.0), jnp.nan)
        errors["hausdorff"][name] = jnp.where(ok, distance, jnp.nan)
    span = max(n * dt for n, dt in zip(grid.counts, grid.dts, strict=True))
    unit = ROUND_OFF * jnp.finfo(q0.dtype).eps
    floors = {
        name: span * (tolerance(integrator.tol, q0.dtype) + unit * jnp.mean(jnp.sum(jnp.abs(x), axis=1)))
        for name, x in reference.items()
    }
    return ConvergenceStudy(dts, ok, errors, floors, norm), status


def _quantities(traj: Trajectory) -> dict[str, Array]:
    """Each quantity as (N+1, components)."""
    increments = {name: getattr(traj, name) for name in QUANTITIES[2:]}
    sums: dict[str, Any] = {name: jnp.cumsum(P.reshape(P.shape[0], -1), axis=0) for name, P in increments.items()}
    return {"q": traj.q, "u": traj.u, **sums}


def _graph(x: Array, t: Array) -> Array:
    """Points (t, x) of runs (K, rows, 1 + components)."""
    return jnp.concatenate([t.astype(x.dtype)[..., None], x], axis=-1)


def _hausdorff(a: Array, b: Array) -> Array:
    """Largest distance from a corner of one polygon (n, d) to the other polygon (m, d)."""
    if a.shape[1] == 1:  # time alone
        return jnp.zeros((), a.dtype)
    return jnp.maximum(_one_sided(a, b), _one_sided(b, a))


def _one_sided(points: Array, polygon: Array) -> Array:
    """Largest distance of the points (N, d) from the polygon through its corners (m+1, d)."""
    begin, side = polygon[:-1], jnp.diff(polygon, axis=0)
    length = jnp.maximum(jnp.sum(side * side, axis=1), jnp.finfo(points.dtype).tiny)

    def distance(point: Array) -> Array:
        offset = point - begin
        along = jnp.clip(jnp.sum(offset * side, axis=1) / length, 0.0, 1.0)
        gap = offset - along[:, None] * side
        square = jnp.min(jnp.sum(gap * gap, axis=1))
        return jnp.where(square > 0.0, jnp.sqrt(jnp.where(square > 0.0, square, 1.0)), 0.0)

    return jnp.max(lax.map(distance, points, batch_size=64))
