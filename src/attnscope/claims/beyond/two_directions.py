"""What claim beyond-08 says of two directions without training: heads of one form, and shares."""

from __future__ import annotations

import numpy as np

from attnscope.tasks.planted.multi_direction import MultiDirection

__all__ = ["gauges", "wilson"]


def gauges(task: MultiDirection) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Heads (K, V) with the teachers' form sum_h sym(k_h v_h^T)."""
    K = task.keys
    V = task.values
    mix = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    half = np.stack([V[0], K[1]]), np.stack([K[0], V[1]])
    return {
        "oracle": (K, V),
        "swapped": (V, K),
        "half swapped": half,
        "rotated": (mix @ K, mix @ V),
    }


def wilson(count: int, n: int) -> tuple[float, float]:
    """95 % interval of a fraction (Wilson's score interval)."""
    z = 1.96
    p = count / n
    centre = p + z * z / (2 * n)
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return float((centre - half) / (1 + z * z / n)), float((centre + half) / (1 + z * z / n))
