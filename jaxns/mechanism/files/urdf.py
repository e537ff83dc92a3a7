"""URDF: links and joints of robots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..coupling import Coupling
from ..mechanism import Mechanism
from ..shapes import Box, Capsule, Cylinder, HalfSpace, Sphere
from .build import Builder
from .elements import Element
from .meshes import MAX_VERTICES, mesh
from .model import Geom, Inertia, JointData, LinkData, ModelData, PartMaker, Place, check_tensor
from .names import Names
from .sources import Source
from .turns import turned

GRAVITY = (0.0, 0.0, -9.81)
STILL = ("world", "ground")  # names of base links that do not move
JOINTS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")


def from_urdf(
    path_or_text: str | Path,
    *,
    coordinates: str = "bodies",
    gravity: Any = GRAVITY,
    base: str = "auto",
    position: Any = (0.0, 0.0, 0.0),
    floor: float | None = None,
    contacts: str = "all",
    mu: float = 0.5,
    e_N: float = 0.0,
    max_vertices: int = MAX_VERTICES,
    folder: str | Path | None = None,
    strict: bool = False,
) -> Mechanism:
    """A mechanism from a URDF file, or from its text.

    Main arguments:

    - coordinates: "bodies" or "joints", as of `Mechanism`
    - gravity; position of the base link's frame
    - base: "free", "fixed", or "auto": fixed if the base link is named "world" or "ground", or has no inertia
    - floor: the height of a floor; by default there is none
    - mu, e_N: friction and restitution of all contacts, which the format does not have. `drake:mu_dynamic` and
      `drake:mu_static` of a shape are read

    Other arguments:

    - contacts: "all" between shapes whose links no joint joins, "world" with floor and fixed links alone, or "none"
    - max_vertices: of the convex hulls that stand for meshes
    - folder: where all files lie that the model may name, by default that of the file
    - strict: raise where something is not understood, instead of one `ModelFileWarning` that lists it all

    Links are bodies, joints keep their names. A link without inertia that is fixed to another one is part of it. `effort`
    and `velocity` of limits bound drives, of which the file has none. Parameters are those of the parts: "forearm.mass",
    "elbow.damping", "elbow.low", "forearm-floor.mu".

    >>> import jaxns as ns
    >>> pendulum = ns.from_urdf('''<robot name="pendulum">
    ...   <link name="world"/>
    ...   <link name="rod"><inertial><origin xyz="0 0 -0.5"/><mass value="1"/>
    ...     <inertia ixx="0.1" iyy="0.1" izz="0.01"/></inertial></link>
    ...   <joint name="pivot" type="continuous"><parent link="world"/><child link="rod"/><axis xyz="0 1 0"/></joint>
    ... </robot>''')
    >>> pendulum.degrees_of_freedom
    1
    """
    source = Source(path_or_text, folder)
    reader = _Reader(source, mu, contacts, max_vertices)
    model = reader.model(np.asarray(gravity, float), base, np.asarray(position, float), floor)
    mechanism = Builder(model, source, coordinates, e_N).mechanism()
    source.report([source.root], strict)
    return mechanism


class _Reader:
    def __init__(self, source: Source, mu: float, contacts: str, max_vertices: int):
        if contacts not in ("all", "world", "none"):
            raise ValueError(f'contacts must be "all", "world" or "none", got {contacts!r}.')
        self.source, self.mu, self.contacts, self.max_vertices = source, mu, contacts, max_vertices
        self.names = {what: Names(what, ()) for what in ("link", "joint")}
        self.colors: dict[str, str] = {}

    def model(self, gravity: np.ndarray, base: str, position: np.ndarray, floor: float | None) -> ModelData:
        root = self.source.root
        if root.tag != "robot":
            raise root.error("a URDF file begins with <robot>.")
        root.skip("name", "version")
        for material in root.all("material"):
            self._color(material)
        elements = {}
        for element in root.all("link"):
            elements[self.names["link"].given(element.text("name"), element)] = element
        if not elements:
            raise root.error("it has no <link>.")
        joints = list(root.all("joint"))
        links, base_link = self._tree(elements, joints)
        self.shapes = Names("shape", ["ground", "floor"])
        for link in links:
            self._read_link(link)
        self._base(base_link, base, position)
        model = ModelData(links, gravity)
        model.parts = [part for joint in joints for part in self._mimic(joint)]
        if floor is not None:
            place = Place(np.array([0.0, 0.0, float(floor)]))
            model.world.append(Geom("floor", HalfSpace(), place, root))
        model.pairs = self._pairs(model)
        return model

    # The tree -------------------------------------------------------------------------------------------------------

    def _tree(self, elements: dict[str, Element], joints: list[Element]) -> tuple[list[LinkData], LinkData]:
        """Links, parents first, in the order of the joints that lead to them."""
        below: dict[str, list[tuple[str, Element]]] = {name: [] for name in elements}
        above: dict[str, Element] = {}
        for joint in joints:
            self.names["joint"].given(joint.text("name"), joint)
            parent, child = (self._end(joint, side, elements) for side in ("parent", "child"))
            if child in above:
                raise joint.error(f"link {child!r} is the child of the joint in line {above[child].line} already.")
            above[child] = joint
            below[parent].append((child, joint))
        roots = [name for name in elements if name not in above]
        if len(roots) != 1:
            what = f"there are {', '.join(map(repr, roots))}" if roots else "every link is a child, in a circle"
            raise self.source.root.error(f"one link must be the base, without a parent; {what}.")
        bodies = Names("body")
        base = LinkData(bodies.given(roots[0], elements[roots[0]]), None, Place(), elements[roots[0]])
        links = [base]
        for link in links:  # grows while it is read
            for name, joint in below[link.element.text("name")]:
                element = elements[name]
                links.append(LinkData(bodies.given(name, element), link, _origin(joint), element))
                self._joint(joint, links[-1])
        if len(links) < len(elements):
            found = {link.element.text("name") for link in links}
            lost = next(name for name in elements if name not in found)
            raise elements[lost].error(f"no joints lead from the base {base.name!r} to link {lost!r}.")
        return _depth_first(links), base

    def _end(self, joint: Element, side: str, elements: dict[str, Element]) -> str:
        end = joint.one(side, needed=True)
        assert end is not None
        name = end.text("link")
        if name not in elements:
            raise end.error(f"there is no link {name!r}; there are {', '.join(map(repr, elements))}.")
        return name

    def _joint(self, element: Element, link: LinkData) -> None:
        """The joints by which a link moves."""
        kind, name = element.choice("type", JOINTS), element.text("name")
        axis = element.one("axis")
        along = np.array([1.0, 0.0, 0.0]) if axis is None else axis.direction("xyz")
        for part in ("safety_controller", "calibration"):
            for found in element.all(part):
                found.skip()
        if kind == "planar":
            across = np.linalg.svd(along[None])[2][1:]
            for k, direction in enumerate(across):
                link.joints.append(JointData(f"{name}:{'xy'[k]}", "slide", element, axis=direction))
        limits = element.one("limit")
        if limits is not None:
            limits.skip("effort", "velocity")
        if kind == "floating":
            link.joints.append(JointData(name, "free", element))
        elif kind != "fixed":
            options = self._dynamics(element)
            if kind in ("revolute", "prismatic"):
                options["limits"] = self._limits(element, limits)
            hinge = "slide" if kind == "prismatic" else "hinge"
            link.joints.append(JointData(name, hinge, element, axis=along, options=options))

    def _limits(self, joint: Element, limits: Element | None) -> tuple[float, float]:
        if limits is None:
            raise joint.error("a revolute or prismatic joint needs <limit>; without limits its type is continuous.")
        low, high = limits.number("lower", 0.0), limits.number("upper", 0.0)
        if not low < high:
            raise limits.error(f"lower must be below upper, got {low:g} and {high:g}.")
        return low, high

    def _dynamics(self, joint: Element) -> dict[str, Any]:
        dynamics = joint.one("dynamics")
        if dynamics is None:
            return {}
        found = {name: dynamics.number(name, 0.0, least=0.0) for name in ("damping", "friction")}
        return {name: value for name, value in found.items() if value > 0.0}

    def _mimic(self, joint: Element) -> list[tuple[PartMaker, Element]]:
        mimic = joint.one("mimic")
        if mimic is None:
            return []
        other = mimic.text("joint")
        if other not in self.names["joint"].lines:
            raise mimic.error(f"there is no joint {other!r}.")
        coefficients = mimic.number("offset", 0.0), mimic.number("multiplier", 1.0)
        name = joint.text("name")
        return [(lambda _: Coupling(name, other, coefficients, name=f"{name}:mimic"), mimic)]

    def _base(self, link: LinkData, base: str, position: np.ndarray) -> None:
        if base not in ("auto", "free", "fixed"):
            raise ValueError(f'base must be "auto", "free" or "fixed", got {base!r}.')
        link.place = Place(position)
        fixed = link.element.text("name") in STILL or link.inertia.mass == 0.0
        if base == "free" or (base == "auto" and not fixed):
            if link.inertia.mass == 0.0:
                raise link.element.error(f"base {link.name!r} is to be free, so it needs mass and inertia.")
            link.joints.append(JointData(f"{link.name}:free", "free", link.element))

    # Links ----------------------------------------------------------------------------------------------------------

    def _read_link(self, link: LinkData) -> None:
        link.element.skip("type")
        inertial = link.element.one("inertial")
        if inertial is not None:
            link.inertia = _inertial(inertial)
        visuals = [self._geom(link, element, k) for k, element in enumerate(link.element.all("visual"))]
        solids = [self._geom(link, element, k) for k, element in enumerate(link.element.all("collision"))]
        shown = [geom for geom in visuals if geom is not None]
        for geom in shown:
            geom.collides = False
        link.geoms = shown + [geom for geom in solids if geom is not None]
        for geom in link.geoms[len(shown) :]:
            geom.visible = not shown

    def _geom(self, link: LinkData, element: Element, k: int) -> Geom | None:
        geometry = element.one("geometry", needed=True)
        assert geometry is not None
        place = _origin(element)
        color = self._color(element.one("material"))
        element.skip("name")
        shapes = [(shape, SHAPES[shape.tag](shape)) for shape in geometry.all(*SHAPES)]
        for one in geometry.all("mesh"):
            hull = mesh(one, self.source, one.text("filename"), one.numbers("scale", (3,), np.ones(3)))
            shapes.append((one, hull.shape(self.max_vertices)))
        if len(shapes) > 1:
            raise shapes[1][0].error("a <geometry> has one shape.")
        if not shapes:
            return None
        name = self.shapes.free(f"{link.name}:{element.tag}" + (f"_{k + 1}" if k else ""))
        return Geom(name, shapes[0][1], place, element, color=color, mu=self._mu(element))

    def _mu(self, element: Element) -> float:
        proximity = element.one("drake:proximity_properties")
        if proximity is None:
            return self.mu
        found = [proximity.one(f"drake:mu_{name}") for name in ("dynamic", "static")]
        values = [one.number("value", least=0.0) for one in found if one is not None]
        return values[0] if values else self.mu

    def _color(self, material: Element | None) -> str | None:
        if material is None:
            return None
        name, color = material.text("name", ""), material.one("color")
        for texture in material.all("texture"):
            texture.skip()
        if color is None:
            return self.colors.get(name)
        self.colors[name] = color.color("rgba")
        return self.colors[name]

    # Contacts -------------------------------------------------------------------------------------------------------

    def _pairs(self, model: ModelData) -> list[tuple[Geom, Geom, float | None]]:
        """Shapes whose links no joint joins, and all with the floor."""
        owned = [(geom, link.rigid) for link in model.links for geom in link.geoms if geom.collides]
        found: list[tuple[Geom, Geom, float | None]] = []
        if self.contacts == "none":
            return found
        for k, (geom, link) in enumerate(owned):
            found.extend((geom, floor, geom.mu) for floor in model.world if link.moves)
            for other, second in owned[k + 1 :]:
                near = link is second or link is _above(second) or second is _above(link)
                both_move = link.moves and second.moves
                if near or not (link.moves or second.moves) or (self.contacts == "world" and both_move):
                    continue
                sum_ = geom.mu + other.mu
                found.append((geom, other, 2.0 * geom.mu * other.mu / sum_ if sum_ else 0.0))
        return found


def _above(link: LinkData) -> LinkData | None:
    return None if link.parent is None else link.parent.rigid


def _depth_first(links: list[LinkData]) -> list[LinkData]:
    found: list[LinkData] = []
    left = [links[0]]
    while left:
        link = left.pop()
        found.append(link)
        left.extend(reversed([one for one in links if one.parent is link]))
    return found


def _origin(element: Element) -> Place:
    origin = element.one("origin")
    if origin is None:
        return Place()
    roll, pitch, yaw = origin.numbers("rpy", (3,), np.zeros(3))
    turn = turned(2, yaw) @ turned(1, pitch) @ turned(0, roll)
    return Place(origin.numbers("xyz", (3,), np.zeros(3)), turn)


def _inertial(element: Element) -> Inertia:
    mass, tensor = element.one("mass", needed=True), element.one("inertia", needed=True)
    assert mass is not None and tensor is not None
    entries = {name: tensor.number(name, 0.0) for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")}
    xx, xy, xz, yy, yz, zz = entries.values()
    given = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    value = mass.number("value", least=0.0)
    if value == 0.0:
        return Inertia()
    check_tensor(tensor, given)
    return Inertia(value, np.zeros(3), given).seen(_origin(element))


def _positive(element: Element, name: str, size: int = 1) -> Any:
    values = element.numbers(name, (size,))
    if not np.all(values > 0.0):
        raise element.error(f"{name} must be positive, got {element.text(name)!r}.")
    return float(values[0]) if size == 1 else tuple(values.tolist())


SHAPES: dict[str, Callable[[Element], Any]] = {
    "box": lambda e: Box(*_positive(e, "size", 3)),
    "sphere": lambda e: Sphere(_positive(e, "radius")),
    "cylinder": lambda e: Cylinder(_positive(e, "radius"), _positive(e, "length")),
    "capsule": lambda e: Capsule(_positive(e, "radius"), _positive(e, "length")),
    "drake:capsule": lambda e: Capsule(_positive(e, "radius"), _positive(e, "length")),
}
