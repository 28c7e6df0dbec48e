"""A small task of two directions, heads at random, and a run that stands where it is put."""

import numpy as np

import attnscope as at
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.dynamics.setup import HeadSetup
from attnscope.theory.risks.multi_head_risk import heads_gram

__all__ = ["SMALL", "directions", "run_at"]
SMALL = at.MultiDirection(9, 4, 2, gamma=0.6, signal=1.5, noise=0.3)


def directions(rng, heads, dim, size=1.0):
    rows = rng.standard_normal((2, heads, dim))
    return size * rows / np.linalg.norm(rows, axis=2, keepdims=True)


def run_at(task, head, K, V, inverse_temperature=1.0):
    """A run that was never trained, at these vectors."""
    setup = HeadSetup(task, at.MultiHead(head, len(K)), 0.1, 1, 0, 1, "reduced", "sphere")
    numbers = {
        "step": np.zeros(1, int),
        "inverse_temperature": np.array([inverse_temperature]),
        "diverged_at": np.array([-1]),
    }
    return HeadTrajectory(setup, gram=heads_gram(task, K, V)[None, None], state={}, **numbers)
