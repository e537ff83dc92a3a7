"""What joints can have: limits, friction, clearance.

Friction in a joint is Coulomb friction under a normal force that is given: |torque| ≤ T, whatever the joint carries. Its
set needs a reservoir T Δt in a step and none in an impact. A pad gives both: a coordinate w of its own, with unit mass,
that the force T presses against w ≥ 0. It stays at w = 0, its contact force is T, and friction with μ = 1 draws on that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from ..model.contacts import Contacts
from .actuators import Actuator
from .contacts import Coefficient, Member
from .coordinates import Coordinates
from .coupling import joint_of
from .errors import MechanismError, number
from .forces import moduli as of_spring
from .forces import read_input
from .frames import Frames, stack
from .joints import Joint, Row
from .pairs import PointsOn
from .parts import Assembly
from .shapes import Bore, Disk, Sphere
from .touch import Entry, Touching, coefficients


@dataclass(frozen=True)
class LimitGaps:
    """`gap(t, q, p) -> (2 n,)`: how far coordinates are above their lower and below their upper limits."""

    coordinates: Coordinates
    low: tuple[str, ...]
    high: tuple[str, ...]
    __name__ = "limits"

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        x = self.coordinates(q, p)
        return jnp.stack([x - stack(p, self.low), stack(p, self.high) - x], axis=1).reshape(-1)


@dataclass(frozen=True)
class PadGaps:
    """`gap(t, q, p) -> (n,)` of pads."""

    frames: Frames
    __name__ = "pads"

    def __call__(self, t: Array, q: Array, p: Any) -> Array:
        return q[-self.frames.pads :]


@dataclass(frozen=True)
class PadSlips:
    """`slip(t, q, u, p) -> (n, 1)`: rates of the joints' coordinates."""

    coordinates: Coordinates

    def __call__(self, t: Array, q: Array, u: Array, p: Any) -> Array:
        return self.coordinates.rates(q, u, p)[:, None]


def limits(frames: Frames, joints: Sequence[tuple[Joint, Row]], assembly: Assembly) -> tuple[list[Contacts], list[str]]:
    """The contacts at the limits of joints, and the joint of each."""
    limited = [(joint, row) for joint, row in joints if joint.limits is not None]
    if not limited:
        return [], []
    low, high, e_N = [], [], []
    for joint, _ in limited:
        try:
            values = [number(joint.owner, "limits", value) for value in joint.limits]
        except TypeError:
            values = []
        if len(values) != 2 or not values[0] < values[1]:
            raise MechanismError(f"{joint.owner}: limits must be (low, high) with low < high, got {joint.limits!r}.")
        keys = assembly.add(joint.owner, joint.label, {"low": values[0], "high": values[1]})
        low.append(keys[0])
        high.append(keys[1])
        if f"{joint.label}.e_N" not in assembly.params:
            coefficients(joint, assembly)
        e_N.append(f"{joint.label}.e_N")
    gap = LimitGaps(Coordinates.of(frames, [row for _, row in limited]), tuple(low), tuple(high))
    contacts = Contacts(gap, e_N=Coefficient(tuple(e_N), (2,) * len(limited)))
    return [contacts], [joint.label for joint, _ in limited for _ in range(2)]


def friction(
    frames: Frames, joints: Sequence[tuple[Joint, Row]], assembly: Assembly
) -> tuple[list[Contacts], list[str], tuple[str, ...]]:
    """The friction in joints, the joint of each row, and the keys of the bounds that press the pads."""
    rough = [(joint, row) for joint, row in joints if joint.friction is not None]
    if not rough:
        return [], [], ()
    keys: list[str] = []
    for joint, _ in rough:
        bound = number(joint.owner, "friction", joint.friction, least=0.0)
        keys.extend(assembly.add(joint.owner, joint.label, {"friction": bound}))
    slips = PadSlips(Coordinates.of(frames, [row for _, row in rough]))
    return [Contacts(PadGaps(frames), slips, mu=1.0)], [joint.label for joint, _ in rough], tuple(keys)


def moduli(
    joints: Sequence[tuple[Joint, Row]], balls: Sequence[Joint], assembly: Assembly
) -> tuple[list[tuple[Row, dict[str, str]]], list[tuple[Row, str]], tuple[tuple[int, int, str], ...]]:
    """Springs and dampers along coordinates, as `forces.moduli` has them; armature; the damping of ball joints."""
    elements, rotors, damped = [], [], []
    for joint, row in joints:
        if joint.stiffness is not None or joint.damping is not None:
            elements.append((row, of_spring(joint, assembly, 0.0)))
        if joint.armature is not None:
            value = number(joint.owner, "armature", joint.armature, least=0.0)
            rotors.append((row, assembly.add(joint.owner, joint.label, {"armature": value})[0]))
    for joint in balls:
        value = number(joint.owner, "damping", joint.damping, least=0.0)
        damped.append((*joint.indices(assembly), assembly.add(joint.owner, joint.label, {"damping": value})[0]))
    return elements, rotors, tuple(damped)


def motors(
    joints: Sequence[Joint], moved: Sequence[tuple[Joint, Row]], actuators: Sequence[Actuator], assembly: Assembly
) -> tuple[list[Row], tuple[Callable[..., Array], ...]]:
    """The coordinates of motors and actuators, and their torques or forces."""
    own = [(joint, row) for joint, row in moved if joint.motor is not None]
    torques = [read_input(joint, "motor", joint.motor, joint.label, assembly) for joint, _ in own]
    rows = [joint_of(part.owner, part.joint, joints, assembly.d).coordinate_row(assembly) for part in actuators]
    return [row for _, row in own] + rows, (*torques, *(part.read(assembly) for part in actuators))


def clearances(joints: Sequence[Joint], assembly: Assembly) -> list[Touching]:
    """Journals in their bearings: a ball on b, which has play in a bore of a."""
    found = []
    for joint in joints:
        if joint.clearance is None:
            continue
        clearance = number(joint.owner, "clearance", joint.clearance, positive=True)
        radius = number(joint.owner, "radius", joint.radius, positive=True)
        assembly.add(joint.owner, joint.label, {"clearance": clearance, "radius": radius})
        keys, shape = coefficients(joint, assembly)
        a, b = assembly.index(joint.owner, joint.a), assembly.index(joint.owner, joint.b)
        journal = (("radius", f"{joint.label}.radius"),)
        bore = (*journal, ("clearance", f"{joint.label}.clearance"))
        member = Member(b, a, journal, bore, (f"{joint.label}.point_b", f"{joint.label}.point_a"))
        alike = (PointsOn(Disk if assembly.d == 2 else Sphere, Bore), ((), (), ()))
        found.append(Touching(joint.label, (Entry(alike, 1, (0,), member),), None, joint.mu is None, keys, shape))
    return found
