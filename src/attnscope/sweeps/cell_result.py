"""One call of a function, accounted for: its value or its error, and the time it took.

What every place that computes (this process, worker processes, a cluster) gives back.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from attnscope.errors import AttnscopeError

__all__ = ["CellResult", "Outcomes", "Task", "run_cell"]

Task = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class CellResult:
    """What one call gave: a value, or an error in one line with its traceback.
    `error` is "" on success.
    """

    value: Any = None
    seconds: float = 0.0
    error: str = ""
    traceback: str = ""


Outcomes = Generator[tuple[str, CellResult], None, None]


def run_cell(function: Callable[..., Any], call: dict[str, Any]) -> CellResult:
    """Call the function once and account for whatever it does,
    except a request to stop (Ctrl-C).
    """
    start = time.perf_counter()
    try:
        value = function(**call)
    except (Exception, SystemExit) as error:
        return CellResult(
            None, time.perf_counter() - start, _one_line(error), traceback.format_exc()
        )
    return CellResult(value, time.perf_counter() - start)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, AttnscopeError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
