"""What stands above the bodies of an MJCF file: included files, default classes, units and orientations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .elements import Element, parse
from .model import Place
from .sources import Source
from .turns import about, rotation_of, turned

MAIN = "main"
MOST_FILES = 100


def expand(root: Element, source: Source) -> None:
    """Put the content of included files where they are named. Their folder is that of the main file."""
    _expand(root, source, (source.name,), [0])


def _expand(element: Element, source: Source, names: tuple[str, ...], count: list[int]) -> None:
    found: list[Element] = []
    for child in element.children:
        if child.tag != "include":
            _expand(child, source, names, count)
            found.append(child)
            continue
        name = child.text("file")
        path = source.path(name, child)
        count[0] += 1
        if str(path) in names or (source.here is not None and str(path) == str(source.here / source.name)):
            raise child.error(f"{name!r} includes itself.")
        if count[0] > MOST_FILES:
            raise child.error(f"more than {MOST_FILES} files are included.")
        inner = parse(source.bytes(name, child), path.name)
        _expand(inner, source, (*names, str(path)), count)
        found.extend(inner.children)
    element.children = found


class Defaults:
    """Default classes: an element takes attributes that it does not have from its class and the classes around that."""

    def __init__(self, sections: Iterator[Element]):
        self.classes: dict[str, list[Element]] = {MAIN: []}  # <default> elements, innermost first
        for section in sections:
            section.hidden = True
            self._read(section, MAIN, [], top=True)

    def _read(self, section: Element, parent: str, around: list[Element], top: bool) -> None:
        name = section.attributes.get("class", MAIN if top else "")
        if not name:
            raise section.error("class is missing.")
        if top:
            name = MAIN
        elif name in self.classes:
            raise section.error(f"there is another default class {name!r}.")
        chain = [section, *(self.classes[MAIN] if top else around)]
        self.classes[name] = chain
        for child in section.children:
            if child.tag == "default":
                self._read(child, name, chain, top=False)

    def apply(self, element: Element, childclass: str, *more_tags: str) -> Element:
        """The element, with its defaults from those of the same tag, or of others whose attributes count as well."""
        name = element.text("class", childclass)
        if name not in self.classes:
            raise element.error(f"there is no default class {name!r}; there are {', '.join(map(repr, self.classes))}.")
        tags = (element.tag, *more_tags)
        element.defaults = tuple(x for section in self.classes[name] for x in section.children if x.tag in tags)
        return element


class Compiler:
    """Units and conventions, from all <compiler> elements."""

    def __init__(self, elements: list[Element]):
        self.degrees, self.sequence, self.limits, self.inertia = True, "xyz", True, "auto"
        self.folder, self.assets, self.strip = "", "", False
        for e in elements:
            self.degrees = e.choice("angle", ("degree", "radian"), "degree" if self.degrees else "radian") == "degree"
            e.choice("coordinate", ("local",), "local")
            self.sequence = e.text("eulerseq", self.sequence)
            if len(self.sequence) != 3 or set(self.sequence.lower()) - set("xyz"):
                raise e.error(f"eulerseq must be three letters of xyzXYZ, got {self.sequence!r}.")
            self.limits = e.flag("autolimits", self.limits)
            self.inertia = e.choice("inertiafromgeom", ("true", "false", "auto"), self.inertia)
            self.folder, self.assets = e.text("meshdir", self.folder), e.text("assetdir", self.assets)
            self.strip = e.flag("strippath", self.strip)
            e.skip(
                "texturedir",
                "discardvisual",
                "fusestatic",
                "convexhull",
                "usethread",
                "saveinertial",
                "exactmeshinertia",
            )

    def angle(self, value: float) -> float:
        return float(np.radians(value)) if self.degrees else value

    def place(self, element: Element) -> Place:
        """Position and orientation of an element."""
        return Place(element.numbers("pos", (3,), np.zeros(3)), self.rotation(element))

    def rotation(self, element: Element) -> np.ndarray:
        given: list[str] = []
        for source in (element, *element.defaults):
            given = given or [name for name in ORIENTATIONS if name in source.attributes]
        element.skip(*ORIENTATIONS)
        if not given:
            return np.eye(3)
        if len(given) > 1:
            raise element.error(f"it has {' and '.join(given)}; an orientation is given in one way.")
        name = given[0]
        if name == "quat":
            return rotation_of(element.direction("quat", size=4))
        if name == "axisangle":
            values = element.numbers(name, (4,))
            if not np.linalg.norm(values[:3]) > 1e-10:
                raise element.error("axisangle must have an axis, got zero.")
            return about(values[:3], self.angle(values[3]))
        if name == "euler":
            return self._euler(element.numbers(name, (3,)))
        if name == "zaxis":
            return to_z(element.direction(name))
        values = element.numbers(name, (6,))
        x = values[:3] / max(float(np.linalg.norm(values[:3])), 1e-300)
        y = values[3:] - x * (x @ values[3:])
        if not (np.linalg.norm(values[:3]) > 1e-10 and np.linalg.norm(y) > 1e-10):
            raise element.error("xyaxes must be two directions that are not parallel.")
        y /= np.linalg.norm(y)
        return np.column_stack([x, y, np.cross(x, y)])

    def _euler(self, angles: np.ndarray) -> np.ndarray:
        """Turns about moving axes, about those of the parent where the letter is a capital."""
        R = np.eye(3)
        for letter, angle in zip(self.sequence, angles, strict=True):
            turn = turned("xyz".index(letter.lower()), self.angle(angle))
            R = turn @ R if letter.isupper() else R @ turn
        return R


ORIENTATIONS = ("quat", "axisangle", "euler", "xyaxes", "zaxis")


def to_z(direction: np.ndarray) -> np.ndarray:
    """The smallest rotation that turns the z-axis to a unit vector."""
    axis = np.cross([0.0, 0.0, 1.0], direction)
    sine = float(np.linalg.norm(axis))
    if sine < 1e-10:
        return np.eye(3) if direction[2] > 0.0 else np.diag([1.0, -1.0, -1.0])
    return about(axis, float(np.arctan2(sine, direction[2])))
