"""SingleLocationRegressor: numbers decided by one token of a bag. A face over estimators.fit;
see docs/estimators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from attnscope.errors import bad
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.base import Face
from attnscope.estimators.fit.data import Data, Scaling
from attnscope.estimators.fit.heads import Heads
from attnscope.estimators.fit.intervals import conformal_scores, interval_scale
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.stages import Selected
from attnscope.numerics.border import validation as check
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["SingleLocationRegressor"]

NAME = "SingleLocationRegressor"


class SingleLocationRegressor(RegressorMixin, Face):
    """Regression on bags of tokens of which one decides the label, y = v.x_J + b + noise; J is
    learnt, not given.

    bags: (n, L, d), a list of (L_i, d), (tokens, mask), a table with a column `bag`, `open_bags`, ...
    (docs/estimators.md). Parameters: see estimators.base.

    >>> import attnscope as at
    >>> batch = at.SingleLocation(dim=10, length=5, signal=4.0, noise=0.1).sample(300, seed=1)
    >>> model = SingleLocationRegressor().fit(batch.tokens, batch.target)
    >>> bool((model.locate(batch.tokens) == batch.location).mean() > 0.95)
    True
    """

    _regression = True

    def fit(
        self, bags: Any, y: Any = None, sample_weight: Any = None
    ) -> SingleLocationRegressor:
        """Choose and fit by cross-validation; forgets any earlier fit."""
        self._fit(bags, y, sample_weight, f"{NAME}.fit")
        return self

    def _keep(
        self, scaling: Scaling, selected: Selected | Heads, pooled: Pooled, data: Data
    ) -> None:
        super()._keep(scaling, selected, pooled, data)
        self.conformal_scores_ = conformal_scores(
            data.labels, selected.output[:, 0], selected.spread
        )

    def _labels(self, y: np.ndarray, of: str) -> tuple[np.ndarray, int, int]:
        return check.array(y, "y", of, (len(y),)), GAUSSIAN, 1

    def _known_labels(self, y: np.ndarray) -> tuple[np.ndarray, int, int]:
        return self._labels(y, f"{NAME}.locate")

    @in_pieces
    def predict(self, bags: Any) -> np.ndarray:
        """Expected label (n,)."""
        held = self._read(bags, "predict")
        return (
            self._answers(held).output[:, 0] * self.scaling_.label_scale
            + self.scaling_.label_mean
        )

    @in_pieces
    def predict_interval(self, bags: Any, coverage: float = 0.9) -> np.ndarray:
        """Lower and upper ends (n, 2) of intervals that hold the label with about this
        probability.
        """
        held = self._read(bags, "predict_interval")
        coverage = check.real(
            coverage, "coverage", f"{NAME}.predict_interval", 0, 1, strict=True
        )
        if not hasattr(self, "conformal_scores_"):
            raise bad(
                "predict_interval",
                NAME,
                "called on a model fitted by fit",
                "partial_fit, which holds no bags out",
            )
        answers = self._answers(held)
        middle = answers.output[:, 0] * self.scaling_.label_scale + self.scaling_.label_mean
        half = (
            interval_scale(self.conformal_scores_, coverage)
            * answers.spread
            * self.scaling_.label_scale
        )
        return np.column_stack([middle - half, middle + half])
