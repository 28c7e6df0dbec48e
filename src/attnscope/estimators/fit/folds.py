"""Folds: which bags are held out together, and the mean and standard error of held-out numbers.

Bags of one group (a patient, an image) are in one fold, and standard errors treat groups as
independent: with T_g = sum_{i in g} w_i (x_i - mean) the standard error of a mean is
sqrt(G/(G-1) sum_g T_g^2) / sum_i w_i.

notation: n bags, x_i (n,) differences of losses, w_i weights, G groups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data

__all__ = ["FOLD_COUNT", "Fold", "gain_and_error", "make_folds"]

FOLD_COUNT = 5


class Fold(NamedTuple):
    """Which bags are held out. `train` and `held` copy their bags on each call, so that folds take
    no memory between stages.
    """

    data: Data
    rest: np.ndarray
    out: np.ndarray

    @property
    def train(self) -> Data:
        return self.data.take(self.rest)

    @property
    def held(self) -> Data:
        return self.data.take(self.out)


def make_folds(data: Data, seed: int) -> list[Fold]:
    """Random folds, stratified by label, so that every fold has every class and the whole range.
    Bags of one group are in one fold.
    """
    rng = np.random.default_rng([seed, 0])
    if data.groups is None:
        count = min(FOLD_COUNT, data.size)
        order = np.lexsort((rng.random(data.size), data.labels))
        fold = np.empty(data.size, int)
        for block in range(0, data.size, count):
            rows = order[block : block + count]
            fold[rows] = rng.permutation(count)[: len(rows)]
    else:
        fold, count = _grouped_folds(data.labels, data.groups, rng)
    everyone = np.arange(data.size)
    return [
        Fold(data, everyone[fold != f], everyone[fold == f])
        for f in range(count)
        if (fold == f).any()
    ]


def _grouped_folds(
    labels: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """The fold of each bag, and the number of folds. Groups are stratified by their mean labels; in
    each block of groups the largest one goes to the fold with the fewest bags.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    count = min(FOLD_COUNT, len(sizes))
    order = np.lexsort((rng.random(len(sizes)), np.bincount(codes, labels) / sizes))
    fold = np.empty(len(sizes), int)
    load = np.zeros(count)
    for block in range(0, len(sizes), count):
        handful = order[block : block + count]
        handful = handful[np.argsort(-sizes[handful], kind="stable")]
        free = np.lexsort((rng.random(count), load))[: len(handful)]
        fold[handful] = free
        load[free] += sizes[handful]
    return fold[codes], count


def gain_and_error(
    gain: np.ndarray, weight: np.ndarray, groups: np.ndarray | None = None
) -> tuple[float, float]:
    """Weighted mean of gains (n,) and its standard error; NaN marks bags that were not held out.
    Groups (n,) are independent of each other; bags of one group need not be.
    """
    known = np.isfinite(gain)
    gain = gain[known]
    weight = weight[known]
    mean = float(np.average(gain, weights=weight))
    if groups is not None:
        _, codes = np.unique(groups[known], return_inverse=True)
        totals = np.bincount(codes, weight * (gain - mean))
        count = len(totals)
        spread = np.sqrt(totals @ totals * count / max(count - 1, 1))
        return mean, float(spread / weight.sum())
    return mean, float(
        np.sqrt(np.average((gain - mean) ** 2, weights=weight) / max(len(gain) - 1, 1))
    )
