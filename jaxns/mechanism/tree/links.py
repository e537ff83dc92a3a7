"""Which joints make the tree: one link for each moving body, the joint that leads to it from the ground."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..errors import MechanismError
from ..frames import Frames
from ..joints import Joint
from ..parts import Assembly

# How many entries of q and of u a link has, in the plane and in space. A body that no joint leads to is `free`: it hangs
# on the ground by a joint that leaves all of its coordinates.
ENTRIES: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "free": ((3, 3), (7, 6)),
    "revolute": ((1, 1), (1, 1)),
    "prismatic": ((1, 1), (1, 1)),
    "cylindrical": ((0, 0), (2, 2)),
    "universal": ((0, 0), (2, 2)),
    "spherical": ((0, 0), (4, 3)),
    "fixed": ((0, 0), (0, 0)),
}

READS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # parameters of a joint that makes a link
    "revolute": (("angle",), ("axis_a", "axis_b", "side_b")),
    "prismatic": (("axis_a", "angle"), ("axis_a", "turn")),
    "cylindrical": ((), ("axis_a", "axis_b", "side_b")),
    "universal": ((), ("axis_a", "axis_b", "side_a", "side_b")),
    "spherical": ((), ("turn",)),
    "fixed": (("angle",), ("turn",)),
}


class Link(NamedTuple):
    """A joint from frame a to frame b, one of which is the moving body `child`; `label` has its parameters."""

    kind: str
    a: int
    b: int
    child: int
    label: str | None

    @property
    def parent(self) -> int:
        return self.a if self.child == self.b else self.b

    @property
    def sign(self) -> float:
        """+1 where the joint leads from parent to child, −1 where it was given the other way round."""
        return 1.0 if self.child == self.b else -1.0


def links_of(frames: Frames, joints: Sequence[Joint], assembly: Assembly) -> tuple[tuple[Link, ...], tuple[Joint, ...]]:
    """A link for each moving body, in their order, and the joints that are links.

    The tree grows from the ground and the fixed bodies, nearest bodies first, joints in the order of the parts; then from
    the first body that is left, which is free. A joint between two bodies that are reached already closes a loop.
    """
    ends = []
    for joint in joints:
        joint.check(assembly)
        if joint.link and joint.clearance is None and not joint.loop:
            ends.append((joint, *joint.indices(assembly)))
    moving = len(frames.moving)
    ground = frames.index("ground")
    reached = list(range(moving, ground + 1))
    found: dict[int, Link] = {}
    used: list[Joint] = []
    while True:
        for frame in reached:  # grows while it is read
            for joint, a, b in ends:
                child = b if a == frame else a
                if frame in (a, b) and child < moving and child not in found:
                    found[child] = Link(joint.link, a, b, child, joint.label)
                    used.append(joint)
                    reached.append(child)
        left = [k for k in range(moving) if k not in found]
        if not left:
            break
        found[left[0]] = Link("free", ground, left[0], left[0], None)
        reached.append(left[0])
    links = tuple(found[k] for k in range(moving))
    if all(link.kind == "fixed" for link in links):
        raise MechanismError("Mechanism: every body is fixed to the ground, so nothing has coordinates.")
    return links, tuple(joint for joint in joints if any(joint is one for one in used))


def tree_parameters(joint: Joint, d: int) -> tuple[str, ...]:
    """What a joint reads beside its points when it is a link."""
    return ("point_a", "point_b", *READS[joint.link][d - 2])


def keys(links: Sequence[Link], name: str) -> list[Any]:
    """The parameter of each link, None for free ones."""
    return [None if link.label is None else f"{link.label}.{name}" for link in links]
