"""The two compiled engines of the erf predictor behind the engine contract; k* and v* orthogonal.

State: "overlaps" (5, runs), and for SGD "generators" (runs, 4), one random stream per run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.dynamics.engines.engine import State
from attnscope.dynamics.engines.population_erf import population_steps
from attnscope.dynamics.engines.sgd_erf import seed_generators, sgd_steps
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.law import Law

__all__ = ["PopulationErf", "SgdErf"]


class PopulationErf:
    """Projected gradient descent on the population risk (population_erf.py)."""

    def __init__(self, task: SingleLocation, step_size: float) -> None:
        self.step_size = step_size
        self.law = Law.of(task)

    def init(self, overlaps: np.ndarray, seed: int = 0) -> State:
        """Nothing is random: the seed is not used."""
        return {"overlaps": np.array(overlaps, dtype=np.float64)}

    def advance(self, state: State, temperatures: np.ndarray) -> State:
        return {
            "overlaps": population_steps(
                state["overlaps"], temperatures, self.step_size, self.law
            )
        }

    def overlaps(self, state: State) -> np.ndarray:
        return state["overlaps"]


class SgdErf:
    """SGD on fresh batches, exact in law for dim >= 4 (sgd_erf.py)."""

    def __init__(self, task: SingleLocation, step_size: float, batch_size: int) -> None:
        self.step_size = step_size
        self.law = Law.of(task)
        self.numbers: dict[str, Any] = {
            "dim": task.dim,
            "batch_size": batch_size,
            "noise": task.noise,
        }

    def init(self, overlaps: np.ndarray, seed: int = 0) -> State:
        start = np.array(overlaps, dtype=np.float64)
        return {"overlaps": start, "generators": seed_generators(seed, start.shape[1])}

    def advance(self, state: State, temperatures: np.ndarray) -> State:
        old = state["overlaps"]
        generators = state["generators"]
        alpha = self.step_size
        new, generators = sgd_steps(
            old, generators, temperatures, alpha, self.law, **self.numbers
        )
        return {"overlaps": new, "generators": generators}

    def overlaps(self, state: State) -> np.ndarray:
        return state["overlaps"]
