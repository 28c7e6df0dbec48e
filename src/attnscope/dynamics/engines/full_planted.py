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
from attnscope.dynamics.engines.vectors_from_gram import vectors_from_gram
from attnscope.tasks.base import Projections, sampler_of, standardised

__all__ = ["FullPlanted"]


class FullPlanted(PlantedEngine):
    """SGD on fresh batches of full tokens; state:
    "vectors" (runs, 2 heads, d), rows k_1, v_1, k_2, ..., "seed" and "step".
    """

    def _prepare_task(self) -> None:
        self.sampler = sampler_of(self.task, "train(engine='full')")

    def start(self, matrix: np.ndarray, seed: int = 0) -> State:
        """Vectors with the Gram matrices (runs, V, V);
        what these leave open is drawn from (seed, run).
        """
        draw = [np.random.default_rng([seed, run, 5]) for run in range(len(matrix))]
        vectors = [
            vectors_from_gram(G, self.task.teachers, rng, "FullPlanted")
            for G, rng in zip(matrix, draw)
        ]
        return {"vectors": np.stack(vectors), "seed": np.array(seed), "step": np.array(0)}

    def advance(self, state: State, temperatures: np.ndarray) -> State:
        """State after len(temperatures) more steps;
        a run that leaves the finite numbers stays outside.
        """
        x = state["vectors"].copy()
        step = int(state["step"])
        with np.errstate(all="ignore"):
            for lam in np.asarray(temperatures, dtype=np.float64):
                for run in np.flatnonzero(np.isfinite(x).all(axis=(1, 2))):
                    x[run] = self._moved_vectors(
                        x[run], stream(int(state["seed"]), int(run), step), float(lam)
                    )
                step += 1
        return {"vectors": x, "seed": state["seed"], "step": np.array(step)}

    def gram(self, state: State) -> np.ndarray:
        """(runs, V, V)."""
        with np.errstate(all="ignore"):
            rows = [np.concatenate([x, self.task.teachers]) for x in state["vectors"]]
            return np.stack([x @ x.T for x in rows])

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs) of the first head with the first teachers;
        0 with a value that the task does not have.
        """
        x = state["vectors"]
        teachers = self.task.teachers
        key = x[:, :2] @ teachers[0]
        value = x[:, :2] @ teachers[1] if len(teachers) > 1 else np.zeros_like(key)
        return np.stack(
            [
                key[:, 0],
                value[:, 0],
                key[:, 1],
                value[:, 1],
                np.sum(x[:, 0] * x[:, 1], axis=1),
            ]
        )

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
