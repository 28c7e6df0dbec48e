"""Progress bars with an estimate of the time left.

One name, `progress`: a context manager that yields a bar with `advance(n)`. It draws on stderr with
rich, which is imported only when something is drawn; it stays silent when stderr is not a terminal
or when told so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Bar", "progress"]


class Bar:
    """What `progress` yields. Without a rich display behind it,
    advancing costs nothing and shows nothing.
    """

    def __init__(self, display: Any = None, task: Any = None) -> None:
        self._display = display
        self._task = task

    def advance(self, n: float = 1) -> None:
        """Count `n` more units as done."""
        if self._display is not None:
            self._display.advance(self._task, n)

    def show(self, description: str, done: float) -> None:
        """Say what is being done, with so many units done in all."""
        if self._display is not None:
            self._display.update(self._task, description=description, completed=done)


@contextmanager
def progress(total: int, description: str, disable: bool = False) -> Iterator[Bar]:
    """Show `description`, a bar, done/total, elapsed time and time left,
    for the length of the block.
    """
    if disable or total == 0 or not _stderr_is_terminal():
        yield Bar()
        return
    with _display() as display:
        yield Bar(display, display.add_task(description, total=total))


def _stderr_is_terminal() -> bool:
    # sys.stderr is None under pythonw, and closed or replaced under some test runners
    return bool(sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty())


def _display() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
