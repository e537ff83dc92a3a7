"""From what a file says to a mechanism."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import MechanismError
from ..frames import GROUND
from ..geometry import Geometry
from ..joints import Cylindrical, Fixed, Joint, Prismatic, Revolute, Spherical, Universal
from ..mechanism import Mechanism
from ..pairs import pairings
from ..parts import Body, quaternion_of
from ..shapes import HalfSpace
from ..touch import Touch
from .elements import Element
from .errors import ModelFileError
from .model import Geom, JointData, LinkData, ModelData, Place
from .sources import Source
from .turns import rotation_of

KINDS: dict[str, type[Joint]] = {"hinge": Revolute, "slide": Prismatic, "ball": Spherical}


class Builder:
    """Collects the parts of a mechanism, each with the element that it comes from."""

    def __init__(self, model: ModelData, source: Source, coordinates: str, e_N: float):
        self.model, self.source, self.coordinates, self.e_N = model, source, coordinates, e_N
        self.parts: list[tuple[Any, Element]] = []
        self.bodies: dict[int, str] = {}  # the body that carries each link

    def mechanism(self) -> Mechanism:
        for link in self.model.links:
            self._link(link)
        placed = [(geom, GROUND, Place()) for geom in self.model.world]
        placed += [(geom, self.bodies[id(link)], link.in_world) for link in self.model.links for geom in link.geoms]
        pairs = self._touching()
        needed = {id(geom) for a, b, _ in pairs for geom in (a, b)}
        for geom, body, place in placed:
            if geom.visible or id(geom) in needed:
                self._geometry(geom, body, place @ geom.place)
        self.parts.extend((make(self._carrier), element) for make, element in self.model.parts)
        for a, b, mu in pairs:
            self.parts.append((Touch(a.name, b.name, e_N=self.e_N, mu=mu), a.element))
        return self._assembled()

    def _assembled(self) -> Mechanism:
        parts = [part for part, _ in self.parts]
        state = self.model.state
        chosen = None if state is None else joint_state(self.model, *state)
        try:
            mechanism = Mechanism(*parts, gravity=self.model.gravity, coordinates=self.coordinates, state=chosen)
        except MechanismError as error:
            owners = [element for part, element in self.parts if str(error).startswith(part.owner)]
            if owners:
                raise owners[0].error(str(error)) from None
            raise ModelFileError(
                f"{self.source.name}, line {self.source.root.line}, <{self.source.root.tag}>: {error}"
            ) from None
        self._check_inertia(mechanism)
        return mechanism

    def _check_inertia(self, mechanism: Mechanism) -> None:
        """Complain about a frame without mass that carries none either."""
        if not any(isinstance(part, Body) and part.massless for part, _ in self.parts):
            return
        M = np.asarray(mechanism.system.M(jnp.zeros(()), mechanism.q0))
        scale = 1.0 / np.sqrt(np.maximum(np.diag(M), 1e-300))
        if np.linalg.eigvalsh(M * scale * scale[:, None]).min() < 1e-12:
            k = int(np.argmin(np.diag(M)))
            frames = [(p, e) for p, e in self.parts if isinstance(p, Body) and p.massless]
            part, element = next(((p, e) for p, e in frames if p.name == _owner(mechanism, k)), frames[0])
            raise element.error(f"body {part.name!r} can move without inertia; give mass to what it carries.")

    # Links ----------------------------------------------------------------------------------------------------------

    def _link(self, link: LinkData) -> None:
        """A body, its joints, and frames without mass between several of them."""
        parent = self._carrier(link.parent)
        self.bodies[id(link)] = link.name
        if not link.moves:
            place = link.in_world
            turn = quaternion_of(place.rotation)
            self._add(Body(link.name, fixed=True, position=place.position, orientation=turn), link.element)
            return
        inertia = link.inertia
        if not link.joints:
            if inertia.mass == 0.0:
                self.bodies[id(link)] = parent
            else:
                self._body(link)
                self._add(Fixed(parent, link.name, at=link.in_world.point(inertia.center)), link.element)
            return
        if inertia.mass == 0.0:
            self._check_massless(link)
        joints = link.joints
        if len(joints) > 1 and self.coordinates == "bodies":
            self._body(link)
            self._add(self._as_one(parent, link), joints[0].element)
            return
        for joint in joints[:-1]:
            name = f"{link.name}:{joint.name}"
            place = link.in_world
            frame = Body(name, 0.0, np.zeros(3), position=place.position, orientation=quaternion_of(place.rotation))
            self._add(frame, joint.element)
            self._joint(joint, parent, name, place)
            parent = name
        self._body(link)
        self._joint(joints[-1], parent, link.name, link.in_world)

    def _carrier(self, link: LinkData | None) -> str:
        return GROUND if link is None else self.bodies[id(link)]

    def _check_massless(self, link: LinkData) -> None:
        if link.joints[0].kind == "free" or not any(x.parent is link for x in self.model.links):
            raise link.element.error(f"{link.name!r} moves, so it needs mass and inertia.")
        if self.coordinates == "bodies":
            raise link.element.error(
                f'{link.name!r} moves without mass, which takes minimal coordinates: coordinates="joints".'
            )

    def _body(self, link: LinkData) -> None:
        place, inertia = link.in_world, link.inertia
        orientation = quaternion_of(place.rotation)
        at = place.point(inertia.center)
        tensor = inertia.tensor if inertia.mass else np.zeros(3)
        self._add(Body(link.name, inertia.mass, tensor, position=at, orientation=orientation), link.element)

    def _add(self, part: Any, element: Element) -> None:
        self.parts.append((part, element))

    def _joint(self, joint: JointData, parent: str, child: str, place: Place) -> None:
        if joint.kind == "free":
            return
        at, options = place.point(joint.point), dict(joint.options)
        if joint.kind != "ball":
            options["axis"] = place.rotation @ joint.axis
            for name in ("rest", "limits"):
                if name in options:
                    options[name] = np.asarray(options[name], float) - joint.start
        if "limits" in options:
            options |= {"limits": tuple(options["limits"]), "e_N": self.e_N}
        self._add(KINDS[joint.kind](parent, child, at, name=joint.name, **options), joint.element)

    def _as_one(self, parent: str, link: LinkData) -> Joint:
        """Two joints of a body as one, for there are no frames without mass in the coordinates of bodies."""
        place, joints = link.in_world, link.joints
        kinds = sorted(joint.kind for joint in joints)
        if not any(joint.options for joint in joints) and len(joints) == 2:
            first, second = joints
            axes = [place.rotation @ joint.axis for joint in joints]
            along = abs(float(axes[0] @ axes[1]))
            name = f"{first.name}-{second.name}"
            if kinds == ["hinge", "hinge"] and along < 1e-9 and np.allclose(first.point, second.point, atol=1e-12):
                return Universal(parent, link.name, place.point(first.point), axes[0], axes[1], name=name)
            if kinds == ["hinge", "slide"] and along > 1.0 - 1e-12:
                hinge = first if first.kind == "hinge" else second
                return Cylindrical(parent, link.name, place.point(hinge.point), axes[0], name=name)
        raise link.element.error(
            f"{link.name!r} has {len(joints)} joints ({', '.join(joint.kind for joint in joints)}), which takes minimal "
            'coordinates: coordinates="joints".'
        )

    # Shapes ---------------------------------------------------------------------------------------------------------

    def _geometry(self, geom: Geom, body: str, place: Place) -> None:
        turn = quaternion_of(place.rotation)
        visible, color = geom.visible, geom.color
        part = Geometry(geom.name, body, geom.shape, at=place.position, orientation=turn, visible=visible, color=color)
        self._add(part, geom.element)

    def _touching(self) -> list[tuple[Geom, Geom, float | None]]:
        """The pairs that jaxns has; the others are noted."""
        found = []
        for a, b, mu in self.model.pairs:
            if HalfSpace in (a.shape.kind, b.shape.kind) and a.shape.kind is b.shape.kind:
                continue
            if pairings(a.shape.kind, b.shape.kind):
                found.append((a, b, mu))
            else:
                names = sorted(type(x.shape).__name__ for x in (a, b))
                self.source.note(f"contact between {names[0]} and {names[1]}", a.element)
        return found


def _owner(mechanism: Mechanism, k: int) -> str:
    """The body whose link has the velocity k."""
    frames: Any = mechanism.frames
    return frames.moving[int(np.searchsorted(frames.places[1], k, side="right")) - 1]


def joint_state(model: ModelData, q: Any, u: Any) -> tuple[np.ndarray, np.ndarray]:
    """A state in coordinates of the file's joints, in their order, as (q, u) of the mechanism with coordinates="joints".

    A free joint has position and unit quaternion of the link's frame, in u the velocity of its origin and the angular
    velocity in the frame. The mechanism has the centre of mass there; other coordinates begin at zero in the given
    configuration.
    """
    found_q: list[np.ndarray] = []
    found_u: list[np.ndarray] = []
    i = j = 0
    for link in model.links:
        for joint in link.joints:
            n, m = joint.sizes
            x, v = np.array(q[i : i + n], float), np.array(u[j : j + m], float)
            i, j = i + n, j + m
            if joint.kind == "free":
                x[3:] /= np.linalg.norm(x[3:])
                R = rotation_of(x[3:])
                x[:3] += R @ link.inertia.center
                v[:3] += R @ np.cross(v[3:], link.inertia.center)
            elif joint.kind == "ball":
                x /= np.linalg.norm(x)
            else:
                x -= joint.start
            found_q.append(x)
            found_u.append(v)
    pads = np.zeros(sum("friction" in joint.options for joint in model.joints))
    return np.concatenate([*found_q, pads]), np.concatenate([*found_u, pads])
