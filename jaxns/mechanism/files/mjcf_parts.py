"""Keyframes, equality constraints and actuators of MJCF."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..actuators import Actuator
from ..coupling import Coupling
from ..errors import MechanismError
from ..joints import Fixed, Joint, Spherical
from ..parts import quaternion_of
from .elements import Element
from .mjcf_bodies import Bodies
from .mjcf_settings import MAIN, Compiler, Defaults
from .model import JointData, LinkData, ModelData, PartMaker, Place
from .names import Names
from .turns import rotation_of

SOFT = ("solref", "solimp")


class Parts:
    """Reads what refers to bodies and joints."""

    def __init__(self, model: ModelData, bodies: Bodies, compiler: Compiler, defaults: Defaults):
        self.model, self.bodies, self.compiler, self.defaults = model, bodies, compiler, defaults
        self.joints = {joint.name: joint for joint in model.joints}
        self.names = Names("part", [*self.joints, *(link.name for link in model.links)])
        self.control: np.ndarray | None = None

    def _joint(self, element: Element, side: str) -> JointData:
        name = element.text(side)
        found = self.joints.get(name)
        if found is None or found.kind not in ("hinge", "slide"):
            known = ", ".join(repr(j.name) for j in self.joints.values() if j.kind in ("hinge", "slide")) or "none"
            raise element.error(f"{side}: there is no hinge or slide {name!r}; there are {known}.")
        return found

    def _name(self, element: Element) -> str:
        if element.has("name"):
            return self.names.given(element.text("name"), element)
        return self.names.free(f"{element.tag}")

    # Keyframes ------------------------------------------------------------------------------------------------------

    def keyframes(self, root: Element, wanted: str | int | None) -> None:
        """The initial state of the model, and the controls of actuators."""
        keys = [key for section in root.all("keyframe") for key in section.all("key")]
        sizes = np.sum([joint.sizes for joint in self.model.joints] or [(0, 0)], axis=0)
        names = [key.text("name", "") for key in keys]
        for k, key in enumerate(keys):
            q, u = key.numbers("qpos", (sizes[0],), self._given()), key.numbers("qvel", (sizes[1],), np.zeros(sizes[1]))
            control = key.numbers("ctrl", ()) if key.has("ctrl") else None
            key.skip("time", "act", "mpos", "mquat")
            if wanted in (k, names[k]) and wanted is not None and wanted != "":
                self.model.state, self.control = (q, u), control
                self._check_quaternions(key, q)
        if wanted is not None and self.model.state is None:
            raise MechanismError(
                f"keyframe: there is none {wanted!r}; there are {', '.join(map(repr, names)) or 'none at all'}."
            )

    def _given(self) -> np.ndarray:
        """qpos of the given configuration."""
        found: list[np.ndarray] = [np.zeros(0)]
        for link in self.model.links:
            for joint in link.joints:
                turn = np.array([1.0, 0.0, 0.0, 0.0])
                if joint.kind == "free":
                    found.append(np.concatenate([link.place.position, quaternion_of(link.place.rotation)]))
                else:
                    found.append(turn if joint.kind == "ball" else np.array([joint.start]))
        return np.concatenate(found)

    def _check_quaternions(self, key: Element, q: np.ndarray) -> None:
        i = 0
        for joint in self.model.joints:
            n = joint.sizes[0]
            if n >= 4 and not np.linalg.norm(q[i + n - 4 : i + n]) > 1e-10:
                raise key.error(f"qpos: the quaternion of joint {joint.name!r} is zero.")
            i += n

    # Equality constraints -------------------------------------------------------------------------------------------

    def equalities(self, root: Element) -> Iterator[tuple[PartMaker, Element]]:
        for section in root.all("equality"):
            for element in section.all("connect", "weld", "joint"):
                self.defaults.apply(element, MAIN, "equality")
                element.skip(*SOFT)
                name = self._name(element)
                if not element.flag("active", True):
                    element.skip()
                elif element.tag == "joint":
                    yield self._coupled(element, name), element
                else:
                    yield from self._joined(element, name)

    def _coupled(self, element: Element, name: str) -> PartMaker:
        first = self._joint(element, "joint1")
        other = self._joint(element, "joint2") if element.has("joint2") else None
        given = element.numbers("polycoef", (1, 2, 3, 4, 5), (0.0, 1.0, 0.0, 0.0, 0.0))
        coefficients = given if other is not None else given[:1]
        return lambda _: Coupling(first.name, None if other is None else other.name, coefficients.tolist(), name=name)

    def _joined(self, element: Element, name: str) -> Iterator[tuple[PartMaker, Element]]:
        if not element.has("body1"):  # sites
            element.seen = False
            return
        first, second = self.bodies.link(element, "body1"), self.bodies.link(element, "body2", "world")
        ends = [_in_world(link) for link in (first, second)]
        if element.tag == "weld":
            element.skip("torquescale", "anchor")
            pose = element.numbers("relpose", (7,), np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
            if np.any(pose[3:]):
                given = ends[0] @ Place(pose[:3], rotation_of(pose[3:]))
                if not (
                    np.allclose(given.position, ends[1].position) and np.allclose(given.rotation, ends[1].rotation)
                ):
                    raise element.error("relpose must be the relative pose in which the bodies are given.")
            at = ends[1].position
        else:
            at = ends[0].point(element.numbers("anchor", (3,)))
        kind: type[Joint] = Fixed if element.tag == "weld" else Spherical

        def make(carrier: Callable[[LinkData | None], str]) -> Any:
            return kind(carrier(first), carrier(second), at, name=name, loop=True)

        yield make, element

    # Actuators ------------------------------------------------------------------------------------------------------

    def actuators(self, root: Element, controls: Mapping[str, Any]) -> Iterator[tuple[PartMaker, Element]]:
        known: list[str] = []
        for section in root.all("actuator"):
            for k, element in enumerate(section.children):
                self.defaults.apply(element, MAIN, "general")
                if element.tag not in ("motor", "position", "velocity", "general") or not element.has("joint"):
                    continue
                element.seen = True
                element.skip("group", "user")
                name = self._name(element)
                known.append(name)
                control = controls.get(name, 0.0 if self.control is None else float(self.control[k]))
                part = self._actuator(element, name, control)
                yield (lambda _, part=part: part), element  # type: ignore[misc]
        for name in controls:
            if name not in known:
                raise MechanismError(
                    f"controls: there is no actuator {name!r}; there are {', '.join(map(repr, known)) or 'none'}."
                )

    def _actuator(self, element: Element, name: str, control: Any) -> Actuator:
        joint = self._joint(element, "joint")
        gear = float(element.numbers("gear", (1, 2, 3, 4, 5, 6), np.ones(1))[0])
        gain, bias = self._affine(element)
        bias[0] += bias[1] * gear * joint.start
        ranges: dict[str, Any] = {}
        for short, long in (("ctrl", "control_range"), ("force", "force_range")):
            limited = element.choice(f"{short}limited", ("true", "false", "auto"), "auto")
            if element.has(f"{short}range"):
                low, high = element.numbers(f"{short}range", (2,))
                if limited == "true" or (limited == "auto" and self.compiler.limits and (low or high)):
                    ranges[long] = (float(low), float(high))
        return Actuator(name, joint.name, control, gear=gear, gain=gain, bias=bias, **ranges)

    def _affine(self, element: Element) -> tuple[float, list[float]]:
        """Gain and bias."""
        if element.tag == "position":
            kp, kv = element.number("kp", 1.0, least=0.0), element.number("kv", 0.0, least=0.0)
            return kp, [0.0, -kp, -kv]
        if element.tag == "velocity":
            kv = element.number("kv", 1.0, least=0.0)
            return kv, [0.0, 0.0, -kv]
        if element.tag == "motor":
            return 1.0, [0.0, 0.0, 0.0]
        gain = element.numbers("gainprm", (), np.ones(1))
        bias = np.resize(np.append(element.numbers("biasprm", (), np.zeros(3)), np.zeros(3)), 3)
        kind = element.choice("biastype", ("none", "affine"), "none")
        element.choice("gaintype", ("fixed",), "fixed")
        element.choice("dyntype", ("none",), "none")
        return float(gain[0]), bias.tolist() if kind == "affine" else [0.0, 0.0, 0.0]


def _in_world(link: LinkData | None) -> Place:
    return Place() if link is None else link.in_world
