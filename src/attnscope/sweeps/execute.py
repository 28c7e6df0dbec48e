"""Run many calls of one function, in this process, in worker processes, or on a Dask cluster.

`execute(function, tasks, ...)` takes tasks (key, keyword arguments) lazily and yields (key,
CellResult) as they finish, in any order. An exception of the function is an CellResult with its
traceback, not an exception of `execute`. Nothing here knows about grids or stores, so any work that
is "one function, many keyword arguments" can use it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from attnscope.errors import AttnscopeError, bad
from attnscope.sweeps.cell_result import CellResult, Outcomes, Task, run_cell
from attnscope.sweeps.key import is_found_by_name

__all__ = ["CellResult", "Where", "check_where", "check_workers", "execute", "run_cell"]


class Where(NamedTuple):
    """Where cells are computed: here, in `workers` processes, or on the cluster of `scheduler`; and
    for how many seconds each at most.
    """

    workers: int | None = None
    scheduler: str | None = None
    timeout: float | None = None


THIS_PROCESS = Where()


def execute(
    function: Callable[..., Any],
    tasks: Iterator[Task],
    where: Where = THIS_PROCESS,
) -> Outcomes:
    """Yield (key, CellResult) for every task, unordered.
    Closing the generator stops early and ends workers.
    """
    check_where(function, where)
    workers, scheduler, timeout = where
    if scheduler is not None:
        from attnscope.sweeps.cluster import run_on_cluster

        return run_on_cluster(function, tasks, scheduler, timeout)
    if workers is not None:
        from attnscope.sweeps.processes import run_in_processes

        return run_in_processes(function, tasks, workers, timeout)
    return ((key, run_cell(function, call)) for key, call in tasks)


def check_where(function: Callable[..., Any], where: Where) -> None:
    """Refuse a bad place or time limit, or a function that another process could not import."""
    workers, scheduler, timeout = where
    if workers is not None and scheduler is not None:
        raise AttnscopeError(
            "sweep must be given workers or scheduler, got both; try only one of them."
        )
    check_workers(workers, "sweep")
    if scheduler is not None and not isinstance(scheduler, str):
        raise bad(
            "scheduler",
            "sweep",
            "the address of a Dask scheduler",
            scheduler,
            'scheduler="tcp://host:8786"',
        )
    if timeout is not None:
        _check_timeout(timeout, here=workers is None and scheduler is None)
    if (workers is not None or scheduler is not None) and not _is_importable(function):
        raise bad(
            "function",
            "sweep with workers or scheduler",
            "importable by name (module-level, in a .py file)",
            function,
            "moving it to a module",
        )


def check_workers(workers: object, of: str) -> None:
    """Refuse what is no number of processes."""
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int) or workers < 1
    ):
        raise bad(
            "workers",
            of,
            "a whole number >= 1, or None for this process",
            workers,
            "workers=2",
        )


def _check_timeout(timeout: Any, here: bool) -> None:
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (number and 0 < timeout < float("inf")):
        raise bad("timeout", "sweep", "a number of seconds > 0", timeout, "timeout=60")
    if here:
        must = "given together with workers or a scheduler"
        raise bad("timeout", "sweep", must, f"{timeout:g} in this process", "workers=1")


def _is_importable(function: Any) -> bool:
    if isinstance(function, partial):
        return all(
            _is_importable(part) for part in (function.func, *filter(callable, function.args))
        )
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    # else interactive, or a script read from a pipe: nothing to import
    return bool(file) and os.path.exists(str(file)) and is_found_by_name(function)
