"""XML with line numbers, read safely: no document types, no entities, bounded depth.

Elements know what was read of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.parsers import expat

import numpy as np

from .errors import ModelFileError

DEPTH = 100  # nested elements
LARGEST = 1e12  # no length, mass, angle or coefficient is larger


class Element:
    """An element of a file. What nobody reads of it, attributes and children, can be listed afterwards."""

    def __init__(self, tag: str, attributes: Mapping[str, str], file: str, line: int):
        self.tag, self.attributes, self.file, self.line = tag, dict(attributes), file, line
        self.children: list[Element] = []
        self.defaults: tuple[Element, ...] = ()  # whose attributes count where this one has none
        self.known: set[str] = set()
        self.seen = False
        self.hidden = False  # defaults: what is unread of them counts where they apply

    def error(self, message: str) -> ModelFileError:
        name = self.attributes.get("name")
        label = f"<{self.tag}>" if name is None else f"<{self.tag} name={_short(name)}>"
        return ModelFileError(f"{self.file}, line {self.line}, {label}: {message}")

    # What is read ---------------------------------------------------------------------------------------------------

    def all(self, *tags: str) -> Iterator[Element]:
        """The children with one of these tags, in their order."""
        for child in self.children:
            if child.tag in tags:
                child.seen = True
                yield child

    def one(self, tag: str, *, needed: bool = False) -> Element | None:
        """The child with a tag, which must not be there twice."""
        found = list(self.all(tag))
        if len(found) > 1:
            raise found[1].error(f"there is another <{tag}> in line {found[0].line}; one is expected.")
        if needed and not found:
            raise self.error(f"it needs a <{tag}>.")
        return found[0] if found else None

    def skip(self, *names: str) -> None:
        """Attributes, or all of the element, that are understood to have no part in the motion."""
        for source in (self, *self.defaults):
            source.known.update(names or source.attributes)
        if not names:
            self.seen = True
            for child in self.children:
                child.skip()

    def unread(self) -> Iterator[tuple[str, Element]]:
        """Elements and attributes that nobody has read, with where they are."""
        if self.hidden:
            return
        for source in (self, *self.defaults):
            for name in source.attributes:
                if name not in source.known and not name.startswith("xmlns"):
                    yield f"{name} of <{source.tag}>", source
        for child in self.children:
            if child.seen:
                yield from child.unread()
            else:
                yield f"<{child.tag}>", child

    # Attributes -----------------------------------------------------------------------------------------------------

    def has(self, *names: str) -> bool:
        """Whether one of the attributes is there."""
        return any(name in source.attributes for source in (self, *self.defaults) for name in names)

    def text(self, name: str, default: str | None = None) -> str:
        """An attribute; an error if it is neither there nor has a default."""
        given = [source.attributes[name] for source in (self, *self.defaults) if name in source.attributes]
        self.skip(name)
        if not given and default is None:
            raise self.error(f"{name} is missing.")
        return given[0].strip() if given else str(default)

    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str:
        value = self.text(name, default)
        if value not in choices:
            raise self.error(f"{name} must be one of {', '.join(map(repr, choices))}, got {_short(value)}.")
        return value

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def number(self, name: str, default: float | None = None, *, least: float | None = None) -> float:
        if default is not None and not self.has(name):
            self.skip(name)
            return default
        value = float(self.numbers(name, (1,))[0])
        if least is not None and value < least:
            raise self.error(f"{name} must be at least {least:g}, got {_short(self.text(name))}.")
        return value

    def whole(self, name: str, default: int) -> int:
        value = self.number(name, float(default))
        if value != int(value):
            raise self.error(f"{name} must be a whole number, got {_short(self.text(name))}.")
        return int(value)

    def numbers(self, name: str, sizes: Sequence[int] = (), default: Any = None) -> np.ndarray:
        """Finite numbers, as many as one of `sizes` if there are any."""
        if default is not None and not self.has(name):
            self.skip(name)
            return np.asarray(default, float)
        text = self.text(name)
        try:
            values = np.array([_finite(word) for word in text.split()])
        except ValueError as error:
            raise self.error(f"{name} must be finite numbers, {error}.") from None
        if sizes and len(values) not in sizes:
            expected = " or ".join(map(str, sizes))
            raise self.error(f"{name} must have {expected} numbers, got {_short(text)}.")
        return values

    def direction(self, name: str, default: Any = None, size: int = 3) -> np.ndarray:
        """A unit vector."""
        value = self.numbers(name, (size,), default)
        length = float(np.linalg.norm(value))
        if length < 1e-10:
            raise self.error(f"{name} must not be zero, got {_short(self.text(name))}.")
        return value / length

    def color(self, name: str) -> str:
        """A color without its opacity, as "#rrggbb"."""
        return "#" + "".join(f"{round(255 * float(x)):02x}" for x in np.clip(self.numbers(name, (4,)), 0.0, 1.0)[:3])


def _finite(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if "_" in word or not abs(value) <= LARGEST:
        raise ValueError(f"at most {LARGEST:g}; got {_short(word)}")
    return value


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def parse(data: str | bytes, file: str) -> Element:
    """The root element of a document."""
    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    stack: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag, attributes, file, parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)
        if len(stack) > DEPTH:
            raise element.error(f"elements are nested more than {DEPTH} deep.")

    def refuse(name: str, *_: Any) -> None:
        raise ModelFileError(
            f"{file}, line {parser.CurrentLineNumber}, <!DOCTYPE {_short(name)[1:-1]}>: document types and entities are "
            "not read; leave them out."
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: stack.pop() and None
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        where = f", <{stack[-1].tag}>" if stack else ""
        what = expat.errors.messages[error.code]
        raise ModelFileError(f"{file}, line {error.lineno}{where}: this is no well-formed XML: {what}.") from None
    except (ValueError, LookupError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{file}, line {parser.CurrentLineNumber}: this is no well-formed XML: {error}.") from None
    roots[0].seen = True
    return roots[0]
