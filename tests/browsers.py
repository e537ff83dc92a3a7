"""A browser without a window, for the tests that look at pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import HANGING


def find() -> str:
    """Its path; without one the test is skipped."""
    names = [os.environ.get("JAXNS_BROWSER", ""), "chromium", "chromium-browser", "google-chrome"]
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        pytest.skip("no browser: install chromium, or name one in JAXNS_BROWSER")
    return found


def browse(page: str, folder: Path, *options: str) -> str:
    """What the browser prints of the page at this address; its clock runs as fast as it can."""
    switches = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={folder / 'profile'}"]
    size = ["--window-size=900,700", "--virtual-time-budget=15000"]
    command = [find(), *switches, *size, *options, page]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=HANGING).stdout
