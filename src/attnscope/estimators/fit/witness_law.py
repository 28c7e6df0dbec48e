"""The witness law: a bag is negative if none of its tokens is a witness and no background event makes
it positive.

    log P(negative | bag) = -S,   S = log(1 + e^b) + sum_l log(1 + e^{u_l + a + c t}),
    log P(positive | bag) = log(1 - e^-S),

so that each token has its own probability p_l = logistic(u_l + a + c t) of being a witness, and
1/(1 + e^b) is the probability that a bag without witness is negative. Every term of S is positive:
tokens can only raise P(positive). A label is wrong with probability w, so that a bag unlike all
training bags is not predicted with certainty:

    P(label) = w + (1 - 2 w) P

    slopes   dloss/dS = 1 where the bag is negative, -1/(e^S - 1) where it is positive;
             dS/du_l = p_l, dS/da = sum_l p_l, dS/dc = t sum_l p_l, dS/db = logistic(b)

notation: u_l score of a token; t = log of the bag's length less its average; a rate, c slope in the
length (-1: as many witnesses in long bags as in short ones), b background. Slopes are those of
w = 0; w is chosen after the other numbers (`wrong_label_share`). Everything is computed in log space
and exact up to rounding, for S from 1e-300 to the largest float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from attnscope.numerics.compiled.data_pass import bag_sum
from attnscope.numerics.compiled.witness_pass import SMALLEST_EVIDENCE, witness_pass

__all__ = [
    "WITNESS",
    "Numbers",
    "log_odds",
    "loss_and_slopes",
    "mix_wrong_labels",
    "witness_outputs",
    "wrong_label_share",
]

# how a bag's tokens are combined, after MIXTURE, SOFTMAX and SIGMOID of data_pass
WITNESS = 3


class Numbers(NamedTuple):
    """The numbers that belong to no token: rate a, slope c in the length, background b, average log length,
    share w of wrong labels.
    """

    rate: float
    slope: float
    background: float
    log_length: float
    wrong: float = 0.0


def log_odds(u: np.ndarray, offsets: np.ndarray, numbers: Numbers) -> np.ndarray:
    """u_l + a + c t (N,)."""
    lengths = np.diff(offsets)
    t = np.log(lengths) - numbers.log_length
    return u + np.repeat(numbers.rate + numbers.slope * t, lengths)


def witness_outputs(u: np.ndarray, offsets: np.ndarray, numbers: Numbers) -> np.ndarray:
    """P(negative), P(positive) of each bag (n, 2)."""
    total = _bag_evidence(log_odds(u, offsets, numbers), offsets, numbers.background)
    return mix_wrong_labels(
        np.column_stack([np.exp(-total), -np.expm1(-total)]), numbers.wrong
    )


def mix_wrong_labels(output: np.ndarray, wrong: float) -> np.ndarray:
    """P(label) where a share of labels is wrong."""
    return wrong + (1 - 2 * wrong) * output


def wrong_label_share(right: np.ndarray, weight: np.ndarray) -> float:
    """The most probable share w of wrong labels, from held-out probabilities (n,) of the observed
    labels. A Beta prior of one right and one wrong label keeps it between 0 and 1/2.
    """

    def loss(wrong: float) -> float:
        beforehand = np.log(2 * wrong) + np.log1p(-2 * wrong)
        return float(-weight @ np.log(mix_wrong_labels(right, wrong)) - beforehand)

    edge = 1e-9
    found = minimize_scalar(
        loss, bounds=(edge, 0.5 - edge), method="bounded", options={"xatol": edge}
    )
    return float(found.x)


def loss_and_slopes(
    u: np.ndarray,
    offsets: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    numbers: Numbers,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Weighted sum of -log P(label), its slopes in u (N,) and in (a, c, b)."""
    t = np.log(np.diff(offsets)) - numbers.log_length
    each = np.empty(len(u))
    per_bag = np.empty((len(labels), 2))
    at = numbers.rate + numbers.slope * t
    background = float(numbers.background)
    loss = witness_pass(u, offsets, labels, weight, at, background, each, per_bag)
    rate, raised = per_bag.T
    firm = 0.5 * (1 + np.tanh(background / 2))
    return loss, each, np.array([rate.sum(), rate @ t, firm * raised.sum()])


def _bag_evidence(odds: np.ndarray, offsets: np.ndarray, background: float) -> np.ndarray:
    """S of each bag (n,)."""
    tokens = bag_sum(np.logaddexp(0, odds), offsets)
    return np.maximum(tokens + np.logaddexp(0, background), SMALLEST_EVIDENCE)
