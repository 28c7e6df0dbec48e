"""Bags that are not in memory, a piece at a time: `open_bags`, memory maps, h5py, zarr and dask
arrays, and lists of them.

A piece is a sequence of whole bags with at most `PIECE_NUMBERS` numbers (or one larger bag). Answers
of a fitted model are computed bag by bag, so they need one piece in memory. An array with `chunks`
(h5py, zarr, dask) is recognised by this attribute, without importing its library.

notation: n bags, N = sum of their lengths, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from inspect import signature
from itertools import pairwise
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags.dask_bags import DaskBags
from attnscope.estimators.bags.open_bags import OpenBags
from attnscope.numerics.border.whole_values import refuse_lost

__all__ = ["Pieces", "in_pieces", "pieces_of"]

# 64 MB in float64; a slide of 5,000 patches with 1,536 features fits in one piece
PIECE_NUMBERS = 8_000_000


class Pieces:
    """Bags of any of these kinds: lengths (n,), width d, form "array" (n, L, d) or "list";
    `read(i, j)` has bags i to j - 1 in memory; `cuts` (p+1,) are the edges of pieces.
    """

    def __init__(self, source: Any, lengths: np.ndarray, width: int, form: str) -> None:
        self.source = source
        self.lengths = np.asarray(lengths)
        self.width = width
        self.form = form

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def labels(self) -> np.ndarray | None:
        return getattr(self.source, "labels", None)

    @property
    def weight(self) -> np.ndarray | None:
        return getattr(self.source, "weight", None)

    def read(self, start: int, stop: int) -> Any:
        if self.form == "array":
            return np.asarray(self.source[start:stop])
        return [np.asarray(self.source[i]) for i in range(start, stop)]

    @property
    def cuts(self) -> np.ndarray:
        blocks = _block_edges(self.source) if self.form == "array" else None
        if blocks is not None:
            return blocks
        max_tokens = max(PIECE_NUMBERS // self.width, 1)
        edges = [0]
        size = 0
        for i, length in enumerate(self.lengths):
            if size and size + length > max_tokens:
                edges.append(i)
                size = 0
            size += int(length)
        return np.array([*edges, len(self)])

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        cuts = self.cuts
        for start, stop in pairwise(cuts):
            yield int(start), int(stop), self.read(int(start), int(stop))


def _block_edges(array: Any) -> np.ndarray | None:
    """Edges of a dask array's blocks; a part of a block costs as much as the whole."""
    chunks = array.chunks if _is_chunked(array) else None
    if not chunks or not isinstance(chunks[0], tuple):
        return None
    edges = np.concatenate([[0], np.cumsum(chunks[0])])
    return np.unique(edges)  # an empty block is no piece


def _is_chunked(x: Any) -> bool:
    return all(hasattr(x, name) for name in ("shape", "dtype", "chunks", "__getitem__"))


def _is_unread(x: Any) -> bool:
    return isinstance(x, np.memmap) or _is_chunked(x)


def pieces_of(bags: Any, of: str) -> Pieces | None:
    """The bags as pieces; None if they are in memory, or are no bags at all."""
    refuse_lost(bags, "bags", of)
    if isinstance(bags, OpenBags):
        return Pieces(bags, bags.lengths, bags.width, "list")
    if isinstance(bags, (list, tuple)):
        return _list_pieces(bags) if any(_is_unread(bag) for bag in bags) else None
    if not _is_unread(bags) or len(bags.shape) != 3 or 0 in bags.shape:
        return None
    if any(size != size for size in bags.shape):  # dask: not known before it is computed
        raise AttnscopeError(
            f"bags of {of} must have known chunk sizes, got unknown ones; try "
            "bags.compute_chunk_sizes()."
        )
    n, length, width = bags.shape
    return Pieces(bags, np.full(n, length), width, "array")


def _list_pieces(bags: Any) -> Pieces | None:
    """A list of bags as pieces; None if it is no list of (L_i, d), which `read_bags` then refuses."""
    shapes = [tuple(np.shape(bag)) for bag in bags]
    if any(len(s) != 2 or 0 in s or s[1] != shapes[0][1] for s in shapes):
        return None
    return Pieces(bags, np.array([shape[0] for shape in shapes]), shapes[0][1], "list")


def in_pieces(method: Callable) -> Callable:
    """Decorator of a method (self, bags, ...) with one answer per bag: for bags that are not in
    memory it runs on one piece after another. An argument y has one entry per bag and is cut too.
    """
    form = signature(method)

    @wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = form.bind(self, *args, **kwargs).arguments
        of = f"{type(self).__name__}.{method.__name__}"
        if isinstance(given["bags"], DaskBags):
            return _on_workers(method.__name__, given)
        pieces = pieces_of(given["bags"], of)
        if pieces is None:
            return method(self, *args, **kwargs)
        answers = []
        y = given.get("y")
        refuse_lost(y, "y", of)
        if y is not None and np.shape(y)[:1] != (len(pieces),):
            raise bad(
                "y", of, f"one label per bag, shape ({len(pieces)},)", f"shape {np.shape(y)}"
            )
        for start, stop, bags in pieces:
            part = dict(given, bags=bags)
            if y is not None:
                part["y"] = np.asarray(y)[start:stop]
            answers.append(method(**part))
        if isinstance(answers[0], list):
            return [one for answer in answers for one in answer]
        return np.concatenate(answers)

    return run


def _on_workers(name: str, given: dict[str, Any]) -> Any:
    """Run the method on every file, on dask's workers."""
    bags = given["bags"]
    rest = {key: x for key, x in given.items() if key not in ("self", "bags", "y")}
    y = given.get("y")
    if y is not None and np.shape(y) != (len(bags),):
        raise bad(
            "y", name, f"one label per bag, shape ({len(bags)},)", f"shape {np.shape(y)}"
        )
    return bags.in_order(list(bags.map(_answer_file, (given["self"], name, rest), y)))


def _answer_file(shared: tuple[Any, str, dict[str, Any]], bags: OpenBags, y: Any) -> Any:
    model, name, rest = shared
    return getattr(model, name)(bags, **rest, **({} if y is None else {"y": y}))
