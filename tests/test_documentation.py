"""Docstrings and pages: examples in docstrings run, public names have them, and links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import jax.numpy as jnp
import pytest

import jaxns

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "notebooks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = ["jaxns", *(m.name for m in pkgutil.walk_packages(jaxns.__path__, "jaxns."))]
PUBLIC = [name for name in jaxns.__all__ if not inspect.ismodule(getattr(jaxns, name))]


@pytest.mark.parametrize("name", MODULES)
def test_doctests_pass(name):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs={"jnp": jnp}, optionflags=flags).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_has_a_runnable_example(name):
    docstring = inspect.getdoc(getattr(jaxns, name)) or ""
    assert doctest.DocTestParser().get_examples(docstring), docstring


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_of_pages_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target
