"""Experiments of Möller's thesis on energy-consistent integrators (2011)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import models
from ..integrators.energy.one_step import EnergyConstantMass
from ..integrators.energy.two_step import EnergyTwoStep
from ..integrators.moreau import Moreau
from ..model.contacts import Contacts
from ..model.system import Problem, System
from ..simulation.simulate import Trajectory, simulate
from .common import draw, gaps, largest_rise, panels, total_energy
from .energy_consistent_laws import contensou, recovered_iteration, sprag_clutch
from .energy_consistent_top import scalable_body, tippe_top
from .energy_consistent_wheel import overbalanced_wheel
from .energy_consistent_woodpecker import woodpecker
from .experiment import Experiment, Outcome, Statement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOL = 1e-9  # a change of the energy in a step that is none, relative to the size of energies: ten times the solver's


# Oscillator ---------------------------------------------------------------------------------------------------------

COARSE = (1e-3, 2e-3, 5e-3, 1e-2)
LIMIT = (0.9e-4, 0.99e-4, 1.01e-4, 1.1e-4, 1e-3)


def oscillator() -> Outcome:
    """Two masses of very different size on a spring (§6.1)."""
    problem = models.impact_oscillator()
    system = problem.system

    run = partial(simulate, system, q0=problem.q0, u0=problem.u0, progress=False)
    coarse = [run(EnergyTwoStep(), dt=dt, num_steps=500) for dt in COARSE]
    limit = [run(Moreau(), dt=dt, num_steps=5000, throw=False) for dt in LIMIT]
    fine = {
        name: run(integrator, dt=1e-5, num_steps=50_000, save_every=100)
        for name, integrator in (("consistent two-step", EnergyTwoStep()), ("Moreau", Moreau()))
    }
    first = coarse[0]
    E, scale = total_energy(system, first)
    changes = np.diff(E)
    falls = np.flatnonzero(changes < -TOL * scale)
    closed = gaps(system, first)[:, 0] <= 0.0
    contacts = int(np.sum(closed[1:] & ~closed[:-1]))
    rises = [largest_rise(system, run) for run in coarse]
    reference = np.asarray(fine["consistent two-step"].q)
    errors = [
        np.abs(np.asarray(run.q)[: round(0.5 / dt) + 1, 0] - reference[:: round(dt / 1e-3), 0]).mean()
        for run, dt in zip(coarse, COARSE, strict=True)
    ]
    order = np.polyfit(np.log(COARSE), np.log(errors), 1)[0]
    reach = [_reach(run) for run in limit]
    difference = np.abs(reference[:, 0] - np.asarray(fine["Moreau"].q)[:, 0]).max() / np.ptp(reference[:, 0])
    statements = (
        Statement(
            "Δt = 10⁻³ s: the consistent two-step integrator is stable (bound: |x| ≤ 0.12 m)",
            f"|x| ≤ {float(np.abs(first.q).max()):.4f} m over 0.5 s",
            float(np.abs(first.q).max()) <= 0.12,
        ),
        Statement(
            "its energy falls stepwise",
            f"falls in {len(falls)} of 500 steps, once for each of {contacts} contacts, by "
            f"{-1e3 * changes[falls].sum():.2f} mJ together; changes by at most "
            f"{np.abs(np.delete(changes, falls)).max():.1e} J in the others",
            bool(len(falls) == contacts > 0 and changes.max() <= TOL * scale),
        ),
        Statement(
            "larger steps are less accurate (bound: fitted order above 0), but stable",
            "mean error of x₁ "
            + ", ".join(f"{1e3 * e:.2g} mm (Δt {1e3 * dt:g} ms)" for e, dt in zip(errors, COARSE, strict=True))
            + f", fitted order {order:.1f}; energy rises by at most {max(rises):.0e} of its size in a step",
            bool(order > 0.0 and errors[-1] > errors[0] and max(rises) <= TOL),
            "judged by a fitted order, for an impact may come late or early by chance with any one step size",
        ),
        Statement(
            "Moreau's rule with Δt = 10⁻³ s is unstable and diverges",
            f"reaches {reach[-1]} m",
            _diverges(limit[-1]),
        ),
        Statement(
            "Moreau's rule needs a step below 10⁻⁴ s",
            "reaches " + ", ".join(f"{r} m (Δt {1e4 * dt:g}·10⁻⁴ s)" for r, dt in zip(reach[:-1], LIMIT, strict=False)),
            [_diverges(run) for run in limit[:-1]] == [False, False, True, True],
        ),
        Statement(
            "with Δt = 10⁻⁵ s both integrators give the solution of Fig. 6.3 (bound: 0.5 %)",
            f"x₁ differs by at most {100 * difference:.2f} % of its range",
            bool(difference <= 5e-3),
        ),
    )
    figures = {
        "Fig. 6.2: consistent two-step integrator, Δt = 10⁻³ s": _draw_oscillator(system, {"": first}),
        "Fig. 6.3: both integrators, Δt = 10⁻⁵ s": _draw_oscillator(system, fine),
    }
    return Outcome(statements, figures)


def _diverges(traj: Trajectory) -> bool:
    return float(np.abs(traj.q).max()) > 1e3


def _reach(traj: Trajectory) -> str:
    """The largest coordinate, also of a run that ended at a number too large to go on with."""
    largest = float(np.abs(traj.q).max())
    return f"{largest:.2g}" if traj.ok else f"> {largest:.0e}"


def _draw_oscillator(system: System, trajs: dict[str, Trajectory]) -> Figure:
    figure, (positions, energy_axes) = panels(2, size=(7.5, 5.2), sharex=True)
    for (name, traj), style in zip(trajs.items(), ("-", "--"), strict=False):
        suffix = f", {name}" if name else ""
        for k in range(2):
            positions.plot(traj.t, traj.q[:, k], f"C{k}{style}", linewidth=1.0, label=f"$x_{k + 1}${suffix}")
        energy_axes.plot(traj.t, total_energy(system, traj)[0], style, linewidth=1.0, label=name or None)
    positions.set_ylabel("$x$ [m]")
    positions.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False, fontsize="small")
    energy_axes.set_ylabel("$E$ [J]")
    energy_axes.set_xlabel("$t$ [s]")
    energy_axes.ticklabel_format(useOffset=True)
    if len(trajs) > 1:
        energy_axes.legend(fontsize="small")
    return figure


# Double pendulum ----------------------------------------------------------------------------------------------------


DTS = (1e-2, 1e-3, 1e-4)


def double_pendulum() -> Outcome:
    """A double pendulum that strikes a wall without loss (§6.2)."""
    cartesian, minimal = models.double_pendulum(), _pendulum_in_angles()
    runs: dict[str, Trajectory] = {}
    for name, problem, integrator in (
        ("C", cartesian, EnergyTwoStep()),
        ("one step", cartesian, EnergyConstantMass()),
        ("M", minimal, Moreau()),
    ):
        for dt in DTS[: 2 if name == "one step" else 3]:
            run = partial(simulate, problem.system, integrator, problem.q0, problem.u0, t1=2.0, progress=False)
            runs[f"{name} {dt:g}"] = run(dt=dt, save_every=round(1e-2 / dt))
    alpha = {name: _angles(run) for name, run in runs.items()}
    systems = {name: (minimal if name.startswith("M") else cartesian).system for name in runs}
    E = {name: total_energy(systems[name], run)[0] for name, run in runs.items()}
    E0 = 3.125  # relative to the lowest position, as in the thesis
    drift = {name: float(np.abs(e - e[0]).max() / E0) for name, e in E.items()}
    apart = [float(np.abs(alpha[f"C {dt:g}"] - alpha[f"M {dt:g}"]).mean()) for dt in DTS]
    one_step = [np.abs(alpha[f"one step {dt:g}"] - alpha[f"C {dt:g}"]).max() for dt in DTS[:2]]
    first = np.abs(alpha["one step 0.01"] - alpha["C 0.01"])[:100].max()
    statements = (
        Statement(
            "Δt = 0.01 s: the consistent two-step integrator keeps the energy to numerical precision",
            f"changes by at most {drift['C 0.01']:.1e} of E₀ in 2 s",
            drift["C 0.01"] <= 1e-8,
        ),
        Statement(
            "Moreau's rule, in the angles, changes it significantly (bound: 1 %)",
            f"by up to {100 * drift['M 0.01']:.1f} % of E₀",
            drift["M 0.01"] >= 0.01,
        ),
        Statement(
            "with smaller steps both converge to the exact solution (bound: five times nearer with each Δt/10)",
            "mean distance between their angles "
            + ", ".join(f"{a:.1e} rad (Δt {dt:g} s)" for a, dt in zip(apart, DTS, strict=True)),
            apart[2] < 0.2 * apart[1] < 0.04 * apart[0],
        ),
        Statement(
            "the one-step integrator (5.95) gives very similar, but not identical results (bound: 0.1 rad)",
            f"angles differ by at most {first:.2g} rad in 1 s, which holds one impact, and {one_step[0]:.2g} rad in 2 "
            f"s, {one_step[1]:.2g} rad with Δt = 10⁻³ s; the energy changes by {drift['one step 0.01']:.1e} of E₀",
            bool(1e-9 < one_step[0] <= 0.1 and drift["one step 0.01"] <= 1e-8),
        ),
    )
    figure, axes = panels(2, size=(7.5, 5.0), sharex=True)
    total, (ax,) = panels(size=(7.5, 3.0))
    for name, label, style in (("C 0.01", "C", "-"), ("M 0.01", "M", "--")):
        for k in range(2):
            axes[k].plot(runs[name].t, alpha[name][:, k], style, linewidth=1.0, label=rf"$\alpha_{{{k + 1}{label}}}$")
        ax.plot(runs[name].t, 1.0 + (E[name] - E[name][0]) / E0, style, linewidth=1.0, label=f"$E_{label} / E_0$")
    for a in (*axes, ax):
        a.legend(fontsize="small")
    for k in range(2):
        axes[k].set_ylabel(rf"$\alpha_{k + 1}$ [rad]")
    axes[1].set_xlabel("$t$ [s]")
    ax.set_xlabel("$t$ [s]")
    return Outcome(statements, {"Fig. 6.5: angles, Δt = 0.01 s": figure, "Fig. 6.6: total energy, Δt = 0.01 s": total})


def _angles(traj: Trajectory) -> np.ndarray:
    """α (N+1, 2) from the vertical, also from the coordinates (x1, y1, x2, y2)."""
    q = np.asarray(traj.q)
    if q.shape[1] == 2:
        return q
    x, y = np.diff(q[:, ::2], axis=1, prepend=0.0), np.diff(q[:, 1::2], axis=1, prepend=0.0)  # of the rods
    return np.unwrap(np.arctan2(x, y), axis=0)


def _pendulum_in_angles(m: float = 0.2, l: float = 0.5, gravity: float = 9.81) -> Problem:
    """The double pendulum in minimal coordinates, for Moreau's rule."""

    def mass(t: Array, q: Array, p: Any) -> Array:
        c = jnp.cos(q[0] - q[1])
        return m * l * l * jnp.stack([jnp.stack([2.0, c]), jnp.stack([c, 1.0])])

    def gap(t: Array, q: Array, p: Any) -> Array:
        return l * jnp.cumsum(jnp.sin(q))

    system = System(
        {},
        mass,
        potential=lambda t, q, p: -m * gravity * l * (2.0 * jnp.cos(q[0]) + jnp.cos(q[1])),
        contacts=Contacts(gap, e_N=1.0),
    )
    return Problem(system, jnp.zeros(2), jnp.array([5.0, 5.0]), t1=2.0, dt=0.01)


# Levels of constraints, and where Moreau's rule keeps the energy -----------------------------------------------------


def constraint_levels() -> Outcome:
    """Bilateral constraints on the position level alone, and on both (§5.2.2)."""
    position, both = EnergyConstantMass(levels="position"), EnergyConstantMass(levels="both")
    pendulum, double = _pendulum(), models.double_pendulum()
    given = double.system  # here without its wall
    free = replace(double, system=System(given.params, given.mass, given.potential, constraint=given.constraint))
    alone, held, chaotic = (_constraints(*case) for case in ((pendulum, position), (pendulum, both), (free, position)))
    turns = np.diff(alone.rate[1:], axis=0)
    alternating = float(np.mean(turns[1:] * turns[:-1] < 0.0))
    early, late = (float(np.abs(part).max()) for part in np.array_split(chaotic.rate, 2))
    change = max(run.energy_change for run in (alone, held, chaotic))
    statements = (
        Statement(
            "constraints on the position level alone (5.31) let velocities oscillate about them from step to step",
            f"ġ of a pendulum goes up and down in {100 * alternating:.0f} % of 400 steps (Δt = 0.02 s), with up to "
            f"{np.abs(alone.rate).max():.4f} m²/s",
            bool(alternating >= 0.9 and np.abs(alone.rate).max() > 1e-3),
            "shown by a single pendulum, whose own motion does not hide the oscillation",
        ),
        Statement(
            "the amplitude of this oscillation can grow with time",
            f"a double pendulum: |ġ| ≤ {early:.3f} m²/s in the first half of 400 steps, {late:.3f} m²/s in the second",
            bool(late > 1.1 * early),
        ),
        Statement(
            "the scheme (5.49) holds both levels",
            f"|g| ≤ {held.level:.1e} m², |ġ| ≤ {np.abs(held.rate).max():.1e} m²/s",
            bool(held.level <= 1e-9 and np.abs(held.rate).max() <= 1e-9),
        ),
        Statement("both schemes keep the energy", f"changes by at most {change:.1e} of its size", change <= 1e-8),
    )
    figure, axes = panels(2, size=(7.5, 4.6), sharex=True)
    rates = {"(5.31), position level": alone.rate[:, 0], "(5.49), both levels": held.rate[:, 0]}
    draw(axes[0], held.t, rates, ylabel=r"$\dot g$ [m²/s]", xlabel="", linewidth=0.6)
    axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize="small")
    draw(axes[1], held.t, {"": chaotic.rate[:, 1]}, ylabel=r"$\dot g_2$ [m²/s]", linewidth=0.6)
    return Outcome(statements, {"Velocity of a constraint: pendulum (above), double pendulum (below)": figure})


class _Constraints(NamedTuple):
    """What a run of 400 steps does with its constraints."""

    t: np.ndarray
    rate: np.ndarray  # ġ (N+1, n_g)
    level: float  # largest |g|
    energy_change: float  # relative to the size of energies


def _constraints(problem: Problem, integrator: EnergyConstantMass) -> _Constraints:
    system = problem.system
    traj = simulate(system, integrator, problem.q0, problem.u0, dt=0.02, num_steps=400)
    rate = np.asarray(jax.vmap(system.g_dot)(traj.t, traj.q, traj.u))
    level = float(jnp.abs(jax.vmap(system.g)(traj.t, traj.q)).max())
    E, scale = total_energy(system, traj)
    return _Constraints(np.asarray(traj.t), rate, level, float(np.abs(E - E[0]).max() / scale))


def _pendulum() -> Problem:
    """A mass on a rod of 1 m."""
    system = System(
        {},
        mass=lambda t, q, p: jnp.eye(2),
        potential=lambda t, q, p: 9.81 * q[1],
        constraint=lambda t, q, p: 0.5 * (q @ q - 1.0)[None],
    )
    return Problem(system, jnp.array([1.0, 0.0]), jnp.array([0.0, -3.0]), t1=8.0, dt=0.02)


def moreau_keeps_energy() -> Outcome:
    """Constant mass and potential forces, elastic contacts (chapter 7)."""
    chain = models.ball_chain(n=8, e_N=1.0)
    traj = simulate(chain.system, Moreau(), chain.q0, chain.u0, dt=1e-3, t1=1.0)
    E, scale = total_energy(chain.system, traj)
    impacts = int(np.sum(np.asarray(traj.P_N) > 0.0))
    change = float(np.abs(E - E[0]).max() / scale)
    statement = Statement(
        "Moreau's rule keeps the energy where mass and potential forces are constant and contacts elastic",
        f"changes by at most {change:.1e} of its size in 1000 steps with {impacts} impacts of eight balls",
        change <= 1e-9 and impacts > 10,
    )
    return Outcome((statement,))


THESIS = "Möller 2011"
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("energy-iterations", THESIS, "§2.5.3", "Projected and recovered Jacobi iteration", recovered_iteration),
    Experiment("energy-contensou", THESIS, "§3.7.5 and §6.5, Fig. 3.11", "Coulomb–Contensou friction", contensou),
    Experiment("energy-sprag-clutch", THESIS, "§3.9, Fig. 3.12", "Sprag clutch", sprag_clutch),
    Experiment("energy-levels", THESIS, "§5.2.2", "Constraints on one level and on both", constraint_levels),
    Experiment("energy-oscillator", THESIS, "§6.1, Figs. 6.2 and 6.3", "Impact oscillator", oscillator),
    Experiment(
        "energy-double-pendulum", THESIS, "§6.2, Figs. 6.5 and 6.6", "Double pendulum with wall", double_pendulum
    ),
    Experiment("energy-wheel", THESIS, "§6.3, Figs. 6.8 to 6.13", "Overbalanced wheel", overbalanced_wheel),
    Experiment("energy-woodpecker", THESIS, "§6.4, Figs. 6.16 to 6.20", "Woodpecker", woodpecker),
    Experiment("energy-tippe-top", THESIS, "§6.5, Figs. 6.23 to 6.25", "Tippe top", tippe_top),
    Experiment("energy-scalable-body", THESIS, "§6.5", "Tippe top as a scalable body", scalable_body),
    Experiment("energy-moreau", THESIS, "ch. 7", "Elastic chain of balls with Moreau's rule", moreau_keeps_energy),
)
