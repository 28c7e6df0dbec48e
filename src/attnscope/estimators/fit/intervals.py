"""Prediction intervals: the mixture's own standard deviation, scaled by held-out errors
(cross-conformal).

    interval = mean +- q(coverage) * spread,
        spread^2 = sigma^2 + sum_l p_l [(w_l - mean)^2 + u(x_l)],
    q = the ceil((n+1) coverage)-th smallest of |y_i - mean_i| / spread_i over held-out predictions
    of the K folds.

u(x) is the posterior variance of the value at x under the ridge prior. Held-out models saw only
(K-1)/K of the bags; u is larger for them, so that the scores carry over to the model fitted on all
bags even where d is near n. Coverage is approximate (cross-conformal prediction, Vovk 2015), not
the exact guarantee of a separate calibration set.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["conformal_scores", "interval_scale"]


def conformal_scores(
    labels: np.ndarray, output: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Sorted |y - mean|/spread (n,)."""
    return np.sort(np.abs(labels - output) / spread)


def interval_scale(scores: np.ndarray, coverage: float) -> float:
    """q(coverage); the largest score where n is too small to bound the error at this coverage."""
    rank = math.ceil((len(scores) + 1) * coverage)
    return float(scores[min(rank, len(scores)) - 1])
