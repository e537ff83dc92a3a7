"""The other distribution that owns the name jaxns."""

from __future__ import annotations

import warnings
from importlib.metadata import distributions
from pathlib import Path

NAMESAKE, OWN = "jaxns", "jaxns-mechanics"


def warn_of_namesake(folder: Path) -> None:
    """Warn where the unrelated distribution `jaxns` is installed in the folder that holds this package: their files mix.

    >>> warn_of_namesake(Path("/nowhere"))
    """
    if next(iter(distributions(name=NAMESAKE, path=[str(folder)])), None) is not None:
        message = (
            f"an unrelated distribution named {NAMESAKE!r} is installed in {folder} together with {OWN!r}; both write into "
            f"the folder {NAMESAKE}/, so that neither is whole. Uninstall both, then install {OWN!r} alone."
        )
        warnings.warn(message, stacklevel=3)
