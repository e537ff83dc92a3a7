"""Figures of trajectories and studies, with the symbols of the papers. Needs matplotlib."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

from .analysis.convergence import ConvergenceStudy
from .analysis.energy import energy as _energy
from .analysis.sensitivity import Sensitivity
from .model.system import System
from .simulation.simulate import Trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel: TypeAlias = "Callable[[Axes], None]"  # draws one quantity
MAX_LEGEND = 12  # more curves than this have no legend: nobody could read it


def trajectory(system: System, traj: Trajectory, *, title: str = "") -> Figure:
    """Positions, velocities, gaps, percussions and energies over time; panels without content are left out.

    Grey lines mark the events of an event-driven run.

    The figure belongs to the caller alone, not to pyplot: keep it with `figure.savefig("file.png")`, or let a notebook
    show it as the value of its cell.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> [axes.get_ylabel() for axes in plot.trajectory(ball.system, traj).axes]
    ['$q$', '$u$', '$g_N$ [m]', '$P_N$ [N s]', '$P_F$ [N s]', '$E$ [J]']
    """
    t, q, u = (np.asarray(v) for v in (traj.t, traj.q, traj.u))
    panels = [_curve_panel(t, q, "q"), _curve_panel(t, u, "u"), *_gap_panels(system, traj, rates=False)]
    panels += _percussion_panels(traj)
    return _over_time([*panels, lambda ax: _energies(ax, system, traj)], traj, title)


def gaps(system: System, traj: Trajectory, *, title: str = "") -> Figure:
    """Gaps g_N and their rates ġ_N over time.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> [axes.get_ylabel() for axes in plot.gaps(ball.system, traj).axes]
    ['$g_N$ [m]', '$\\\\dot{g}_N$ [m/s]']
    """
    return _over_time(_some(_gap_panels(system, traj, rates=True), "gaps", "contact"), traj, title)


def percussions(system: System, traj: Trajectory, *, title: str = "") -> Figure:
    """Percussions of each row over time: P_g and P_γ of constraints, P_N and P_F of contacts.

    They are sums over the steps of a row. Divided by its time, they are mean forces.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> [axes.get_ylabel() for axes in plot.percussions(ball.system, traj).axes]
    ['$P_N$ [N s]', '$P_F$ [N s]']
    """
    panels = _percussion_panels(traj, bilateral=True)
    return _over_time(_some(panels, "percussions", "constraint and no contact"), traj, title)


def energy(system: System, traj: Trajectory | Mapping[str, Trajectory], *, title: str = "") -> Figure:
    """T, V and E = T + V of one trajectory over time, or the total energies of several, to compare integrators.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> [line.get_label() for line in plot.energy(ball.system, {"RATTLE": traj}).axes[0].get_lines()]
    ['RATTLE']
    """
    if isinstance(traj, Trajectory):
        single = traj
        return _over_time([lambda ax: _energies(ax, system, single)], traj, title)

    def draw(ax: Axes) -> None:
        for name, one in traj.items():
            ax.plot(np.asarray(one.t), np.asarray(_energy(system, one).total), linewidth=1.2, label=name)
        ax.set_ylabel("$E$ [J]")
        _legend(ax)

    return _over_time([draw], None, title)


def phase(traj: Trajectory | Mapping[str, Trajectory], *, coordinate: int = 0, title: str = "") -> Figure:
    """Phase portrait (q_k, u_k) of one trajectory or of several; `coordinate` counts from 0. For systems with q̇ = u.

    A circle marks the beginning.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> ball = ns.models.bouncing_ball()
    >>> traj = ns.simulate(ball.system, ns.Rattle(), ball.q0, ball.u0, dt=0.01, t1=0.1)
    >>> plot.phase(traj, coordinate=1).axes[0].get_xlabel()
    '$q_{2}$'
    """
    figure = _new_figure(figsize=(5.5, 4.2), layout="constrained", dpi=150)
    ax = figure.subplots()
    several = {"": traj} if isinstance(traj, Trajectory) else traj
    for k, (name, one) in enumerate(several.items()):
        q, u = np.asarray(one.q)[:, coordinate], np.asarray(one.u)[:, coordinate]
        ax.plot(q, u, linewidth=0.8, color=f"C{k}", label=name)
        ax.plot(q[:1], u[:1], "o", markersize=4, color=f"C{k}")
    ax.set_xlabel(f"$q_{{{coordinate + 1}}}$")
    ax.set_ylabel(f"$u_{{{coordinate + 1}}}$")
    ax.grid(alpha=0.3)
    if not isinstance(traj, Trajectory):
        _legend(ax)
    if title:
        figure.suptitle(title)
    return figure


def convergence(
    studies: Mapping[str, ConvergenceStudy], *, quantities: Sequence[str] = ("q", "u"), title: str = ""
) -> Figure:
    """Errors over step sizes on logarithmic axes, one panel for each quantity and one curve for each study.

    The legend gives fitted orders; grey lines show the nearest whole slopes.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> slope = ns.models.mass_on_slope()
    >>> study = ns.convergence_study(
    ...     slope.system, ns.Rattle(), slope.q0, slope.u0, t1=0.4, dts=[0.01, 0.02, 0.04], dt_ref=1e-3
    ... )
    >>> [axes.get_title() for axes in plot.convergence({"RATTLE": study}).axes]
    ['$q$', '$u$']
    """
    figure = _new_figure(figsize=(4.6 * len(quantities), 3.8), layout="constrained", dpi=150)
    for ax, quantity in zip(np.atleast_1d(figure.subplots(1, len(quantities))), quantities, strict=True):
        for (name, study), marker in zip(studies.items(), itertools.cycle("osd^v*")):
            dts, error, order = (np.asarray(v) for v in (study.dts, study.error(quantity), study.order(quantity)))
            ax.loglog(dts, error, marker=marker, markersize=4, linewidth=1.0, label=f"{name}: {order:.2f}")
            if np.isfinite(order) and round(float(order)) > 0:
                used = np.flatnonzero(np.asarray(study.ok) & (error > np.asarray(study.floors[quantity])))
                ends = dts[used[[np.argmin(dts[used]), np.argmax(dts[used])]]]
                middle = np.exp(np.mean(np.log(error[used]) - round(float(order)) * np.log(dts[used])))
                ax.loglog(ends, middle * ends ** round(float(order)), color="0.75", linewidth=0.8, zorder=0)
        base, _, index = quantity.partition("_")
        symbol = {"gamma": r"\gamma"}.get(index, index)
        ax.set_title(f"${base}_{symbol}$" if index else f"${base}$")
        ax.set_xlabel(r"$\Delta t$ [s]")
        ax.set_ylabel("error")
        ax.xaxis.set_minor_formatter("")
        ax.yaxis.set_minor_formatter("")
        ax.grid(alpha=0.3)
        ax.legend(title="order", fontsize="small", frameon=False)
    if title:
        figure.suptitle(title)
    return figure


def work_precision(curves: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]) -> Figure:
    """Error over cost on logarithmic axes: one panel for each problem, one curve (seconds, errors) for each scheme.

    >>> import numpy as np
    >>> from jaxns import plot
    >>> curves = {"slope": {"RATTLE": (np.array([1e-3, 2e-3]), np.array([4e-4, 1e-4]))}}
    >>> [axes.get_title() for axes in plot.work_precision(curves).axes]
    ['slope']
    """
    figure = _new_figure(figsize=(4.6 * len(curves), 3.8), layout="constrained", dpi=150)
    for ax, (problem, schemes) in zip(np.atleast_1d(figure.subplots(1, len(curves))), curves.items(), strict=True):
        for (name, (cost, error)), marker in zip(schemes.items(), itertools.cycle("osd^v*")):
            ax.loglog(cost, error, marker=marker, markersize=4, linewidth=1.0, label=name)
        ax.set_title(problem)
        ax.set_xlabel("run time [s]")
        ax.set_ylabel("error of $q$")
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small", frameon=False)
    return figure


def fit(
    t: np.ndarray, data: Mapping[str, np.ndarray], prediction: Mapping[str, np.ndarray], *, title: str = ""
) -> Figure:
    """Measured samples as points and the fitted motion as a line, one panel for each column.

    >>> import numpy as np
    >>> from jaxns import plot
    >>> t = np.linspace(0.0, 1.0, 5)
    >>> len(plot.fit(t, {"q1": t}, {"q1": t + 0.01}).axes)
    1
    """
    figure = _new_figure(figsize=(7.0, 2.6 * len(data)), layout="constrained", dpi=150)
    axes = np.atleast_1d(figure.subplots(len(data), 1, sharex=True))
    for ax, (name, values) in zip(axes, data.items(), strict=True):
        ax.plot(t, np.asarray(values), ".", color="0.4", markersize=3, label="measured")
        ax.plot(t, np.asarray(prediction[name]), linewidth=1.2, label="fitted")
        ax.set_ylabel(name)
        ax.grid(alpha=0.3)
        _legend(ax)
    axes[-1].set_xlabel("$t$ [s]")
    if title:
        figure.suptitle(title)
    return figure


def sensitivity(result: Sensitivity, *, quantity: str = "q", title: str = "") -> Figure:
    """∂q/∂p (or, with quantity="u", ∂u/∂p) over time, one panel for each parameter, with the events in grey.

    >>> import jaxns as ns
    >>> from jaxns import plot
    >>> slope = ns.models.mass_on_slope()
    >>> s = ns.sensitivity(slope.system, ns.Rattle(), slope.q0, slope.u0, ["mu"], dt=0.05, num_steps=4)
    >>> len(plot.sensitivity(s).axes)
    1
    """
    derivatives: dict[str, Any] = getattr(result, quantity)
    t = np.asarray(result.trajectory.t)
    figure = _new_figure(figsize=(7.0, 2.6 * len(derivatives)), layout="constrained", dpi=150)
    axes = np.atleast_1d(figure.subplots(len(derivatives), 1, sharex=True))
    for ax, (name, values) in zip(axes, derivatives.items(), strict=True):
        _curves(ax, t, np.asarray(values).reshape(len(t), -1), quantity, "")
        ax.set_ylabel(f"∂{quantity} / ∂{name}")
        ax.grid(alpha=0.3)
        for instant in _instants(result.trajectory):
            ax.axvline(instant, color="0.6", linewidth=0.5, zorder=0)
    axes[-1].set_xlabel("$t$ [s]")
    if title:
        figure.suptitle(title)
    return figure


def _new_figure(**options: Any) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'jaxns-mechanics[plot]'") from error
    return Figure(**options)


def _instants(traj: Trajectory) -> np.ndarray:
    """Instants of events, those that a reader could not tell apart as one."""
    if traj.events is None:
        return np.zeros(0)
    span = max(float(traj.t[-1] - traj.t[0]), 1e-300)
    t = np.asarray(traj.events.trimmed().t)  # a traced run keeps unused entries
    _, first = np.unique(np.round(t / span, 3), return_index=True)
    return t[first]


def _over_time(panels: Sequence[Panel], traj: Trajectory | None, title: str) -> Figure:
    """Panels with one time axis, in two columns if they are many; grey lines mark the events of a trajectory."""
    columns = 2 if len(panels) > 3 else 1
    lines = -(-len(panels) // columns)
    height = 2.4 * lines if len(panels) > 1 else 3.2
    figure = _new_figure(figsize=(5.5 * columns if columns > 1 else 7.0, height), layout="constrained", dpi=150)
    axes = np.atleast_1d(figure.subplots(lines, columns, sharex=True)).ravel()
    for ax, draw in zip(axes, panels, strict=False):
        draw(ax)
        ax.grid(alpha=0.3)
        ax.margins(x=0.0)
        for instant in [] if traj is None else _instants(traj):
            ax.axvline(instant, color="0.6", linewidth=0.5, zorder=0)
    for ax in axes[len(panels) :]:
        ax.remove()
    for ax in axes[max(len(panels) - columns, 0) : len(panels)]:
        ax.set_xlabel("$t$ [s]")
        ax.tick_params(labelbottom=True)
    if title:
        figure.suptitle(title)
    return figure


def _some(panels: list[Panel], what: str, lacking: str) -> list[Panel]:
    if not panels:
        raise ValueError(f"plot.{what}: there is nothing to draw, because the system has no {lacking}.")
    return panels


def _curve_panel(t: np.ndarray, values: np.ndarray, symbol: str, unit: str = "") -> Panel:
    return lambda ax: _curves(ax, t, values, symbol, unit)


def _gap_panels(system: System, traj: Trajectory, *, rates: bool) -> list[Panel]:
    t, g_N = np.asarray(traj.t), np.asarray(jax.vmap(system.g_N)(traj.t, traj.q))
    if not g_N.shape[1]:
        return []
    panels = [_curve_panel(t, g_N, "g_N", "m")]
    if rates:
        g_N_dot = np.asarray(jax.vmap(system.g_N_dot)(traj.t, traj.q, traj.u))
        panels.append(_curve_panel(t, g_N_dot, r"\dot{g}_N", "m/s"))
    return panels


def _percussion_panels(traj: Trajectory, *, bilateral: bool = False) -> list[Panel]:
    t = np.asarray(traj.t)
    shown = {"P_g": traj.P_g, r"P_\gamma": traj.P_gamma} if bilateral else {}
    shown |= {"P_N": traj.P_N, "P_F": traj.P_F}
    columns = {symbol: np.asarray(values).reshape(len(t), -1) for symbol, values in shown.items()}
    return [_curve_panel(t, values, symbol, "N s") for symbol, values in columns.items() if values.size]


def _curves(ax: Axes, t: np.ndarray, values: np.ndarray, symbol: str, unit: str) -> None:
    """One curve for each column, numbered from 1 as in the papers."""
    single = values.shape[1] == 1
    base, _, index = symbol.partition("_")
    for k, column in enumerate(values.T, start=1):
        name = f"${symbol}$" if single else f"${base}_{{{index}{k}}}$"
        ax.plot(t, column, linewidth=1.0, color=f"C{(k - 1) % 10}", linestyle="-" if k <= 10 else "--", label=name)
    ax.set_ylabel(f"${symbol}$ [{unit}]" if unit else f"${symbol}$")
    if not single and values.shape[1] <= MAX_LEGEND:
        _legend(ax)


def _energies(ax: Axes, system: System, traj: Trajectory) -> None:
    kinetic, potential, total = (np.asarray(e) for e in _energy(system, traj))
    for values, symbol, width in ((kinetic, "T", 1.0), (potential, "V", 1.0), (total, "E = T + V", 1.6)):
        ax.plot(np.asarray(traj.t), values, linewidth=width, label=f"${symbol}$")
    ax.set_ylabel("$E$ [J]")
    _legend(ax)


def _legend(ax: Axes) -> None:
    """Beside the curves, so that it hides none of them."""
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False, handlelength=1.2)
