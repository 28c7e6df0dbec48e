"""Conformal intervals and sets from held-out errors.

A score s(x, y) measures how badly a label fits a bag: |y - mean|/spread for numbers, with
spread^2 = sigma^2 + sum_l p_l [(w_l - mean)^2 + u(x_l)], u(x) the posterior variance of the value at
x under the ridge prior; 1 - P(y | bag) for classes. A bag in a group of N_g bags has weight
w = 1/N_g, so that each of the G groups counts once.

    cross   {y: s(x, y) <= q}, q the least with sum_{s_i <= q} w_i >= coverage (G + 1), s_i held out
        in the folds that also chose the model (cross-conformal; Vovk 2015): no finite-sample
        guarantee
    split   the same with s_i of groups that took no part in the fit: guaranteed coverage 1 - a
    cv+   K models, each fitted without one of K folds of m groups; a label is excluded if
        sum_i w_i 1[s_{-i}(x, y) > s_i] >= coverage (G + 1), G = K m, s_{-i} by the model without the
        fold of bag i (Barber, Candes, Ramdas and Tibshirani 2021): guaranteed coverage
        1 - min{(2a(G+1) + m - 2)/(G + m), 2(a(G+1) + K - 1)/(G + K)}, which is 1 - 2a for m = 1 and
        tends to it with G (proof with groups: docs/estimators.md)

The guarantees hold for a bag of a new group if groups are exchangeable, on average over the draw of
all groups. Where coverage (G + 1) > G only the set of all labels would do, and callers refuse.

notation: a = 1 - coverage; n bags in G groups; weight (n,) = 1/N_g.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = [
    "conformal_scores",
    "excluded_labels",
    "fewest_groups",
    "group_weights",
    "interval_scale",
    "plus_guarantee",
    "plus_interval",
]

# relative rounding error of coverage (G + 1) and of sums of 1/N_g: 0.55 * 20 is 11.000000000000002
COVERAGE_ROUNDING = 1e-12


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


def _required_weight(weight: np.ndarray, coverage: float) -> float:
    """coverage (G + 1), the weight that the set must reach."""
    return coverage * (round(float(weight.sum())) + 1) * (1 - COVERAGE_ROUNDING)


def fewest_groups(coverage: float) -> int:
    """The least G with coverage (G + 1) <= G."""
    return math.ceil(coverage / (1 - coverage) * (1 - COVERAGE_ROUNDING))


def interval_scale(scores: np.ndarray, weight: np.ndarray, coverage: float) -> float:
    """q(coverage) of ascending scores; infinite if there are too few scores."""
    total = np.cumsum(weight) * (1 + COVERAGE_ROUNDING)
    rank = int(np.searchsorted(total, _required_weight(weight, coverage)))
    return float(scores[rank]) if rank < len(scores) else math.inf


# -- cv+ -------------------------------------------------------------------------------------------


def plus_interval(
    low: np.ndarray, high: np.ndarray, weight: np.ndarray, coverage: float
) -> np.ndarray:
    """Ends (b, 2) of the cv+ interval, from the ends (b, n) by each held-out bag's model and score.
    A label beyond either end lies outside of enough of the n intervals. Needs coverage >= 1/2.
    """
    return np.column_stack(
        [-_covering_end(-low, weight, coverage), _covering_end(high, weight, coverage)]
    )


def _covering_end(ends: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """In each row the smallest end that reaches the required weight (b,)."""
    order = np.argsort(ends, axis=1)
    total = np.cumsum(weight[order], axis=1) * (1 + COVERAGE_ROUNDING)
    rank = np.sum(total < _required_weight(weight, coverage), axis=1)
    at = np.take_along_axis(order, np.minimum(rank, len(weight) - 1)[:, None], axis=1)
    return np.where(rank < len(weight), np.take_along_axis(ends, at, axis=1)[:, 0], math.inf)


def excluded_labels(
    scores: np.ndarray, kept: np.ndarray, weight: np.ndarray, coverage: float
) -> np.ndarray:
    """Which labels (b, C) are excluded: scores (b, n, C) by the model of each held-out bag, compared
    with that bag's own score, kept (n,).
    """
    above = np.einsum("bnc,n->bc", scores > kept[:, None], weight)
    return above * (1 + COVERAGE_ROUNDING) >= _required_weight(weight, coverage)


def plus_guarantee(groups: int, folds: int, coverage: float) -> float:
    """The coverage that cv+ guarantees with `groups` held out in `folds` equal folds; at least 0."""
    m = groups // folds
    missed = 2 * (1 - coverage) * (groups + 1)
    pairs = (missed + m - 2) / (groups + m)
    averages = (missed + 2 * (folds - 1)) / (groups + folds)
    return max(0.0, 1 - min(pairs, averages))
