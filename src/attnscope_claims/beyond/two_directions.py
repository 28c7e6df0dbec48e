"""What claim beyond-08 says of two directions without training: heads of one form."""

from __future__ import annotations

import numpy as np

from attnscope.tasks.planted.multi_direction import MultiDirection

__all__ = ["gauges"]


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
