"""What the learning claims share: the task, its two objectives, and the exact population minimiser
of the attention model.

Values are W k + noise 1/2 in R^2, W standard normal, keys uniform on S^2. The masked target is the
value of a hidden token, the supervised one the label <LABEL, W q> + noise 1/2. Rows of W are
independent, so for both objectives the risk is |O_y|^2-weighted copies of one error, minimised at A
= I/h, O = g (I or LABEL) with the same h and g: theory.exchangeable.learning_curves.best_attention.
Without a sink: from L = 32 on the best sink is none.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from attnscope.dynamics.networks.attention_model import (
    AttentionParameters,
    Contexts,
    task_contexts,
)
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope.theory.exchangeable.learning_curves import BestAttention, best_attention

__all__ = [
    "DIM",
    "LABEL",
    "NOISE",
    "OBJECTIVES",
    "TASK",
    "minimiser",
    "noiseless",
    "training",
]

DIM, NOISE = 3, 0.5
TASK = LinearMap(DIM, 2, 1.0, NOISE, keys="sphere")
LABEL = np.array([[0.6, 0.8]])
OBJECTIVES = ("masked", "supervised")


def training(objective: str, n: int, length: int, seed: int) -> Contexts:
    """Contexts with the noisy targets of the objective."""
    if objective == "masked":
        return task_contexts(TASK, n, length, "masked", seed=seed)
    return task_contexts(TASK, n, length, "supervised", LABEL, NOISE, seed)


def noiseless(objective: str, n: int, length: int, seed: int) -> Contexts:
    """Contexts whose targets are the conditional means of the objective's:
    the same minimiser, risks smaller by the noise.
    """
    return task_contexts(
        TASK, n, length, "supervised", None if objective == "masked" else LABEL, 0.0, seed
    )


@cache
def minimiser(objective: str, length: int) -> tuple[AttentionParameters, BestAttention]:
    """The exact population minimiser, as parameters and as numbers."""
    best = best_attention(DIM, length, NOISE, sink=False)
    output = best.gain * (np.eye(2) if objective == "masked" else LABEL)
    return AttentionParameters(best.inverse_bandwidth * np.eye(DIM), None, output), best
