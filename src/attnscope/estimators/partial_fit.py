"""`partial_fit` and `fit_batches` of both estimators: EM over batches, see fit/em_batches.py. No
numerics here.

The first pass over the data learns the scale (and the classes), the second the starts; every later
pass is one EM step on all bags. The model can predict after the second pass. Tokens with more than
MIN_WIDE_FEATURES features are treated differently from the third pass on (fit/long_bags.py): in
fewer directions, with starts compared on a sample of each bag. EM only: no cross-validation, no
intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import (
    Bags,
    bag_labels,
    check_labels,
    check_weights,
    column_names,
    given_labels,
    keep_names,
    read_bags,
)
from attnscope.estimators.bags.dask_bags import DaskBags, dask_batches, is_dask
from attnscope.estimators.bags.forms import per_bag
from attnscope.estimators.bags.open_bags import OpenBags
from attnscope.estimators.bags.pieces import Pieces, pieces_of
from attnscope.estimators.finite_fit import check_finite, finite_arithmetic
from attnscope.estimators.fit.em_batches import Stream
from attnscope.estimators.fit.long_bags import (
    DEFAULT_DIRECTION_COUNT,
    MIN_WIDE_FEATURES,
    Batch,
    Block,
    fit_long_bags,
    project_batch,
)
from attnscope.estimators.fit.mixture import from_em
from attnscope.estimators.fit.subspace import Subspace
from attnscope.numerics.border import validation as check

__all__ = ["fit_batches", "partial_fit"]

EM_BATCH_CHOICES = {
    "loss": ("mixture", "auto"),
    "gate": ("linear", "quadratic", "auto"),
    "pooling": ("softmax", "auto"),
    "heads": (1,),
    "assumption": ("single", "auto"),
    "class_weight": (None,),
    "interval": ("cross",),
}


def partial_fit(
    model: Any, bags: Any, y: Any, sample_weight: Any = None, pass_ends: bool = True
) -> Any:
    """Add a batch to the current pass over the data; `pass_ends` marks its last batch.
    Returns the model.
    """
    of = f"{type(model).__name__}.partial_fit"
    stream = open_stream(model, of)
    held = read_bags(
        bags,
        of,
        getattr(model, "n_features_in_", None),
        features=getattr(model, "feature_names_in_", None),
        leave=column_names(y, sample_weight),
    )
    labels = batch_labels(model, stream, bag_labels(y, held, of), of)
    weight = bag_weights(sample_weight, held, of)
    model.n_features_in_ = held.tokens.shape[1]
    keep_names(model, held)
    with finite_arithmetic(held.tokens, of):
        stream.add_batch(held.tokens, held.offsets, labels, weight)
        if pass_ends:
            end_pass(model, stream, of)
        if hasattr(model, "fitted_") and pass_ends:
            answers = model._bag_answers(held)
            check_finite(held.tokens, of, answers.output, answers.spread)
    return model


def open_stream(model: Any, of: str) -> Stream:
    """The state between batches, created if there is none; refuses parameters that EM lacks."""
    options = model._fit_options(of)
    for name, allowed in EM_BATCH_CHOICES.items():
        if getattr(model, name) not in allowed:
            raise bad(
                name,
                of,
                "one of " + ", ".join(map(repr, allowed)) + " (EM only)",
                getattr(model, name),
                "fit",
            )
    if getattr(model, "_stream", None) is None:
        forget_fit(model)
        model._stream = Stream(
            options.gate != "linear",
            options.n_starts,
            options.seed,
            options.dof,
            options.alpha_value,
        )
    return model._stream


def batch_labels(model: Any, stream: Stream, y: np.ndarray, of: str) -> np.ndarray:
    """Labels as numbers: numbers unchanged, classes as indices. The first pass collects the classes."""
    if model._regression:
        return model._encode_labels(y, of)[0]
    if stream.passes > 0:
        return model._encode_known_labels(y)[0]
    y = y.astype(str) if y.dtype.kind == "O" else y
    if y.dtype.kind == "f" and not np.all(y == np.round(y)):
        raise bad(
            "y", of, "class labels", "numbers with fractions", "SingleLocationRegressor"
        )
    seen = np.unique(y)
    model.classes_ = np.union1d(model.classes_, seen) if hasattr(model, "classes_") else seen
    return np.zeros(len(y))


def bag_weights(sample_weight: Any, held: Bags, of: str) -> np.ndarray:
    if sample_weight is None:
        return np.ones(len(held))
    given = per_bag(sample_weight, held.rows, of, "sample_weight")
    weight = check.array(given, "sample_weight", of, (len(held),)).astype(np.float64)
    if weight.min() < 0:
        raise bad("sample_weight", of, ">= 0", f"smallest {weight.min():.3g}")
    return weight


def end_pass(model: Any, stream: Stream, of: str) -> None:
    if stream.passes == 0 and not model._regression:
        if len(model.classes_) < 2:
            raise bad(
                "y",
                of,
                "labels of at least two classes over the first pass",
                f"only {model.classes_[0]!r}",
            )
        stream.family, stream.outputs = model._label_family()
    stream.end_pass()
    if stream.ems and stream.scaling is not None:
        model.scaling_ = stream.scaling
        model.fitted_ = from_em(next(iter(stream.ems.values())), stream.family)


def fit_batches(
    model: Any, batches: Any, y: Any = None, passes: int = 20, sample_weight: Any = None
) -> Any:
    """EM over all batches, read `passes` times. Returns the model.

    batches: (bags, y) or (bags, y, sample_weight) each, in a list, any re-iterable, or a function
    that returns an iterator; or, with y (and sample_weight) beside it, bags that are not in memory:
    `open_bags` (which may bring its labels; `.to_dask()`: read by the workers), a memory map, an
    h5py, zarr or dask array (n, L, d).
    """
    of = f"{type(model).__name__}.fit_batches"
    passes = check.integer(passes, "passes", of, 3)
    if isinstance(batches, DaskBags):
        y, sample_weight = given_labels(batches, y, sample_weight)
        return fit_on_workers(model, batches, y, passes, sample_weight, of)
    if is_dask(batches):
        if y is None:
            raise bad("y", of, "the labels of the dask array of bags", y)
        batches = dask_batches(batches, y, sample_weight)
    elif (pieces := pieces_of(batches, of)) is not None:
        y, sample_weight = given_labels(batches, y, sample_weight)
        batches = PieceBatches(pieces, check_labels(y, len(pieces), of), sample_weight, of)
    elif y is not None or sample_weight is not None:
        raise bad(
            "y and sample_weight",
            of,
            "inside each batch, (bags, y, sample_weight)",
            "beside them",
            "[(bags, y)]",
        )
    forget_fit(model)
    model._stream = None
    for done in range(passes):
        if done == 2 and _is_long(model):
            return _fit_long(model, batches, passes - 2, of)
        for (bags, labels, weight), last in _mark_last_batch(batches, of):
            partial_fit(model, bags, labels, weight, pass_ends=last)
    return model


class PieceBatches:
    """Pieces of bags that are not in memory, with their labels and weights; may be read any number
    of times.
    """

    def __init__(self, pieces: Pieces, y: np.ndarray, weight: Any, of: str) -> None:
        self.pieces = pieces
        self.y = y
        self.weight = None
        if weight is not None:
            self.weight = check.array(weight, "sample_weight", of, (len(pieces),))

    def __iter__(self) -> Iterator[tuple]:
        for start, stop, bags in self.pieces:
            weight = None if self.weight is None else self.weight[start:stop]
            yield bags, self.y[start:stop], weight


def _is_long(model: Any) -> bool:
    return model.n_features_in_ > MIN_WIDE_FEATURES or isinstance(model.components, int)


def _fit_long(model: Any, batches: Any, steps: int, of: str, blocks: Any = None) -> Any:
    """Continue after the scale and the moments, by fit/long_bags.py."""
    stream = model._stream
    components = DEFAULT_DIRECTION_COUNT if model.components == "auto" else model.components
    say = print if model.verbose else (lambda line: None)
    first = next(_read_batches(model, stream, batches, of))

    def blocks_of(space: Subspace | None) -> Iterator[Block]:
        return (
            project_batch(b, stream.scaling, space)
            for b in _read_batches(model, stream, batches, of)
        )

    with finite_arithmetic(first[0], of):
        model.fitted_, model.start_losses_, model.components_ = fit_long_bags(
            stream,
            blocks or blocks_of,
            np.concatenate(stream.lengths),
            steps,
            components,
            say,
        )
        answers = model._bag_answers(Bags(first[0], first[1], "list"))
    check_finite(first[0], of, answers.output, answers.spread)
    model._stream = None  # its sums have another form, so partial_fit must start again
    return model


def _read_batches(model: Any, stream: Stream, batches: Any, of: str) -> Iterator[Batch]:
    """Read the batches again: tokens, offsets, labels as numbers, weights."""
    for (bags, y, weight), _ in _mark_last_batch(batches, of):
        held = read_bags(
            bags, of, model.n_features_in_, features=getattr(model, "feature_names_in_", None)
        )
        labels = batch_labels(model, stream, bag_labels(y, held, of), of)
        yield held.tokens, held.offsets, labels, bag_weights(weight, held, of)


def _mark_last_batch(batches: Any, of: str) -> Iterator[tuple[tuple, bool]]:
    """Each batch (bags, y, sample_weight or None) and whether it is the last of the pass."""
    found: Iterable = batches() if callable(batches) else batches
    held: tuple | None = None
    for batch in found:
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            raise bad(
                "a batch", of, "(bags, y) or (bags, y, sample_weight)", type(batch).__name__
            )
        if held is not None:
            yield held, False
        held = (*batch, None)[:3]
    if held is None:
        raise bad(
            "batches",
            of,
            "readable once per pass",
            "no batch left",
            "a function that opens them again",
        )
    yield held, True


def forget_fit(model: Any) -> None:
    """Drop all attributes of an earlier fit."""
    for name in [
        name for name in vars(model) if name.endswith("_") and not name.startswith("_")
    ]:
        delattr(model, name)


# -- on dask's workers -----------------------------------------------------------------------------


def fit_on_workers(
    model: Any, bags: DaskBags, y: Any, passes: int, sample_weight: Any, of: str
) -> Any:
    """`fit_batches` with the sums of each file made by a dask worker: the same passes, in the same
    order up to the rounding of sums. Projected tokens (fit/long_bags.py) are kept in this process.
    """
    y = check_labels(y, len(bags), of)
    weight = check_weights(sample_weight, len(bags), of)
    forget_fit(model)
    model._stream = None
    stream = open_stream(model, of)
    pieces = pieces_of(bags.bags, of)
    assert pieces is not None
    here = PieceBatches(pieces, y, weight, of)
    model.n_features_in_ = pieces.width
    first = next(_read_batches(model, stream, here, of))
    with finite_arithmetic(first[0], of):
        for done in range(passes):
            if done == 2 and _is_long(model):
                return _fit_long(
                    model,
                    here,
                    passes - 2,
                    of,
                    lambda space: _projected_blocks(model, bags, y, weight, space, of),
                )
            labels = batch_labels(model, stream, y, of)
            if done == 0:
                stream.centre(first[0], labels)
            shared = (model, stream.blank(), of)
            for part in bags.map(_sums_of_file, shared, y, weight):
                stream.absorb(part)
            end_pass(model, stream, of)
    return model


def _sums_of_file(
    shared: tuple[Any, Stream, str], bags: OpenBags, y: np.ndarray, weight: np.ndarray
) -> Stream:
    model, stream, of = shared
    stream = stream.blank()  # workers may be threads that share it
    for batch in _file_batches(model, stream, bags, y, weight, of):
        stream.add_batch(*batch)
    return stream


def _file_batches(
    model: Any, stream: Stream, bags: OpenBags, y: np.ndarray, weight: np.ndarray, of: str
) -> Iterator[Batch]:
    pieces = pieces_of(bags, of)
    assert pieces is not None
    return _read_batches(model, stream, PieceBatches(pieces, y, weight, of), of)


def _projected_blocks(
    model: Any, bags: DaskBags, y: np.ndarray, weight: np.ndarray, space: Any, of: str
) -> Iterator[Block]:
    stream = model._stream.blank()
    for blocks in bags.map(_blocks_of_file, (model, stream, space, of), y, weight):
        yield from blocks


def _blocks_of_file(
    shared: tuple[Any, Stream, Subspace | None, str],
    bags: OpenBags,
    y: np.ndarray,
    weight: np.ndarray,
) -> list[Block]:
    model, stream, space, of = shared
    batches = _file_batches(model, stream, bags, y, weight, of)
    assert stream.scaling is not None
    return [project_batch(batch, stream.scaling, space) for batch in batches]
