"""Where files come from: a model as a path or a text, and the files beside it, never out of its folder."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path

from .elements import Element, parse
from .errors import ModelFileError, ModelFileWarning

LARGEST_FILE = 50_000_000  # bytes


class Source:
    """A model file with its folder.

    - path_or_text: a path, or the XML itself, which begins with "<"
    - folder: where all files lie that the model may name; by default that of the file. A text has none unless it is given
    """

    def __init__(self, path_or_text: str | Path, folder: str | Path | None = None):
        text = path_or_text if isinstance(path_or_text, str) else ""
        self.folder = None if folder is None else Path(folder).resolve()
        self.notes: list[tuple[str, Element]] = []
        if text.lstrip("\ufeff \t\r\n").startswith("<"):
            self.name, self.here = "text", self.folder
            self.root = parse(text.lstrip("\ufeff \t\r\n") if "<?xml" in text[:80] else text, self.name)
            return
        if isinstance(path_or_text, str) and (not text.strip() or "\n" in text):
            raise ModelFileError(f"text, line 1: a path, or XML that begins with '<', is expected; got {text[:60]!r}.")
        path = Path(path_or_text)
        self.name = path.name
        try:
            whole = path.resolve()
            data = _read(whole)
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path}: it cannot be read: {error}.") from None
        self.here = whole.parent
        self.folder = self.folder or whole.parent
        self.root = parse(data, self.name)

    def path(self, name: str, element: Element, below: str = "") -> Path:
        """The file that an element names, which must lie in the folder of the model; `below` is a folder in it."""
        if self.here is None or self.folder is None:
            raise element.error(f"a model from a text reads no files, such as {name!r}; give folder=…")
        match = re.match(r"(package|file|model)://", name)
        plain = name[match.end() :] if match else name
        if "://" in plain or "\0" in plain:
            raise element.error(f"{name[:60]!r} is no file in the folder of the model.")
        places = [self.here / below / plain]
        if match:  # package://name/rest: the package is the folder, or a folder in it
            places = [self.folder / plain, self.folder / Path(*Path(plain).parts[1:])]
        try:
            whole = [place.resolve() for place in places]
            inside = [place for place in whole if place.is_relative_to(self.folder)]
            found = [place for place in inside if place.is_file()]
        except (OSError, RuntimeError, ValueError) as error:
            raise element.error(f"{name[:60]!r} is no file: {error}.") from None
        if not inside:
            raise element.error(
                f"{name[:60]!r} lies outside of the folder of the model, {self.folder.name!r}; folder=… widens it."
            )
        if not found:
            raise element.error(f"there is no file {name[:60]!r} in the folder of the model.")
        return found[0]

    def bytes(self, name: str, element: Element, below: str = "") -> bytes:
        """What is in the file that an element names."""
        path = self.path(name, element, below)
        try:
            return _read(path)
        except (OSError, ValueError) as error:
            raise element.error(f"{name[:60]!r} cannot be read: {error}.") from None

    def note(self, what: str, element: Element) -> None:
        """Something that is left out."""
        self.notes.append((what, element))

    def report(self, roots: Iterable[Element], strict: bool) -> None:
        """One warning of all that was left out, or an error."""
        found: dict[str, list[Element]] = {}
        for what, element in [*self.notes, *(note for root in roots for note in root.unread())]:
            found.setdefault(what, []).append(element)
        if not found:
            return
        listed = "; ".join(f"{what} ({self._lines(elements)})" for what, elements in found.items())
        message = f"{self.name}: not understood and left out: {listed}."
        if strict:
            raise ModelFileError(message)
        warnings.warn(message, ModelFileWarning, stacklevel=3)

    def _lines(self, elements: list[Element]) -> str:
        """The first lines of elements, with the name of an included file."""
        places = sorted({("" if e.file == self.name else f"{e.file} ", e.line) for e in elements})
        shown = ", ".join(f"{file}{line}" for file, line in places[:4]) + ", …" * (len(places) > 4)
        return ("line " if len(places) == 1 else "lines ") + shown


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise OSError("there is no such file")
    if path.stat().st_size > LARGEST_FILE:
        raise OSError(f"it has more than {LARGEST_FILE // 1_000_000} MB")
    return path.read_bytes()
