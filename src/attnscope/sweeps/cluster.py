"""Run cells on a Dask cluster that is already up (local, SLURM through dask-jobqueue, Kubernetes).

Only a window of cells, twice the number of threads, is handed over at a time: that is all a killed
client can lose, and a cluster that grows gets more. Dask itself moves the cells of a dead worker to
another. When a cell has seen several workers die, Dask gives it up, but may so blame a neighbour
that only waited on the same worker; such cells are tried again at the end, one at a time, and only
what then ends workers again fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import current_process
from typing import Any

from attnscope.errors import AttnscopeError, bad
from attnscope.optional import needs
from attnscope.sweeps.cell_result import CellResult, Outcomes, Task, run_cell
from attnscope.sweeps.processes import run_in_processes

__all__ = ["run_on_cluster"]

CONNECT_SECONDS = 10.0  # seconds to reach the scheduler: a live one answers in well under one
_SIZE_SECONDS = 5.0  # seconds between two looks at the size of the cluster


def run_on_cluster(
    function: Callable[..., Any],
    tasks: Iterator[Task],
    address: str,
    timeout: float | None = None,
) -> Outcomes:
    """Yield (key, CellResult) for every task as it finishes on the cluster at `address`."""
    client = _connect(address)
    one = run_cell if timeout is None else partial(_run_limited, timeout)
    suspects: list[Task] = []
    try:
        for task, outcome in _windowed_results(client, one, function, tasks):
            if outcome is None:
                suspects.append(task)
            else:
                yield task[0], outcome
        for suspect in suspects:
            for task, outcome in _windowed_results(client, one, function, iter([suspect])):
                yield task[0], outcome or _killed_workers_result()
    finally:
        client.close(timeout=2)  # drops what is still running there


def _connect(address: str) -> Any:
    needs("distributed", "scheduler of sweep")
    from distributed import Client

    try:
        _check_reachable(address)
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        got = f"{address} ({type(error).__name__})"
        raise bad(
            "scheduler",
            "sweep",
            "the address of a running Dask scheduler",
            got,
            "tcp://host:8786",
        ) from None


def _check_reachable(address: str) -> None:
    """Raise OSError or ValueError unless a Dask server answers at the address within CONNECT_SECONDS.

    The client alone would not do: it waits for ever for a peer that accepts but does not answer,
    and one that failed to connect can, when it is garbage collected, lock up the next (both seen
    with distributed 2026.8; in the second its __del__ waits for a lock held by the thread that
    starts the next client).
    """
    from distributed import Security
    from distributed.comm import connect

    async def greet() -> None:
        comm = await connect(
            address, timeout=CONNECT_SECONDS, **Security().get_connection_args("client")
        )
        comm.abort()

    # a thread of its own: the caller's may run a loop already (notebooks)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(
            lambda: asyncio.run(asyncio.wait_for(greet(), CONNECT_SECONDS))
        ).result()


def _run_limited(
    timeout: float, function: Callable[..., Any], call: dict[str, Any]
) -> CellResult:
    """`run_cell` in a process of its own, which is ended when the time is over: a thread of a Dask
    worker cannot be. It costs the start of a process, a second or so, for each cell.
    """
    cells = run_in_processes(function, iter([("cell", call)]), 1, timeout)
    with _may_have_children(), closing(cells):
        return next(cells)[1]


@contextmanager
def _may_have_children() -> Iterator[None]:
    """Dask's workers are daemons, to which multiprocessing denies children lest they be orphans;
    ours end with their parent.
    """
    config = current_process()._config  # type: ignore[attr-defined]
    before = config.get("daemon")
    config["daemon"] = False
    try:
        yield
    finally:
        config["daemon"] = before


def _windowed_results(
    client: Any,
    one: Callable[..., CellResult],
    function: Callable[..., Any],
    tasks: Iterator[Task],
) -> Iterator[tuple[Task, CellResult | None]]:
    """Keep the window full of calls of `one`; yield each task with its CellResult,
    or None if it saw too many workers die.
    """
    from distributed import as_completed

    held: dict[Any, Task] = {}
    finished, size = as_completed([], loop=client.loop), _Size(client)

    def fill() -> None:
        while len(held) < size.window():
            task = next(tasks, None)
            if task is None:
                return
            # pure=False: a key of Dask's own, so that two sweeps on one cluster do not share a
            # future
            future = client.submit(one, function, task[1], pure=False)
            held[future] = task
            finished.add(future)

    fill()
    while held:
        future = next(finished)
        task = held.pop(future)
        fill()  # first, so that the cluster computes while the caller stores this outcome
        yield task, _future_result(future)


class _Size:
    """The window, from the number of threads of the cluster, looked up now and then."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.seen = -_SIZE_SECONDS
        self.threads = 1

    def window(self) -> int:
        if time.monotonic() - self.seen > _SIZE_SECONDS:
            self.threads = max(1, sum(self.client.nthreads().values()))
            self.seen = time.monotonic()
        return 2 * self.threads


def _future_result(future: Any) -> CellResult | None:
    from distributed import KilledWorker

    try:
        outcome = future.result()
    except KilledWorker:
        return None
    except Exception as error:  # not the function's: run_cell catches those
        if future.cancelled():
            raise AttnscopeError(
                "the scheduler of sweep is gone; what was stored is kept: run the same sweep again "
                "to resume."
            ) from None
        raise AttnscopeError(
            f"a worker of the cluster cannot run the function ({type(error).__name__}: {error}); "
            "try installing attnscope and the function's module where the workers run."
        ) from None
    assert isinstance(outcome, CellResult)
    return outcome


def _killed_workers_result() -> CellResult:
    error = "the cell ended its Dask workers, also when tried alone"
    return CellResult(error=error, traceback=f"{error}; no Python traceback survives this.\n")
