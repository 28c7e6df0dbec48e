"""What the claims on CME attention share: its mean posterior variance on drawn contexts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnscope.claims.compare import mean_and_error
from attnscope.predictors.operators.context_attention import cme_variance

__all__ = ["QUERIES", "mean_variance", "variance_curve"]

QUERIES = 128  # of a context
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mean_variance(points: np.ndarray, kernel: Kernel, ridge: float) -> float:
    """Mean posterior variance at the first QUERIES points given all others as keys."""
    return float(
        np.mean(cme_variance(points[:QUERIES], points[QUERIES:], kernel, ridge=ridge))
    )


def variance_curve(
    draw: Callable[[int], np.ndarray],
    kernel: Kernel,
    ridge: float,
    lengths: np.ndarray,
    contexts: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over so many drawn contexts of each length, and its standard error; draw(n): n points."""
    pairs = [
        mean_and_error(
            np.array([mean_variance(draw(QUERIES + L), kernel, ridge) for _ in range(n)])
        )
        for L, n in zip(map(int, lengths), contexts)
    ]
    mean, error = np.array(pairs).T
    return mean, error
