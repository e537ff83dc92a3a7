"""Every example and every command of the README and of the pages in docs/ runs, in the order of its page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import HANGING

import jaxns

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES.remove(ROOT / "docs" / "extending.md")  # tests/test_extending.py runs it, and looks at what it defines
ELSEWHERE = re.compile("pytest|mkdocs")  # commands that .ci/run and tests/test_site.py run
LONG = {"gallery.md", "gallery-mechanisms.md"}  # seventeen systems; other tests compile nearly all of them
# Installing is what .ci/run does, before it starts these tests; here `.venv` is the environment that they run in.
INSTALLATION = re.compile(r"(python3 -m venv \.venv && )?\.venv/bin/pip install (-e )?'\.\[\w+\]'( && )?")


class Block(NamedTuple):
    """One fenced block of a page."""

    page: str
    number: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [Block(name_of(page), k, language, text) for k, (language, text) in enumerate(found, start=1)]


def name_of(page: Path) -> str:
    return page.name if page.parent == ROOT else str(page.relative_to(ROOT / "docs"))


def continued(found: list[Block]) -> list[Block]:
    """Python blocks that do not import jaxns continue the one before them; together they are one program."""
    joined: list[Block] = []
    for block in found:
        last = joined[-1] if joined else None
        if last and block.language == last.language == "python" and "import jaxns" not in block.text:
            joined[-1] = last._replace(text=f"{last.text}\n{block.text}")
        else:
            joined.append(block)
    return joined


ALL = [b for page in PAGES for b in continued(blocks(page))]
COMMANDS = [b for b in ALL if b.language == "sh"]
RUN = [b for b in ALL if b.language == "python" or (b.language == "sh" and not ELSEWHERE.search(b.text))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One working directory for each page: a command may use a file that an example before it has written."""
    made = {}
    for page in PAGES:
        made[name_of(page)] = tmp_path_factory.mktemp(page.stem)
        (made[name_of(page)] / ".venv").symlink_to(sys.prefix)
    return made


def test_ci_runs_the_test_command_of_the_readme():
    commands = [b.text.strip() for b in COMMANDS if "pytest" in b.text]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text()


def test_pages_have_examples_and_commands():
    assert {b.page for b in RUN} >= {"README.md", "writing-a-system.md", "laws.md", "failure-codes.md"}
    assert {b.language for b in ALL} <= {"python", "sh", "text", ""}  # no other name hides an example from these tests
    assert any(".venv/bin/jaxns" in b.text for b in COMMANDS)


def run(block: Block) -> object:
    marks = [pytest.mark.slow] if block.page in LONG else []
    return pytest.param(block, id=f"{block.page}-{block.number}-{block.language}", marks=marks)


@pytest.mark.parametrize("block", [run(block) for block in RUN])
def test_block_runs(block, folders):
    folder = folders[block.page]
    if block.language == "python":
        (folder / "example.py").write_text(block.text)
        command = [sys.executable, "example.py"]
    else:
        command = ["bash", "-euc", INSTALLATION.sub("", block.text)]
    environment = {**os.environ, "PYTHONPATH": str(Path(jaxns.__file__).parents[1])}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGING)
    assert result.returncode == 0, result.stderr
    assert result.stdout
    assert "nan" not in result.stdout
