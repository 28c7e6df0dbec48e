"""SingleLocationClassifier: classes decided by one token of a bag. A face over estimators.fit;
see docs/estimators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from attnscope.errors import bad
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.base import Face
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL

__all__ = ["SingleLocationClassifier"]

NAME = "SingleLocationClassifier"


class SingleLocationClassifier(ClassifierMixin, Face):
    """Classification of bags of tokens of which one decides the class, P(class | x_J) logistic in
    x_J; J is learnt, not given.

    bags: (n, L, d), a list of (L_i, d), (tokens, mask) or `open_bags`. Two classes or more. Parameters: see
    estimators.base.

    >>> import attnscope as at
    >>> batch = at.SingleLocation(dim=8, length=5, signal=5.0, noise=0.0).sample(200, seed=1)
    >>> model = SingleLocationClassifier(gate="quadratic", pooling="softmax", loss="mixture").fit(batch.tokens, batch.target > 0)
    >>> bool(model.score(batch.tokens, batch.target > 0) > 0.9)
    True
    """

    _regression = False

    def fit(
        self, bags: Any, y: Any = None, sample_weight: Any = None
    ) -> SingleLocationClassifier:
        """Choose and fit by cross-validation; forgets any earlier fit."""
        self._fit(bags, y, sample_weight, f"{NAME}.fit")
        return self

    def _labels(self, y: np.ndarray, of: str) -> tuple[np.ndarray, int, int]:
        if y.dtype.kind == "O":
            y = y.astype(str)
        classes, index = np.unique(y, return_inverse=True)
        if y.dtype.kind == "f" and not np.all(classes == np.round(classes)):
            raise bad(
                "y", of, "class labels", "numbers with fractions", "SingleLocationRegressor"
            )
        if len(classes) < 2:
            raise bad("y", of, "labels of at least two classes", f"only {classes[0]!r}")
        self.classes_ = classes
        return index.astype(float), *self._family()

    def _known_labels(self, y: np.ndarray) -> tuple[np.ndarray, int, int]:
        y = y.astype(str) if y.dtype.kind == "O" else y
        index = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if not np.array_equal(self.classes_[index], y):
            raise bad(
                "y",
                f"{NAME}.locate",
                f"among the {len(self.classes_)} classes seen in fit",
                "another label",
            )
        return index.astype(float), *self._family()

    def _family(self) -> tuple[int, int]:
        return (
            (BERNOULLI, 1) if len(self.classes_) == 2 else (CATEGORICAL, len(self.classes_))
        )

    @in_pieces
    def predict_proba(self, bags: Any) -> np.ndarray:
        """Class probabilities (n, C), columns in the order of classes_."""
        return self._answers(self._read(bags, "predict_proba")).output

    @in_pieces
    def predict(self, bags: Any) -> np.ndarray:
        """Most probable class (n,)."""
        held = self._read(bags, "predict")
        return self.classes_[np.argmax(self._answers(held).output, axis=1)]
