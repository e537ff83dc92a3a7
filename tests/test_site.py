"""The site: it builds without a warning, its links lead somewhere, and none of its pages asks the network for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browsers import browse
from processes import HANGING

import jaxns

ROOT = Path(__file__).parents[1]
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
    "use": "href",
}


def build(folder: Path, **environment: str) -> Path:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1", **environment}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=HANGING)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


class Reader(HTMLParser):
    """What a page defines, links to, and loads."""

    def __init__(self, page: Path):
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link":
            self.loaded.append(values["href"])
        if values.get(LOADED.get(tag, "")):
            self.loaded.append(values[LOADED[tag]])


@cache
def read(page: Path) -> Reader:
    return Reader(page)


def pages(site: Path) -> list[Path]:
    found = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert len(found) > 40
    return found


def test_nothing_is_loaded_from_elsewhere(site):
    for page in pages(site):
        for target in read(page).loaded:
            assert not re.match(r"(https?:)?//", target), f"{page.name} loads {target}"
            path = page.parent / unquote(urlsplit(target).path)
            assert target.startswith("data:") or path.is_file(), f"{page.name} lacks {target}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_links_lead_to_pages_and_their_anchors(site):
    for page in pages(site):
        for link in read(page).links:
            parts = urlsplit(link)
            if parts.scheme:
                assert parts.scheme in ("https", "mailto"), f"{page.name}: {link}"
                continue
            target = page.parent / unquote(parts.path) if parts.path else page
            assert target.is_file(), f"{page.relative_to(site)}: {link}"
            if target.suffix == ".html":
                assert unquote(parts.fragment) in read(target.resolve()).anchors, f"{page.relative_to(site)}: {link}"


def test_reference_has_all_public_names_and_shapes_of_fields(site):
    reference = [read(page) for page in (site / "reference").glob("*.html")]
    for name in jaxns.__all__:
        assert any(f"jaxns.{name}" in page.anchors for page in reference), name
    text = re.sub(r"<[^>]+>", "", (site / "reference" / "systems.html").read_text(encoding="utf-8"))
    source = (ROOT / "jaxns" / "simulation" / "trajectory.py").read_text(encoding="utf-8")
    shapes = re.findall(r"^    \w+: Array  # (\([^)]*\))", source, flags=re.MULTILINE)
    assert len(shapes) > 5
    for shape in shapes:
        assert shape in text


def test_formulas_are_mathml(site):
    for page in pages(site):
        text = page.read_text(encoding="utf-8")
        assert "arithmatex" not in text
        assert not any("\\" in formula for formula in re.findall(r"<math.*?</math>", text, flags=re.DOTALL))
    for page in (site / "theory").glob("*.html"):
        assert page.read_text(encoding="utf-8").count("<math") > 3, page.name


def test_gallery_has_a_picture_for_every_system(site):
    for name, number in (("gallery", 12), ("gallery-mechanisms", 4)):
        pictures = [p for p in read(site / f"{name}.html").loaded if p.endswith(".gif")]
        assert len(pictures) >= number
        assert all((site / picture).stat().st_size <= 300_000 for picture in pictures)


def test_search_works_in_a_page_opened_from_the_disk(site, tmp_path):
    address = (site / "index.html").as_uri() + "?q=cradle"
    document = browse(address, tmp_path, "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-gpu", "--dump-dom")
    found = re.findall(r'<a href="[^"]*?([\w-]+\.html)[^"]*" class="md-search-result__link"', document)
    assert {"laws.html", "faq.html"} <= set(found), found


@pytest.mark.slow
def test_notebooks_are_shown_with_their_outputs(tmp_path):
    site = build(tmp_path / "site", JAXNS_SITE_NOTEBOOKS="run")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        page = read(site / "notebooks" / f"{path.stem}.html")
        assert any(picture.endswith(".png") for picture in page.loaded), path.stem
