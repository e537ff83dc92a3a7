"""How docstrings and comments of the code become the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?!\s*\n).*)*", flags=re.MULTILINE)


class Docstrings(griffe.Extension):
    """Comments behind fields, such as `points: Array  # (…, k, d)`, are their descriptions; examples are code."""

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **kwargs: Any) -> None:
        if attr.docstring is not None or not attr.lineno:
            return
        comment = comment_of(attr.filepath.read_text(encoding="utf-8").splitlines(), attr.lineno, attr.endlineno)  # type: ignore[union-attr]
        if comment:
            attr.docstring = griffe.Docstring(comment, parent=attr)

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None and not obj.is_attribute:
            obj.docstring.value = as_markdown(obj.docstring.value)


def comment_of(lines: list[str], first: int, last: int | None) -> str:
    """The comment at the end of a statement in the lines first … last, counted from one, with lines that continue it."""
    last = last or first
    found = re.search(r"\s{2,}# (.*)$", lines[last - 1])
    if not found:
        return ""
    words = [found[1]]
    for line in lines[last:]:
        more = re.fullmatch(r"\s+# (.*)", line)
        if not more:
            break
        words.append(more[1])
    return " ".join(words)


def as_markdown(text: str) -> str:
    """Examples fenced, and empty lines before lists."""
    text = re.sub(r"^(?![ ]*- )(.*\S.*)\n(?=- )", r"\1\n\n", text, flags=re.MULTILINE)
    return EXAMPLE.sub(lambda m: f"```python\n{m[0]}\n```", text)
