"""What is released: wheel and sdist are whole, their metadata are in order, and importing jaxns is light."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from processes import HANGING

import jaxns

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SMOKE = """
import sys
from pathlib import Path
import jaxns as ns
assert Path(ns.__file__).is_relative_to(sys.argv[1]), ns.__file__
ball = ns.models.bouncing_ball()
traj = ns.simulate(ball.system, ns.Moreau(), ball.q0, ball.u0, dt=0.01, t1=0.2)
assert bool(traj.ok) and ns.animate(ball, traj).html().startswith("<!DOCTYPE html>")
assert all(getattr(ns, name) is not None for name in ns.__all__)
"""


def python(*arguments: str | Path, path: Path | None = None, folder: Path = ROOT) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGING)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder of the sdist, made of a copy of the tree, and of the wheel, made of the sdist."""
    for tool in ("build", "twine"):
        pytest.importorskip(tool)
    if int(pytest.importorskip("setuptools").__version__.split(".")[0]) < 77:
        pytest.skip("setuptools of the environment is older than what pyproject.toml asks for")
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, source)
    shutil.copytree(ROOT / "jaxns", source / "jaxns", ignore=shutil.ignore_patterns("__pycache__"))
    python("-m", "build", "--no-isolation", "--outdir", made, folder=source)
    return made


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """A folder with the wheel alone, to be put in front of the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", folder]
    python("-m", "pip", "install", *options, *built.glob("*.whl"))
    return folder


def test_wheel_and_sdist_pass_the_checks_of_an_index(built):
    version = jaxns.__version__
    names = {f"jaxns_mechanics-{version}.tar.gz", f"jaxns_mechanics-{version}-py3-none-any.whl"}
    assert {path.name for path in built.iterdir()} == names
    assert python("-m", "twine", "check", "--strict", *built.iterdir()).count("PASSED") == 2
    with tarfile.open(next(built.glob("*.tar.gz"))) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md"} <= inside


def test_wheel_holds_every_file_of_the_package(installed):
    def files(package: Path) -> set[str]:
        return {str(p.relative_to(package)) for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"}

    assert files(installed / "jaxns") == files(ROOT / "jaxns")
    assert {"py.typed", "__init__.pyi"} <= files(installed / "jaxns")


def test_installed_wheel_works(installed, tmp_path):
    python("-W", "error", "-c", SMOKE, installed, path=installed, folder=tmp_path)
    assert jaxns.__version__ in python("-m", "jaxns.command_line.main", "--version", path=installed, folder=tmp_path)


def test_namesake_in_the_same_folder_is_named(installed, tmp_path):
    folder = tmp_path / "mixed"
    shutil.copytree(installed, folder)
    quiet = python("-c", "import jaxns", path=folder, folder=tmp_path)
    assert quiet == ""
    metadata = folder / "jaxns-2.6.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: jaxns\nVersion: 2.6.0\n")
    told = python("-c", "import jaxns", path=folder, folder=tmp_path)
    assert "unrelated distribution" in told
    assert "<string>:1: UserWarning" in told  # the line that imports it


def test_import_is_light():
    """Neither JAX nor numpy nor anything else that takes long; each name imports what it needs when it is first used."""
    loaded = python("-c", "import sys, jaxns; print(*sys.modules)", path=ROOT).split()
    heavy = {"jax", "jaxlib", "numpy", "optax", "tqdm", "matplotlib", "anywidget", "jaxns.reproduce", "jaxns.model"}
    assert not heavy & set(loaded)
    needed = python("-c", "import sys, jaxns; jaxns.simulate; print(*sys.modules)", path=ROOT).split()
    assert "jax" in needed
    assert not {"optax", "tqdm", "matplotlib", "anywidget", "jaxns.reproduce", "jaxns.records"} & set(needed)


def test_names_at_run_time_are_those_of_the_type_checkers():
    tree = ast.parse((ROOT / "jaxns" / "__init__.pyi").read_text())
    assigned = next(node for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(assigned.value)) == jaxns.__all__
    assert {name for name in dir(jaxns) if not name.startswith("_")} == set(jaxns.__all__)
    assert not hasattr(jaxns, "simulat")


def test_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == jaxns.__version__
    assert citation["license"] == PROJECT["project"]["license"]
    newest = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest[1] == jaxns.__version__
    jax = next(d for d in PROJECT["project"]["dependencies"] if d.startswith("jax>"))
    assert "," in jax  # an upper bound: traces are read by names that a release of JAX may change
