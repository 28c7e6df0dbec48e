"""Several heads: y = sum_h x_{J_h}.v_h + b + noise, each head with its own deciding token, gate and
values (numbers only).

Given the other heads' predictions f_g, head h has the label y - sum_{g != h} f_g, which is again a
single-location problem. Heads are found one after the other, each on the residuals of the earlier
ones, with starts chosen by held-out loss (stages.py). Then EM steps cycle through the heads until
the prediction stops moving (backfitting; Buja, Hastie and Tibshirani 1989). Each step is an EM step
of em.py. The rounds as a whole need not increase a likelihood, because the other heads enter by
their predicted mean and not by their posterior.

Held-out predictions come from the same rounds on each fold's bags, started at the heads found on
all bags. They do not use held-out labels, but the choice of the basin did.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import Em, run_em
from attnscope.estimators.fit.held_out import Fold, Options, map_jobs
from attnscope.estimators.fit.mixture import (
    Answers,
    Fitted,
    bag_answers,
    bag_outputs,
    from_em,
)
from attnscope.estimators.fit.stages import fit_bags
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["Heads", "fit_heads", "residuals", "sum_of_heads"]

BACKFITTING_ROUNDS = 30
ROUND_EM_STEPS = 2  # EM steps per head and round
# mean squared move of the prediction in a round, in units of the labels' variance
STOP_MEAN_SQUARED_MOVE = 1e-8


class Heads(NamedTuple):
    """As stages.Selected, for several heads."""

    heads: list[Fitted]
    stages: list[str]
    held_out: np.ndarray  # (n,) squared errors
    output: np.ndarray  # (n, 1)
    spread: np.ndarray  # (n,)
    start_losses: dict[str, float]  # of the first head
    mean_share: float = 0.0


def fit_heads(data: Data, folds: list[Fold], options: Options, count: int) -> Heads:
    """`count` heads fitted together; `options` as for one head, EM only."""
    quadratic = options.gate != "linear"
    ridge = options.alpha_value
    alone = options._replace(alpha_gate=np.inf)
    ems: list[Em] = []
    first: dict[str, float] = {}
    for head in range(count):
        options.say(f"head {head}")
        left = data._replace(labels=residuals([from_em(em, GAUSSIAN) for em in ems], data))
        found = fit_bags(left, [fold._replace(data=left) for fold in folds], alone, None)
        assert found.fitted.tokens is not None
        ems.append(Em(found.fitted.tokens, found.fitted.values))
        ems = _backfit(ems, data, quadratic, ridge)
        first = first or found.start_losses
    parts = map_jobs(
        lambda fold: _backfit(ems, fold.train, quadratic, ridge), folds, options.workers
    )
    output = np.empty((data.size, 1))
    spread = np.empty(data.size)
    for fold, part in zip(folds, parts):
        held = fold.held
        answers = sum_of_heads(
            [from_em(em, GAUSSIAN) for em in part], held.tokens, held.offsets
        )
        output[fold.out], spread[fold.out] = answers.output, answers.spread
    errors = (data.labels - output[:, 0]) ** 2
    options.say(f"{count} heads: held-out loss {np.average(errors, weights=data.weight):.4g}")
    stages = ["em"] * count + ["backfitting"]
    return Heads([from_em(em, GAUSSIAN) for em in ems], stages, errors, output, spread, first)


def _backfit(ems: list[Em], data: Data, quadratic: bool, ridge: float | None) -> list[Em]:
    ems = list(ems)
    outputs = [_head_output(em, data) for em in ems]
    for _ in range(BACKFITTING_ROUNDS):
        before = sum(outputs)
        for h, em in enumerate(ems):
            others = sum(outputs) - outputs[h]
            ems[h] = run_em(
                em,
                data._replace(labels=data.labels - others),
                quadratic,
                ROUND_EM_STEPS,
                ridge,
            )
            outputs[h] = _head_output(ems[h], data)
        if float(np.mean((sum(outputs) - before) ** 2)) < STOP_MEAN_SQUARED_MOVE:
            break
    return ems


def _head_output(em: Em, data: Data) -> np.ndarray:
    return bag_outputs(from_em(em, GAUSSIAN), data.tokens, data.offsets)[2][:, 0]


def residuals(heads: list[Fitted], data: Data) -> np.ndarray:
    """Labels minus the heads' predictions (n,)."""
    return data.labels - sum(
        bag_outputs(head, data.tokens, data.offsets)[2][:, 0] for head in heads
    )


def sum_of_heads(heads: list[Fitted], tokens: np.ndarray, offsets: np.ndarray) -> Answers:
    """All heads together: weights are averaged, values and outputs added. The variance is the noise,
    counted once, plus the heads' variances without noise.
    """
    each_head = [bag_answers(head, tokens, offsets) for head in heads]
    if len(heads) == 1:
        return each_head[0]
    noise = [head.values.noise for head in heads]
    doubt = sum(answers.spread**2 - own for answers, own in zip(each_head, noise))
    return Answers(
        np.mean([a.weight for a in each_head], axis=0),
        np.sum([a.value for a in each_head], axis=0),
        np.sum([a.output for a in each_head], axis=0),
        np.sqrt(np.maximum(doubt, 0) + min(noise)),
        np.sum([a.unsure for a in each_head], axis=0),
    )
