"""The layering of docs/architecture.md, read from the imports of the library's own files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import jaxns

PACKAGE = Path(jaxns.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ALLOWED = {  # what each layer may import of jaxns
    "host": {"host", "model"},
    "scene": set(),
    "trace": {"trace"},
    "model": {"model", "solve", "trace"},  # of the solvers linear algebra alone, see below
    "laws": {"laws"},
    "solve": {"solve", "trace"},
    "integrators": {"model", "laws", "solve", "trace", "integrators"},
    "simulation": {"model", "solve", "integrators", "simulation", "host"},
    "models": {"scene", "model", "laws", "models"},
    "mechanism": {"scene", "model", "laws", "mechanism"},
    "sweeps": {"model", "solve", "simulation", "sweeps", "trace", "host"},
}


def module_name(file: Path) -> str:
    parts = ["jaxns", *file.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(file: Path) -> set[str]:
    """Full dotted names of all that a file imports, wherever in the file it does so."""
    package = ["jaxns", *file.relative_to(PACKAGE).parent.parts]
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def imported_layers(file: Path) -> set[str]:
    """The parts of jaxns that a file imports: "model", "solve", and so on; "" for jaxns itself."""
    of_jaxns = [name.split(".") for name in imported_modules(file)]
    return {(parts[1] if len(parts) > 1 else "") for parts in of_jaxns if parts[0] == "jaxns"}


def layer(file: Path) -> str:
    parts = module_name(file).split(".")
    return parts[1] if len(parts) > 1 else ""


def files_of(*layers: str) -> list[Path]:
    files = [file for file in FILES if layer(file) in layers]
    assert files
    return files


def test_relative_and_absolute_imports_are_understood():
    assert imported_layers(PACKAGE / "integrators" / "moreau.py") >= {"model", "solve", "integrators"}
    assert "jaxns.solve.dense" in imported_modules(PACKAGE / "solve" / "inclusion.py")
    assert imported_layers(PACKAGE / "command_line" / "main.py") >= {""}


@pytest.mark.parametrize("name", ALLOWED)
def test_layer_imports_only_what_lies_below_it(name):
    for file in files_of(name):
        assert imported_layers(file) <= ALLOWED[name], module_name(file)


def test_models_use_of_the_solvers_linear_algebra_alone():
    for file in files_of("model"):
        used = {name for name in imported_modules(file) if name.startswith("jaxns.solve")}
        assert used <= {"jaxns.solve.dense"}, module_name(file)


def test_nothing_imports_the_command_line():
    for file in FILES:
        if layer(file) != "command_line":
            assert "command_line" not in imported_layers(file), module_name(file)


def test_import_changes_no_setting_of_jax():
    code = (
        "import jax\n"
        "before = dict(jax.config.values), jax.config.jax_enable_x64\n"
        "import jaxns, jaxns.command_line.main, jaxns.plot\n"
        "after = dict(jax.config.values), jax.config.jax_enable_x64\n"
        "assert before == after, (before, after)\n"
        "assert not jax.config.jax_enable_x64\n"
    )
    command = [sys.executable, "-c", code]
    environment = {"PATH": "", "PYTHONPATH": str(PACKAGE.parent)}  # no JAX_* variables
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_solvers_and_integrators_call_no_linear_algebra_library():
    for file in files_of("solve", "integrators"):
        assert not any("linalg" in m or "scipy" in m for m in imported_modules(file)), module_name(file)
        for node in ast.walk(ast.parse(file.read_text())):
            used = getattr(node, "attr", getattr(node, "id", ""))
            assert used not in ("linalg", "scipy"), f"{module_name(file)}, line {node.lineno}"


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_functions_fit_on_a_screen(file):
    if layer(file) == "reproduce":  # lists of statements of the papers
        return
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            docstring = node.body[0] if ast.get_docstring(node) else None
            prose = docstring.end_lineno - docstring.lineno + 1 if docstring else 0
            length = node.end_lineno - node.lineno + 1 - prose
            assert length <= 80, f"{module_name(file)}, line {node.lineno}: {node.name} has {length} lines"


def test_schemes_can_be_read_beside_their_papers():
    """Files of schemes and of what they state have 150 lines at most, docstrings included."""
    for file in files_of("integrators"):
        if file.parent.name in ("integrators", "energy") and file.name != "base.py":  # base.py: what all of them share
            assert len(file.read_text(encoding="utf-8").splitlines()) <= 150, module_name(file)


def test_slow_variants_are_variants_of_tests_that_exist():
    lines = (Path(__file__).parent / "slow_variants.txt").read_text(encoding="utf-8").splitlines()
    for line in (line for line in lines if not line.startswith("#")):
        file, name = line.split("[")[0].split("::")
        assert f"def {name}(" in (Path(__file__).parent / file).read_text(encoding="utf-8"), line
