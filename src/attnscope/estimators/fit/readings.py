"""Which reading the classes 0 and 1 get if the caller names none.

    single    one token decides for either class
    witness   some token is evidence for 1; only the absence of such tokens is evidence for 0
              (witness.py)

Labels 0 and 1 usually mean that something is present or absent. Then a token that happens to be in
all negative bags of the training set is a shortcut and no evidence: later it may be in any bag. The
held-out loss cannot show this, because the shortcut is in every fold. So the rule looks at tokens,
not only at losses:

    "witness", unless "single" has the lowest held-out loss and one of these holds:
    ONE KIND   tokens of one kind decide for either class
    BASELINE   a plain baseline that reads all tokens equally (the mean token; with few bags also the
        mean of token probabilities, or trees on the mean token) is as good as tokens that are
        evidence for one class only: neither the witness reading nor the witness reading with
        exchanged classes has a lower held-out loss (with few bags: by a standard error)

Tokens are of one kind if one of two numbers is large:
    agreement > 1/4   how often the strongest token for 1 and the strongest token for 0 (by the
        witness reading with exchanged classes) are the same token of a held-out bag, beyond chance:
        (share - E[1/L])/(1 - E[1/L])
    cosine > 3/4      cosine of the mean tokens that decided for 1 and for 0 according to "single",
        given the labels, minus the mean of the other tokens, in standardised features

A shortcut is another kind of token than the witness: its agreement is 0 up to chance, and the
cosine is that of their means. It shifts the mean token by 1/L of itself, so in short bags with a
weak witness a baseline may win because of it, and this rule does not notice.

To save time, no reading is fitted completely if less is enough. Agreement is first computed on a
few folds at one ridge, and "single" is chosen at once if it is clearly large. The cosine is that of
EM on one fold. It is computed on all bags only if it is large there and EM has the lower loss on
that fold's held-out bags: the tokens of negative bags that look most like the witness are of one
kind with it too, and then the losses decide. notation: L length of a bag. Both numbers are
estimates from the given bags.
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
    EXPLAINED_ENTROPY_SHARE,
    RIVAL_GAIN_STANDARD_ERRORS,
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
    constant_loss,
    output_losses,
    responsibilities,
    token_scores,
)
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.stages import MAX_COPY_BYTES, Selected, can_stack
from attnscope.estimators.fit.witness import (
    PROBE_RIDGE,
    WitnessFit,
    fit_one_ridge,
    fit_witness,
)
from attnscope.estimators.fit.witness_waves import fit_all_bags
from attnscope.numerics.compiled.data_pass import SIGMOID, bag_max

__all__ = [
    "MIN_AGREEMENT",
    "MIN_COSINE",
    "Readings",
    "choose_reading",
    "cosine",
    "exchanged_class_models",
    "gate_agreement",
]

# between shortcuts and multiple-instance sets (at most .1) and sentences and planted keys (at least
# .33 with 200 bags or more), measured on data sets chosen in advance
MIN_AGREEMENT = 0.25
# between shortcuts (at most .46; .65 on pure noise) and planted keys (at least .95)
MIN_COSINE = 0.75

# standard errors by which the witness reading must beat a baseline with few bags, where "single"
# includes the baselines (stacking.py); with more bags none
LEAD_STANDARD_ERRORS = 1.0

# bags of the EM fit for the cosine, at most: its standard error is then about a twentieth
COSINE_BAG_COUNT = 400


class Readings(NamedTuple):
    """The numbers behind the choice: held-out losses (NaN: not fitted), agreement and cosine (NaN:
    not computed). If agreement alone decided, the loss of the witness reading is that at one ridge.
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
        return self.agreement > MIN_AGREEMENT or self.cosine > MIN_COSINE


def choose_reading(
    data: Data,
    folds: list[Fold],
    options: Options,
    pooled: Pooled,
    fit_single: Callable[[], Selected],
    means: Callable[[], np.ndarray],
) -> tuple[Selected, Readings]:
    """The reading that the rule chooses, fitted, and the numbers behind the choice. `means`: the mean
    tokens (n, d) in the caller's features, where `data` may have others.
    """
    first = folds[: probe_folds(folds)]
    ridge = PROBE_RIDGE if options.alpha_gate is None else options.alpha_gate
    models, quick = fit_one_ridge(data, first, options, ridge)
    agreement, error = gate_agreement(
        data, first, models, exchanged_class_models(data, first, options, ridge)
    )
    mean_pool = data.average(pooled.losses)
    single: Selected | None = None
    if agreement > MIN_AGREEMENT + RIVAL_GAIN_STANDARD_ERRORS * error:
        single = fit_single()
        gain, doubt = gain_and_error(quick - single.held_out, data.weight, data.groups)
        if gain > 0:
            loss = data.average(single.held_out)
            # the loss of the witness reading on the same scale, from the bags of the first folds
            found = Readings("single", loss, loss + gain, mean_pool, agreement, np.nan)
            return single, _report_choice(found._replace(error=doubt), options)
    witness = fit_witness(data, folds, options)
    own = data.average(witness.losses)
    if abs(agreement - MIN_AGREEMENT) <= RIVAL_GAIN_STANDARD_ERRORS * error:
        others = exchanged_class_models(data, folds, options, witness.ridge)
        agreement, _ = gate_agreement(data, folds, witness.models, others)
    found = Readings("witness", np.nan, own, mean_pool, agreement, np.nan)
    entropy = constant_loss(data)
    explains_as_much = _explains_as_much(data, folds, options, witness)
    baseline_wins = explains_as_much(pooled.losses)
    may_be_single = agreement > MIN_AGREEMENT or baseline_wins
    # if hardly anything is left to explain, no other reading can explain more
    small = data.tokens.nbytes <= MAX_COPY_BYTES and can_stack(data, options)
    if not may_be_single and own > EXPLAINED_ENTROPY_SHARE * entropy and small:
        every_token = fit_instances(data, folds, options.alpha_value).losses
        found = found._replace(every_token=data.average(every_token))
        may_be_single = baseline_wins = explains_as_much(every_token)
    if not may_be_single and own > EXPLAINED_ENTROPY_SHARE * entropy and small:
        # trees on the mean token only: the largest and smallest features would show a shortcut, as
        # "single" does
        trees = grow_forest(means(), data, folds, options.seed, options.workers)[1]
        mean_trees = output_losses(trees, data)
        found = found._replace(mean_trees=data.average(mean_trees))
        may_be_single = baseline_wins = explains_as_much(mean_trees)
    if not may_be_single and own > EXPLAINED_ENTROPY_SHARE * entropy:
        kind, leads = _quick_cosine(folds, options, witness.losses)
        found = found._replace(cosine=kind)
        may_be_single = found.one_kind and leads
    if single is None and may_be_single and not options.clock.over:
        single = fit_single()
    if single is not None:
        lead = witness.losses - single.held_out
        doubt = gain_and_error(lead, data.weight, data.groups)[1]
        found = found._replace(single=data.average(single.held_out), error=doubt)
        # in chosen directions the two readings may use different ones: then keep the fold's cosine
        if len(single.fitted.features.frequency) == data.tokens.shape[1]:
            found = found._replace(cosine=cosine(single.fitted, data))
        if (found.one_kind or baseline_wins) and found.single < own:
            return single, _report_choice(found._replace(chosen="single"), options)
    return fit_all_bags(data, folds, witness, options), _report_choice(found, options)


def _explains_as_much(
    data: Data, folds: list[Fold], options: Options, witness: WitnessFit
) -> Callable[[np.ndarray], bool]:
    """A predicate: does a model with given held-out losses (n,) explain as much as tokens that are
    evidence for 1 only, and as tokens that are evidence for 0 only?
    """

    @cache
    def against_one() -> np.ndarray:
        return fit_one_ridge(*_exchange_classes(data, folds), options, witness.ridge)[1]

    def as_much(plain: np.ndarray, one_sided: np.ndarray) -> bool:
        gain, error = gain_and_error(plain - one_sided, data.weight, data.groups)
        return gain <= (LEAD_STANDARD_ERRORS * error if can_stack(data, options) else 0.0)

    return lambda plain: as_much(plain, witness.losses) and as_much(plain, against_one())


def _report_choice(found: Readings, options: Options) -> Readings:
    facts = found._asdict().items()
    printed = [f"{name} {x:.4g}" for name, x in facts if name != "chosen" and x == x]
    options.say(f"read as {found.chosen}: {', '.join(printed)}")
    return found


def exchanged_class_models(
    data: Data, folds: list[Fold], options: Options, ridge: float
) -> list[Fitted]:
    """Witness models of the folds with exchanged classes: their tokens are evidence for 0."""
    return fit_one_ridge(*_exchange_classes(data, folds), options, ridge)[0]


def _exchange_classes(data: Data, folds: list[Fold]) -> tuple[Data, list[Fold]]:
    other = data._replace(labels=1 - data.labels)
    return other, [fold._replace(data=other) for fold in folds]


def gate_agreement(
    data: Data, folds: list[Fold], ours: list[Fitted], theirs: list[Fitted]
) -> tuple[float, float]:
    """How often the strongest tokens of held-out bags for either class are the same, beyond chance;
    and its standard error.
    """
    beyond = np.full(data.size, np.nan)
    for fold, one, other in zip(folds, ours, theirs):
        held = fold.held
        same = (
            np.add.reduceat(
                _top_tokens(one, held) & _top_tokens(other, held), held.offsets[:-1]
            )
            > 0
        )
        beyond[fold.out] = same - 1 / held.lengths
    chance = data.average(1 / data.lengths)
    mean, error = gain_and_error(beyond, data.weight, data.groups)
    scale = max(1 - chance, 1e-12)
    return mean / scale, error / scale


def _quick_cosine(
    folds: list[Fold], options: Options, witness: np.ndarray
) -> tuple[float, bool]:
    """The cosine of EM on the first fold, from its best start; and whether EM's held-out loss is
    below that of the witness reading (n,). Out of time: (0, False).
    """
    fold = folds[0]._replace(rest=folds[0].rest[:COSINE_BAG_COUNT])
    try:
        fitted = quick_em(fold, options)
    except OutOfTime:
        return 0.0, False
    gain, _ = gain_and_error(witness - held_out([fold], [fitted]), fold.data.weight)
    return cosine(fitted, fold.train), gain > 0


def _top_tokens(model: Fitted, data: Data) -> np.ndarray:
    u = token_scores(model, data.tokens)
    return u == data.per_token(bag_max(u, data.offsets))


def cosine(fitted: Fitted, data: Data) -> float:
    """Cosine of the mean tokens that decided for 0 and for 1, minus the mean of the other tokens; 0
    if one of these differences vanishes.
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
