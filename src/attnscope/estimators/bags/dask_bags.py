"""Bags on dask: arrays read block by block, and files read by the workers, one partition per file.

A dask array (n, L, d) is cut along n. One block at a time is computed and dropped, so memory is one
block plus what dask needs to make it. Blocks that are also cut along L or d are joined first. For
bags in files (`open_bags(...).to_dask()`) only the paths are sent: a worker opens its file and
returns the sums or answers of its bags. Only this module of the package imports dask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags.file_formats import Entry

__all__ = ["DaskBags", "DaskBatches", "dask_batches", "is_dask"]

# the results of one wave are in memory together; this many files keep the workers busy
FILES_PER_WAVE = 32


def is_dask(x: Any) -> bool:
    """Is this a dask array? Checked without importing dask, which a caller with one has imported."""
    return type(x).__module__.partition(".")[0] == "dask" and hasattr(x, "blocks")


class DaskBatches:
    """Batches (bags, y) or (bags, y, sample_weight) of blocks of a dask array;
    may be read any number of times.
    """

    def __init__(self, bags: Any, per_bag: tuple[Any, ...]) -> None:
        self.bags = bags
        self.per_bag = per_bag
        self.edges = np.concatenate([[0], np.cumsum(bags.chunks[0])])

    def __len__(self) -> int:
        return len(self.edges) - 1

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        import dask

        for i, (start, stop) in enumerate(zip(self.edges[:-1], self.edges[1:])):
            if stop > start:  # an empty block has nothing to add
                yield dask.compute(
                    self.bags.blocks[i], *(x[start:stop] for x in self.per_bag)
                )


def dask_batches(bags: Any, y: Any, sample_weight: Any = None) -> DaskBatches:
    """The blocks of a dask array of bags (n, L, d) with labels (n,) and weights (n,), dask or
    NumPy, as batches.

    >>> import dask.array as da
    >>> batches = dask_batches(da.zeros((10, 3, 2), chunks=(4, 3, 1)), np.arange(10.0))
    >>> [b.shape for b, y in batches]
    [(4, 3, 2), (4, 3, 2), (2, 3, 2)]
    """
    of = "dask_batches"
    if not is_dask(bags) or bags.ndim != 3:
        got = f"shape {bags.shape}" if hasattr(bags, "shape") else type(bags).__name__
        raise bad("bags", of, "a dask array (n, L, d)", got)
    if np.isnan(bags.shape).any():
        raise AttnscopeError(
            "bags of dask_batches must have known chunk sizes, got unknown ones; try "
            "bags.compute_chunk_sizes()."
        )
    per_bag = tuple(
        x if is_dask(x) else np.asarray(x)
        for x in ((y,) if sample_weight is None else (y, sample_weight))
    )
    for name, x in zip(("y", "sample_weight"), per_bag):
        if x.shape != (bags.shape[0],):
            raise bad(name, of, f"one per bag, shape ({bags.shape[0]},)", f"shape {x.shape}")
    return DaskBatches(bags.rechunk({1: -1, 2: -1}), per_bag)


class BagsInFiles(Protocol):
    """The part of `OpenBags` that is used here: the file of each bag, and subsets of unread bags."""

    entries: list[Entry]
    labels: np.ndarray | None
    weight: np.ndarray | None

    def __len__(self) -> int: ...
    def __getitem__(self, which: Any) -> Any: ...


class DaskBags:
    """Bags in files as dask partitions, one per file: `partitions` are delayed `OpenBags`, in the
    order of the files. Taken by `fit_batches`, `predict`, `predict_proba`, `predict_interval`,
    `locate` and `attention`, which then run on the workers of the current dask scheduler.
    """

    def __init__(self, bags: BagsInFiles) -> None:
        self.bags = bags
        order: dict[Any, list[int]] = {}
        for i, entry in enumerate(bags.entries):
            order.setdefault(entry.path, []).append(i)
        self.rows = [np.array(found) for found in order.values()]

    def __len__(self) -> int:
        return len(self.bags)

    @property
    def labels(self) -> np.ndarray | None:
        return self.bags.labels

    @property
    def weight(self) -> np.ndarray | None:
        return self.bags.weight

    @property
    def partitions(self) -> list[Any]:
        import dask

        return [dask.delayed(self.bags[rows]) for rows in self.rows]

    def map(self, function: Callable, shared: Any, *per_bag: Any) -> Iterator[Any]:
        """function(shared, bags of a file, their part of each array in `per_bag`) for every file;
        None in `per_bag` stays None.
        """
        import dask

        # sent once, not with every file
        common = dask.delayed(shared, traverse=False, pure=False)
        run = dask.delayed(function, traverse=False)
        for first in range(0, len(self.rows), FILES_PER_WAVE):
            wave = [
                run(
                    common,
                    self.bags[rows],
                    *(None if x is None else np.asarray(x)[rows] for x in per_bag),
                )
                for rows in self.rows[first : first + FILES_PER_WAVE]
            ]
            yield from dask.compute(*wave)

    def in_order(self, answers: list[Any]) -> Any:
        """Answers of the files, each bag by bag, in the order of the bags."""
        where = np.argsort(np.concatenate(self.rows), kind="stable")
        if isinstance(answers[0], list):
            flat = [one for answer in answers for one in answer]
            return [flat[i] for i in where]
        return np.concatenate(answers)[where]
