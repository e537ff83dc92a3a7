"""MJCF, the format of MuJoCo: settings, contacts and everything together; `mjcf_bodies.py` has bodies and joints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..mechanism import Mechanism
from .build import Builder
from .elements import Element
from .meshes import MAX_VERTICES
from .mjcf_bodies import Bodies
from .mjcf_geoms import Geoms, friction
from .mjcf_parts import Parts
from .mjcf_settings import Compiler, Defaults, expand
from .model import Geom, LinkData, ModelData
from .names import Names
from .sources import Source

GRAVITY = (0.0, 0.0, -9.81)
SOLVER = (
    "timestep integrator solver iterations tolerance ls_iterations ls_tolerance jacobian cone impratio apirate magnetic "
    "noslip_iterations noslip_tolerance ccd_iterations ccd_tolerance sdf_iterations sdf_initpoints "
    "o_solref o_solimp o_friction o_margin"
).split()


def from_mjcf(
    path_or_text: str | Path,
    *,
    coordinates: str = "bodies",
    keyframe: str | int | None = None,
    controls: Mapping[str, Any] | None = None,
    contacts: str = "all",
    e_N: float = 0.0,
    max_vertices: int = MAX_VERTICES,
    folder: str | Path | None = None,
    strict: bool = False,
) -> Mechanism:
    """A mechanism from an MJCF file, the format of MuJoCo, or from its text.

    Main arguments:

    - coordinates: "bodies" or "joints", as of `Mechanism`. Several joints on one body take "joints", but for two hinges
      that cross at right angles and for a slide with a hinge about its axis, without springs, limits and the like
    - keyframe: the one in which it begins, by name or number; by default the configuration in which bodies are given
    - controls: those of actuators by name, numbers, a `Signal`, or functions (t, x, ẋ, p); by default those of the
      keyframe, else zero. As numbers they are parameters, such as "servo.control"

    Other arguments:

    - contacts: "all" by the rules of the format, "world" with what does not move alone, or "none"
    - e_N: restitution of contacts and limits, which the format does not have
    - max_vertices: of the convex hulls that stand for meshes
    - folder: where all files lie that the model may name, by default that of the file
    - strict: raise where something is not understood, instead of one `ModelFileWarning` that lists it all

    Contacts, limits, equality constraints and friction are not softened: solver settings of the file do not count.

    >>> import jaxns as ns
    >>> pendulum = ns.from_mjcf('''<mujoco><worldbody><body name="rod"><joint name="pivot" axis="0 1 0" damping="0.1"/>
    ...   <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05" mass="2"/></body></worldbody></mujoco>''')
    >>> float(pendulum.system.params["pivot.damping"]), pendulum.degrees_of_freedom
    (0.1, 1)
    """
    if contacts not in ("all", "world", "none"):
        raise ValueError(f'contacts must be "all", "world" or "none", got {contacts!r}.')
    source = Source(path_or_text, folder)
    root = source.root
    if root.tag != "mujoco":
        raise root.error("an MJCF file begins with <mujoco>.")
    root.skip("model")
    expand(root, source)
    for element in root.all("visual", "statistic", "size", "custom", "sensor"):
        element.skip()
    defaults, compiler = Defaults(root.all("default")), Compiler(list(root.all("compiler")))
    geoms = Geoms(source, compiler, defaults, Names("shape"), max_vertices)
    for assets in root.all("asset"):
        geoms.read_assets(assets)
    bodies = Bodies(compiler, defaults, geoms)
    for world in root.all("worldbody"):
        bodies.read_world(world)
    gravity, flags = _options(root, source)
    model = ModelData(bodies.links, gravity, bodies.world)
    parts = Parts(model, bodies, compiler, defaults)
    parts.keyframes(root, keyframe)
    model.parts = [*parts.equalities(root), *parts.actuators(root, controls or {})]
    if "contact" not in flags and contacts != "none":
        model.pairs = list(_Touching(root, bodies, source, contacts, "filterparent" not in flags).pairs())
    else:
        for element in root.all("contact"):
            element.skip()
    mechanism = Builder(model, source, coordinates, e_N).mechanism()
    source.report([root], strict)
    return mechanism


def _options(root: Element, source: Source) -> tuple[np.ndarray, set[str]]:
    """Gravity, and the flags that are switched off."""
    gravity, off = np.array(GRAVITY), set()
    for option in root.all("option"):
        option.skip(*SOLVER)
        gravity = option.numbers("gravity", (3,), gravity)
        for flag in option.all("flag"):
            for name in flag.attributes:
                if flag.choice(name, ("enable", "disable")) == "disable":
                    off.add(name)
                    if name in ("constraint", "equality", "frictionloss", "limit", "spring", "damper", "actuation"):
                        source.note(f"{name}='disable' of <flag>", flag)
    return (np.zeros(3) if "gravity" in off else gravity), off


class _Touching:
    """What can touch, by the rules of the format."""

    def __init__(self, root: Element, bodies: Bodies, source: Source, contacts: str, parents: bool):
        self.bodies, self.source, self.contacts, self.parents = bodies, source, contacts, parents
        self.given: list[tuple[Geom, Geom, float | None]] = []
        self.excluded: set[frozenset[int]] = set()
        for section in root.all("contact"):
            for element in section.all("exclude"):
                element.skip("name")
                ends = [bodies.link(element, side) for side in ("body1", "body2")]
                self.excluded.add(frozenset(id(end) for end in ends))
            for element in section.all("pair"):
                self.given.append(self._pair(element))

    def _pair(self, element: Element) -> tuple[Geom, Geom, float | None]:
        self.bodies.defaults.apply(element, "main")
        element.skip("name", "solref", "solreffriction", "solimp")
        a, b = (self.bodies.geom(element, side) for side in ("geom1", "geom2"))
        mu, rough = max(a.mu, b.mu), a.rough or b.rough
        if element.has("condim", "friction"):
            mu, rough = friction(element, element.whole("condim", 3), self.source)
        return a, b, mu if rough else None

    def pairs(self) -> Iterator[tuple[Geom, Geom, float | None]]:
        yield from self.given
        done = {frozenset((id(a), id(b))) for a, b, _ in self.given}
        owned: list[tuple[Geom, LinkData | None]] = [(geom, None) for geom in self.bodies.world]
        owned += [(geom, link) for link in self.bodies.links for geom in link.geoms]
        for k, (b, second) in enumerate(owned):
            for a, first in owned[:k]:
                if b.meets(a) and frozenset((id(a), id(b))) not in done and self._may_touch(first, second):
                    yield (b, a, _friction(b, a))

    def _may_touch(self, first: LinkData | None, second: LinkData | None) -> bool:
        one, other = (None if link is None or not link.moves else link.rigid for link in (first, second))
        if one is other or frozenset((id(first), id(second))) in self.excluded:
            return False
        if one is None or other is None:
            return True
        above = [None if link.parent is None else link.parent.rigid for link in (one, other)]
        return self.contacts == "all" and not (self.parents and (above[0] is other or above[1] is one))


def _friction(a: Geom, b: Geom) -> float | None:
    """That of the geometry with the higher priority, else the larger one."""
    if a.priority != b.priority:
        first = a if a.priority > b.priority else b
        return first.mu if first.rough else None
    return max(a.mu, b.mu) if a.rough or b.rough else None
