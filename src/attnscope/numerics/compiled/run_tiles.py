"""Independent runs side by side: tiles of fixed width for the vector lanes, tiles shared among
threads.

A compiled loop over LANES runs is vectorised. Every tile has the same width (the last is padded by
copies of its last run), so all runs go through the same instructions: a run's bits depend neither
on how many runs there are, nor on its place among them, nor on the number of threads.

Threads are Python threads around compiled code that releases the interpreter lock, started per
call: a standing pool or an OpenMP team would not survive the fork of a worker process, and an
executor's threads would be waited for when the process ends, also for work that nobody wants any
more.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Thread

import numpy as np
from numba import config

__all__ = ["LANES", "from_tiles", "share", "to_tiles"]

LANES = 16  # two AVX-512 or four AVX2 registers of float64
THREADING_SECONDS = (
    1e-3  # seconds of work from which threads pay: starting them takes about a tenth of that
)


def to_tiles(columns: np.ndarray) -> np.ndarray:
    """(rows, runs) -> (tiles, rows, LANES), the last tile padded by its last run."""
    rows, runs = columns.shape
    padded = np.empty((rows, runs + -runs % LANES), columns.dtype)
    padded[:, :runs] = columns
    padded[:, runs:] = columns[:, -1:]
    return np.ascontiguousarray(padded.reshape(rows, -1, LANES).transpose(1, 0, 2))


def from_tiles(tiles: np.ndarray, runs: int) -> np.ndarray:
    """(tiles, rows, LANES) -> (rows, runs): the inverse of `to_tiles`, padding dropped."""
    return np.ascontiguousarray(
        tiles.transpose(1, 0, 2).reshape(tiles.shape[1], -1)[:, :runs]
    )


def share(work: Callable[[int, int], None], tiles: int, seconds: float) -> None:
    """Cover tiles 0..tiles-1 by calls work(begin, end), on threads if that many `seconds` are worth
    it.

    Ctrl-C is raised at once and leaves the threads to finish what they compute, which can take
    minutes. So `work` must write only into arrays that nobody reads after an exception, as those of
    `to_tiles`, which are copies.
    """
    threads = min(config.NUMBA_NUM_THREADS, tiles) if seconds > THREADING_SECONDS else 1
    if threads == 1:
        return work(0, tiles)
    cuts = [tiles * i // threads for i in range(threads + 1)]
    failed: list[BaseException] = []

    def part(begin: int, end: int) -> None:
        try:
            work(begin, end)
        except BaseException as error:
            failed.append(error)

    # daemons: the end of the process does not wait for them either
    others = [Thread(target=part, args=pair, daemon=True) for pair in pairwise(cuts)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    if failed:
        raise failed[0]
