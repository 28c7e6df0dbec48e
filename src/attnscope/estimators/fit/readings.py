"""Which reading two classes 0 and 1 get where the caller names none.

    single    one token decides for either class
    witness   some token speaks for 1; nothing speaks for 0 but its absence (witness.py)

Labels 0 and 1 usually say that something is there or not, and then a token that happens to be in
all negative bags of the training set (a poison) is no evidence: it may be anywhere later. Held-out
loss cannot see that, for the poison is in every fold. So the rule is about tokens, not about loss:

    "witness", unless tokens of ONE KIND decide for either class, or ALL TOKENS ALIKE (the mean
    token, or with few bags the mean of token probabilities, or trees on the mean token) tell as
    much as tokens that speak for one class: neither the witness reading nor that with the classes
    exchanged is below them in held-out loss (with few bags: by a standard error); and "single" has
    the lowest.

One kind, by either of two signs:
    agreement > 1/4   the token that speaks loudest for 1 and the token that speaks loudest for 0
        (the witness reading with the classes exchanged) are the same token of a held-out bag, more
        often than by chance: (share - E[1/L])/(1 - E[1/L])
    cosine > 3/4      the mean tokens that "single" says decided for 1 and for 0, given the labels,
        less the mean of the others, in standardised features

A poison is another kind of token than the witness: agreement is 0 up to chance and the cosine that
of their means. It does move all tokens alike, by 1/L of itself: in short bags with a weak witness
they may win by it, and then this rule does not see it.

No reading is fitted whole to be thrown away where less tells: agreement is first looked at on a few
folds at one ridge, and at once "single" if it is clear there; the cosine is that of EM on one fold,
and only where it is high there, and EM has the lower loss of that fold's held-out bags, of all bags
(tokens of negative bags that look most like the witness are "one kind" with it, too: then losses
decide). notation: L length of a bag. Both signs are estimates from the bags at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.best_start import quick_em
from attnscope.estimators.fit.clock import OutOfTime
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.forest import grow_forest
from attnscope.estimators.fit.held_out import (
    CAUTION,
    Fold,
    Options,
    gain_and_error,
    held_out,
    probe_folds,
)
from attnscope.estimators.fit.instances import fit_instances
from attnscope.estimators.fit.mixture import (
    Fitted,
    bag_outputs,
    constant_output,
    output_losses,
    responsibilities,
    token_scores,
)
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.rivals import NEARLY
from attnscope.estimators.fit.stages import LARGE, Selected, may_stack
from attnscope.estimators.fit.witness import LOOK, WitnessFit, at_one_ridge, fit_witness
from attnscope.estimators.fit.witness_waves import finished
from attnscope.numerics.compiled.data_pass import SIGMOID, bag_max

__all__ = [
    "AGREE",
    "ALIKE",
    "Readings",
    "against",
    "choose_reading",
    "cosine",
    "gate_agreement",
]

# between poisons and multiple-instance sets (at most .1) and sentences and planted keys (at least
# .33 with 200 bags or more), measured on data sets fixed before
AGREE = 0.25
# between poisons (at most .46; .65 on pure noise) and planted keys (at least .95)
ALIKE = 0.75

# standard errors, with few bags: a reading that forbids evidence must show that it finds something
# by it, where "single" has plainer models beside it (stacking.py); with more bags none
AHEAD = 1.0

# bags that EM for the cosine alone reads, at most: its standard error is then a twentieth or so
QUICK = 400


class Readings(NamedTuple):
    """What the choice rests on: held-out losses (NaN: not fitted) and the two signs (NaN: not
    asked). Where agreement alone decided, the witness reading's loss is that of a first look.
    """

    chosen: str
    single: float
    witness: float
    mean_pool: float
    agreement: float
    cosine: float
    every_token: float = np.nan
    mean_trees: float = np.nan
    error: float = np.nan  # standard error of witness - single, bag by bag

    @property
    def one_kind(self) -> bool:
        return self.agreement > AGREE or self.cosine > ALIKE


def choose_reading(
    data: Data,
    folds: list[Fold],
    options: Options,
    pooled: Pooled,
    fit_single: Callable[[], Selected],
    means: Callable[[], np.ndarray],
) -> tuple[Selected, Readings]:
    """The reading the rule takes, fitted; of the other no more than the rule must know. `means`:
    the mean tokens (n, d) in the caller's features, where `data` may have others.
    """
    first = folds[: probe_folds(folds)]
    ridge = LOOK if options.alpha_gate is None else options.alpha_gate
    models, quick = at_one_ridge(data, first, options, ridge)
    agreement, error = gate_agreement(
        data, first, models, against(data, first, options, ridge)
    )
    mean_pool = _mean(data, pooled.losses)
    single: Selected | None = None
    if agreement > AGREE + CAUTION * error:
        single = fit_single()
        gain, doubt = gain_and_error(quick - single.held_out, data.weight, data.groups)
        if gain > 0:
            loss = _mean(data, single.held_out)
            # the witness reading's on the same scale, from the bags it was tried on
            found = Readings("single", loss, loss + gain, mean_pool, agreement, np.nan)
            return single, _told(found._replace(error=doubt), options)
    witness = fit_witness(data, folds, options)
    own = _mean(data, witness.losses)
    if abs(agreement - AGREE) <= CAUTION * error:
        others = against(data, folds, options, witness.ridge)
        agreement, _ = gate_agreement(data, folds, witness.models, others)
    found = Readings("witness", np.nan, own, mean_pool, agreement, np.nan)
    entropy = _mean(data, output_losses(constant_output(data), data))
    tells_as_much = _beside(data, folds, options, witness)
    alike = tells_as_much(pooled.losses)
    may_be_single = agreement > AGREE or alike
    # where nothing is left to explain, neither all tokens nor those of another kind explain anything
    small = data.tokens.nbytes <= LARGE and may_stack(data, options)
    if not may_be_single and own > NEARLY * entropy and small:
        every_token = fit_instances(data, folds, options.alpha_value).losses
        found = found._replace(every_token=_mean(data, every_token))
        may_be_single = alike = tells_as_much(every_token)
    if not may_be_single and own > NEARLY * entropy and small:
        # of the mean token alone: in the largest and smallest features a poison shows as it does
        # to "single"
        trees = grow_forest(means(), data, folds, options.seed, options.workers)[1]
        mean_trees = output_losses(trees, data)
        found = found._replace(mean_trees=_mean(data, mean_trees))
        may_be_single = alike = tells_as_much(mean_trees)
    if not may_be_single and own > NEARLY * entropy:
        kind, leads = _quick_cosine(folds, options, witness.losses)
        found = found._replace(cosine=kind)
        may_be_single = found.one_kind and leads
    if single is None and may_be_single and not options.clock.over:
        single = fit_single()
    if single is not None:
        lead = witness.losses - single.held_out
        doubt = gain_and_error(lead, data.weight, data.groups)[1]
        found = found._replace(single=_mean(data, single.held_out), error=doubt)
        # in chosen directions the two may see different ones: then the fold's cosine stands
        if len(single.fitted.features.frequency) == data.tokens.shape[1]:
            found = found._replace(cosine=cosine(single.fitted, data))
        if (found.one_kind or alike) and found.single < own:
            return single, _told(found._replace(chosen="single"), options)
    return finished(data, folds, witness, options), _told(found, options)


def _beside(
    data: Data, folds: list[Fold], options: Options, witness: WitnessFit
) -> Callable[[np.ndarray], bool]:
    """Do models with given held-out losses (n,) tell as much as tokens that speak for 1 only, and
    as those that speak for 0 only?
    """

    @cache
    def against_one() -> np.ndarray:
        return at_one_ridge(*_exchanged(data, folds), options, witness.ridge)[1]

    def as_much(plain: np.ndarray, one_sided: np.ndarray) -> bool:
        gain, error = gain_and_error(plain - one_sided, data.weight, data.groups)
        return gain <= (AHEAD * error if may_stack(data, options) else 0.0)

    return lambda plain: as_much(plain, witness.losses) and as_much(plain, against_one())


def _told(found: Readings, options: Options) -> Readings:
    facts = found._asdict().items()
    told = [f"{name} {x:.4g}" for name, x in facts if name != "chosen" and x == x]
    options.say(f"read as {found.chosen}: {', '.join(told)}")
    return found


def against(data: Data, folds: list[Fold], options: Options, ridge: float) -> list[Fitted]:
    """Models of the folds with the classes exchanged: tokens that speak for 0."""
    return at_one_ridge(*_exchanged(data, folds), options, ridge)[0]


def _exchanged(data: Data, folds: list[Fold]) -> tuple[Data, list[Fold]]:
    other = data._replace(labels=1 - data.labels)
    return other, [fold._replace(data=other) for fold in folds]


def gate_agreement(
    data: Data, folds: list[Fold], ours: list[Fitted], theirs: list[Fitted]
) -> tuple[float, float]:
    """How often the tokens of held-out bags that speak loudest for either class are the same,
    beyond chance; and its standard error.
    """
    beyond = np.full(data.size, np.nan)
    for fold, one, other in zip(folds, ours, theirs):
        held = fold.held
        same = np.add.reduceat(_top(one, held) & _top(other, held), held.offsets[:-1]) > 0
        beyond[fold.out] = same - 1 / held.lengths
    chance = _mean(data, 1 / data.lengths)
    mean, error = gain_and_error(beyond, data.weight, data.groups)
    scale = max(1 - chance, 1e-12)
    return mean / scale, error / scale


def _quick_cosine(
    folds: list[Fold], options: Options, witness: np.ndarray
) -> tuple[float, bool]:
    """Of EM on the first fold, from the start that does best there; and whether its held-out loss
    is below that of the witness reading (n,). Out of time: (0, False).
    """
    fold = folds[0]._replace(rest=folds[0].rest[:QUICK])
    try:
        fitted = quick_em(fold, options)
    except OutOfTime:
        return 0.0, False
    gain, _ = gain_and_error(witness - held_out([fold], [fitted]), fold.data.weight)
    return cosine(fitted, fold.train), gain > 0


def _top(model: Fitted, data: Data) -> np.ndarray:
    u = token_scores(model, data.tokens)
    return u == data.per_token(bag_max(u, data.offsets))


def cosine(fitted: Fitted, data: Data) -> float:
    """Of the mean tokens that decided for 0 and for 1, less the mean of the others; 0 where one of
    them does not stand out at all.
    """
    if fitted.combine == SIGMOID:
        r = bag_outputs(fitted, data.tokens, data.offsets)[0]
    else:
        r = responsibilities(fitted, data)
    weight = data.per_token(data.weight)
    labels = data.per_token(data.labels)
    rest = np.maximum(1 - r, 0) * weight
    background = rest @ data.tokens / max(rest.sum(), 1e-300)
    sides = []
    for c in (0, 1):
        own = r * weight * (labels == c)
        sides.append(own @ data.tokens / max(own.sum(), 1e-300) - background)
    size = float(np.linalg.norm(sides[0]) * np.linalg.norm(sides[1]))
    return float(sides[0] @ sides[1]) / size if size > 1e-12 else 0.0


def _mean(data: Data, per_bag: np.ndarray) -> float:
    return float(np.average(per_bag, weights=data.weight))
