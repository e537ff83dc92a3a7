"""What the site has beside docs/*.md: pages made of the README and the notebooks, links between them, formulas.

MkDocs calls the functions whose names begin with `on_`.
"""

from __future__ import annotations

import html
import os
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

import latex2mathml.converter
import notebook_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
NAMES = {  # pages made of other files
    "README.md": "tour.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
}
EXECUTE = "JAXNS_SITE_NOTEBOOKS"  # set to "run" for notebooks with their outputs
FENCE = re.compile(r"(^[ ]*```.*?^[ ]*```[^\n]*$|^    \S[^\n]*$)", flags=re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made of files outside of docs/."""
    for source, name in NAMES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=linked(text, source, name)))
    text = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    files.append(
        File.generated(config, "notebooks/index.md", content=linked(text, "notebooks/README.md", "notebooks/"))
    )
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text, pictures = notebook_pages.rendered(path, execute=os.environ.get(EXECUTE) == "run")
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=linked(text, f"notebooks/{path.name}", name)))
        for picture, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{picture}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of pages in docs/ to what has another name on the site."""
    if page.file.generated_by is None:
        markdown = linked(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)
    return outside_code(markdown, spaced)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML, which browsers show without a library."""
    return re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', _mathml, html, flags=re.DOTALL)


def _mathml(match: re.Match[str]) -> str:
    latex = html.unescape(match[2]).strip()[2:-2].strip().replace("{aligned}", "{split}")
    display = "block" if match[1] == "div" else "inline"
    mathml: str = latex2mathml.converter.convert(latex, display=display)
    if "\\" in mathml:
        raise PluginError(f"a formula has a command that is not known: {latex}")
    return mathml


def linked(text: str, source: str, page: str) -> str:
    """The text of a file of the repository with its links as those of a page of the site."""

    def moved(match: re.Match[str]) -> str:
        target, anchor = match[2], match[3] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = place_of(path)
        if place is None:
            return match[0]  # a broken link: MkDocs warns of it
        return f"{match[1]}({posixpath.relpath(place, posixpath.dirname(page) or '.')}{anchor})"

    return outside_code(text, lambda part: re.sub(r"(\])\(([^)#\s]+)(#[^)\s]*)?\)", moved, part))


def place_of(path: str) -> str | None:
    """The place on the site of a file of the repository."""
    if path in NAMES:
        return NAMES[path]
    if path == "notebooks/README.md":
        return "notebooks/index.md"
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        return path.removesuffix(".ipynb") + ".md"
    if path.startswith("notebooks/"):
        return path
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with what is not code changed."""
    return "".join(part if k % 2 else change(part) for k, part in enumerate(FENCE.split(text)))


def spaced(text: str) -> str:
    """Lists have an empty line before them, as this dialect of Markdown asks for."""
    return re.sub(
        r"^(?![ ]*(?:[-*] |\d+\. |\|))(?=.*\S)(.*)\n(?=[ ]*(?:[-*] |\d+\. ))", r"\1\n\n", text, flags=re.MULTILINE
    )
