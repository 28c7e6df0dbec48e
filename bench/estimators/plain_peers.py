"""Peers without attention: ridge or logistic regression on the mean or the largest features or on
every token, boosted trees on pooled features, prime-instance alternation.

Each has fit(bags, y) and predict(bags); `classes=True` for labels 0/1, whose predict is a score
that grows with the probability of 1.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, Ridge, RidgeCV

ROUNDS = 30  # of the alternation: it stops earlier when no choice changes
GATE_C = 0.1  # inverse ridge of the alternation's gate, in standardised tokens
# standardised features are cut there: one that hardly varies in training may be anything at test
CLIP = 10.0
# inverse ridge of a logistic regression on tokens, by held-out loss
INSTANCE_C = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
# boosting: the best on the held-out fifth is taken
RATES = (0.1, 0.03)
LEAVES = (4, 16)


def standard(x, of):
    return np.clip((x - of.mean) / of.scale, -CLIP, CLIP)


class MeanPool:
    """Ridge (or logistic regression) on the mean token, the penalty by cross-validation."""

    pool = staticmethod(partial(np.mean, axis=0))

    def __init__(self, seed=0, classes=False):
        self.classes = classes

    def fit(self, bags, y):
        x = np.array([self.pool(b) for b in bags])
        self.mean, self.scale = x.mean(0), np.maximum(x.std(0), 1e-9)
        if self.classes:
            self.model = LogisticRegressionCV(
                Cs=7,
                l1_ratios=(0,),
                use_legacy_attributes=False,
                scoring="neg_log_loss",
                max_iter=2000,
            )
        else:
            self.model = RidgeCV(np.logspace(-2, 4, 13))
        self.model.fit(standard(x, self), y)
        return self

    def predict(self, bags):
        x = standard(np.array([self.pool(b) for b in bags]), self)
        return self.model.decision_function(x) if self.classes else self.model.predict(x)


class MaxPool(MeanPool):
    """The same on the largest value of every feature."""

    pool = staticmethod(partial(np.max, axis=0))


class InstanceMean:
    """Logistic regression (numbers: ridge) of the bag's label on each of its tokens, a bag's tokens
    of total weight 1; the mean of their probabilities, as a logit. The penalty by five folds of
    bags.
    """

    def __init__(self, seed=0, classes=False):
        self.seed = seed
        self.classes = classes

    def fit(self, bags, y):
        flat = np.concatenate(bags)
        self.mean, self.scale = flat.mean(0), np.maximum(flat.std(0), 1e-9)
        x = [standard(b, self) for b in bags]
        y = np.asarray(y)
        order = np.random.default_rng(self.seed).permutation(len(y))
        folds = [order[i::5] for i in range(5)]
        losses = [self._held_out(x, y, folds, c) for c in INSTANCE_C]
        self.model = self._fitted(x, y, INSTANCE_C[int(np.argmin(losses))])
        return self

    def _fitted(self, x, y, c):
        lengths = [len(b) for b in x]
        model = LogisticRegression(C=c, max_iter=1000) if self.classes else Ridge(1 / c)
        weight = np.repeat(1 / np.array(lengths), lengths)
        return model.fit(np.concatenate(x), np.repeat(y, lengths), sample_weight=weight)

    def _held_out(self, x, y, folds, c):
        total = 0.0
        for out in folds:
            rest = np.setdiff1d(np.arange(len(y)), out)
            if self.classes and len(np.unique(y[rest])) < 2:
                continue
            model = self._fitted([x[i] for i in rest], y[rest], c)
            guess = self._bags(model, [x[i] for i in out])
            if self.classes:
                own = np.where(y[out] == 1, guess, 1 - guess)
                total -= np.log(np.maximum(own, 1e-15)).sum()
            else:
                total += ((guess - y[out]) ** 2).sum()
        return total

    def _bags(self, model, x):
        starts = np.cumsum([0, *(len(b) for b in x)])[:-1]
        flat = np.concatenate(x)
        each = model.predict_proba(flat)[:, 1] if self.classes else model.predict(flat)
        return np.add.reduceat(each, starts) / [len(b) for b in x]

    def predict(self, bags):
        guess = self._bags(self.model, [standard(b, self) for b in bags])
        if not self.classes:
            return guess
        guess = np.clip(guess, 1e-15, 1 - 1e-15)
        return np.log(guess / (1 - guess))


class PooledBoosting:
    """Histogram gradient boosting on the mean, largest and smallest value of every feature; early
    stopping on a fifth of the bags.
    """

    def __init__(self, seed=0, classes=False):
        self.seed = seed
        self.classes = classes

    def fit(self, bags, y):
        kind = (
            HistGradientBoostingClassifier if self.classes else HistGradientBoostingRegressor
        )
        tries = [
            kind(
                learning_rate=rate,
                max_leaf_nodes=leaves,
                max_iter=2000,
                early_stopping=True,
                validation_fraction=0.2,
                n_iter_no_change=20,
                min_samples_leaf=5,
                random_state=self.seed,
            ).fit(pooled(bags), y)
            for rate, leaves in itertools.product(RATES, LEAVES)
        ]
        self.model = max(tries, key=lambda model: model.validation_score_.max())
        return self

    def predict(self, bags):
        return (
            self.model.decision_function(pooled(bags))
            if self.classes
            else self.model.predict(pooled(bags))
        )


def pooled(bags):
    return np.array(
        [np.concatenate([f(b, axis=0) for f in (np.mean, np.max, np.min)]) for b in bags]
    )


class PrimeInstance:
    """Alternate: a linear model of the chosen tokens, then each bag's choice anew.

    Numbers (Ray and Page 2001): the token whose prediction is nearest the label; at test, where
    there is no label, the token a logistic gate (chosen tokens against the others) finds most
    likely. Classes (in the manner of MI-SVM, Andrews et al. 2003): the token with the largest
    score.
    """

    def __init__(self, seed=0, classes=False):
        self.classes = classes

    def fit(self, bags, y):
        flat = np.concatenate(bags)
        y = np.asarray(y, float)
        self.mean, self.scale = flat.mean(0), np.maximum(flat.std(0), 1e-9)
        self.unit = 1.0 if self.classes else y.std()
        x = [standard(b, self) for b in bags]
        tokens = np.array([b.mean(axis=0) for b in x])
        chosen = None
        for _ in range(ROUNDS):
            self.model = (
                LogisticRegression(C=1.0, max_iter=1000) if self.classes else Ridge(1.0)
            )
            self.model.fit(tokens, y)
            last = chosen
            chosen = [self._choice(b, t) for b, t in zip(x, y)]
            if chosen == last:
                break
            tokens = np.array([b[j] for b, j in zip(x, chosen)])
        if not self.classes:
            prime = np.concatenate([np.arange(len(b)) == j for b, j in zip(x, chosen)])
            self.gate = LogisticRegression(C=GATE_C, max_iter=1000).fit(
                np.concatenate(x), prime
            )
        return self

    def _choice(self, tokens, label):
        if self.classes:
            return int(np.argmax(self.model.decision_function(tokens)))
        return int(np.argmin(np.abs(self.model.predict(tokens) - label)))

    def predict(self, bags):
        x = [standard(b, self) for b in bags]
        if self.classes:
            return np.array([self.model.decision_function(b).max() for b in x])
        return np.array(
            [self.model.predict(b[[np.argmax(self.gate.decision_function(b))]])[0] for b in x]
        )
