"""From held-out errors to intervals and sets that keep their word.

A score s(x, y) says how badly a label fits a bag: |y - mean|/spread for numbers, with
spread^2 = sigma^2 + sum_l p_l [(w_l - mean)^2 + u(x_l)], u(x) the posterior variance of the value at
x under the ridge prior; 1 - P(y | bag) for classes. A bag in a group of N_g weighs w = 1/N_g: every
one of the G groups counts once.

    cross   {y: s(x, y) <= q}, q the least with sum_{s_i <= q} w_i >= coverage (G + 1), s_i held out
        in the folds that also chose the model (cross-conformal; Vovk 2015): no finite-sample promise
    split   the same with s_i of groups that took no part in the fit: 1 - a
    cv+   K models, each fitted without one of K folds of m groups; a label is out if
        sum_i w_i 1[s_{-i}(x, y) > s_i] >= coverage (G + 1), G = K m, s_{-i} by the model without the
        fold of bag i (Barber, Candes, Ramdas and Tibshirani 2021): at least
        1 - min{(2a(G+1) + m - 2)/(G + m), 2(a(G+1) + K - 1)/(G + K)}, which is 1 - 2a for m = 1 and
        tends to it with G (proof with groups: docs/estimators.md)

The promises are for a bag of a new group, groups exchangeable, averaged over the draw of all of
them. Where coverage (G + 1) > G nothing but everything would do, and callers refuse.

notation: a = 1 - coverage; n bags in G groups; weight (n,) = 1/N_g.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "conformal_scores",
    "fewest_groups",
    "group_weights",
    "interval_scale",
    "left_out",
    "plus_interval",
    "plus_promise",
]

# coverage (G + 1) and sums of 1/N_g are exact to this share: 0.55 * 20 is 11.000000000000002
ROUNDING = 1e-12


def group_weights(groups: np.ndarray | None, n: int) -> np.ndarray:
    """1/N_g for each bag (n,)."""
    if groups is None:
        return np.ones(n)
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    return 1 / sizes[codes]


def conformal_scores(
    scores: np.ndarray, groups: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) in ascending order, and the weight of each."""
    order = np.argsort(scores, kind="stable")
    return scores[order], group_weights(groups, len(scores))[order]


def _asked(weight: np.ndarray, coverage: float) -> float:
    """coverage (G + 1), the weight that must be on the right side."""
    return coverage * (round(float(weight.sum())) + 1) * (1 - ROUNDING)


def fewest_groups(coverage: float) -> int:
    """The least G with coverage (G + 1) <= G."""
    return math.ceil(coverage / (1 - coverage) * (1 - ROUNDING))


def interval_scale(scores: np.ndarray, weight: np.ndarray, coverage: float) -> float:
    """q(coverage) of ascending scores; infinite where they are too few."""
    total = np.cumsum(weight) * (1 + ROUNDING)
    rank = int(np.searchsorted(total, _asked(weight, coverage)))
    return float(scores[rank]) if rank < len(scores) else math.inf


# -- cv+ -------------------------------------------------------------------------------------------


def plus_interval(
    low: np.ndarray, high: np.ndarray, weight: np.ndarray, coverage: float
) -> np.ndarray:
    """Ends (b, 2) from those (b, n) that each held-out bag's model and score give: what is below
    the lower end lies outside of enough of the n intervals, and likewise above. Coverage >= 1/2.
    """
    return np.column_stack(
        [-_enough(-low, weight, coverage), _enough(high, weight, coverage)]
    )


def _enough(ends: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """In each row the least end up to which the weight is enough (b,)."""
    order = np.argsort(ends, axis=1)
    total = np.cumsum(weight[order], axis=1) * (1 + ROUNDING)
    rank = np.sum(total < _asked(weight, coverage), axis=1)
    at = np.take_along_axis(order, np.minimum(rank, len(weight) - 1)[:, None], axis=1)
    return np.where(rank < len(weight), np.take_along_axis(ends, at, axis=1)[:, 0], math.inf)


def left_out(
    scores: np.ndarray, kept: np.ndarray, weight: np.ndarray, coverage: float
) -> np.ndarray:
    """Which labels (b, C) are out: scores (b, n, C) by the model of each held-out bag against that
    bag's own score, kept (n,).
    """
    above = np.einsum("bnc,n->bc", scores > kept[:, None], weight)
    return above * (1 + ROUNDING) >= _asked(weight, coverage)


def plus_promise(groups: int, folds: int, coverage: float) -> float:
    """What cv+ promises with `groups` held out in `folds` equal folds; 0 where that is nothing."""
    m = groups // folds
    missed = 2 * (1 - coverage) * (groups + 1)
    pairs = (missed + m - 2) / (groups + m)
    averages = (missed + 2 * (folds - 1)) / (groups + folds)
    return max(0.0, 1 - min(pairs, averages))
