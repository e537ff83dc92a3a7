"""What an exploration computes: from the positions of the sliders to frames and curves, and to the code of the same run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..integrators.base import Integrator
from ..integrators.event_driven.integrator import EventDriven
from ..model.consistent import consistent
from ..model.system import System
from ..pictures import animate, page
from ..scene import Scene
from ..simulation.simulate import Trajectory, simulate
from ..simulation.summary import outcome
from ..solve.status import Status
from . import code
from .sliders import Slider

MOST_STEPS = 50_000  # of one run: a slider must not start a run of minutes
DEFECT = 1e-7  # of a state that counts as admissible
Values = Mapping[str, Any]  # by the names of sliders, and "integrator": its number


@dataclass(frozen=True)
class Explorer:
    """A system with sliders, as pure functions of their values.

    `answer` is what the page asks for; it needs neither a page nor a notebook. All runs have the same number of rows, and
    all parameters, initial states and step sizes share one compiled program for each integrator.
    """

    system: System
    q0: Array
    u0: Array
    draw: Callable[..., Scene]
    sliders: tuple[Slider, ...]
    coordinates: dict[str, list[str]]  # names of the entries of q and u
    integrators: tuple[Integrator, ...]
    frames: int
    title: str
    name: str  # of the problem in the code that is written

    @property
    def start(self) -> dict[str, Any]:
        """Values of all sliders at the beginning."""
        return {**{s.name: s.value for s in self.sliders}, "integrator": 0}

    @property
    def settings(self) -> dict[str, Any]:
        """What the page must know before its first picture."""
        return {
            "sliders": [slider.described() for slider in self.sliders],
            "integrators": [code.call_of(integrator).replace("ns.", "") for integrator in self.integrators],
            "prepare": self.restricted and any(slider.group in ("q", "u") for slider in self.sliders),
            "player": page.player(),
        }

    def case(self, values: Values) -> tuple[System, Array, Array]:
        """System and initial state: the nearest admissible one."""
        system, q0, u0 = self.given(values)
        return (system, *consistent(system, q0, u0)) if self.projects(values) else (system, q0, u0)

    def given(self, values: Values) -> tuple[System, Array, Array]:
        """System and initial state as the sliders say."""
        leaves: dict[str, np.ndarray] = {}
        initial = {"q": np.array(self.q0), "u": np.array(self.u0)}
        for s in self.sliders:
            value = float(values[s.name])
            if s.group in initial:
                initial[s.group][s.index] = value
            elif s.group == "parameters" and value != s.value:
                leaf = leaves.setdefault(s.key, np.array(self.system.params[s.key]))
                leaf[() if s.index is None else s.index] = value
        return self.system.with_params(**leaves), jnp.asarray(initial["q"]), jnp.asarray(initial["u"])

    def projects(self, values: Values) -> bool:
        """Whether the initial state must be moved to an admissible one: sliders have taken it away from there."""
        system, q0, u0 = self.given(values)
        started = all(float(values[s.name]) == s.value for s in self.sliders if s.group in ("q", "u"))
        return self.restricted and not (started and float(_defect(system, q0, u0)) < DEFECT)

    @cached_property
    def restricted(self) -> bool:
        """Whether there are states that are not admissible."""
        rows = self.system.rows(jnp.zeros(()), self.q0, self.u0)
        return rows.n_bilateral + rows.n_N > 0

    def steps(self, values: Values) -> tuple[Integrator, float, int, int]:
        """Integrator, dt, number of steps, and how many of them make a row; dt is at most what its slider says."""
        integrator = self.integrators[int(values["integrator"])]
        t1, dt = float(values["t1"]), float(values["dt"])
        each = 1 if isinstance(integrator, EventDriven) else math.ceil(min(t1 / dt, MOST_STEPS) / self.frames)
        return integrator, t1 / (each * self.frames), each * self.frames, each

    def run(self, values: Values) -> tuple[System, Trajectory]:
        """The trajectory of these values, which may have failed."""
        system, q0, u0 = self.case(values)
        integrator, dt, num_steps, save_every = self.steps(values)
        options: dict[str, Any] = dict(dt=dt, num_steps=num_steps, save_every=save_every)
        return system, simulate(system, integrator, q0, u0, **options, throw=False, check=False)

    def picture(self, values: Values) -> tuple[dict[str, Any], bytes]:
        """The film as the player takes it, with curves and a sentence on the outcome."""
        system, traj = self.run(values)
        scenes, rows = _shown(self.draw, system, traj.t, traj.q, traj.u)
        t = np.asarray(traj.t)
        film = animate.assembled(scenes, self._shapes, traj, np.arange(len(t)), speed=self._speed(t), title=self.title)
        store = page.Store()
        described = page.packed(film, store)
        gaps = np.asarray(rows.pop("gaps"))
        families = {
            "energy [J]": rows,
            "positions": _columns(self.coordinates["q"], traj.q),
            "velocities": _columns(self.coordinates["u"], traj.u),
            "gaps [m]": _columns([f"gap {k}" for k in range(gaps.shape[1])], gaps),
        }
        described["curves"] = {
            family: [{"name": name, "at": store.put(np.asarray(y))} for name, y in curves.items()]
            for family, curves in families.items()
            if curves
        }
        ok = bool(np.all(np.asarray(traj.status) == Status.OK))
        return {"film": described, "ok": ok, "outcome": outcome(traj)}, store.bytes()

    def answer(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The reply to a message of the page: a picture, or the code of the present values, or what is wrong."""
        reply: dict[str, Any] = {"id": message.get("id"), "kind": message.get("kind")}
        values = {**self.start, **message.get("values", {})}
        if message.get("kind") == "code":
            return {**reply, "code": code.written(self, values)}, b""
        if message.get("kind") == "prepare":  # compiles what the first move of an initial state needs
            consistent(self.system, self.q0, self.u0)
            return reply, b""
        try:
            picture, numbers = self.picture(values)
        except (ValueError, ArithmeticError) as error:  # no admissible state, or a parameter that cannot be
            return {**reply, "ok": False, "outcome": str(error)}, b""
        return {**reply, **picture}, numbers

    @cached_property
    def _shapes(self) -> Scene:
        return jax.eval_shape(self.draw, self.q0[0], self.q0, self.system.params)

    def _speed(self, t: np.ndarray) -> float:
        return max(float(t[-1] - t[0]), 1e-12) / animate.PLAYBACK


@jax.jit
def _defect(system: System, q: Array, u: Array) -> Array:
    """How far a state violates constraints and gaps, at t = 0."""
    t = jnp.zeros((), q.dtype)
    rows = [system.g(t, q), system.g_dot(t, q, u), system.gamma(t, q, u), jnp.minimum(system.g_N(t, q), 0.0)]
    return jnp.max(jnp.abs(jnp.concatenate([row.ravel() for row in rows])), initial=0.0)


@partial(jax.jit, static_argnums=0)
def _shown(draw: Any, system: System, t: Array, q: Array, u: Array) -> tuple[Scene, dict[str, Array]]:
    """Scenes and curves of all rows."""
    kinetic = jax.vmap(system.kinetic_energy)(t, q, u)
    potential = jax.vmap(system.potential_energy)(t, q)
    curves = {"kinetic": kinetic, "potential": potential, "total": kinetic + potential}
    return jax.vmap(draw, (0, 0, None))(t, q, system.params), {**curves, "gaps": jax.vmap(system.g_N)(t, q)}


def _columns(names: Sequence[str], table: Any) -> dict[str, np.ndarray]:
    return dict(zip(names, np.asarray(table).T, strict=True))


def check_integrators(given: Sequence[Any]) -> tuple[Integrator, ...]:
    """Integrators that were asked for, at least one."""
    if not given or not all(hasattr(one, "step") and hasattr(one, "start") for one in given):
        raise TypeError(f"explore: integrators must be at least one integrator, such as [ns.Rattle()], got {given!r}.")
    return tuple(given)
