"""Extremely randomised trees on summaries of bags: similar bags have similar classes.

    P(class | bag) = (m p + b)/(m + 1),   p the mean of the trees' leaves at s(bag), b the classes'
        shares, m = TREE_COUNT: one more tree that predicts b, so that no class gets probability 0

Each tree splits a set of bags by one feature of s (summaries.py) at a random cut between its
smallest and largest value there; the best of several such draws is taken (Geurts, Ernst and
Wehenkel 2006), until every leaf has one class. Where few of many features matter (words of a page),
the kernel's distance sums over all features and drowns them; a split does not, and the distance of
an outlier does not matter to it.

TREE_COUNT trees are grown on the training part of every fold. A held-out bag is predicted by the
trees of its own fold, a new bag by the trees of all folds, each of which left out a fifth of the
bags. So there is no final fit on all bags and nothing to choose.

notation: n bags, s numbers of a summary, C classes, N nodes of all trees. scikit-learn grows the
trees; they are kept as arrays in single precision, which a model file can hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold
from attnscope.estimators.fit.mixture import Answers, constant_output
from attnscope.estimators.fit.summaries import equal_weight_answers, summaries

__all__ = ["Forest", "ForestPool", "fit_forest", "grow_forest"]

# trees per fold: the standard error of a held-out probability over draws of trees is at most .065
TREE_COUNT = 60
# share of the features that a split considers: the usual square root of their number loses .05 of
# AUC where few features matter (web_recommendation_1); on musk2 it gains .02, but there the kernel
# is better than both
SPLIT_FEATURE_SHARE = 1 / 3
# bags times features in a split: a forest on 1000 bags of 1152 features takes three seconds
MAX_SPLIT_NUMBERS = 5e5
BLOCK_TREE_POSITIONS = 2**20  # bags times trees that are followed at a time: 8 MB


class Forest(NamedTuple):
    """Node n tests whether feature[n] is at most cut[n] and continues at child[n, 0] (yes) or
    child[n, 1]; the children of a leaf are the leaf itself. Children have larger numbers than their
    parents. chance (N, C), root of each tree (T,), shares of the classes (C,).
    """

    feature: np.ndarray
    cut: np.ndarray
    child: np.ndarray
    chance: np.ndarray
    root: np.ndarray
    base: np.ndarray

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """P (n, C) for features (n, s)."""
        rows = _as_float32(rows)
        step = max(1, BLOCK_TREE_POSITIONS // len(self.root))
        parts = [self._mean_leaves(rows[i : i + step]) for i in range(0, len(rows), step)]
        return (TREE_COUNT * np.concatenate(parts) + self.base) / (TREE_COUNT + 1)

    def _mean_leaves(self, rows: np.ndarray) -> np.ndarray:
        """Mean of the trees' leaves (n, C)."""
        # in single precision the chances of a leaf sum to 1 up to 6e-8 only
        chance = self.chance.astype(float)
        chance /= chance.sum(axis=1, keepdims=True)
        at = np.repeat(self.root[None], len(rows), axis=0)
        bag = np.arange(len(rows))[:, None]
        while True:
            beyond = rows[bag, self.feature[at]] > self.cut[at]
            # never backwards, so that the loop ends for any file
            on = np.maximum(at, self.child[at, beyond.astype(int)])
            if np.array_equal(on, at):
                return chance[at].mean(axis=1)
            at = on


class ForestPool(NamedTuple):
    """The trees of all folds, as a model of bags."""

    forest: Forest

    def answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        return equal_weight_answers(
            self.forest.probabilities(summaries(tokens, offsets)), offsets
        )


def fit_forest(
    data: Data, folds: list[Fold], seed: int, workers: int
) -> tuple[ForestPool, np.ndarray]:
    """The model, and held-out probabilities (n, C)."""
    rows = summaries(data.tokens, data.offsets)
    forest, output = grow_forest(rows, data, folds, seed, workers)
    return ForestPool(forest), output


def grow_forest(
    rows: np.ndarray, data: Data, folds: list[Fold], seed: int, workers: int
) -> tuple[Forest, np.ndarray]:
    """On features (n, s) of the bags; and held-out probabilities (n, C)."""
    base = constant_output(data)[0]
    output = np.empty((data.size, len(base)))
    grown = []
    for number, fold in enumerate(folds):
        own = _grow_trees(rows, data, fold.rest, [seed, 6, number], base, workers)
        output[fold.out] = own.probabilities(rows[fold.out])
        grown.append(own)
    return _join_forests(grown, base), output


def _grow_trees(
    rows: np.ndarray,
    data: Data,
    seen: np.ndarray,
    seed: list[int],
    base: np.ndarray,
    workers: int,
) -> Forest:
    from sklearn.ensemble import ExtraTreesClassifier

    size = rows.shape[1]
    looked_at = min(
        SPLIT_FEATURE_SHARE * size, max(MAX_SPLIT_NUMBERS / len(seen), np.sqrt(size))
    )
    model = ExtraTreesClassifier(
        TREE_COUNT,
        max_features=max(1, round(looked_at)),
        random_state=int(np.random.SeedSequence(seed).generate_state(1)[0]),
        n_jobs=workers,
    )
    model.fit(_as_float32(rows[seen]), data.labels[seen], data.weight[seen])
    classes = model.classes_.astype(int)  # a rare class may be held out completely
    return _join_forests(
        [_tree_arrays(one.tree_, classes, base) for one in model.estimators_], base
    )


def _as_float32(rows: np.ndarray) -> np.ndarray:
    """The numbers in single precision, clipped to its range."""
    end = np.finfo(np.float32).max
    return np.clip(rows, -end, end).astype(np.float32)


def _tree_arrays(tree: object, classes: np.ndarray, base: np.ndarray) -> Forest:
    """The arrays of scikit-learn's tree, with leaves as their own children."""
    left, right, feature, cut, value = (
        getattr(tree, name)
        for name in ("children_left", "children_right", "feature", "threshold", "value")
    )
    own = np.arange(len(left))
    leaf = left < 0
    chance = np.zeros((len(left), len(base)), np.float32)
    chance[:, classes] = value[:, 0] / value[:, 0].sum(axis=1, keepdims=True)
    child = np.where(leaf[:, None], own[:, None], np.column_stack([left, right]))
    return Forest(
        np.where(leaf, 0, feature).astype(np.int32),
        np.where(leaf, 0.0, cut).astype(np.float32),
        child.astype(np.int32),
        chance,
        np.zeros(1, np.int32),
        base,
    )


def _join_forests(parts: list[Forest], base: np.ndarray) -> Forest:
    """All trees in one forest, with consecutive node numbers."""
    ends = np.cumsum([0, *(len(part.feature) for part in parts)]).astype(np.int32)
    moved = [
        part._replace(child=part.child + start, root=part.root + start)
        for part, start in zip(parts, ends)
    ]
    feature, cut, child, chance, root = (
        np.concatenate([getattr(part, name) for part in moved])
        for name in Forest._fields[:-1]
    )
    return Forest(feature, cut, child, chance, root, base)
