"""Motions with impacts for orders of values and derivatives: functions of parameters and of the phase within a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxns as ns

PHASES = np.mod(np.arange(16) * 0.6180339887498949, 1.0)


@dataclass(frozen=True)
class Case:
    """A motion from q0, u0 with parameters, all functions of theta; `shift` spreads the first impact over one step."""

    system: ns.System
    names: tuple[str, ...]  # parameters, first entries of theta
    theta: tuple[float, ...]
    start: Callable[[Any, Any], tuple[Any, Any]]  # (the rest of theta, shift) -> q0, u0
    t1: float
    dt: float
    shift: float
    ticks: int = 1  # rows of the event-driven run

    def end(self, theta: Any, phase: Any, integrator: Any, num_steps: int) -> Any:
        n = len(self.names)
        system = self.system.with_params(**dict(zip(self.names, theta[:n], strict=True)))
        q0, u0 = self.start(theta[n:], self.shift * phase)
        traj = ns.simulate(
            system, integrator, q0, u0, dt=self.t1 / num_steps, num_steps=num_steps, save_every=num_steps, check=False
        )
        return jnp.concatenate([traj.q[-1], traj.u[-1]]) / jnp.where(traj.ok, 1.0, 0.0)


def both(case: Case, integrator: Any, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (16, n) and derivatives (16, n, p) of the end."""

    def one(phase: Any) -> Any:
        end = lambda theta: (lambda x: (x, x))(case.end(theta, phase, integrator, num_steps))  # noqa: E731
        J, x = jax.jacfwd(end, has_aux=True)(jnp.array(case.theta))
        return x, J

    x, J = jax.jit(jax.vmap(one))(jnp.asarray(PHASES))
    return np.asarray(x), np.asarray(J)


def errors(case: Case, integrator: Any, halvings: int, reference: Any = None) -> np.ndarray:
    """RMS over phases of the errors of value and derivative (2, halvings + 1), relative to the largest entries."""
    exact = both(case, ns.EventDriven(rtol=1e-12, atol=1e-12), case.ticks) if reference is None else reference
    coarse = round(case.t1 / case.dt)
    found = [both(case, integrator, coarse * 2**k) for k in range(halvings + 1)]
    return np.array([
        [np.sqrt(np.mean((run[i] - exact[i]) ** 2)) / np.max(np.abs(exact[i])) for run in found] for i in (0, 1)
    ])


def ball(impacts: int) -> Case:
    """A ball on a floor, with a spring and damping."""
    system = ns.System(
        {"e_N": 0.9, "gravity": 9.81, "stiffness": 3.0, "damping": 0.1},
        mass=lambda t, q, p: jnp.eye(1),
        potential=lambda t, q, p: p["gravity"] * q[0] + 0.5 * p["stiffness"] * q[0] ** 2,
        force=lambda t, q, u, p: -p["damping"] * u,
        contacts=ns.Contacts(lambda t, q, p: q, e_N=lambda p: p["e_N"]),
    )
    t1 = {1: 0.9, 3: 2.2, 10: 4.8}[impacts]
    names = ("e_N", "gravity", "stiffness", "damping")
    return Case(system, names, (0.9, 9.81, 3.0, 0.1, 1.0, 0.5), lambda x, s: (x[:1] + s, x[1:]), t1, 0.01, 0.05, 4)


def two_balls(impacts: int) -> Case:
    """Two unequal balls between walls."""
    system = ns.System(
        {"m": 2.0, "e_N": 0.8, "k": 4.0},
        mass=lambda t, q, p: jnp.diag(jnp.stack([jnp.ones_like(p["m"]), p["m"]])),
        potential=lambda t, q, p: 0.5 * p["k"] * (q[1] - 0.5) ** 2,
        contacts=ns.Contacts(
            lambda t, q, p: jnp.stack([q[1] - q[0] - 0.1, q[0] + 1.0, 1.0 - q[1]]), e_N=lambda p: p["e_N"]
        ),
    )
    t1 = {1: 0.5, 3: 2.0}[impacts]
    start = lambda x, s: (x[:2] - s * jnp.array([1.0, 0.0]), x[2:])  # noqa: E731
    return Case(system, ("m", "e_N", "k"), (2.0, 0.8, 4.0, 0.0, 0.5, 1.5, 0.3), start, t1, 0.01, 0.02, 4)


def pendulum() -> Case:
    """A point mass on a rod (a constraint) that hits a wall."""
    system = ns.System(
        {"e_N": 0.7, "gravity": 9.81, "length": 1.0},
        mass=lambda t, q, p: jnp.eye(2),
        potential=lambda t, q, p: p["gravity"] * q[1],
        constraint=lambda t, q, p: jnp.sum(q**2, keepdims=True) - p["length"] ** 2,
        contacts=ns.Contacts(lambda t, q, p: 0.3 * p["length"] - q[:1], e_N=lambda p: p["e_N"]),
    )

    def start(x: Any, s: Any) -> Any:  # angle and speed; the rod has unit length
        phi = x[0] - s
        return jnp.stack([jnp.sin(phi), -jnp.cos(phi)]), x[1] * jnp.stack([jnp.cos(phi), jnp.sin(phi)])

    return Case(system, ("e_N", "gravity"), (0.7, 9.81, -0.8, 0.3), start, 1.0, 0.02, 0.05, 4)


def disc(mu: float) -> Case:
    """A disc thrown onto a floor: one oblique impact that slides (mu = 0.1) or sticks (mu = 2)."""
    system = ns.System(
        {"mu": mu, "e_N": 0.6, "gravity": 9.81, "r": 0.2},
        mass=lambda t, q, p: jnp.diag(jnp.stack([jnp.ones_like(p["r"])] * 2 + [0.5 * p["r"] ** 2])),
        potential=lambda t, q, p: p["gravity"] * q[1],
        force=lambda t, q, u, p: -0.05 * u,
        contacts=ns.Contacts(
            lambda t, q, p: q[1:2] - p["r"],
            lambda t, q, u, p: (u[:1] + p["r"] * u[2:])[None],
            e_N=lambda p: p["e_N"],
            mu=lambda p: p["mu"],
        ),
    )
    theta = (mu, 0.6, 9.81, 0.2, 0.5, 2.0, -1.0, 3.0)
    start = lambda x, s: (jnp.stack([0.0 * s, x[0] + s, 0.0 * s]), x[1:])  # noqa: E731
    return Case(system, ("mu", "e_N", "gravity", "r"), theta, start, 0.4, 0.016, 0.05)


def slider_crank() -> Case:
    """The slider-crank over its first three impacts."""
    problem = ns.models.slider_crank()
    names = ("e_N", "mu", "gravity")
    theta = tuple(float(jnp.ravel(problem.system.params[n])[0]) for n in names)
    start = lambda x, s: (problem.q0.at[8].add(s), problem.u0)  # noqa: E731  the slider is turned a little more
    return Case(problem.system, names, theta, start, 4e-3, 1e-4, 3e-4)
