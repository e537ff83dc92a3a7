"""Progress bars for loops on the host, and a word to those who wait for a compilation."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from types import TracebackType
from typing import Any

PATIENCE = 2.0  # seconds of work after which a bar appears by itself
SILENCE = 0.5  # seconds after which a notice says what one waits for
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

    - show: True for a bar at once, False for none, None to decide by time

    Time counts from the first call of `reach`, so that a compilation before it does not count; before it there is no bar.

    >>> with LateBar(10, show=None, desc="Rattle", unit="step") as bar:
    ...     bar.reach(5)
    """

    def __init__(self, total: int, *, show: bool | None, **options: Any):
        self._options = {"total": total, **options}
        self._at_once, self._may_come = show, show is None and _someone_watches()
        self._begin: float | None = None
        self._bar: Any = None

    def reach(self, done: int) -> None:
        """Say that so many units are done."""
        if self._begin is None:
            self._begin = clock()
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif self._at_once or (self._may_come and clock() - self._begin > PATIENCE and done < self._options["total"]):
            self._bar = tqdm_bar(**self._options, initial=done)

    def __enter__(self) -> LateBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


class Notice:
    """A line that says what is under way where nothing can be counted: it comes after `SILENCE` seconds, then goes.

    - show: False for none; None where someone can see it, True also elsewhere

    >>> with Notice("compiling", show=None) as notice:
    ...     notice.close()  # also before the end
    """

    def __init__(self, text: str, *, show: bool | None):
        self._text, self._bar = text, None
        self._timer: threading.Timer | None = None
        if show or (show is None and _someone_watches()):
            self._timer = threading.Timer(SILENCE, self._appear)
            self._timer.daemon = True
            self._timer.start()

    def _appear(self) -> None:
        self._bar = tqdm_bar(desc=self._text, bar_format="{desc}", leave=False)

    def close(self) -> None:
        """It is done: the line goes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be appearing at this moment
            self._timer = None
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Notice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _someone_watches() -> bool:
    """Whether messages go to a terminal or into a notebook."""
    if "ipykernel" in sys.modules:
        return True
    return sys.stderr is not None and sys.stderr.isatty()
