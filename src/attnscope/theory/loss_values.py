"""The loss of outputs and labels: squared, logistic, or a task's own.

squared   |T - Y|^2,       logistic   log(1 + exp(-sign(Y) T)),       own   loss(T, Y), by JAX
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs

__all__ = ["loss_values"]


def loss_values(
    loss: Any, output: np.ndarray, label: np.ndarray, several: bool = False
) -> np.ndarray:
    """(...) losses of outputs and labels (...) or, with a last axis of several, (..., o)."""
    if output.shape != label.shape:
        must = f"one with an output for each of the label's {label.shape[-1]} numbers"
        raise bad("predictor", "risk", must, "one output", "a function of projections")
    if loss == "squared":
        squares = (output - label) ** 2
        return squares.sum(-1) if several else squares
    if loss == "logistic":
        return np.logaddexp(0.0, -np.sign(label) * output)
    needs("jax", "a loss that is a function")
    with computed_x64():
        found = np.asarray(loss(output, label), dtype=np.float64)
    shape = label.shape[:-1] if several else label.shape
    if found.shape != shape or not np.isfinite(found).all():
        got = f"shape {found.shape}" if found.shape != shape else "NaN or infinity"
        raise bad("loss", "the task", f"finite and of shape {shape}", got)
    return found
