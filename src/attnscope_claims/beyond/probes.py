"""Linear probes of claim beyond-16: each maps standardised states z (n, d) and labels y = +-1 (n,)
to a direction w in R^d; the sign of z.w is the answer.

Ridge regression and discriminant analysis differ by a positive factor for balanced classes (see the
claim); logistic regression differs in its loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

__all__ = ["discriminant_probe", "logistic_probe", "ridge_probe", "standardised"]

RIDGE = 10.0  # of standardised features: between 1 and 100 mean accuracies move by 0.05
NEWTON_STEPS = 12  # quadratic convergence: the gradient is at rounding after 8


def standardised(states: dict[str, Any]) -> dict[str, np.ndarray]:
    """(n, d) float64 per split, by mean and standard deviation of the train split."""
    x = {name: np.array(rows, dtype=float) for name, rows in states.items()}
    mean = x["train"].mean(axis=0)
    spread = x["train"].std(axis=0)
    # a constant, up to the rounding of float32: nothing may be read from it
    spread[spread < 1e-6] = np.inf
    return {name: (rows - mean) / spread for name, rows in x.items()}


def ridge_probe(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    return z.T @ np.linalg.solve(z @ z.T + RIDGE * np.eye(len(z)), y)


def discriminant_probe(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    kind = z[y > 0]
    unkind = z[y < 0]
    delta = kind.mean(axis=0) - unkind.mean(axis=0)
    inner = np.concatenate([kind - kind.mean(axis=0), unkind - unkind.mean(axis=0)])
    return np.linalg.solve(inner.T @ inner + RIDGE * np.eye(z.shape[1]), delta)


def logistic_probe(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """argmin sum log(1 + exp(-y z.w)) + (RIDGE/8)|w|^2 by Newton's method: at w = 0 its quadratic
    form is ridge's, divided by 4.
    """
    w = np.zeros(z.shape[1])
    for _ in range(NEWTON_STEPS):
        p = expit(-y * (z @ w))
        gradient = RIDGE / 4 * w - z.T @ (y * p)
        w = w - np.linalg.solve(
            (z.T * (p * (1 - p))) @ z + RIDGE / 4 * np.eye(len(w)), gradient
        )
    return w
