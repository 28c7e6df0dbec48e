"""The same estimator behind principal components made by hand: scikit-learn's PCA of all tokens to
a given size, then every feature of what is left. Its best size is chosen afterwards, by test error.
"""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA

import attnscope as at


class ByHand:
    size = 0

    def __init__(self, seed=0, classes=False):
        self.seed = seed
        self.classes = classes

    def fit(self, bags, y):
        kind = at.SingleLocationClassifier if self.classes else at.SingleLocationRegressor
        self.pca = PCA(self.size, random_state=self.seed).fit(np.concatenate(bags))
        self.model = kind(components=None, random_state=self.seed).fit(self._seen(bags), y)
        return self

    def _seen(self, bags):
        return [self.pca.transform(bag) for bag in bags]

    def predict(self, bags):
        if self.classes:
            return self.model.predict_proba(self._seen(bags))[:, 1] - 0.5
        return self.model.predict(self._seen(bags))


class ByHand16(ByHand):
    size = 16


class ByHand32(ByHand):
    size = 32


class ByHand64(ByHand):
    size = 64


class ByHand128(ByHand):
    size = 128
