"""Bodies and joints of MJCF."""

from __future__ import annotations

from typing import Any

import numpy as np

from .elements import Element
from .mjcf_geoms import Geoms
from .mjcf_settings import MAIN, Compiler, Defaults
from .model import Geom, Inertia, JointData, LinkData, Place, check_tensor
from .names import Names

HARMLESS = ("light", "camera", "site")
SOFT = ("solreflimit", "solimplimit", "solreffriction", "solimpfriction")


class Bodies:
    """Reads the tree of bodies: `links` in the order of the file, parents first, and shapes of the world."""

    def __init__(self, compiler: Compiler, defaults: Defaults, geoms: Geoms):
        self.compiler, self.defaults, self.geoms = compiler, defaults, geoms
        self.links: list[LinkData] = []
        self.world: list[Geom] = []
        self.joints = Names("joint")
        self.names = Names("body", ["ground"])
        self.by_name: dict[str, LinkData] = {}

    def read_world(self, element: Element) -> None:
        self._content(element, None, Place(), MAIN)

    def link(self, element: Element, side: str, default: str | None = None) -> LinkData | None:
        """The body that an element names; None is the world."""
        name = element.text(side, default)
        if name in ("world", "") and name not in self.by_name:
            return None
        if name not in self.by_name:
            raise element.error(f"{side}: there is no body {name!r}; there are {', '.join(map(repr, self.by_name))}.")
        return self.by_name[name]

    def geom(self, element: Element, side: str) -> Geom:
        name, known = element.text(side), self.geoms.by_name
        if name not in known:
            raise element.error(
                f"{side}: there is no geom {name!r}; there are {', '.join(map(repr, known)) or 'none'}."
            )
        return known[name]

    def _content(self, element: Element, link: LinkData | None, around: Place, childclass: str) -> Inertia:
        """What is in a body, or in a frame of it; returns the inertia of its geometries."""
        inertia = Inertia()
        for child in element.all(*HARMLESS):
            child.skip()
        for child in element.children:
            if child.tag == "geom":
                child.seen = True
                geom, own = self.geoms.read(child, childclass, "world" if link is None else link.name, around)
                inertia = inertia + own
                if geom is not None:
                    (self.world if link is None else link.geoms).append(geom)
            elif child.tag in ("joint", "freejoint") and link is not None:
                child.seen = True
                self._joint(child, link, around, childclass)
        for child in element.children:  # bodies after the joints and shapes of their parent
            if child.tag == "frame":
                child.seen = True
                child.skip("name")
                inner = child.text("childclass", childclass)
                inertia = inertia + self._content(child, link, around @ self.compiler.place(child), inner)
            elif child.tag == "body":
                child.seen = True
                self._body(child, link, around, childclass)
        return inertia

    def _body(self, element: Element, parent: LinkData | None, around: Place, childclass: str) -> None:
        childclass = element.text("childclass", childclass)
        element.skip("user", "sleep")
        if element.has("name"):
            name = self.names.given(element.text("name"), element)
        else:
            name = self.names.free(f"body{len(self.links) + 1}")
        link = LinkData(name, parent, around @ self.compiler.place(element), element)
        self.links.append(link)
        self.by_name[element.attributes.get("name", name)] = link
        of_geoms = self._content(element, link, Place(), childclass)
        self._show(link)
        inertial = element.one("inertial")
        if inertial is not None and self.compiler.inertia != "true":
            link.inertia = self._inertial(inertial)
        elif self.compiler.inertia != "false":
            link.inertia = of_geoms
        if inertial is not None and self.compiler.inertia == "true":
            inertial.skip()
        free = [joint for joint in link.joints if joint.kind == "free"]
        if free and (len(link.joints) > 1 or parent is not None):
            raise free[0].element.error("a free joint is the only one of a body in the world.")

    def _show(self, link: LinkData) -> None:
        """Shapes that meet nothing are there to be seen, and hide the others."""
        if any(geom.visible and not geom.collides for geom in link.geoms):
            for geom in link.geoms:
                geom.visible = geom.visible and not geom.collides

    def _inertial(self, element: Element) -> Inertia:
        place, mass = self.compiler.place(element), element.number("mass", least=0.0)
        if element.has("fullinertia"):
            xx, yy, zz, xy, xz, yz = element.numbers("fullinertia", (6,))
            tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        else:
            tensor = np.diag(element.numbers("diaginertia", (3,), np.zeros(3)))
        if mass == 0.0 and not np.any(tensor):
            return Inertia()
        if mass == 0.0:
            raise element.error("there is inertia without mass.")
        check_tensor(element, tensor)
        return Inertia(mass, np.zeros(3), tensor).seen(place)

    # Joints ---------------------------------------------------------------------------------------------------------

    def _joint(self, element: Element, link: LinkData, around: Place, childclass: str) -> None:
        free = element.tag == "freejoint"
        if not free:
            self.defaults.apply(element, childclass)
        kind = "free" if free else element.choice("type", ("free", "ball", "slide", "hinge"), "hinge")
        element.skip("group", "user", *(() if free else SOFT))
        if element.has("name"):
            name = self.joints.given(element.text("name"), element)
        else:
            name = self.joints.free(f"{link.name}:joint")
        joint = JointData(name, kind, element)
        link.joints.append(joint)
        if kind in ("hinge", "slide"):
            joint.axis = around.rotation @ element.direction("axis", (0.0, 0.0, 1.0))
            joint.start = self._coordinate(kind, element.number("ref", 0.0))
        if kind != "free":
            joint.point = around.point(element.numbers("pos", (3,), np.zeros(3)))
            joint.options = self._options(element, kind)

    def _coordinate(self, kind: str, value: float) -> float:
        return self.compiler.angle(value) if kind == "hinge" else value

    def _options(self, element: Element, kind: str) -> dict[str, Any]:
        """What a joint has beside its axis; what a ball has not is left unread."""
        found: dict[str, Any] = {}
        damping = element.number("damping", 0.0, least=0.0)
        if damping > 0.0:
            found["damping"] = damping
        if kind == "ball":
            return found
        stiffness = element.number("stiffness", 0.0, least=0.0)
        rest = self._coordinate(kind, element.number("springref", 0.0))
        if stiffness > 0.0:
            found |= {"stiffness": stiffness, "rest": rest}
        for name, option in (("armature", "armature"), ("frictionloss", "friction")):
            value = element.number(name, 0.0, least=0.0)
            if value > 0.0:
                found[option] = value
        limited = element.choice("limited", ("true", "false", "auto"), "auto")
        if element.has("range"):
            low, high = (self._coordinate(kind, float(x)) for x in element.numbers("range", (2,)))
            if limited == "true" or (limited == "auto" and self.compiler.limits and (low or high)):
                if not low < high:
                    raise element.error(f"range must be (low, high) with low < high, got {element.text('range')!r}.")
                found["limits"] = low, high
        elif limited == "true":
            raise element.error("a limited joint needs a range.")
        return found
