"""Mini-batch SGD on any planted task with the vectors in R^d themselves: an independent check
of planted_sgd.py.

    g_a = sum_l c_la X_l,   P <- (P - alpha (I - P P^T) g)/|.|  on spheres,   or   P <- P - alpha g,

X the tokens of B fresh sequences that the task itself draws, c the derivative of the loss in the
projections (by JAX). Exact up to rounding, and in law, also for tokens that are not isotropic given
the latent. Cost grows with d.
"""

from __future__ import annotations

import numpy as np

from attnscope.dynamics.engines.engine import State
from attnscope.dynamics.engines.planted_engine import PlantedEngine, stream
from attnscope.dynamics.engines.vectors_from_gram import gram_of_vectors, starting_vectors
from attnscope.tasks.base import Projections, sampler_of, standardised

__all__ = ["FullPlanted"]


class FullPlanted(PlantedEngine):
    """SGD on fresh batches of full tokens; state:
    "vectors" (runs, 2 heads, d), rows k_1, v_1, k_2, ..., "seed" and "step".
    """

    HELD = "vectors"

    def _prepare_task(self) -> None:
        self.sampler = sampler_of(self.task, "train(engine='full')")

    def _starting_points(self, matrix: np.ndarray, seed: int) -> np.ndarray:
        return starting_vectors(matrix, self.task.teachers, seed, "FullPlanted")

    def gram(self, state: State) -> np.ndarray:
        """(runs, V, V)."""
        return gram_of_vectors(state["vectors"], self.task.teachers)

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs) of the first head with the first teachers;
        0 with a value that the task does not have.
        """
        x = state["vectors"]
        teachers = self.task.teachers
        key = x[:, :2] @ teachers[0]
        value = x[:, :2] @ teachers[1] if len(teachers) > 1 else np.zeros_like(key)
        between = np.sum(x[:, 0] * x[:, 1], axis=1)
        return np.stack([key[:, 0], value[:, 0], key[:, 1], value[:, 1], between])

    def _step_all_runs(self, x: np.ndarray, seed: int, step: int, lam: float) -> np.ndarray:
        for run in np.flatnonzero(np.isfinite(x).all(axis=(1, 2))):
            x[run] = self._moved_vectors(x[run], stream(seed, int(run), step), lam)
        return x

    def _moved_vectors(
        self, x: np.ndarray, rng: np.random.Generator, lam: float
    ) -> np.ndarray:
        batch = self.sampler(self.batch_size, rng, np.dtype(np.float64))
        tokens, label, mask = standardised(self.task, batch)
        fields = tokens @ x.T
        seen = Projections(fields, label, label, fields[:, :, 0], mask)
        c = self.gradient([seen], [label], lam)[0] / self.batch_size
        g = c.reshape(-1, self.students).T @ tokens.reshape(-1, x.shape[1])
        if not self.sphere:
            return x - self.step_size * g
        moved = x - self.step_size * (g - np.sum(g * x, axis=1, keepdims=True) * x)
        return moved / np.linalg.norm(moved, axis=1, keepdims=True)
