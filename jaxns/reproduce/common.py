"""What the experiments of several papers share: batches of runs, errors over step sizes, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..analysis.convergence import ROUND_OFF, ConvergenceStudy
from ..analysis.energy import energy
from ..integrators.base import Integrator
from ..model.system import Problem, System
from ..simulation.loop import simulate_each_dt
from ..simulation.simulate import Trajectory
from .experiment import Statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORDER_BOUND = 0.25  # how far a fitted order may lie from a stated one


def initial_states(problems: Sequence[Problem]) -> tuple[Array, Array]:
    """q0 (cases, nq) and u0 (cases, nu) of problems that share one system."""
    return jnp.stack([p.q0 for p in problems]), jnp.stack([p.u0 for p in problems])


@partial(jax.jit, static_argnums=(1, 4))
def runs(
    system: System, integrator: Integrator, q0: Array, u0: Array, steps: tuple[tuple[float, int], ...]
) -> list[Trajectory]:
    """For each (Δt, number of steps) the trajectories of all cases (axis 0), in one batched loop."""
    dts, counts = zip(*steps, strict=True)
    each_dt = partial(simulate_each_dt, dts=jnp.asarray(dts), num_steps=counts)
    return jax.vmap(lambda q, u: each_dt(system, integrator, q, u))(q0, u0)


def side_by_side(*calls: Callable[[], Any]) -> list[Any]:
    """The results of functions that simulate, two at a time: compilations and runs use one core each."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


def of_case(traj: Trajectory, k: int) -> Trajectory:
    """The k-th case of a batch, as numpy arrays."""
    return jax.tree.map(lambda x: np.asarray(x)[k], traj)


def gaps(system: System, traj: Trajectory) -> np.ndarray:
    """g_N (N+1, n_N)."""
    return np.asarray(jax.vmap(system.g_N)(traj.t, traj.q))


def gap_rates(system: System, traj: Trajectory) -> np.ndarray:
    """ġ_N (N+1, n_N)."""
    return np.asarray(jax.vmap(system.g_N_dot)(traj.t, traj.q, traj.u))


def slips(system: System, traj: Trajectory) -> np.ndarray:
    """γ_F (N+1, n_F)."""
    return np.asarray(jax.vmap(system.gamma_F)(traj.t, traj.q, traj.u))


def total_energy(system: System, traj: Trajectory) -> tuple[np.ndarray, float]:
    """T + V (N+1,), and the largest |T| + |V|, with which changes of the energy are to be compared."""
    kinetic, potential, total = (np.asarray(e) for e in energy(system, traj))
    return total, float(np.max(np.abs(kinetic) + np.abs(potential)))


def largest_rise(system: System, traj: Trajectory) -> float:
    """The largest rise of the energy from row to row, relative to the size of energies."""
    E, scale = total_energy(system, traj)
    return float(np.diff(E).max() / scale)


def apart_in_figure(t: Any, a: Any, b: Any) -> np.ndarray:
    """Distance of each point of a curve a (N+1,) from the curve b over the same t, as parts of width and height of a figure
    that shows b. It forgives a steep slope that comes a little early or late, as the eye does."""
    x, y, z = np.asarray(t), np.asarray(a), np.asarray(b)
    x, y, z = (x - x[0]) / np.ptp(x), y / np.ptp(z), z / np.ptp(z)
    step = np.diff(x), np.diff(z)
    length = np.maximum(step[0] ** 2 + step[1] ** 2, 1e-300)
    distances = []
    for point in zip(x, y, strict=True):
        dx, dz = point[0] - x[:-1], point[1] - z[:-1]
        along = np.clip((dx * step[0] + dz * step[1]) / length, 0.0, 1.0)
        distances.append(np.hypot(dx - along * step[0], dz - along * step[1]).min())
    return np.array(distances)


def study(reference: Trajectory, others: Sequence[Trajectory], *, norm: str, tol: float) -> ConvergenceStudy:
    """Errors at the grid points of each run, as in `jaxns.convergence_study`; norm: "sum" or "max".

    Unlike there, "P_N" and "P_F" are the increments of the steps themselves; "force N" and "force F" are these over Δt,
    "total N" and "total F" their sums.
    """
    exact = _quantities(reference)
    dts = np.array([float(run.t[1] - run.t[0]) for run in others])
    errors: dict[str, list[float]] = {name: [] for name in exact}
    for dt, run in zip(dts, others, strict=True):
        stride = round(dt / float(reference.t[1] - reference.t[0]))
        for name, x in _quantities(run).items():
            each = dt * np.abs(x - exact[name][::stride][: len(x)]).sum(axis=0)
            errors[name].append(each.max() if norm == "max" else each.sum())
    span = float(max(run.t[-1] for run in others))
    unit = ROUND_OFF * np.finfo(float).eps
    return ConvergenceStudy(
        dts=jnp.asarray(dts),
        ok=jnp.asarray([bool(reference.ok) and bool(run.ok) for run in others]),
        errors={norm: {name: jnp.asarray(e) for name, e in errors.items()}},
        floors={name: jnp.asarray(span * (tol + unit * np.abs(x).sum(axis=1).mean())) for name, x in exact.items()},
        norm=norm,
    )


def _quantities(traj: Trajectory) -> dict[str, np.ndarray]:
    """Each quantity as (N+1, components)."""
    quantities = {"q": np.asarray(traj.q), "u": np.asarray(traj.u)}
    for index in "NF":
        P = np.asarray(getattr(traj, f"P_{index}")).reshape(len(traj.t), -1)
        force, total = P / float(traj.t[1] - traj.t[0]), np.cumsum(P, axis=0)
        quantities |= {f"P_{index}": P, f"force {index}": force, f"total {index}": total}
    return quantities


def order_statement(paper: str, s: ConvergenceStudy, expected: int, *, scattered: bool = False) -> Statement:
    """Whether q and u converge with the stated order; where errors scatter, whether it is the nearest whole number."""
    q, u = float(s.order("q")), float(s.order("u"))
    bound = 0.5 if scattered else ORDER_BOUND
    ours = f"order {q:.2f} in q and {u:.2f} in u (bound: {expected} ± {bound:g})"
    return Statement(paper, ours, bool(max(abs(q - expected), abs(u - expected)) <= bound))


def not_monotone_statement(paper: str, studies: Mapping[str, ConvergenceStudy]) -> Statement:
    """Whether in a figure some smaller step has a larger error, in q and in u; the step sizes of the studies double."""
    rises = {name: [int(np.sum(np.diff(np.asarray(s.error(x))) < 0.0)) for x in "qu"] for name, s in studies.items()}
    local = np.concatenate([np.asarray(s.local_orders(x)) for s in studies.values() for x in "qu"])
    halvings = max(len(s.dts) for s in studies.values()) - 1
    counts = "; ".join(f"{q} enlarge the error of q and {u} that of u ({name})" for name, (q, u) in rises.items())
    ours = f"of {halvings} halvings of Δt, {counts}; orders between neighbours {local.min():.2f} to {local.max():.2f}"
    reason = "the sentence speaks of the figure; our first criterion asked it of each of its curves"
    return Statement(paper, ours, bool(np.all(np.sum(list(rises.values()), axis=0) > 0)), reason)


# Figures --------------------------------------------------------------------------------------------------------------


def panels(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] | None = None, **options: Any
) -> tuple[Figure, list[Axes]]:
    """An empty figure and its axes, row by row; options go to `Figure.subplots`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size or (4.6 * columns, 2.7 * rows), layout="constrained", dpi=150)
    axes = np.atleast_1d(figure.subplots(rows, columns, **options)).ravel().tolist()
    for ax in axes:
        ax.grid(alpha=0.3)
    return figure, axes


def draw(
    ax: Axes, x: Any, curves: Mapping[str, Any], *, xlabel: str = "$t$ [s]", ylabel: str = "", **style: Any
) -> None:
    """Curves by their labels; a single curve needs no legend."""
    for label, y in curves.items():
        ax.plot(np.asarray(x), np.asarray(y), label=label, **{"linewidth": 1.0, **style})
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if len(curves) > 1:
        ax.legend(fontsize="small", frameon=False)


def draw_with_rate(
    ax: Axes, t: Any, value: Any, rate: Any, *, labels: tuple[str, str], colors: tuple[str, str] = ("C0", "C3")
) -> None:
    """A quantity on the left axis and its rate on the right one."""
    other = ax.twinx()
    for side, y, label, color in ((other, rate, labels[1], colors[1]), (ax, value, labels[0], colors[0])):
        side.plot(np.asarray(t), np.asarray(y), color=color, linewidth=0.8)
        side.set_ylabel(label, color=color)
        side.tick_params(axis="y", labelcolor=color)
    ax.set_zorder(other.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.set_xlabel("$t$ [s]")
