"""What a training engine is: a state, a way to advance it, and the overlaps it stands for.

An engine is built from (task, predictor, step size, ...), knows nothing of logging, starts or files, and advances all runs together.
Its state is a flat dict of NumPy arrays (so that it can be saved as .npz without pickle), with the run axis last or first as the engine
likes. Advancing by n and then by m steps is bit-identical to advancing by n + m, and run i never depends on how many runs there are.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

__all__ = ["Engine", "State"]

State = dict[str, np.ndarray]


class Engine(Protocol):
    """The contract that reduced and full engines share."""

    def init(self, overlaps: np.ndarray, seed: int) -> State:
        """State of `runs` runs that start at overlaps (5, runs) = (kappa, eta, theta, nu, rho); random streams from (seed, run)."""

    def advance(self, state: State, temperatures: np.ndarray) -> State:
        """State after len(temperatures) more steps, the t-th at temperatures[t]."""

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs); non-finite where a run has diverged."""
