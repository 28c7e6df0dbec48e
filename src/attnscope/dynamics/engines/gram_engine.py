"""What SGD in Gram matrices has in common, whether traced by JAX (gram_sgd.py) or compiled
(compiled_heads.py): checked numbers, starts, and what is read off a state.

notation: m trained vectors (k_1, v_1, ...), F informative tokens with teachers (k_1*, v_1*, ...),
n = m + 2F. A state has "gram" (runs, n, n), and whatever the engine draws from.
"""

from __future__ import annotations

import numpy as np

from attnscope.dynamics.engines.engine import MiniBatchEngine, State, gram_overlaps
from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Softmax
from attnscope.predictors.heads import MultiHead
from attnscope.tasks.base import has_law
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import GRAM_TOLERANCE, Overlaps, checked_overlaps, gram
from attnscope.theory.risks.multi_head_risk import Task, distinct_tokens

__all__ = ["GramSgd"]


class GramSgd(MiniBatchEngine):
    """Base of the two engines; their arguments are described there."""

    def __init__(
        self,
        task: Task,
        step_size: float,
        batch_size: int,
        parameters: int,
        informative: int,
        constraint: str,
    ) -> None:
        of = type(self).__name__
        if not distinct_tokens(task, MultiHead(Softmax(1.0), 1)):
            raise bad(
                "task",
                of,
                "one whose teacher pairs have a token each",
                task,
                "PlantedSgd(task, ...)",
            )
        self.task = task
        super().__init__(step_size, batch_size, constraint)
        self.parameters = check.integer(parameters, "parameters", of, 1)
        self.informative = check.integer(informative, "informative", of, 1, task.length)
        self.vectors = self.parameters + 2 * self.informative
        if task.dim < self.vectors:
            got = f"dim={task.dim}, too small for a frame of all {self.vectors} vectors"
            raise bad(
                "dim", of, f"an integer >= {self.vectors}", got, "the full engine, FullSgd"
            )
        # dimensions no vector reaches: the Wishart law's degrees of freedom
        self.freedom = task.dim - self.vectors
        self.spread = self.task.gamma**2  # variance of an informative token in each of them

    def _fresh_state(self, grams: np.ndarray, seed: int) -> State:
        """The state at step 0 of runs at these Gram matrices."""
        raise NotImplementedError

    def init(self, overlaps: np.ndarray, seed: int) -> State:
        """Runs that start at overlaps (5, runs), for one head and one informative token."""
        of = type(self).__name__
        alone = (self.parameters, self.informative) == (2, 1)
        if not alone or not has_law(self.task, SingleLocation):
            got = f"{self.parameters} and {self.informative}"
            raise AttnscopeError(
                f"init of {of} must have 2 parameters and 1 informative token, got {got}; try "
                "start."
            )
        o = checked_overlaps(
            Overlaps(*check.array(overlaps, "overlaps", of, (5, None))), self.task, of
        )
        return self._fresh_state(gram(o, self.task.alignment), check.seed_value(seed, of))

    def start(self, matrix: np.ndarray, seed: int) -> State:
        """Runs that start at Gram matrices (runs, n, n) of (k_1, v_1, ..., k_1*, v_1*, ...),
        unit vectors where constrained.
        """
        of = type(self).__name__
        n = self.vectors
        G = check.float_array(matrix, "gram", of, (None, n, n))
        units = np.diagonal(G, axis1=1, axis2=2)[:, 0 if self.sphere else self.parameters :]
        if (
            np.abs(G - G.transpose(0, 2, 1)).max() > GRAM_TOLERANCE
            or np.abs(units - 1).max() > GRAM_TOLERANCE
        ):
            raise bad(
                "gram",
                of,
                "symmetric with unit teachers (and parameters, if on spheres)",
                "another matrix",
            )
        smallest = np.linalg.eigvalsh(G)[:, 0].min()
        if smallest < -GRAM_TOLERANCE * max(1.0, np.abs(G).max()):
            raise bad(
                "gram",
                of,
                "positive semidefinite",
                f"eigenvalue {smallest:.3g}",
                "vectors @ vectors.T",
            )
        return self._fresh_state(G, check.seed_value(seed, of))

    def gram(self, state: State) -> np.ndarray:
        """(runs, n, n); non-finite where a run has diverged."""
        return state["gram"]

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs) of the first head with the first teachers;
        of the raw vectors, which are unit only on spheres.
        """
        return gram_overlaps(state["gram"], self.parameters)
