"""Functions that the sweep tests run in other processes, where only importable code can go."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

KILL_TEST_GRID = {"x": list(range(500)), "scale": [0.1]}


def square(x, scale=1.0):
    return {"square": scale * x * x}


def noisy(x, seed):
    return {"draw": random.Random(seed).random() + x}


def logged(x, scale, log=None, seed=0):
    """A little work that leaves a line for each execution (one atomic append)."""
    if log := log or os.environ.get("SWEEP_LOG"):
        _append(log, f"{x}\n")
    time.sleep(60 if str(x) == os.environ.get("SWEEP_WAIT") else 0.0005)
    return [
        {"part": part, "value": scale * random.Random(seed + part).random()}
        for part in range(2)
    ]


def fails_on_three(x):
    if x == 3:
        raise ZeroDivisionError("three is refused")
    return {"y": x}


def fails_while(x, flag):
    """Fails as long as the flag file exists."""
    if x == 1 and Path(flag).exists():
        raise RuntimeError("the flag is up")
    return {"y": x}


def poison(x, log):
    """Ends its process without a word on x = 2."""
    _append(log, f"{x}\n")
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return {"y": x}


def killed_once(x, log):
    """The first execution of x = 2 is killed, as by an operator or the kernel."""
    before = Path(log).read_text().split() if Path(log).exists() else []
    _append(log, f"{x}\n")
    if x == 2 and "2" not in before:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"y": x}


def slow(x, log):
    _append(log, f"{os.getpid()}\n")
    time.sleep(0.3)
    return {"y": x}


def held(x, log):
    """Lasts until its process is ended."""
    _append(log, f"{os.getpid()}\n")
    time.sleep(3600)
    return {"y": x}


def environment(x):
    return {
        name: os.environ.get(name, "")
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS")
    }


def returns_generator(x):
    return (i for i in range(x))


def _append(path, text):
    with open(path, "a") as file:
        file.write(text)


def die_at(point, count):
    """Arrange that this process kills itself at the `count`-th passage of a point of a write."""
    from attnscope.sweeps import store

    passages = [0]

    def due():
        passages[0] += 1
        return passages[0] == count

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    replace = os.replace
    write = store._write

    def killing_replace(source, target):
        if point == "before-replace" and due():
            die()
        replace(source, target)
        if point == "after-replace" and due():
            die()

    def killing_write(path, content):
        if point == "half-written" and due():
            path.write_bytes(content[: len(content) // 2])
            die()
        write(path, content)

    os.replace = killing_replace
    store._write = killing_write


def die_soon(point, seconds):
    """Kill this process so many seconds from now, or from when the log has grown;
    no other process has to wake up for it.
    """
    log = Path(os.environ["SWEEP_LOG"])
    size = lambda: log.stat().st_size if log.exists() else 0
    before = size()

    def die():
        while point == "after-a-cell" and size() == before:
            time.sleep(0.001)
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die, daemon=True).start()


def main(store, output="", workers="", point="", count="0"):
    """One sweep, run as its own process by the tests that kill it."""
    from attnscope.sweeps.run import run

    print(
        "start", flush=True
    )  # before the clock of its end: on a busy machine that is soon over
    if point == "wait":
        # a cell that lasts until somebody ends it: the sweep cannot be over before
        os.environ["SWEEP_WAIT"] = count
    elif point in ("after-a-cell", "after-the-start"):
        die_soon(point, float(count))
    elif point:
        die_at(point, int(count))
    report = run(logged, KILL_TEST_GRID, store, workers=int(workers) if workers else None)
    if output:
        report.frame.to_csv(output, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])


def endless_on_two(x, log=""):
    """Never ends on x = 2, deaf to everything but SIGKILL."""
    if log:
        _append(log, f"{x}\n")
    while x == 2:
        time.sleep(60)
    return {"y": x}
