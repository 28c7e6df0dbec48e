"""In how many directions to fit: candidates by held-out loss, and the whole space if it is affordable.

notation: d features, N tokens, n bags, k directions (subspace.py).

    d <= NARROW_FEATURES        the whole space, without a choice
    otherwise, the k of DIRECTION_COUNTS that d, the rank of the tokens,
                                max(MIN_DIRECTION_COUNT, n/BAGS_PER_DIRECTION) and the work allow
    and d itself                if EM on whole tokens takes at most MAX_EM_WORK multiply-adds
                                (clock.py)

EM runs with each k for which some start is promising after a few steps, the smallest k first. Once
EM has found the token (held-out loss below FOUND_LOSS_SHARE of a constant's), larger k continue
from its solution; before that they use their own starts. The k with the lowest held-out loss is
taken; the whole space is preferred unless a smaller k is better by a standard error. Everything
after that uses these directions only. There is one exception: if EM for numbers leaves what richer
models may explain, these begin from the model found, widened to more directions (widened_start.py).
Directions and scales use all tokens, held out or not; labels are held out everywhere. The mean
token (pooled.py) always uses all features.

Unless the whole space is tried, no copy of the tokens is made: they are standardised and projected
piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.best_start import (
    WIDENED_EM_STEPS,
    Screened,
    em_in_more_directions,
    em_results,
    em_track,
    promising_starts,
)
from attnscope.estimators.fit.clock import OutOfTime, em_work
from attnscope.estimators.fit.data import Data, Scaling, scaling_of
from attnscope.estimators.fit.heads import Heads, fit_heads
from attnscope.estimators.fit.held_out import Fold, Options, is_better
from attnscope.estimators.fit.mixture import constant_loss
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.rivals import may_gain_from_richer
from attnscope.estimators.fit.stages import (
    EmFit,
    Selected,
    begin,
    finish,
    select_mean,
    with_heavy_tails,
)
from attnscope.estimators.fit.subspace import (
    SUBSPACE_TOKEN_COUNT,
    Subspace,
    lift_model,
    nested_subspace,
    subspace_of,
)
from attnscope.estimators.fit.widened_start import widened_track
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL, GAUSSIAN, bag_sum

__all__ = ["Chosen", "RawBags", "first_directions", "fit_in_directions", "is_wide", "sizes"]

NARROW_FEATURES = 64  # the whole space is cheap up to here: a second for 15,000 tokens
# factors of two: between neighbours the held-out loss hardly differs
DIRECTION_COUNTS = (16, 32, 64, 128, 256)
# factor from one count to the next once the token is found, except for the last
DIRECTION_STRIDE = 4
# with fewer bags the key's error, k/n in whitened units, costs more than the direction gains (its
# values cost nothing: the ridge keeps the weights of narrow directions small)
BAGS_PER_DIRECTION = 2
# bags per direction for a fit with its own starts, because in many directions useless starts look as
# good as others; and for classes, whose directions are scaled (subspace.py)
BAGS_PER_START_DIRECTION = 4
BAGS_PER_RICHER_DIRECTION = 1  # for models richer than EM's
MIN_DIRECTION_COUNT = 32  # tried with any number of bags
# multiply-adds: about twenty seconds of one core; beyond, whole tokens are tried only on request
MAX_EM_WORK = 1.2e11
# multiply-adds of EM up to which richer models of numbers use all features (about twenty seconds,
# since gradients are linear in them): on 450 rated tweets, states of layer 3, R2 grows from .71 to
# .76 between 64 and all 384 directions in one split, and from .745 to .753 in another
MAX_RICHER_WORK = 1.5 * MAX_EM_WORK
# share of the constant's loss below which EM has found the token. Numbers: a solution that explains a
# fifth of the variance leads to the solution of separate starts in more directions (keys of 2.5 and
# 3 units). Classes: on sentences a loss share of .7 belongs to another basin
FOUND_LOSS_SHARE = {GAUSSIAN: 0.8, BERNOULLI: 0.5, CATEGORICAL: 0.5}
NARROWER_LEAD_STANDARD_ERRORS = 1.0  # fewer directions must beat the whole space by this
PIECE_BYTES = 2**25  # of tokens that are standardised at a time


class Chosen(NamedTuple):
    """The fit as a model of whole tokens, its number of directions (None: all), and held-out losses
    by number of directions.
    """

    selected: Selected | Heads
    components: int | None
    losses: dict[str, float]


def is_wide(components: str | int | None, features: int) -> bool:
    """Does the fit choose directions?"""
    if components is None:
        return False
    return features > (NARROW_FEATURES if isinstance(components, str) else components)


class RawBags(NamedTuple):
    """The caller's tokens (N, d), with their scaling."""

    tokens: np.ndarray
    outline: Data  # bags of one token, the standardised mean, with their labels
    offsets: np.ndarray
    scaling: Scaling

    @property
    def whole(self) -> Data:
        return self.outline._replace(
            tokens=self.scaling.tokens(self.tokens), offsets=self.offsets
        )

    def inside(self, space: Subspace) -> Data:
        out = np.empty((len(self.tokens), space.basis.shape[1]))
        for part in pieces(self.tokens):
            out[part] = self.scaling.tokens(self.tokens[part]) @ space.basis
        return self.outline._replace(
            tokens=out, offsets=self.offsets, origin=self.scaling.origin @ space.basis
        )

    def directions(self, k: int, seed: int) -> Subspace:
        """The k widest, from at most SAMPLE tokens; scaled for classes."""
        count = len(self.tokens)
        rows = np.arange(count)
        if count > SUBSPACE_TOKEN_COUNT:
            rows = np.random.default_rng([seed, 4]).choice(
                count, SUBSPACE_TOKEN_COUNT, replace=False
            )
            rows.sort()
        weight = np.repeat(self.outline.weight, np.diff(self.offsets))[rows]
        space = subspace_of(self.scaling.tokens(self.tokens[rows]), k, seed, weight)
        return space if self.outline.family == GAUSSIAN else space.scaled()


def raw_bags(
    tokens: np.ndarray,
    offsets: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    kind: tuple[int, int],
    numbers: bool,
) -> RawBags:
    """Scaling and mean tokens from sums over pieces; bags of weight zero must be removed before."""
    each = np.repeat(weight, np.diff(offsets))
    centre = tokens[: 1 + PIECE_BYTES // (8 * tokens.shape[1])].mean(axis=0, dtype=np.float64)
    total = np.zeros(tokens.shape[1])
    square = np.zeros(tokens.shape[1])
    for part in pieces(tokens):
        x = tokens[part] - centre  # squares about a mean: no cancellation
        total += each[part] @ x
        x *= x
        square += each[part] @ x
    scaling = scaling_of(
        float(each.sum()), total, square, labels if numbers else None, weight
    )
    scaling = scaling._replace(mean=scaling.mean + centre)
    labels = (labels - scaling.label_mean) / scaling.label_scale
    mean = scaling.tokens(bag_sum(tokens, offsets) / np.diff(offsets)[:, None])
    outline = Data(
        mean, np.arange(len(labels) + 1), labels, weight, kind[0], kind[1], scaling.origin
    )
    return RawBags(tokens, outline, offsets, scaling)


def pieces(tokens: np.ndarray) -> Iterator[slice]:
    """Rows that take PIECE_BYTES bytes as float64."""
    rows = max(1, PIECE_BYTES // (8 * tokens.shape[1]))
    for first in range(0, len(tokens), rows):
        yield slice(first, min(first + rows, len(tokens)))


# -- the choice ------------------------------------------------------------------------------------


def sizes(
    components: str | int, bags: int, tokens: int, features: int, share: int
) -> tuple[int, ...]:
    """Numbers of directions to try, smallest first, with `share` bags per direction."""
    if not isinstance(components, str):
        return (int(components),)
    most = max_directions(bags, share)
    found = [k for k in DIRECTION_COUNTS if k < min(features, tokens) and k <= most]
    return (
        tuple(k for k in found if em_work(tokens, k) <= MAX_EM_WORK) or DIRECTION_COUNTS[:1]
    )


def max_directions(bags: int, share: int) -> int:
    """The largest number of directions for this many bags, with `share` bags per direction."""
    return max(MIN_DIRECTION_COUNT, bags // share)


def fit_in_directions(
    raw: RawBags,
    folds: list[Fold],
    options: Options,
    pooled: Pooled,
    components: str | int,
    heads: int = 1,
) -> Chosen:
    """Choose the directions and fit in them; `folds` may hold any data of these bags."""
    count, d = raw.tokens.shape
    numbers = raw.outline.family == GAUSSIAN
    tried = sizes(
        components,
        raw.outline.size,
        count,
        d,
        BAGS_PER_DIRECTION if numbers else BAGS_PER_START_DIRECTION,
    )
    whole = isinstance(components, str) and em_work(count, d) <= MAX_EM_WORK
    clock = options.clock
    look = (
        float(count) * d * (min(d, SUBSPACE_TOKEN_COUNT) + 2 * tried[-1])
    )  # a Gram matrix and a projection
    clock.plan(look + sum(em_work(count, k) for k in tried) + whole * em_work(count, d))
    clock.stage(f"directions of {count} tokens with {d} features", look)
    space = raw.directions(tried[-1], options.seed)
    tried = tuple(dict.fromkeys(min(k, space.basis.shape[1]) for k in tried))
    everything = raw.inside(space)
    best: tuple[int | None, EmFit] | None = None
    seen: list[Screened] = []  # of the counts that used their own starts
    losses: dict[str, float] = {}
    for k in (*tried, *([None] if whole else [])):
        if k is not None and best is not None and _is_redundant_size(k, tried[-1], best[1]):
            continue
        clock.stage(
            "EM on whole tokens" if k is None else f"EM in {k} directions",
            em_work(count, d if k is None else k),
        )
        data = raw.whole if k is None else first_directions(everything, k)
        parts = [fold._replace(data=data) for fold in folds]
        try:
            if k is None or len(tried) == 1:
                new: EmFit | None = begin(data, parts, options)
            else:
                new = _fit_size(data, parts, options, None if best is None else best[1], seen)
        except OutOfTime:
            break
        if new is None:
            options.say(f"{k} directions: no start explains anything after a few EM steps")
            continue
        losses["whole" if k is None else str(k)] = new.loss
        options.say(
            f"{'whole tokens' if k is None else f'{k} directions'}: "
            f"held-out loss {new.loss:.4g} with EM"
        )
        if best is None or _is_preferred(new, best[1], k is None):
            best = (k, new)
    if best is None:
        best = _fit_narrowest(everything, tried[0], folds, options, seen)
    if best is None:
        return Chosen(select_mean(raw.outline, pooled), None, losses)
    k, begun = best
    free = heads == 1 and k is not None and isinstance(components, str)
    if free and _has_found(begun) and may_gain_from_richer(begun.folds, begun.track, options):
        k, begun, space = _widen_fit(raw, folds, begun, space)
    if isinstance(components, str):
        options.say(f"components: {'all' if k is None else k}")
    see = (lambda fitted: fitted) if k is None else partial(lift_model, space=space.first(k))
    if heads == 1:
        found = finish(begun, pooled, lambda: raw.whole)
        if found.stages[0] == "mean":  # the mean token uses all features
            return Chosen(found, None, losses)
        return Chosen(found._replace(fitted=see(found.fitted)), k, losses)
    several = fit_heads(begun.data, begun.folds, options, heads)
    return Chosen(several._replace(heads=[see(head) for head in several.heads]), k, losses)


def first_directions(data: Data, k: int) -> Data:
    """The same bags in the first k directions."""
    assert data.origin is not None
    if k == data.tokens.shape[1]:
        return data
    return data._replace(
        tokens=np.ascontiguousarray(data.tokens[:, :k]), origin=data.origin[:k]
    )


def _is_redundant_size(k: int, last: int, found: EmFit) -> bool:
    """Is this number of directions close to one in which the token was found, and not the last? Then
    the losses hardly differ.
    """
    near = k < DIRECTION_STRIDE * found.data.tokens.shape[1]
    return near and k < last and found.data.family == GAUSSIAN and _has_found(found)


def _fit_size(
    data: Data,
    folds: list[Fold],
    options: Options,
    narrower: EmFit | None,
    seen: list[Screened],
) -> EmFit | None:
    """EM in these directions, from the narrower solution if that found the token. None if no start is
    promising, or none stays so on further folds.
    """
    if narrower is not None and _has_found(narrower):
        further = em_in_more_directions(em_results(narrower.track), folds, options)
        return EmFit(data, folds, options, further, narrower.start_losses)
    if data.tokens.shape[1] > max_directions(data.size, BAGS_PER_START_DIRECTION):
        return None
    hope, screened = promising_starts(folds, options)
    seen.append(screened)
    if not hope:
        return None
    par = constant_loss(data) if data.family == GAUSSIAN else np.inf
    track, losses = em_track(data, folds, options, screened=screened, par=par)
    return None if track is None else EmFit(data, folds, options, track, losses)


def _fit_narrowest(
    data: Data, k: int, folds: list[Fold], options: Options, seen: list[Screened]
) -> tuple[int | None, EmFit] | None:
    """A few steps in the fewest directions, if nothing was found in any; None out of time."""
    inside = first_directions(data, k)
    few = options._replace(em_steps=WIDENED_EM_STEPS)
    try:
        parts = [fold._replace(data=inside) for fold in folds]
        begun = begin(inside, parts, few, seen[0] if seen else ())
    except OutOfTime:
        return None
    return k, begun._replace(options=options)


def _widen_fit(
    raw: RawBags, folds: list[Fold], found: EmFit, space: Subspace
) -> tuple[int | None, EmFit, Subspace]:
    """Widen the solution to whole tokens, or to as many directions as bags and work allow: richer
    models have their own ridges, and may use directions that did not help EM.
    """
    count, d = raw.tokens.shape
    found = with_heavy_tails(found)
    options = found.options
    k = found.data.tokens.shape[1]
    inner = space.first(k)
    outer = space
    most: int | None = None
    if em_work(count, d) > MAX_RICHER_WORK:
        most = sizes("auto", raw.outline.size, count, d, BAGS_PER_RICHER_DIRECTION)[-1]
        if most <= k:
            return k, found, space
        if most > space.basis.shape[1]:
            outer = raw.directions(most, options.seed)
        most = min(most, outer.basis.shape[1])
    words = "whole tokens" if most is None else f"{most} directions"
    options.say(f"richer models may help: they are sought in {words}")
    data = raw.whole if most is None else first_directions(raw.inside(outer), most)
    parts = [fold._replace(data=data) for fold in folds]
    if most is not None:
        inner = nested_subspace(inner, outer.first(most))
    track = widened_track(found.track, parts, options, inner)
    wide = EmFit(data, parts, options, track, found.start_losses)
    options.say(f"widened from {k} directions: held-out loss {wide.loss:.4g}")
    # the model belongs to the directions in which it was found; others may have other signs
    return (most, wide, outer) if _is_preferred(wide, found, True) else (k, found, space)


def _has_found(begun: EmFit) -> bool:
    return begun.loss < FOUND_LOSS_SHARE[begun.data.family] * constant_loss(begun.data)


def _is_preferred(new: EmFit, old: EmFit, whole: bool) -> bool:
    if whole:  # the widest comes last: it stays unless fewer directions are clearly better
        return not is_better(new.folds, old.track, new.track, NARROWER_LEAD_STANDARD_ERRORS)
    return new.loss < old.loss
