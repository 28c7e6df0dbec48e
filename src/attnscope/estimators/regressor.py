"""SingleLocationRegressor: regression on bags in which one token decides the label; see
docs/estimators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from attnscope.errors import bad
from attnscope.estimators.bags.bags import Bags, check_labels, score_weights
from attnscope.estimators.bags.pieces import in_pieces
from attnscope.estimators.base import BagEstimator
from attnscope.estimators.fit.data import Data, Scaling
from attnscope.estimators.fit.heads import Heads
from attnscope.estimators.fit.intervals import conformal_scores, plus_interval
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.stages import Selected
from attnscope.numerics.border import validation as check
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["SingleLocationRegressor"]

REGRESSOR_NAME = "SingleLocationRegressor"


class SingleLocationRegressor(RegressorMixin, BagEstimator):
    """Regression on bags of tokens of which one decides the label, y = v.x_J + b + noise; J is
    learnt, not given.

    Bags are (n, L, d), a list of (L_i, d), (tokens, mask), a table with a column `bag`,
    `open_bags`, ... (docs/estimators.md).

    Args:
        gate: "linear", "quadratic" (adds |x|^2), "random-features" or "auto" (quadratic, random
            features where they help).
        pooling: "softmax" (weights sum to one), "sigmoid" (several tokens may count) or "auto" (and
            a share for the mean token where it helps).
        loss: "mixture" (one token decides), "attention" (error of the weighted average) or "auto".
        alpha: "cv", or the ridge: one number, or (gate, value); infinity for the gate keeps the EM
            score.
        heads: number of deciding tokens per bag, each with its own gate and values, whose values
            add up (more than 1: EM).
        n_starts: number of starting points, >= 1.
        robust: Student-t tokens instead of Gaussian ones: True, False or "auto" (where tails are
            heavy and it helps).
        components: "auto" (how many of the tokens' widest directions to fit in, by held-out loss;
            all of them up to 64 features), a number of directions, or None (all features, at any
            cost).
        max_seconds: wall time after which no further model is tried and the best so far is fitted;
            None: no limit.
        random_state: integer >= 0, or None for 0.
        n_jobs: threads over cross-validation folds; None is 1, -1 all.
        verbose: print a line per step.
        assumption: "single" or "auto", which is the same for numbers.
        class_weight: None: numbers have no classes.
        interval: how intervals are calibrated: "cross" (no guarantee), "split" (some bags or groups
            are held out from the fit) or "cv+" (ten more fits).

    >>> import attnscope as at
    >>> batch = at.SingleLocation(dim=10, length=5, signal=4.0, noise=0.1).sample(300, seed=1)
    >>> model = SingleLocationRegressor().fit(batch.tokens, batch.target)
    >>> bool((model.locate(batch.tokens) == batch.location).mean() > 0.95)
    True

    interval="split" holds some bags out from the fit, and guarantees the coverage of its intervals:

    >>> model = SingleLocationRegressor(interval="split").fit(batch.tokens, batch.target)
    >>> model.predict_interval(batch.tokens, coverage=0.9).shape, model.promised_coverage(0.9)
    ((300, 2), 0.9)
    """

    _regression = True

    def _keep_fit(
        self, scaling: Scaling, selected: Selected | Heads, pooled: Pooled, data: Data
    ) -> None:
        super()._keep_fit(scaling, selected, pooled, data)
        self.conformal_scores_, self.conformal_weights_ = conformal_scores(
            np.abs(data.labels - selected.output[:, 0]) / selected.spread, data.groups
        )

    def _encode_labels(self, y: np.ndarray, of: str) -> tuple[np.ndarray, int, int]:
        return check.array(y, "y", of, (len(y),)), GAUSSIAN, 1

    def _encode_known_labels(self, y: np.ndarray) -> tuple[np.ndarray, int, int]:
        return self._encode_labels(y, f"{REGRESSOR_NAME}.locate")

    @in_pieces
    def predict(self, bags: Any) -> np.ndarray:
        """Expected label (n,)."""
        return self._middle_and_spread(self._read_bags(bags, "predict"))[0]

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions: 1 is exact, 0 as good as the mean label."""
        found = self.predict(bags)
        of = f"{REGRESSOR_NAME}.score"
        labels = self._encode_labels(check_labels(y, len(found), of), of)[0]
        if len(labels) < 2:
            raise bad("bags", of, "at least two bags, for a mean to compare with", "one bag")
        return float(
            r2_score(
                labels, found, sample_weight=score_weights(sample_weight, len(found), of)
            )
        )

    def _middle_and_spread(self, held: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Expected label and its standard deviation under the model, (n,) each."""
        answers = self._bag_answers(held)
        unit = self.scaling_.label_scale
        return answers.output[:, 0] * unit + self.scaling_.label_mean, answers.spread * unit

    def _label_scores(self, held: Bags, y: np.ndarray) -> np.ndarray:
        middle, spread = self._middle_and_spread(held)
        return np.abs(np.asarray(y, float) - middle) / spread

    @in_pieces
    def predict_interval(self, bags: Any, coverage: float = 0.9) -> np.ndarray:
        """Lower and upper ends (n, 2) of intervals that hold the label with this probability.

        The coverage of a new bag (a bag of a new group), with a = 1 - coverage, is for
        interval="cross" (default): about 1 - a, without a guarantee for finitely many bags;
        "split": at least 1 - a; "cv+": at least 1 - 2a minus a small term, in practice about 1 - a
        (`promised_coverage` returns the number). These are averages over the draw of all bags: one
        fit may cover less. A coverage that the held-out bags cannot reach is refused.
        """
        held = self._read_bags(bags, "predict_interval")
        coverage = self._check_coverage(coverage, "predict_interval")
        if hasattr(self, "plus_models_"):
            return self._plus_interval(held, coverage)
        middle, spread = self._middle_and_spread(held)
        half = self._interval_scale(coverage) * spread
        return np.column_stack([middle - half, middle + half])

    def _plus_interval(self, held: Bags, coverage: float) -> np.ndarray:
        answers = [model._middle_and_spread(held) for model in self.plus_models_]
        middle, spread = (np.stack(part, axis=1) for part in zip(*answers))
        out = np.empty((len(held), 2))
        # a row for each held-out bag: as many bags at a time as 8 MB hold
        step = max(1, 2**20 // len(self.plus_fold_))
        for i in range(0, len(held), step):
            centre = middle[i : i + step, self.plus_fold_]
            half = self.plus_scores_ * spread[i : i + step, self.plus_fold_]
            out[i : i + step] = plus_interval(
                centre - half, centre + half, self.plus_weights_, coverage
            )
        return out
