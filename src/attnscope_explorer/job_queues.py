"""Work for many clients: each request waits for a bounded time, and nobody waits for somebody
else's long computation.

A lane does its jobs one after the other in one thread, so that several tabs queue up instead of
fighting for cores and memory. A job that takes longer than `HANDOVER_SECONDS` seconds keeps its thread, but
a new thread takes over the queue; at most `spare` jobs are set aside so, and with all of them in
use the queue waits. A request that has waited for its time gets None, and finds the result when it
asks again. Work that is asked for twice is done once.

notation: the front is the thread that takes jobs from the queue.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any

__all__ = ["WAIT_SECONDS", "Job", "Lane"]

# seconds a job may hold up the queue: about what most answers take, and few threads keep memory in
# one place
HANDOVER_SECONDS = 0.1
POLL_SECONDS = (
    0.05  # seconds between two looks of those who wait at whether the queue is held up
)
# seconds a request waits before it says that it will come back: browsers and people wait longer
WAIT_SECONDS = 3.0
KEPT_JOBS = 32  # finished jobs nobody has come back for; a figure is some 1 MB


class Job:
    """One piece of work: its outcome once `done` is set, and whether it holds up the queue."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.done = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None
        self.started = 0.0  # when its thread began with it
        self.aside = False  # another thread has taken over the queue

    def run(self) -> None:
        try:
            self.value = self.work()
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def result(self) -> Any:
        """What the work gave, or its exception."""
        if self.error is not None:
            raise self.error
        return self.value


class Lane:
    """A queue of jobs by key; see the module docstring."""

    def __init__(self, name: str, spare: int) -> None:
        self.name = name
        self.spare = spare
        self.change = threading.Condition()
        self.queue: deque[Job] = deque()
        self.jobs: OrderedDict[Hashable, Job] = OrderedDict()
        self.current: Job | None = None  # of the front
        self.aside = 0
        self.staffed = False

    def ask(
        self, key: Hashable, work: Callable[[], Any], wait: float | None = None
    ) -> Job | None:
        """The finished job of this key, begun now unless it was before;
        None if `wait` seconds (None: any) were not enough.
        """
        with self.change:
            job = self.jobs.get(key)
            if job is None:
                job = self.jobs[key] = Job(work)
                self.queue.append(job)
                self.forget()
                self.staff()
        waited = 0.0
        while not job.done.wait(
            POLL_SECONDS if wait is None else min(POLL_SECONDS, wait - waited)
        ):
            self.relieve()
            waited += POLL_SECONDS
            if wait is not None and waited >= wait:
                return None
        with self.change:
            if self.jobs.get(key) is job:
                del self.jobs[key]
        return job

    def busy(self) -> bool:
        """Whether something is being computed."""
        with self.change:
            return self.current is not None or self.aside > 0

    def forget(self) -> None:
        """Drop the oldest finished jobs beyond KEPT_JOBS."""
        finished = [key for key, job in self.jobs.items() if job.done.is_set()]
        for key in finished[: max(0, len(finished) - KEPT_JOBS)]:
            del self.jobs[key]

    def staff(self) -> None:
        """See to it that there is a front, and wake it."""
        if not self.staffed:
            self.staffed = True
            threading.Thread(
                target=self.serve, name=f"attnscope-{self.name}", daemon=True
            ).start()
        self.change.notify()

    def relieve(self) -> None:
        """Let another thread take over the queue from a job that holds it up,
        as long as there is one to spare.
        """
        with self.change:
            job = self.current
            if (
                job is None
                or self.aside >= self.spare
                or time.monotonic() < job.started + HANDOVER_SECONDS
            ):
                return
            job.aside = True
            self.aside += 1
            self.current = None
            self.staffed = False
            self.staff()

    def serve(self) -> None:
        """The life of a thread: one job after the other, until one of them is set aside."""
        while True:
            with self.change:
                while not self.queue:
                    self.change.wait()
                job = self.current = self.queue.popleft()
                job.started = time.monotonic()
            job.run()
            with self.change:
                if job.aside:
                    self.aside -= 1
                    return
                self.current = None
