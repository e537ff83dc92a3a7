"""Notebooks: each runs from top to bottom without an error, and git holds none of their outputs."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest
from processes import HANGING

import jaxns

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_they_are_numbered_in_order():
    assert [p.name[:3] for p in NOTEBOOKS] == [f"{k:02d}_" for k in range(1, 12)]


def test_outputs_are_stripped(notebook):
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


def test_runs_and_draws(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(jaxns.__file__).parents[1]))
    client = nbclient.NotebookClient(notebook, timeout=HANGING, resources={"metadata": {"path": tmp_path}})
    done = client.execute()  # raises CellExecutionError where a cell fails
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
