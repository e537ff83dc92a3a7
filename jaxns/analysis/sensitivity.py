"""Sensitivities: how trajectories change with parameters and initial state, and which derivatives to trust."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..integrators.base import Integrator
from ..integrators.event_driven.integrator import EventDriven
from ..integrators.located.integrator import Located
from ..integrators.moreau import Moreau
from ..integrators.rattle import Rattle
from ..model.system import System
from ..simulation.simulate import Trajectory, simulate

STATE = ("q0", "u0")  # names that mean the initial state


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sensitivity:
    """A trajectory and its derivatives: `q["mu"]` is ∂q/∂μ (N+1, nq), with further axes for parameters that are arrays.

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> s = ns.sensitivity(slope.system, ns.Rattle(), slope.q0, slope.u0, ["mu"], dt=0.05, num_steps=4)
    >>> bool(s.u["mu"][-1, 0] < 0.0), s.trajectory.q.shape  # more friction, less speed
    (True, (5, 2))
    """

    trajectory: Trajectory
    q: dict[str, Array]
    u: dict[str, Array]


def sensitivity(
    system: System, integrator: Integrator, q0: Array, u0: Array, wrt: Sequence[str], **arguments: Any
) -> Sensitivity:
    """Derivatives of all rows with respect to the named parameters, in forward mode.

    - wrt: names in `system.params`; "q0" and "u0" mean the initial state
    - arguments: of `simulate`: dt, t1 or num_steps, save_every

    With `EventDriven` these are the sensitivities of the motion, which jump at every event (the position of a fixed row
    before an impact knows nothing of restitution, the one after it does). With other integrators they are those of the
    discrete map: see docs/derivatives.md, and `jaxns.gradient_report`.

    >>> import jaxns as ns
    >>> slope = ns.models.mass_on_slope()
    >>> s = sensitivity(slope.system, ns.Rattle(), slope.q0, slope.u0, ["mu"], dt=0.05, num_steps=4)
    >>> s.q["mu"].shape
    (5, 2)
    """
    theta = _values(system, q0, u0, wrt)
    # An ordinary run raises what there is to raise; a traced one cannot.
    simulate(system, integrator, q0, u0, **arguments)

    def rows(theta: dict[str, Array]) -> tuple[tuple[Array, Array], Trajectory]:
        traj = _run(system, integrator, q0, u0, theta, arguments)
        return (traj.q, traj.u), traj

    (q, u), traj = jax.jacfwd(rows, has_aux=True)(theta)
    return Sensitivity(traj, q, u)


def _values(system: System, q0: Array, u0: Array, wrt: Sequence[str]) -> dict[str, Array]:
    if not isinstance(system.params, dict):
        raise TypeError("sensitivities by name need system.params to be a dict.")
    known = {**system.params, "q0": jnp.asarray(q0, float), "u0": jnp.asarray(u0, float)}
    unknown = sorted(set(wrt) - set(known))
    if unknown:
        raise KeyError(f"no parameter {unknown}; there are {sorted(known)}.")
    return {name: known[name] for name in wrt}


def _run(
    system: System, integrator: Integrator, q0: Array, u0: Array, theta: dict[str, Array], arguments: dict[str, Any]
) -> Trajectory:
    changes = {name: value for name, value in theta.items() if name not in STATE}
    return simulate(system.with_params(**changes), integrator, theta.get("q0", q0), theta.get("u0", u0), **arguments)


@dataclass(frozen=True)
class GradientReport:
    """What `gradient_report` found; str(report) is a table with a verdict for each parameter.

    Derivatives have the shape of the parameter. `verdict[name]` is "any": all schemes agree, "located": the event-driven
    derivative and those of all `Located` schemes agree with differences of the motion, "event-driven": only that one does,
    or "none": not even that one does, as at a grazing contact or beyond an accumulation of impacts.

    >>> two, one = {"mu": np.array(2.0)}, {"mu": np.array(1.0)}
    >>> print(GradientReport({"event-driven": two, "Rattle": one}, two, {"mu": "event-driven"}, events=3))
    parameter       event-driven             Rattle        differences   trust
    mu                         2                  1                  2   event-driven
    3 events
    """

    derivatives: dict[str, dict[str, np.ndarray]]  # scheme -> parameter -> derivative
    differences: dict[str, np.ndarray]  # of the event-driven motion
    verdict: dict[str, str]
    events: int

    def __str__(self) -> str:
        schemes = list(self.derivatives)
        names = [f"{n}{list(i) if i else ''}" for n, d in self.differences.items() for i in np.ndindex(*d.shape)]
        width = max(len(n) for n in ("parameter", *names))
        header = ("parameter".ljust(width), *(s.rjust(18) for s in (*schemes, "differences")), "  trust")
        lines = [" ".join(header)]
        flat = {s: np.concatenate([v.ravel() for v in d.values()]) for s, d in self.derivatives.items()}
        differences = np.concatenate([d.ravel() for d in self.differences.values()])
        owner = [n for n, d in self.differences.items() for _ in range(d.size)]
        for k, name in enumerate(names):
            numbers = (*(flat[s][k] for s in schemes), differences[k])
            lines.append(" ".join((name.ljust(width), *(f"{x:18.9g}" for x in numbers), f"  {self.verdict[owner[k]]}")))
        return "\n".join([*lines, f"{self.events} events"])


def gradient_report(
    system: System,
    q0: Array,
    u0: Array,
    wrt: Sequence[str],
    *,
    dt: float,
    num_steps: int,
    output: Callable[[Trajectory], Array] | None = None,
    capturing: Sequence[Integrator] | None = None,
    event_driven: EventDriven | None = None,
    step: float = 1e-5,
    rtol: float = 1e-2,
) -> GradientReport:
    """Derivatives of a scalar output of a system by event-driven and event-capturing integrators, side by side.

    - wrt: names of parameters, "q0", "u0"
    - dt, num_steps: of the event-capturing runs; the event-driven run ends at the same time
    - output: `(trajectory) -> scalar`, by default the sum of the final positions; it must use the last row alone
    - capturing: the integrators to compare, by default `Rattle()`, `Moreau()` and `Located(Rattle())`
    - step: relative step of the central differences of the event-driven motion, which judge
    - rtol: relative difference up to which derivatives agree

    >>> import jax.numpy as jnp
    >>> import jaxns as ns
    >>> ball = ns.System(
    ...     dict(gravity=9.81),
    ...     mass=lambda t, q, p: jnp.eye(1),
    ...     potential=lambda t, q, p: p["gravity"] * q[0],
    ...     contacts=ns.Contacts(lambda t, q, p: q, e_N=0.7),
    ... )
    >>> arguments = dict(dt=5e-3, num_steps=100, capturing=[ns.Moreau()])
    >>> report = gradient_report(ball, jnp.array([1.0]), jnp.array([0.0]), ["gravity"], **arguments)
    >>> report.verdict
    {'gravity': 'event-driven'}
    """
    theta = _values(system, q0, u0, wrt)
    exact = EventDriven() if event_driven is None else event_driven
    observe = output or (lambda traj: jnp.sum(traj.q[-1]))

    def outcome(integrator: Integrator, rows: int) -> Callable[[dict[str, Array]], Array]:
        arguments = {"dt": dt * num_steps / rows, "num_steps": rows, "save_every": 1, "check": False}
        return jax.jit(lambda theta: observe(_run(system, integrator, q0, u0, theta, arguments)))

    exact_run = simulate(system, exact, q0, u0, dt=dt * num_steps, num_steps=1)
    motion = outcome(exact, 1)
    derivatives = {"event-driven": jax.jacfwd(motion)(theta)}
    compared = (Rattle(), Moreau(), Located(Rattle())) if capturing is None else capturing
    for integrator in compared:
        derivatives[_name(integrator)] = jax.jacfwd(outcome(integrator, num_steps))(theta)
    located = [_name(integrator) for integrator in compared if isinstance(integrator, Located)]
    found = {s: {n: np.asarray(v) for n, v in d.items()} for s, d in derivatives.items()}
    differences = {name: _differences(motion, theta, name, step) for name in wrt}

    def agree(a: np.ndarray, b: np.ndarray) -> bool:
        size = max(np.abs(b).max(), 1e-9)
        return bool(np.all(np.isfinite(a)) and np.abs(a - b).max() <= rtol * size)

    verdict = {}
    for name in wrt:
        agreeing = {scheme for scheme, d in found.items() if agree(d[name], differences[name])}
        exact_agrees, all_agree = "event-driven" in agreeing, len(agreeing) == len(found)
        least = "located" if located and agreeing.issuperset(located) else "event-driven"
        verdict[name] = "any" if all_agree else (least if exact_agrees else "none")
    count = 0 if exact_run.events is None else int(exact_run.events.count)
    return GradientReport(found, differences, verdict, count)


def _name(integrator: Integrator) -> str:
    """The name of a scheme."""
    name = type(integrator).__name__
    return f"{name}({_name(integrator.integrator)})" if isinstance(integrator, Located) else name


def _differences(
    motion: Callable[[dict[str, Array]], Array], theta: dict[str, Array], name: str, step: float
) -> np.ndarray:
    """Central differences with respect to all entries of one parameter."""
    value = np.asarray(theta[name], float)
    result = np.zeros(value.shape)
    for index in np.ndindex(*value.shape):
        h = step * max(abs(float(value[index])), 1e-2)
        ends = []
        for sign in (1.0, -1.0):
            moved = value.copy()
            moved[index] += sign * h
            ends.append(float(motion({**theta, name: jnp.asarray(moved)})))
        result[index] = (ends[0] - ends[1]) / (2.0 * h)
    return result
