"""Bags that look alike have alike classes: extremely randomised trees on summaries of bags.

    P(class | bag) = (m p + b)/(m + 1),   p the mean of the trees' leaves at s(bag), b the classes'
        shares, m = TREES: one further tree that knows nothing but b, so that no class is ruled out

Each tree splits a part of the bags by one feature of s (summaries.py) and a cut drawn at random
between its least and largest value there, the best of as many draws as a split may look at features
(Geurts, Ernst and Wehenkel 2006), until leaves are of one class. Where few of many features tell
(words of a page) a sum over all of them, as the kernel's distance is, drowns them; a split does not,
nor has it to fear how far an outlier lies.

TREES trees are grown on the training part of every fold: a held-out bag is answered by those of its
own fold, a new one by the trees of all folds, each of which has left out a fifth of the bags. So
there is nothing to fit again on all bags and nothing to choose.

notation: n bags, s numbers of a summary, C classes, N nodes of all trees. scikit-learn grows the
trees; what is kept of them are arrays in single precision, which a model file can hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Fold
from attnscope.estimators.fit.mixture import Answers, constant_output
from attnscope.estimators.fit.summaries import read_alike, summaries

__all__ = ["Forest", "ForestPool", "fit_forest", "grow_forest"]

# in each fold: a held-out probability then has an error of at most .065 of the trees' own
TREES = 60
# of the features, looked at in a split: the square root of their number, usual elsewhere, loses .05
# of AUC where few of them tell (web_recommendation_1); on musk2 it gains .02, but there the kernel is
# ahead of either by more
LOOKED_AT = 1 / 3
# numbers in a split, bags times features: a forest on 1000 bags of 1152 takes three seconds
WORK = 5e5
AT_ONCE = 2**20  # places of bags in trees followed at a time: 8 MB


class Forest(NamedTuple):
    """A node n asks whether feature[n] is at most cut[n] and goes on at child[n, 0] (yes) or
    child[n, 1]; a leaf at itself. Children stand behind their parents. chance (N, C), root of each
    tree (T,), shares of the classes (C,).
    """

    feature: np.ndarray
    cut: np.ndarray
    child: np.ndarray
    chance: np.ndarray
    root: np.ndarray
    base: np.ndarray

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        """P (n, C) for features (n, s)."""
        rows = _single(rows)
        step = max(1, AT_ONCE // len(self.root))
        parts = [self._leaves(rows[i : i + step]) for i in range(0, len(rows), step)]
        return (TREES * np.concatenate(parts) + self.base) / (TREES + 1)

    def _leaves(self, rows: np.ndarray) -> np.ndarray:
        """Mean of the trees' leaves (n, C)."""
        # in single precision the chances of a leaf sum to 1 up to 6e-8 only
        chance = self.chance.astype(float)
        chance /= chance.sum(axis=1, keepdims=True)
        at = np.repeat(self.root[None], len(rows), axis=0)
        bag = np.arange(len(rows))[:, None]
        while True:
            beyond = rows[bag, self.feature[at]] > self.cut[at]
            # never backwards, so that it ends whatever a file holds
            on = np.maximum(at, self.child[at, beyond.astype(int)])
            if np.array_equal(on, at):
                return chance[at].mean(axis=1)
            at = on


class ForestPool(NamedTuple):
    """The trees of all folds, as a model of bags."""

    forest: Forest

    def answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        return read_alike(self.forest.probabilities(summaries(tokens, offsets)), offsets)


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
        own = _grow(rows, data, fold.rest, [seed, 6, number], base, workers)
        output[fold.out] = own.probabilities(rows[fold.out])
        grown.append(own)
    return _joined(grown, base), output


def _grow(
    rows: np.ndarray,
    data: Data,
    seen: np.ndarray,
    seed: list[int],
    base: np.ndarray,
    workers: int,
) -> Forest:
    from sklearn.ensemble import ExtraTreesClassifier

    size = rows.shape[1]
    looked_at = min(LOOKED_AT * size, max(WORK / len(seen), np.sqrt(size)))
    model = ExtraTreesClassifier(
        TREES,
        max_features=max(1, round(looked_at)),
        random_state=int(np.random.SeedSequence(seed).generate_state(1)[0]),
        n_jobs=workers,
    )
    model.fit(_single(rows[seen]), data.labels[seen], data.weight[seen])
    classes = model.classes_.astype(int)  # a rare one may be held out as a whole
    return _joined([_tree(one.tree_, classes, base) for one in model.estimators_], base)


def _single(rows: np.ndarray) -> np.ndarray:
    """In single precision, what is too large for it as large as it goes."""
    end = np.finfo(np.float32).max
    return np.clip(rows, -end, end).astype(np.float32)


def _tree(tree: object, classes: np.ndarray, base: np.ndarray) -> Forest:
    """scikit-learn's arrays, with leaves that go on at themselves."""
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


def _joined(parts: list[Forest], base: np.ndarray) -> Forest:
    """The trees of all of them, numbered through."""
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
