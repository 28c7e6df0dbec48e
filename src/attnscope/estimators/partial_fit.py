"""`partial_fit` and `fit_batches` of both estimators: EM over batches, see fit/em_batches.py. No
numerics here.

The first pass over the data learns the scale (and the classes), the second the starts, every later
one is one EM step on all bags. The model can predict from the end of the second pass on. EM only:
no cross-validation, no intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags, check_labels, read_bags
from attnscope.estimators.bags.dask_bags import dask_batches, is_dask
from attnscope.estimators.fit.em_batches import Stream
from attnscope.estimators.fit.mixture import from_em
from attnscope.estimators.guard import check_finite, guarded
from attnscope.numerics.border import validation as check

__all__ = ["fit_batches", "partial_fit"]

PLAIN = {
    "loss": ("mixture", "auto"),
    "gate": ("linear", "quadratic", "auto"),
    "pooling": ("softmax", "auto"),
    "heads": (1,),
}


def partial_fit(
    model: Any, bags: Any, y: Any, sample_weight: Any = None, pass_ends: bool = True
) -> Any:
    """Add a batch to the current pass over the data; `pass_ends` marks its last batch.
    Returns the model.
    """
    of = f"{type(model).__name__}.partial_fit"
    options = model._options(of)
    for name, allowed in PLAIN.items():
        if getattr(model, name) not in allowed:
            raise bad(
                name,
                of,
                "one of " + ", ".join(map(repr, allowed)) + " (EM only)",
                getattr(model, name),
                "fit",
            )
    if getattr(model, "_stream", None) is None:
        forget(model)
        model._stream = Stream(
            options.gate != "linear",
            options.n_starts,
            options.seed,
            options.dof,
            options.alpha_value,
        )
    stream = model._stream
    held = read_bags(bags, of, getattr(model, "n_features_in_", None))
    labels = _labels(model, stream, check_labels(y, len(held), of), of)
    weight = _weights(sample_weight, held, of)
    model.n_features_in_ = held.tokens.shape[1]
    with guarded(held.tokens, of):
        stream.add_batch(held.tokens, held.offsets, labels, weight)
        if pass_ends:
            _end_pass(model, stream, of)
        if hasattr(model, "fitted_") and pass_ends:
            answers = model._answers(held)
            check_finite(held.tokens, of, answers.output, answers.spread)
    return model


def _labels(model: Any, stream: Stream, y: np.ndarray, of: str) -> np.ndarray:
    """Numbers as they are; classes as indices, in the first pass collected."""
    if model._regression:
        return model._labels(y, of)[0]
    if stream.passes > 0:
        return model._known_labels(y)[0]
    y = y.astype(str) if y.dtype.kind == "O" else y
    if y.dtype.kind == "f" and not np.all(y == np.round(y)):
        raise bad(
            "y", of, "class labels", "numbers with fractions", "SingleLocationRegressor"
        )
    seen = np.unique(y)
    model.classes_ = np.union1d(model.classes_, seen) if hasattr(model, "classes_") else seen
    return np.zeros(len(y))


def _weights(sample_weight: Any, held: Bags, of: str) -> np.ndarray:
    if sample_weight is None:
        return np.ones(len(held))
    weight = check.array(sample_weight, "sample_weight", of, (len(held),)).astype(np.float64)
    if weight.min() < 0:
        raise bad("sample_weight", of, ">= 0", f"smallest {weight.min():.3g}")
    return weight


def _end_pass(model: Any, stream: Stream, of: str) -> None:
    if stream.passes == 0 and not model._regression:
        if len(model.classes_) < 2:
            raise bad(
                "y",
                of,
                "labels of at least two classes over the first pass",
                f"only {model.classes_[0]!r}",
            )
        stream.family, stream.outputs = model._family()
    stream.end_pass()
    if stream.ems and stream.scaling is not None:
        model.scaling_ = stream.scaling
        model.fitted_ = from_em(next(iter(stream.ems.values())), stream.family)


def fit_batches(
    model: Any, batches: Any, y: Any = None, passes: int = 20, sample_weight: Any = None
) -> Any:
    """EM over all batches, read `passes` times. Returns the model.

    batches: (bags, y) or (bags, y, sample_weight) each, in a list, any re-iterable, or a function
    that returns an iterator; or, with y (and sample_weight) beside it, one dask array of bags (n,
    L, d), read block by block.
    """
    of = f"{type(model).__name__}.fit_batches"
    passes = check.integer(passes, "passes", of, 3)
    if is_dask(batches):
        if y is None:
            raise bad("y", of, "the labels of the dask array of bags", y)
        batches = dask_batches(batches, y, sample_weight)
    elif y is not None or sample_weight is not None:
        raise bad(
            "y and sample_weight",
            of,
            "inside each batch, (bags, y, sample_weight)",
            "beside them",
            "[(bags, y)]",
        )
    forget(model)
    model._stream = None
    for _ in range(passes):
        for (bags, labels, weight), last in _marked(batches, of):
            partial_fit(model, bags, labels, weight, pass_ends=last)
    return model


def _marked(batches: Any, of: str) -> Iterator[tuple[tuple, bool]]:
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
            "a function that opens them anew",
        )
    yield held, True


def forget(model: Any) -> None:
    """Drop everything an earlier fit learnt."""
    for name in [
        name for name in vars(model) if name.endswith("_") and not name.startswith("_")
    ]:
        delattr(model, name)
