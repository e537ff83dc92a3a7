"""Progress bars for loops on the host."""

from __future__ import annotations

import sys
import time
import warnings
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds of work after which a bar appears by itself
clock = time.monotonic


def tqdm_bar(**options: Any) -> Any:
    """A bar of tqdm, as a widget where a notebook can show one, else as text.

    tqdm is imported here, when the first bar is drawn, for its import warns in notebooks without widgets.

    >>> tqdm_bar(total=3, disable=True).update(1)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    return tqdm(**options)


class LateBar:
    """A bar for work of `total` units that shows itself to those who wait: after `PATIENCE` seconds, if someone can see it.

    - show: True for a bar from the beginning, False for none, None to decide by time

    Time counts from the first call of `reach`, so that a compilation before it does not count.

    >>> with LateBar(10, show=None, desc="Rattle", unit="step") as bar:
    ...     bar.reach(5)
    """

    def __init__(self, total: int, *, show: bool | None, **options: Any):
        self._options = {"total": total, **options}
        self._may_come = show is None and _someone_watches()
        self._begin: float | None = None
        self._bar = tqdm_bar(**self._options) if show else None

    def reach(self, done: int) -> None:
        """Say that so many units are done."""
        if self._begin is None:
            self._begin = clock()
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif self._may_come and clock() - self._begin > PATIENCE and done < self._options["total"]:
            self._bar = tqdm_bar(**self._options, initial=done)

    def __enter__(self) -> LateBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _someone_watches() -> bool:
    """Whether messages go to a terminal or into a notebook."""
    if "ipykernel" in sys.modules:
        return True
    return sys.stderr is not None and sys.stderr.isatty()
