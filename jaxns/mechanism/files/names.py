"""Names of bodies, joints and shapes: those of the file, made different where they have to be."""

from __future__ import annotations

from collections.abc import Iterable

from ..frames import GROUND
from .elements import Element


class Names:
    """Names of one kind, which are there once."""

    def __init__(self, what: str, taken: Iterable[str] = (GROUND,)):
        self.what = what
        self.lines: dict[str, int] = dict.fromkeys(taken, 0)

    def given(self, name: str, element: Element) -> str:
        """A name that the file gives."""
        if not name:
            raise element.error(f"name of a {self.what} is empty.")
        if self.lines.get(name):
            raise element.error(f"there is another {self.what} {name!r} in line {self.lines[name]}.")
        if name in self.lines:
            name = self.free(name)
        self.lines[name] = element.line
        return name

    def free(self, wanted: str) -> str:
        """A name that nobody has yet."""
        k, name = 1, wanted
        while name in self.lines:
            k, name = k + 1, f"{wanted}_{k}"
        self.lines[name] = 0
        return name
