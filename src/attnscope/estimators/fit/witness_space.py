"""The features of the witness reading: whole tokens, or their widest directions.

notation: N tokens, d features, n bags, k directions (subspace.py).

    N min(N, d) <= MAX_TOKEN_NUMBERS   whole tokens, standardised (if d > N, in the space they span)
    otherwise            the k of widths.sizes() with the lowest held-out loss in a first fit, at one
                         ridge on the first folds

A fit reads all tokens about two thousand times (fifty points with forty L-BFGS steps), with 4 N d
flops each; the bound corresponds to ten seconds of one core. A requested number of components is
used directly. Unless whole tokens are used, they are not copied.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold, Options, probe_folds
from attnscope.estimators.fit.mixture import Fitted
from attnscope.estimators.fit.subspace import Subspace, lift_model, project_data
from attnscope.estimators.fit.widths import (
    BAGS_PER_START_DIRECTION,
    RawBags,
    first_directions,
    sizes,
)
from attnscope.estimators.fit.witness import PROBE_RIDGE, fit_one_ridge

__all__ = ["View", "whole_view", "witness_view"]

MAX_TOKEN_NUMBERS = 4e6  # see above


class View(NamedTuple):
    """The bags in these features, the number of directions (None: all), held-out losses by number of
    directions, and the map from models in these features to models of whole tokens.
    """

    data: Data
    components: int | None
    losses: dict[str, float]
    lift: Callable[[Fitted], Fitted]


def whole_view(data: Data) -> View:
    return View(data, None, {}, lambda fitted: fitted)


def _span_view(data: Data) -> View:
    """X = (X Q) Q^T with orthonormal Q (d, N): the same scores and the same ridge in fewer numbers."""
    turn = np.linalg.qr(data.tokens.T)[0]
    space = Subspace(turn, turn, np.ones(turn.shape[1]))
    return View(project_data(data, space), None, {}, partial(lift_model, space=space))


def witness_view(
    raw: RawBags, folds: list[Fold], options: Options, components: str | int
) -> View:
    """`folds` may hold any data of these bags."""
    count, d = raw.tokens.shape
    if isinstance(components, str) and count * min(d, count) <= MAX_TOKEN_NUMBERS:
        return whole_view(raw.whole) if d <= count else _span_view(raw.whole)
    tried = sizes(components, raw.outline.size, count, d, BAGS_PER_START_DIRECTION)
    options.clock.stage(f"directions of {count} tokens with {d} features")
    space = raw.directions(tried[-1], options.seed)
    tried = tuple(dict.fromkeys(min(k, space.basis.shape[1]) for k in tried))
    everything = raw.inside(space)
    best = tried[0]
    losses: dict[str, float] = {}
    for k in tried if len(tried) > 1 else ():
        data = first_directions(everything, k)
        parts = [fold._replace(data=data) for fold in folds[: probe_folds(folds)]]
        ridge = PROBE_RIDGE if options.alpha_gate is None else options.alpha_gate
        seen = fit_one_ridge(data, parts, options, ridge)[1]
        there = np.isfinite(seen)
        losses[str(k)] = float(np.average(seen[there], weights=data.weight[there]))
        options.say(f"{k} directions: held-out loss {losses[str(k)]:.4g} of witnesses")
        if losses[str(k)] < losses[str(best)]:
            best = k
        if options.clock.over:
            break
    return View(
        first_directions(everything, best),
        best,
        losses,
        partial(lift_model, space=space.first(best)),
    )
