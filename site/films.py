"""The films of the gallery: runs the code of its pages, and saves each `film` under the name of the picture above it.

python site/films.py [name …]
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("gallery.md", "gallery-mechanisms.md")
LARGEST = 300_000  # bytes


def main(names: list[str]) -> None:
    os.chdir(tempfile.mkdtemp())  # for what the code itself saves
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        space: dict[str, object] = {}
        entries = re.findall(r"\((images/gallery/\w+\.gif)\).*?^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for k, (picture, code) in enumerate(entries):
            if names and k and Path(picture).stem not in names:
                continue  # the first entry of a page has its imports
            exec(compile(code, page, "exec"), space)
            film, path = space["film"], DOCS / picture
            film.save(path, width=320)  # type: ignore[attr-defined]
            size = path.stat().st_size
            print(f"{picture}: {size // 1000} kB")
            if size > LARGEST:
                raise SystemExit(f"{picture} has {size} bytes: ask for fewer frames, by fps= or speed=.")


if __name__ == "__main__":
    main(sys.argv[1:])
