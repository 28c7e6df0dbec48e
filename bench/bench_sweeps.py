"""Cost of the sweep engine: overhead per cell in-process, and worker processes against a bare pool.

    python bench/bench_sweeps.py [--cells 2000] [--repeats 5]

Targets: at most 5 ms of overhead per cell, two worker processes at no less than 0.9 of the
throughput of a bare multiprocessing.Pool(2) on the same CPU-bound cells, both timed from start to
end, start-up included, in one run.

Throughput needs a quiet machine. Occupancy, the part of the two processes' time spent inside cells,
is printed beside it: other load makes cells longer but leaves occupancy nearly alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from statistics import median

CELLS, WORKERS = 200, 2


def trivial(x: int) -> dict[str, int]:
    return {"y": x + 1}


def busy(x: int) -> dict[str, float]:
    """20 ms of processor time; returns the wall time it took."""
    start = time.perf_counter()
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    return {"seconds": time.perf_counter() - start}


def overhead(cells: int) -> tuple[float, float]:
    """Milliseconds per cell to compute and store trivial cells, then to read them back."""
    # not at the top: worker processes run this file too, and need only `busy`
    from attnscope.sweeps.run import run

    grid = {"x": list(range(cells))}
    with tempfile.TemporaryDirectory(dir=".") as store:
        first = run(trivial, grid, store, progress=False)
        again = run(trivial, grid, store, progress=False)
    assert (first.computed, again.reused) == (cells, cells)
    return 1e3 * first.seconds / cells, 1e3 * again.seconds / cells


def swept() -> list[float]:
    from attnscope.sweeps.run import run

    with tempfile.TemporaryDirectory(dir=".") as store:
        report = run(busy, {"x": list(range(CELLS))}, store, workers=WORKERS, progress=False)
    return report.frame["seconds"].tolist()


def pooled(method: str) -> list[float]:
    with multiprocessing.get_context(method).Pool(WORKERS) as pool:
        return [row["seconds"] for row in pool.map(busy, range(CELLS), chunksize=1)]


def timed(name: str) -> tuple[float, float]:
    """Throughput (cells per second) and occupancy of one way of running the cells."""
    start = time.perf_counter()
    seconds = swept() if name == "sweep" else pooled(name)
    wall = time.perf_counter() - start
    return CELLS / wall, sum(seconds) / (WORKERS * wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    import pandas  # noqa: F401  # its import is not the engine's cost

    write, read = overhead(options.cells)
    print(
        f"in-process, {options.cells} trivial cells: {write:.2f} ms each stored, {read:.2f} ms "
        "each reused"
    )
    ways: dict[str, list[tuple[float, float]]] = {"sweep": [], "fork": [], "spawn": []}
    for turn in range(options.repeats):  # alternating order: other load on the machine drifts
        for name in list(ways)[:: 1 if turn % 2 else -1]:
            ways[name].append(timed(name))
    print(
        f"{CELLS} cells of 20 ms on {WORKERS} processes, {options.repeats} rounds, load "
        f"{os.getloadavg()[0]:.1f}:"
    )
    for name, values in ways.items():
        label = "sweep(workers=2)" if name == "sweep" else f"bare Pool(2), {name}"
        ratios = [mine[0] / theirs[0] for mine, theirs in zip(ways["sweep"], values)]
        print(
            f"  {label:20s} {median(rate for rate, _ in values):6.1f} cells/s, occupancy "
            f"{median(o for _, o in values):.3f};"
            f" sweep/this {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
