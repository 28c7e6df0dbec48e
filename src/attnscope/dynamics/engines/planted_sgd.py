"""Mini-batch SGD on any planted task, exact in law, in the Gram matrix of the vectors alone.

notation: d = dim, L = length, B = batch size, P the m trained vectors, r teachers, V = m + r, G (V,
V) their Gram matrix.

The loss of a sequence sees tokens only through their projections f_lj = X_l.P_j on the vectors
(tasks/base.py). With c_la = d loss/d f_la (by JAX), divided by B, the gradient in P_a is g_a =
sum_l c_la X_l, and

    g_a.P_j = sum_l c_la f_lj                                for every vector j, trained or teacher;
    g_a.g_b = (g_a.P) G^+ (g_b.P)^T + W_ab,   W ~ Wishart_m(S, d - rank G),
        S_ab = sum_l scale_l^2 c_la c_lb,

because outside the span of the vectors token l is scale_l N(0, I), independent of the projections.
The step P <- (P - alpha (I - P P^T) g)/|.| on spheres, or P <- P - alpha g, needs nothing else.
Exact: no limit, no approximation; the cost does not depend on d.

Step t of run i draws from a counter-based stream of (seed, i, t): n and then m steps, or n + m,
give the same bits, and run i never depends on how many runs there are.
"""

from __future__ import annotations

import numpy as np

from attnscope.dynamics.engines.engine import State, gram_overlaps
from attnscope.dynamics.engines.planted_engine import PlantedEngine, stream
from attnscope.errors import bad
from attnscope.numerics.semidefinite import bartlett, semidefinite_root
from attnscope.tasks.base import Projections

__all__ = ["PlantedSgd"]

# eigenvalue of G, relative, below which a direction counts as spanned by the others: 50 roundings;
# a gradient's part along it, 1e-7 of what such short vectors see, is then drawn afresh
DEPENDENT_EIGENVALUE = 1e-14


class PlantedSgd(PlantedEngine):
    """SGD in law (module docstring), of a task with dim at least the number of vectors.

    State: "gram" (runs, V, V) of (k_1, v_1, ..., teachers), "seed" and "step".
    """

    HELD = "gram"

    def _prepare_task(self) -> None:
        vectors = self.students + len(self.task.teacher_gram)
        if self.task.dim < vectors:
            must = f"an integer >= {vectors} with engine='reduced'"
            raise bad("dim", "train(batch_size=...)", must, self.task.dim, 'engine="full"')

    def _starting_points(self, matrix: np.ndarray, seed: int) -> np.ndarray:
        return np.array(matrix, dtype=np.float64)

    def gram(self, state: State) -> np.ndarray:
        """(runs, V, V)."""
        return state["gram"]

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs) of the first head with the first teachers."""
        return gram_overlaps(state["gram"], self.students)

    def _step_all_runs(self, G: np.ndarray, seed: int, step: int, lam: float) -> np.ndarray:
        alive = np.flatnonzero(np.isfinite(G).all(axis=(1, 2)))
        if not alive.size:
            return G
        rngs = [stream(seed, int(i), step) for i in alive]
        drawn = [
            self.task.projections(self.batch_size, G[i], rng) for i, rng in zip(alive, rngs)
        ]
        labels = [
            x.label + self.task.noise / x.unit * rng.standard_normal(len(x.label))
            for x, rng in zip(drawn, rngs)
        ]
        c = self.gradient(drawn, labels, lam) / self.batch_size
        out = G.copy()
        out[alive] = self._moved_grams(
            G[alive], drawn, c.reshape(len(alive), -1, self.students), rngs
        )
        return out

    def _moved_grams(
        self,
        G: np.ndarray,
        drawn: list[Projections],
        c: np.ndarray,
        rngs: list[np.random.Generator],
    ) -> np.ndarray:
        """The new Gram matrices (runs, V, V), c (runs, B L, m).
        One product per run, so its bits do not depend on the others.
        """
        m = self.students
        alpha = self.step_size
        fields = np.stack([x.fields.reshape(c.shape[1], -1) for x in drawn])
        spread = c * np.stack([x.scales.reshape(-1, 1) for x in drawn])
        turned = np.ascontiguousarray(c.swapaxes(1, 2))
        along = turned @ fields  # (runs, m, V): g_a.P_j
        # (runs, m, m): g_a.g_b
        pairs = self._gradient_products(G, along, spread.swapaxes(1, 2) @ spread, rngs)
        own = np.diagonal(along, axis1=1, axis2=2) if self.sphere else np.zeros((len(G), m))
        kept = (1 + alpha * own)[:, :, None]
        cross = alpha * kept * along[:, :, :m].swapaxes(1, 2)  # [a, b]: alpha kept_a P_a.g_b
        block = (
            kept * kept.swapaxes(1, 2) * G[:, :m, :m]
            - cross
            - cross.swapaxes(1, 2)
            + alpha**2 * pairs
        )
        corner = kept * G[:, :m, m:] - alpha * along[:, :, m:]
        if self.sphere:
            size = np.sqrt(np.diagonal(block, axis1=1, axis2=2))[:, :, None]
            block = block / (size * size.swapaxes(1, 2))
            block[:, np.arange(m), np.arange(m)] = np.where(
                np.isfinite(size[:, :, 0]), 1.0, np.nan
            )
            corner = corner / size
        out = G.copy()
        out[:, :m, :m] = block
        out[:, :m, m:] = corner
        out[:, m:, :m] = corner.swapaxes(1, 2)
        return out

    def _gradient_products(
        self, G: np.ndarray, along: np.ndarray, S: np.ndarray, rngs: list[np.random.Generator]
    ) -> np.ndarray:
        values, axes = np.linalg.eigh(G)
        kept = values > DEPENDENT_EIGENVALUE * values[:, -1:]
        inverse = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
        inside = along @ axes * inverse[:, None, :]
        freedom = self.task.dim - kept.sum(axis=1)
        factors = np.stack(
            [bartlett(self.students, int(f), rng) for f, rng in zip(freedom, rngs)]
        )
        outside = semidefinite_root(np.where(np.isfinite(S), S, 0.0)) @ factors
        return inside @ inside.swapaxes(1, 2) + outside @ outside.swapaxes(1, 2)
