"""Notebooks as Markdown."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import nbformat


def rendered(path: Path, execute: bool) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook, and its pictures by name; with outputs if it is executed."""
    notebook = nbformat.read(path, as_version=4)
    if execute:
        run(notebook, path.parent)
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(re.sub(r"^\$\$", "\n$$", cell.source, flags=re.MULTILINE))
        elif cell.cell_type == "code":
            parts.append(f"```python\n{cell.source}\n```")
            for output in cell.outputs:
                name = f"{path.stem}_{len(pictures) + 1}.png"
                parts.append(shown(output, name, pictures))
    return "\n\n".join(parts) + "\n", pictures


def run(notebook: Any, folder: Path) -> None:
    import nbclient

    os.environ["PYTHONPATH"] = str(folder.parent)
    nbclient.NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(folder)}}).execute()


def shown(output: Any, name: str, pictures: dict[str, bytes]) -> str:
    """An output as Markdown; a picture is put into `pictures` under its name."""
    if output.output_type == "stream":
        return "" if output.name == "stderr" else f"```text\n{output.text.rstrip()}\n```"
    data = output.get("data", {})
    if "image/png" in data:
        pictures[name] = base64.b64decode(data["image/png"])
        return f"![output of this cell]({name})"
    if "text/html" in data:
        return '<div class="output">' + re.sub(r"\n\s*\n", "\n", data["text/html"]) + "</div>"
    return f"```text\n{data['text/plain']}\n```" if "text/plain" in data else ""
