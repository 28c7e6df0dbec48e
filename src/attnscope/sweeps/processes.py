"""A light pool of worker processes in which a killed worker costs one retry of one cell.

Each worker has its own pipe and answers in order, so a death is known at once and names its cell. A
cell that loses its worker `CELL_ATTEMPTS` times fails alone, with a record; one that takes longer than
the time limit is ended with its worker, and fails at once. Workers are spawned, not
forked (a fork of a process with JAX or BLAS threads can hang), with one numerical thread each, and
end by themselves when the parent is gone.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope.sweeps.cell_result import CellResult, Outcomes, Task, run_cell

__all__ = ["run_in_processes"]

# one try and two retries: the first death may be an accident (memory of a neighbour, an operator)
CELL_ATTEMPTS = 3
# A worker whose last cell was shorter than this (seconds) gets its next one in advance, so that it
# need not wait for the parent to wake up (4 ms on a busy machine, measured). Long cells do not
# queue so.
_SHORT_CELL_SECONDS = 0.1
# bytes: what is sent in advance must fit a pipe's buffer, or both ends could wait for each other
_SMALL_CALL_BYTES = 16_384
_LEAVE_SECONDS = 5.0  # seconds an idle worker gets to leave in good order before it is killed

# One thread per worker: N workers with N threads each would be slower, and sums could depend on the
# machine.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    # NPROC is what XLA's CPU client sizes its pool by
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NPROC",
)
_XLA_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def run_in_processes(
    function: Callable[..., Any],
    tasks: Iterator[Task],
    workers: int,
    timeout: float | None = None,
) -> Outcomes:
    """Yield (key, CellResult) for every task as it finishes, with up to `workers` processes."""
    pool = _Pool(function, tasks, timeout)
    try:
        while len(pool.team) < workers and pool.has_more():
            pool.hire()
        while pool.team:
            for worker in wait([worker.pipe for worker in pool.team], pool.patience()):
                yield from pool.hear(worker)  # type: ignore[arg-type]
            yield from pool.end_overdue()
        pool.dismiss(_LEAVE_SECONDS)
    finally:
        pool.dismiss(0.0)


class _Worker:
    """One process, its pipe, and the tasks it holds:
    the first is running, a second waits in the pipe.
    """

    def __init__(self, payload: bytes) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, payload), daemon=True)
        self.tasks = deque[Task]()
        self.ready = False
        self.since = 0.0  # when its first task began, as far as the parent knows
        with (
            _deaf_to_ctrl_c(),
            _single_threaded(),
            _without_main(unless=b"__main__" in payload),
        ):
            self.process.start()
        theirs.close()  # so that the child's death closes the pipe

    def give(self, task: Task) -> None:
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.append(task)
        # it just died: its pipe says so next, and the task is tried again
        with suppress(OSError):
            self.pipe.send(task[1])


class _Pool:
    """The team, the tasks still to do, and how often each has lost a worker."""

    def __init__(
        self, function: Callable[..., Any], tasks: Iterator[Task], timeout: float | None
    ) -> None:
        self.payload = pickle.dumps(function)
        self.timeout = timeout
        self.tasks, self.again = tasks, deque[Task]()
        self.deaths: dict[str, int] = {}
        self.stillborn = 0
        self.team: list[_Worker] = []
        self.leaving: list[_Worker] = []

    def has_more(self) -> bool:
        if not self.again:
            self.again.extend([task for task in [next(self.tasks, None)] if task is not None])
        return bool(self.again)

    def hire(self) -> None:
        self.team.append(_Worker(self.payload))

    def hear(self, pipe: Connection) -> Iterator[tuple[str, CellResult]]:
        """Take one message, or the news of a death, from the worker behind this pipe."""
        worker = next(worker for worker in self.team if worker.pipe is pipe)
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            yield from self.bury(worker)
            return
        if not worker.ready:
            self.welcome(worker, message)
            return
        key, _ = worker.tasks.popleft()
        worker.since = time.monotonic()  # of the next, if it holds one
        # first, so that it computes while the caller stores this outcome
        self.occupy(worker, message.seconds)
        yield key, message

    def welcome(self, worker: _Worker, complaint: str) -> None:
        if complaint:
            raise AttnscopeError(
                f"the workers of sweep cannot load the function: {complaint}."
            )
        worker.ready, self.stillborn = True, 0
        self.occupy(worker, last=_SHORT_CELL_SECONDS)

    def occupy(self, worker: _Worker, last: float) -> None:
        """Give the worker, whose last cell took `last` seconds, its next task or two,
        or let it go.
        """
        if not worker.tasks and self.has_more():
            worker.give(self.again.popleft())
        if (
            last < _SHORT_CELL_SECONDS
            and len(worker.tasks) == 1
            and self.has_more()
            and self.next_is_small()
        ):
            worker.give(self.again.popleft())
        if not worker.tasks:
            worker.pipe.close()  # it sees the end of its pipe and leaves
            self.team.remove(worker)
            self.leaving.append(worker)

    def next_is_small(self) -> bool:
        return len(pickle.dumps(self.again[0][1])) < _SMALL_CALL_BYTES

    def bury(self, worker: _Worker) -> Iterator[tuple[str, CellResult]]:
        worker.process.join(_LEAVE_SECONDS)
        cause = _cause(worker.process.exitcode)
        self.team.remove(worker)
        worker.pipe.close()
        if worker.tasks:
            yield from self.retry(worker.tasks.popleft(), cause)
            self.again.extend(worker.tasks)  # it had not begun
        else:
            self.count_stillborn(cause)
        if self.has_more():
            self.hire()

    def patience(self) -> float | None:
        """Seconds until the first cell is overdue; None: any number."""
        begun = [worker.since for worker in self.team if worker.tasks]
        if self.timeout is None or not begun:
            return None
        return max(0.0, min(begun) + self.timeout - time.monotonic())

    def end_overdue(self) -> Iterator[tuple[str, CellResult]]:
        """End the workers whose cell has taken too long; the cell fails, what waited goes on."""
        if self.timeout is None:
            return
        horizon = time.monotonic() - self.timeout
        for worker in [w for w in self.team if w.tasks and w.since <= horizon]:
            if worker.pipe.poll():
                continue  # it has just answered
            worker.process.kill()
            worker.process.join()
            self.team.remove(worker)
            worker.pipe.close()
            key, _ = worker.tasks.popleft()
            self.again.extend(worker.tasks)
            if self.has_more():
                self.hire()
            error = f"the cell took longer than its {self.timeout:g} s"
            yield key, CellResult(None, self.timeout, error, f"{error}; it was ended.\n")

    def count_stillborn(self, cause: str) -> None:
        self.stillborn += 1
        if self.stillborn >= CELL_ATTEMPTS:
            raise AttnscopeError(
                f"the workers of sweep end before they start ({cause}); "
                'try the call under `if __name__ == "__main__":`, or workers=None.'
            )

    def retry(self, task: Task, cause: str) -> Iterator[tuple[str, CellResult]]:
        deaths = self.deaths[task[0]] = self.deaths.get(task[0], 0) + 1
        if deaths < CELL_ATTEMPTS:
            self.again.append(task)
        else:
            error = f"the cell ended its worker process {deaths} times ({cause})"
            yield (
                task[0],
                CellResult(
                    error=error, traceback=f"{error}; no Python traceback survives this.\n"
                ),
            )

    def dismiss(self, patience: float) -> None:
        """Wait up to `patience` seconds in all for the workers to leave,
        then end those that remain.
        """
        deadline = time.monotonic() + patience
        for worker in self.team + self.leaving:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self.team = []
        self.leaving = []


def _cause(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-exitcode).name}"
    return f"exit code {exitcode}"


@contextmanager
def _without_main(unless: bool) -> Iterator[None]:
    """Keep a worker from running the caller's script again, unless the function is defined there.

    A spawned process first runs the file of `__main__`, whatever it imports, and fails if there is
    none (a script read from a pipe). Finding an empty module in its place, multiprocessing skips
    that.
    """
    main = sys.modules["__main__"]
    if not unless:
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back while a process starts, which inherits that: it reaches the parent after
    this block, and a worker that has not yet come to ignore it not at all (it would print a
    traceback).
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # starting it later, within this block, would let Ctrl-C through again
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Set one thread in the environment that a new process starts from:
    numerical libraries read it once.
    """
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    os.environ["XLA_FLAGS"] = f"{before.get('XLA_FLAGS', '')} {_XLA_ONE_THREAD}".strip()
    try:
        yield
    finally:
        for name in (*_THREAD_VARIABLES, "XLA_FLAGS"):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


def _serve(pipe: Connection, payload: bytes) -> None:
    """The life of a worker: load the function, say so, then answer calls until the pipe closes."""
    # Ctrl-C reaches the whole group: the parent decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        # what the function itself starts hears it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        function = pickle.loads(payload)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("")
    with suppress(EOFError, OSError):
        while True:
            _answer(pipe, run_cell(function, pipe.recv()))


def _answer(pipe: Connection, outcome: CellResult) -> None:
    try:
        content = pickle.dumps(outcome)
    except Exception as error:
        text = f"the result cannot be sent to the parent process ({type(error).__name__}: {error})"
        content = pickle.dumps(
            CellResult(None, outcome.seconds, text, traceback.format_exc())
        )
    pipe.send_bytes(content)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
