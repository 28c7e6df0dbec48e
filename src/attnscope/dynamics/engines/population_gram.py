"""Population gradient descent of any number of heads and teachers, in their Gram matrix.

notation: P the m trained vectors, r teachers, x_1 .. x_V all of them, trained first; G (V, V) their
Gram matrix; R(G) the risk, D_aj its derivative in the inner product P_a.x_j.

    grad_a = sum_j D_aj x_j + D_aa P_a            (|P_a|^2 has the derivative 2 P_a)
    P_a <- (P_a - alpha (I - P_a P_a^T) grad_a)/|.|  on spheres,   P_a <- P_a - alpha grad_a  free.

New vectors are combinations of the old ones, P <- M x with M (m, V), so that new inner products are
M G M^T and M G, whatever the dimension. Exact up to rounding and the error of D, that of the risk
on its fixed nodes (theory/nodes/node_gradient.py). Runs are advanced one by one: a run's bits do
not depend on the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.dynamics.engines.engine import State, on_spheres
from attnscope.numerics.border import validation as check
from attnscope.predictors.heads import MultiHead
from attnscope.theory.jax_weights import weight_function
from attnscope.theory.nodes.node_routes import checked_gram, gram_gradient
from attnscope.theory.route import checked_planted

__all__ = ["PopulationGram"]


class PopulationGram:
    """Descent on the risk of a MultiHead; state: "gram" (runs, V, V) of (k_1, v_1, ..., teachers).

    Args:
        constraint: "sphere" (unit vectors) or "free".
    """

    def __init__(
        self, task: Any, predictor: MultiHead, step_size: float, constraint: str = "sphere"
    ) -> None:
        self.task = checked_planted(task, "PopulationGram")
        self.predictor = predictor
        self.step_size = check.real(step_size, "step_size", "PopulationGram", 0, strict=True)
        self.sphere = on_spheres(constraint, "PopulationGram")
        weight_function(predictor.head, "train")  # or one sentence, before any work

    def start(self, matrix: np.ndarray, seed: int = 0) -> State:
        """Runs that start at Gram matrices (runs, V, V). Nothing is random."""
        G = checked_gram(matrix, self.task, 2 * self.predictor.heads, "PopulationGram")
        return {"gram": G}

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps;
        a run that leaves the finite numbers stays outside.
        """
        G = state["gram"].copy()
        lams = np.asarray(inverse_temperatures, dtype=np.float64)
        for i, matrix in enumerate(G):
            for lam in lams:
                if not np.isfinite(matrix).all():
                    break
                matrix = self._step_all_runs(matrix, float(lam))
            G[i] = matrix
        return {"gram": G}

    def gram(self, state: State) -> np.ndarray:
        """(runs, V, V)."""
        return state["gram"]

    def _step_all_runs(self, G: np.ndarray, lam: float) -> np.ndarray:
        m = 2 * self.predictor.heads
        own = np.arange(m)
        # rows: the gradients' coefficients on all vectors
        slope = gram_gradient(self.task, self.predictor, G, lam)
        slope[own, own] *= 2
        with np.errstate(all="ignore"):
            if self.sphere:
                slope[own, own] -= (slope * G[:m]).sum(1)
            moved = -self.step_size * slope
            moved[own, own] += 1
            along = moved @ G
            block = along @ moved.T
            corner = along[:, m:]
            if self.sphere:
                size = np.sqrt(np.diagonal(block))
                block = block / np.outer(size, size)
                block[own, own] = np.where(np.isfinite(size), 1.0, np.nan)
                corner = corner / size[:, None]
        out = G.copy()
        out[:m, :m] = (block + block.T) / 2
        out[:m, m:] = corner
        out[m:, :m] = corner.T
        return out
