"""Actuators: torques and forces along the coordinates of joints, from a control signal and the state of the joint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .errors import MechanismError, number, vector
from .forces import Input, read_input
from .parts import Assembly


@dataclass(frozen=True)
class Actuator:
    """A torque or force along the coordinate x of a `Revolute` or `Prismatic` joint, by name, from a control signal c:

        gear · (gain c + bias_0 + bias_1 gear x + bias_2 gear ẋ)

    A motor has its gain alone; a servo of the position has gain = kp and bias = (0, −kp, −kv); one of the velocity has
    gain = kv and bias = (0, 0, −kv).

    - control: a number, a `Signal`, or a function (t, x, ẋ, p)
    - control_range, force_range: bounds of the control, and of what stands in parentheses

    Parameters: "name.control" (or "name.times" and "name.values"), "name.gear", "name.gain", "name.bias",
    "name.control_range", "name.force_range", as far as they are given.

    >>> import jaxns as ns
    >>> arm = ns.Mechanism(
    ...     ns.Body("arm", mass=1.0, inertia=0.1, position=(0.5, 0.0)),
    ...     ns.Revolute("ground", "arm", at=(0.0, 0.0), name="elbow"),
    ...     ns.Actuator("servo", "elbow", 0.5, gain=20.0, bias=(0.0, -20.0, -2.0)),
    ...     gravity=(0.0, 0.0),
    ... )
    >>> traj = ns.simulate(arm.system, ns.Rattle(), arm.q0, arm.u0, dt=1e-2, t1=5.0)
    >>> round(float(traj.q[-1, 2]), 3)
    0.5
    """

    name: str
    joint: str
    control: Any = 0.0
    _: KW_ONLY
    gear: Any = 1.0
    gain: Any = 1.0
    bias: Sequence[Any] = (0.0, 0.0, 0.0)
    control_range: Sequence[Any] | None = None
    force_range: Sequence[Any] | None = None

    @property
    def owner(self) -> str:
        return f"{type(self).__name__} {self.name!r}"

    def read(self, assembly: Assembly) -> Servo:
        """Its torque or force as a function."""
        control = read_input(self, "control", self.control, self.name, assembly)
        values: dict[str, Any] = {name: number(self.owner, name, getattr(self, name)) for name in ("gear", "gain")}
        values["bias"] = vector(self.owner, "bias", self.bias, (3,))
        for name in ("control_range", "force_range"):
            if getattr(self, name) is not None:
                values[name] = limits = np.asarray(getattr(self, name), float)
                if limits.shape != (2,) or not limits[0] < limits[1]:
                    given = getattr(self, name)
                    raise MechanismError(f"{self.owner}: {name} must be (low, high) with low < high, got {given!r}.")
        assembly.add(self.owner, self.name, values)
        return Servo(self.name, control, self.control_range is not None, self.force_range is not None)


@dataclass(frozen=True)
class Servo:
    """`(t, x, v, p) ->` torque or force of an actuator."""

    label: str
    control: Input
    bounded: bool
    bounded_force: bool

    def __call__(self, t: Array, x: Array, v: Array, p: Any) -> Array:
        control = self.control(t, x, v, p)
        if self.bounded:
            control = jnp.clip(control, *p[f"{self.label}.control_range"])
        gear, (constant, stiff, damp) = p[f"{self.label}.gear"], p[f"{self.label}.bias"]
        force = p[f"{self.label}.gain"] * control + constant + gear * (stiff * x + damp * v)
        if self.bounded_force:
            force = jnp.clip(force, *p[f"{self.label}.force_range"])
        return gear * force
