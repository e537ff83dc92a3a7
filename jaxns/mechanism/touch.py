"""Contact between two bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..laws.friction import Contensou, FrictionLaw
from ..model.contacts import Contacts
from .contacts import Coefficient, Gaps, Kind, Member, Slips
from .errors import MechanismError, number
from .frames import Frames
from .geometry import Solid, solid_of
from .pairs import PairFunction, count, pairings
from .parts import Assembly, Pair


@dataclass(frozen=True)
class Touch(Pair):
    """Contact with impact and friction between a and b, each a body with its shape or a `Geometry`, by name.

    - e_N, e_F, mu: restitution and friction coefficients; with mu=None there are no friction rows at all
    - law: the friction law, by default `jaxns.Coulomb()`. `mu` has several entries for laws that take them
    - points: which of the contacts of this pair count, by number; by default all. Those that cannot come to touch cost time

    Parameters: "a-b.e_N", "a-b.e_F", "a-b.mu", with the name of the part in place of "a-b" if it has one.

    >>> import jaxns as ns
    >>> mechanism = ns.Mechanism(
    ...     ns.Body("ball", mass=1.0, position=(0.0, 0.5), shape=ns.shapes.Disk(0.1)),
    ...     ns.Body("floor", fixed=True, shape=ns.shapes.HalfSpace()),
    ...     ns.Touch("ball", "floor", e_N=0.5, mu=0.2),
    ... )
    >>> mechanism.system.g_N(0.0, mechanism.q0).tolist()
    [0.4]
    """

    _: KW_ONLY
    e_N: Any = 0.0
    e_F: Any = 0.0
    mu: Any = 0.0
    law: FrictionLaw | None = None
    points: Sequence[int] | None = None


class Entry(NamedTuple):
    """A member of a kind of pairs, with the contacts that count."""

    alike: tuple[PairFunction, Any]  # what members of a kind share: the function, and the shapes of the sizes
    number: int  # of contacts of the pair
    which: tuple[int, ...]
    member: Member


@dataclass(frozen=True)
class Touching:
    """A part with its contacts: the functions of its pair, each with the contacts that count."""

    label: str
    entries: tuple[Entry, ...]
    law: FrictionLaw | None
    frictionless: bool
    keys: tuple[str, str, str | None]
    mu_shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return sum(len(entry.which) for entry in self.entries)


def read(part: Touch, assembly: Assembly) -> Touching:
    """The contacts of a part; its parameters are added to the assembly."""
    entries = _read_shapes(part, assembly)
    return Touching(part.label, entries, part.law, part.mu is None, *coefficients(part, assembly))


def rolling(part: Any, assembly: Assembly) -> Touching:
    """The contact of a wheel that rolls."""
    entries = _read_shapes(part, assembly)
    if sum(len(entry.which) for entry in entries) != 1:
        raise MechanismError(f"{part.owner}: what rolls must have a single contact, such as a disk or a sphere.")
    return Touching(part.label, entries, None, False, ("", "", None), ())


def all_gaps(frames: Frames, touching: Sequence[Touching]) -> Gaps:
    """The gaps of all parts, in their order."""
    return Gaps(frames, *_ordered(touching))


def _read_shapes(part: Any, assembly: Assembly) -> tuple[Entry, ...]:
    """What can touch between the bodies of a part."""
    solids = [solid_of(assembly, part.owner, name) for name in (part.a, part.b)]
    replace(part, a=solids[0].body, b=solids[1].body, name=part.label).indices(assembly)
    found = pairings(solids[0].shape.kind, solids[1].shape.kind)
    if not found:
        names = [type(solid.shape).__name__ for solid in solids]
        raise MechanismError(f"{part.owner}: there is no contact between {names[0]} and {names[1]}.")
    return _entries(part, assembly, found, solids)


def _entries(
    part: Any,
    assembly: Assembly,
    found: Sequence[tuple[bool, PairFunction]],
    solids: Sequence[Solid],
) -> tuple[Entry, ...]:
    sizes = [solid.shape.parameters() for solid in solids]
    counts = [count(f, sizes[swapped], sizes[not swapped], assembly.d) for swapped, f in found]
    wanted = tuple(range(sum(counts))) if part.points is None else tuple(part.points)
    if not wanted or not all(isinstance(k, (int, np.integer)) and 0 <= k < sum(counts) for k in wanted):
        raise MechanismError(f"{part.owner}: points must be numbers from 0 to {sum(counts) - 1}, got {part.points}.")
    entries, first = [], 0
    for (swapped, f), n in zip(found, counts, strict=True):
        which = tuple(int(k) - first for k in wanted if first <= k < first + n)
        first += n
        order = (1, 0) if swapped else (0, 1)
        first_one, second_one = (solids[k] for k in order)
        frames = [assembly.frames.index(solid.body) for solid in (first_one, second_one)]
        keys = [tuple((name, f"{solids[k].label}.{name}") for name in sizes[k]) for k in order]
        places = (first_one.point, second_one.point), (first_one.turn, second_one.turn)
        if which:
            alike = (f, tuple(np.shape(value) for k in order for value in sizes[k].values()))
            entries.append(Entry(alike, n, which, Member(frames[0], frames[1], keys[0], keys[1], *places)))
    return tuple(entries)


def coefficients(part: Any, assembly: Assembly) -> tuple[tuple[str, str, str | None], tuple[int, ...]]:
    """Keys of e_N, e_F and mu of a part, and the shape of mu."""
    values: dict[str, Any] = {}
    for name in ("e_N", "e_F"):
        values[name] = number(part.owner, name, getattr(part, name), least=0.0)
        if values[name] > 1.0:
            raise MechanismError(f"{part.owner}: {name} must be in [0, 1], got {values[name]}.")
    if part.mu is not None:
        values["mu"] = np.asarray(part.mu, float)
        if values["mu"].ndim > 1 or not np.all(values["mu"] >= 0.0):
            raise MechanismError(f"{part.owner}: mu must be at least 0, got {part.mu}.")
    keys = assembly.add(part.owner, part.label, values)
    return (keys[0], keys[1], keys[2] if part.mu is not None else None), np.shape(values.get("mu", 0.0))


def group(frames: Frames, touching: Sequence[Touching]) -> tuple[list[Contacts], list[str], list[Gaps]]:
    """One `Contacts` for all parts with the same law, and the part of each contact."""
    alike: dict[Any, list[Touching]] = {}
    for one in touching:
        alike.setdefault((one.law, one.frictionless, one.mu_shape), []).append(one)
    groups: list[Contacts] = []
    names: list[str] = []
    gaps: list[Gaps] = []
    for (law, frictionless, _), parts in alike.items():
        kinds, order = _ordered(parts)
        gap = Gaps(frames, kinds, order)
        slip = None if frictionless else Slips(frames, kinds, order, isinstance(law, Contensou))
        counts = tuple(part.size for part in parts)
        e_N, e_F = (Coefficient(tuple(str(part.keys[k]) for part in parts), counts) for k in (0, 1))
        mu = 0.0 if frictionless else Coefficient(tuple(str(part.keys[2]) for part in parts), counts)
        groups.append(Contacts(gap, slip, e_N=e_N, e_F=e_F, mu=mu, law=law))
        names.extend(part.label for part in parts for _ in range(part.size))
        gaps.append(gap)
    return groups, names, gaps


def _ordered(parts: Sequence[Touching]) -> tuple[tuple[Kind, ...], tuple[int, ...]]:
    """Entries gathered by kind, and where the contacts of the parts are then."""
    alike: dict[Any, list[tuple[tuple[int, int], Entry]]] = {}
    for i, part in enumerate(parts):
        for j, entry in enumerate(part.entries):
            alike.setdefault(entry.alike, []).append(((i, j), entry))
    kinds, places, start = [], {}, 0
    for (function, _), own in alike.items():
        count = own[0][1].number
        which = tuple(k * count + w for k, (_, entry) in enumerate(own) for w in entry.which)
        kinds.append(Kind(function, tuple(entry.member for _, entry in own), count, which))
        for where, entry in own:
            places[where] = range(start, start + len(entry.which))
            start += len(entry.which)
    return tuple(kinds), tuple(k for where in sorted(places) for k in places[where])
