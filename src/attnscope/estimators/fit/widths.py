"""In how many directions to fit: sizes by held-out loss, the whole space where its cost fits.

notation: d features, N tokens, n bags, k directions (subspace.py).

    d <= NARROW                 the whole space, as if there were no choice
    else k of SIZES             that d, the tokens' rank, max(FEW, n/SHARE) and the work allow
    and d itself                where EM on whole tokens is at most WHOLE multiply-adds (clock.py)

EM is run in each where any start promises something after a few steps, narrowest first; once it has found the token (held-out loss below FOUND of a
constant's) wider ones go on from what it found, else from starts of their own. The size with the
least held-out loss is taken (the whole space unless a smaller one leads by a standard error), and
everything that follows is done there alone, but for richer models of numbers where EM leaves what
they may explain: those begin from the model found, carried on to more directions (carried.py).
Directions and scales are those of all tokens, held out
or not; labels are held out from everything. The mean token (pooled.py) is always that of all
features.

Nothing of the size of the tokens is copied where the whole space is not tried: they are
standardised and projected piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.best_start import (
    WIDER_STEPS,
    Screened,
    em_of,
    em_track,
    promising,
    wider,
)
from attnscope.estimators.fit.carried import carried
from attnscope.estimators.fit.clock import OutOfTime, em_work
from attnscope.estimators.fit.data import Data, Scaling, scaling_of
from attnscope.estimators.fit.heads import Heads, fit_heads
from attnscope.estimators.fit.held_out import Fold, Options, better
from attnscope.estimators.fit.mixture import constant_output, output_losses
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.rivals import unexplained
from attnscope.estimators.fit.stages import (
    Begun,
    Selected,
    begin,
    finish,
    only_the_mean,
    with_tails,
)
from attnscope.estimators.fit.subspace import (
    SAMPLE,
    Subspace,
    lifted,
    subspace_of,
    within,
)
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL, GAUSSIAN, bag_sum

__all__ = ["Chosen", "RawBags", "first_directions", "fit_in_directions", "is_wide", "sizes"]

NARROW = 64  # features up to which the whole space is cheap: a second for 15,000 tokens
SIZES = (
    16,
    32,
    64,
    128,
    256,
)  # twofold: between two neighbours the held-out loss hardly differs
STRIDE = 4  # from one size to the next once the token is found, but for the last
# bags per direction: with fewer the key's error, k/n in whitened units, costs more than the
# direction brings (its values cost nothing: a ridge knows that a narrow direction says little)
SHARE = 2
# the same for starts of its own, since in many directions useless ones look like any other; and for
# classes, whose directions are scaled (subspace.py)
OWN = 4
ALL = 1  # the same where richer models than EM's are tried
FEW = 32  # directions that are tried with however few bags
# multiply-adds of EM: about twenty seconds of one core; whole tokens beyond are tried if asked for
WHOLE = 1.2e11
# the same count, up to which richer models of numbers are sought in all features (some twenty
# seconds, gradients being linear in them): 450 tweets rated by people, states of layer 3,
# R2 in 64, 128 and all 384 directions .708, .731, .758 (seed 2), .745, .748, .753 (seed 0)
RICHER = 1.5 * WHOLE
# of the constant's loss: EM below has found the token. Numbers: whatever explains a fifth of the
# variance leads to what starts of their own find in more directions (keys of 2.5 and 3 units);
# classes: sentences at .7 were another basin
FOUND = {GAUSSIAN: 0.8, BERNOULLI: 0.5, CATEGORICAL: 0.5}
LEAD = 1.0  # standard errors by which fewer directions must beat the whole space
PIECE = 2**25  # bytes of tokens that are standardised at a time


class Chosen(NamedTuple):
    """The fit, in whole tokens; how many directions it sees (None: all); held-out losses by size."""

    selected: Selected | Heads
    components: int | None
    losses: dict[str, float]


def is_wide(components: str | int | None, features: int) -> bool:
    """Is the fit one in chosen directions?"""
    if components is None:
        return False
    return features > (NARROW if isinstance(components, str) else components)


class RawBags(NamedTuple):
    """Tokens (N, d) as they were given, with how to standardise them."""

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
        if count > SAMPLE:
            rows = np.random.default_rng([seed, 4]).choice(count, SAMPLE, replace=False)
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
    """Scale and mean tokens by sums over pieces; bags of weight zero must be gone."""
    each = np.repeat(weight, np.diff(offsets))
    centre = tokens[: 1 + PIECE // (8 * tokens.shape[1])].mean(axis=0, dtype=np.float64)
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
    """Rows that take PIECE bytes as float64."""
    rows = max(1, PIECE // (8 * tokens.shape[1]))
    for first in range(0, len(tokens), rows):
        yield slice(first, min(first + rows, len(tokens)))


# -- the choice ------------------------------------------------------------------------------------


def sizes(
    components: str | int, bags: int, tokens: int, features: int, share: int
) -> tuple[int, ...]:
    """Numbers of directions to try, smallest first; `share` bags to each."""
    if not isinstance(components, str):
        return (int(components),)
    most = most_of(bags, share)
    found = [k for k in SIZES if k < min(features, tokens) and k <= most]
    return tuple(k for k in found if em_work(tokens, k) <= WHOLE) or SIZES[:1]


def most_of(bags: int, share: int) -> int:
    """Directions, at most, for so many bags with `share` bags to each."""
    return max(FEW, bags // share)


def fit_in_directions(
    raw: RawBags,
    folds: list[Fold],
    options: Options,
    pooled: Pooled,
    components: str | int,
    heads: int = 1,
) -> Chosen:
    """Choose the directions and fit there; `folds` may hold any data of these bags."""
    count, d = raw.tokens.shape
    numbers = raw.outline.family == GAUSSIAN
    tried = sizes(components, raw.outline.size, count, d, SHARE if numbers else OWN)
    whole = isinstance(components, str) and em_work(count, d) <= WHOLE
    clock = options.clock
    look = (
        float(count) * d * (min(d, SAMPLE) + 2 * tried[-1])
    )  # a Gram matrix and a projection
    clock.plan(look + sum(em_work(count, k) for k in tried) + whole * em_work(count, d))
    clock.stage(f"directions of {count} tokens with {d} features", look)
    space = raw.directions(tried[-1], options.seed)
    tried = tuple(dict.fromkeys(min(k, space.basis.shape[1]) for k in tried))
    everything = raw.inside(space)
    best: tuple[int | None, Begun] | None = None
    seen: list[Screened] = []  # of the sizes that had starts of their own
    losses: dict[str, float] = {}
    for k in (*tried, *([None] if whole else [])):
        if k is not None and best is not None and _between(k, tried[-1], best[1]):
            continue
        clock.stage(
            "EM on whole tokens" if k is None else f"EM in {k} directions",
            em_work(count, d if k is None else k),
        )
        data = raw.whole if k is None else first_directions(everything, k)
        parts = [fold._replace(data=data) for fold in folds]
        try:
            if k is None or len(tried) == 1:
                new: Begun | None = begin(data, parts, options)
            else:
                new = _begun(data, parts, options, None if best is None else best[1], seen)
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
        if best is None or _preferred(new, best[1], k is None):
            best = (k, new)
    if best is None:
        best = _narrowest(everything, tried[0], folds, options, seen)
    if best is None:
        return Chosen(only_the_mean(raw.outline, pooled), None, losses)
    k, begun = best
    free = heads == 1 and k is not None and isinstance(components, str)
    if free and _has_found(begun) and unexplained(begun.folds, begun.track, options):
        k, begun, space = _widest(raw, folds, begun, space)
    if isinstance(components, str):
        options.say(f"components: {'all' if k is None else k}")
    see = (lambda fitted: fitted) if k is None else partial(lifted, space=space.first(k))
    if heads == 1:
        found = finish(begun, pooled, lambda: raw.whole)
        if found.stages[0] == "mean":  # of all features, whatever was tried
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


def _between(k: int, last: int, found: Begun) -> bool:
    """Is this a size next to one in which the token was found, and not the last? Their losses hardly
    differ.
    """
    near = k < STRIDE * found.data.tokens.shape[1]
    return near and k < last and found.data.family == GAUSSIAN and _has_found(found)


def _begun(
    data: Data,
    folds: list[Fold],
    options: Options,
    narrower: Begun | None,
    seen: list[Screened],
) -> Begun | None:
    """EM in these directions, from the narrower solution where that has found the token; None where
    no start promises anything, or none of them keeps it on further folds.
    """
    if narrower is not None and _has_found(narrower):
        further = wider(em_of(narrower.track), folds, options)
        return Begun(data, folds, options, further, narrower.start_losses)
    if data.tokens.shape[1] > most_of(data.size, OWN):
        return None
    hope, screened = promising(folds, options)
    seen.append(screened)
    if not hope:
        return None
    par = _constant(data) if data.family == GAUSSIAN else np.inf
    track, losses = em_track(data, folds, options, screened=screened, par=par)
    return None if track is None else Begun(data, folds, options, track, losses)


def _narrowest(
    data: Data, k: int, folds: list[Fold], options: Options, seen: list[Screened]
) -> tuple[int | None, Begun] | None:
    """A few steps in the fewest directions, where nothing was found in any; None out of time."""
    inside = first_directions(data, k)
    few = options._replace(em_steps=WIDER_STEPS)
    try:
        parts = [fold._replace(data=inside) for fold in folds]
        begun = begin(inside, parts, few, seen[0] if seen else ())
    except OutOfTime:
        return None
    return k, begun._replace(options=options)


def _widest(
    raw: RawBags, folds: list[Fold], found: Begun, space: Subspace
) -> tuple[int | None, Begun, Subspace]:
    """What was found, carried on to whole tokens or to as many directions as bags and work allow:
    richer models bring ridges of their own, and what they may explain is not what EM did in fewer.
    """
    count, d = raw.tokens.shape
    found = with_tails(found)
    options = found.options
    k = found.data.tokens.shape[1]
    inner = space.first(k)
    outer = space
    most: int | None = None
    if em_work(count, d) > RICHER:
        most = sizes("auto", raw.outline.size, count, d, ALL)[-1]
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
        inner = within(inner, outer.first(most))
    track = carried(found.track, parts, options, inner)
    wide = Begun(data, parts, options, track, found.start_losses)
    options.say(f"carried on from {k} directions: held-out loss {wide.loss:.4g}")
    # the model found is one of the directions it was found in, whose signs others need not share
    return (most, wide, outer) if _preferred(wide, found, True) else (k, found, space)


def _has_found(begun: Begun) -> bool:
    return begun.loss < FOUND[begun.data.family] * _constant(begun.data)


def _constant(data: Data) -> float:
    """The loss of no tokens."""
    losses = output_losses(constant_output(data), data)
    return float(np.average(losses, weights=data.weight))


def _preferred(new: Begun, old: Begun, whole: bool) -> bool:
    if whole:  # the widest comes last: it stays unless fewer directions clearly lead
        return not better(new.folds, old.track, new.track, LEAD)
    return new.loss < old.loss
