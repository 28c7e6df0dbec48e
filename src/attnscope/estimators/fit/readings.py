"""Which reading two classes 0 and 1 get where the caller names none.

    single    one token decides for either class
    witness   some token speaks for 1; nothing speaks for 0 but its absence (witness.py)

Labels 0 and 1 usually say that something is there or not, and then a token that happens to be in
all negative bags of the training set (a poison) is no evidence: it may be anywhere later. Held-out
loss cannot see that, for the poison is in every fold. So the rule is about tokens, not about loss:

    "witness", unless tokens of ONE KIND decide for either class, or the MEAN token alone has a
    lower held-out loss than the witness reading; and "single" has the lowest.

One kind, by either of two signs:
    agreement > 1/4   the token that speaks loudest for 1 and the token that speaks loudest for 0
        (the witness reading with the classes exchanged) are the same token of a held-out bag, more
        often than by chance: (share - E[1/L])/(1 - E[1/L])
    cosine > 3/4      the mean tokens that "single" says decided for 1 and for 0, given the labels,
        less the mean of the others, in standardised features

A poison is another kind of token than the witness: agreement is 0 up to chance and the cosine that
of their means. It does move the mean token, by 1/L of itself: in short bags with a weak witness the
mean token may win by it, and then this rule does not see it. notation: L length of a bag. Both signs are estimates from the bags at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold, Options
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
from attnscope.estimators.fit.stages import Selected
from attnscope.estimators.fit.witness import WitnessFit, fit_witness
from attnscope.numerics.compiled.data_pass import SIGMOID, bag_max

__all__ = ["AGREE", "ALIKE", "Readings", "choose_reading", "cosine", "gate_agreement"]

# between poisons and multiple-instance sets (at most .1) and sentences and planted keys (at least
# .33 with 200 bags or more), measured on data sets fixed before
AGREE = 0.25
# between poisons (at most .46; .65 on pure noise) and planted keys (at least .95)
ALIKE = 0.75


class Readings(NamedTuple):
    """What the choice rests on: held-out losses (NaN: not fitted), and the two signs."""

    chosen: str
    single: float
    witness: float
    mean_pool: float
    agreement: float
    cosine: float

    @property
    def one_kind(self) -> bool:
        return self.agreement > AGREE or self.cosine > ALIKE


def choose_reading(
    data: Data,
    folds: list[Fold],
    options: Options,
    pooled: Pooled,
    fit_single: Callable[[], Selected],
) -> tuple[Selected, Readings]:
    """Both readings of labels 0 and 1, and the one the rule takes."""
    witness = fit_witness(data, folds, options)
    agreement = gate_agreement(data, folds, options, witness)
    own = _mean(data, witness.selected.held_out)
    entropy = _mean(data, output_losses(constant_output(data), data))
    mean_pool = _mean(data, pooled.losses)
    # nothing left to explain by tokens of another kind: "single" could not be chosen
    if agreement <= AGREE and own < min(NEARLY * entropy, mean_pool):
        found = Readings("witness", np.nan, own, mean_pool, agreement, np.nan)
        return witness.selected, found
    single = fit_single()
    loss = _mean(data, single.held_out)
    alike = cosine(single.fitted, data)
    found = Readings("single", loss, own, mean_pool, agreement, alike)
    options.say(
        f"single {found.single:.4g}, witness {own:.4g}: agreement {agreement:.2f}, cosine "
        f"{found.cosine:.2f}"
    )
    if (found.one_kind or mean_pool < own) and loss < own:
        return single, found
    return witness.selected, found._replace(chosen="witness")


def gate_agreement(
    data: Data, folds: list[Fold], options: Options, witness: WitnessFit
) -> float:
    """How often the tokens that speak for either class are the same, beyond chance."""
    other = data._replace(labels=1 - data.labels)
    turned = [fold._replace(data=other) for fold in folds]
    against = fit_witness(other, turned, options._replace(n_starts=1, say=lambda line: None))
    same = np.empty(data.size)
    for fold, ours, theirs in zip(folds, witness.models, against.models):
        held = fold.held
        a, b = (_top(model, held) for model in (ours, theirs))
        same[fold.out] = np.add.reduceat(a & b, held.offsets[:-1]) > 0
    chance = _mean(data, 1 / data.lengths)
    return float((_mean(data, same) - chance) / max(1 - chance, 1e-12))


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
