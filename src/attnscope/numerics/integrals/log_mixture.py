"""Mean and variance of a mixture whose weights are given as logarithms of any size.

notation: parts i with log weight a_i, mean m_i, variance v_i; w_i ~ e^{a_i}, m = sum w_i m_i.

    log sum_i e^{a_i},   m,   sum_i w_i (v_i + (m_i - m)^2):
        positive terms only. Exact up to rounding.
"""

from __future__ import annotations

import numpy as np

__all__ = ["mixture"]


def mixture(
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(log weight, mean, variance) of a mixture of such parts, elementwise;
    a part of weight 0 has log weight -inf.
    """
    top = parts[0][0]
    for log_weight, _, _ in parts[1:]:
        top = np.maximum(top, log_weight)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = [np.exp(log_weight - top) for log_weight, _, _ in parts]
    total = np.sum(weights, axis=0)
    share = 1 / np.where(total > 0, total, 1.0)
    mean = np.zeros_like(total)
    for weight, (_, value, _) in zip(weights, parts):
        mean += weight * value
    mean *= share
    variance = np.zeros_like(total)
    for weight, (_, value, spread) in zip(weights, parts):
        variance += weight * (spread + (value - mean) ** 2)
    with np.errstate(divide="ignore"):
        return top + np.log(total), mean, variance * share
