"""Where the witness reading looks: at whole tokens, or in their widest directions.

notation: N tokens, d features, n bags, k directions (subspace.py).

    N min(N, d) <= WHOLE   whole tokens, standardised (where d > N turned into the space they span)
    else                k of widths.sizes(): the one with the least held-out loss of a first look,
                        one ridge on the first folds

A fit reads all tokens some two thousand times (fifty steps of L-BFGS's forty), 4 N d flops each: the
bound is what ten seconds of one core allow. With a number of components asked for, that many
directions. Nothing of the size of whole tokens is copied where they are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold, Options, probe_folds
from attnscope.estimators.fit.mixture import Fitted
from attnscope.estimators.fit.subspace import Subspace, in_subspace, lifted
from attnscope.estimators.fit.widths import OWN, RawBags, first_directions, sizes
from attnscope.estimators.fit.witness import LOOK, at_one_ridge

__all__ = ["View", "whole_view", "witness_view"]

WHOLE = 4e6  # numbers in all tokens: see above


class View(NamedTuple):
    """Bags as the reading sees them, in how many directions (None: all), held-out losses by size,
    and how to write its models in whole tokens.
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
    return View(in_subspace(data, space), None, {}, partial(lifted, space=space))


def witness_view(
    raw: RawBags, folds: list[Fold], options: Options, components: str | int
) -> View:
    """`folds` may hold any data of these bags."""
    count, d = raw.tokens.shape
    if isinstance(components, str) and count * min(d, count) <= WHOLE:
        return whole_view(raw.whole) if d <= count else _span_view(raw.whole)
    tried = sizes(components, raw.outline.size, count, d, OWN)
    options.clock.stage(f"directions of {count} tokens with {d} features")
    space = raw.directions(tried[-1], options.seed)
    tried = tuple(dict.fromkeys(min(k, space.basis.shape[1]) for k in tried))
    everything = raw.inside(space)
    best = tried[0]
    losses: dict[str, float] = {}
    for k in tried if len(tried) > 1 else ():
        data = first_directions(everything, k)
        parts = [fold._replace(data=data) for fold in folds[: probe_folds(folds)]]
        ridge = LOOK if options.alpha_gate is None else options.alpha_gate
        seen = at_one_ridge(data, parts, options, ridge)[1]
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
        partial(lifted, space=space.first(best)),
    )
