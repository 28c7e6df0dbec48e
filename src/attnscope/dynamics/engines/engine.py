"""What a training engine is: a state, a way to advance it, and what is read off it.

An engine is built from (task, predictor, step size, ...), knows nothing of logging, starts or
files, and advances all runs together. Its state is a flat dict of NumPy arrays (so that it can be
saved as .npz without pickle), with the run axis last or first as the engine likes. Advancing by n
and then by m steps is bit-identical to advancing by n + m, and run i never depends on how many runs
there are.

One head with one key and one value is described by five overlaps, anything else by a Gram matrix:
an engine is read in one of the two ways, some in both. The loop (loop.py) is the same.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array

__all__ = [
    "Engine",
    "GramEngine",
    "OverlapEngine",
    "State",
    "checked_state",
    "checked_steps",
]

State = dict[str, np.ndarray]


def checked_state(state: object, of: str) -> None:
    """Raise if this is not a state of an engine."""
    if not isinstance(state, dict):
        raise bad("state", of, "what init, start or advance of the engine returned", state)


def checked_steps(state: object, inverse_temperatures: object, of: str) -> np.ndarray:
    """The inverse temperatures of the steps as float64 (steps,), or one sentence about them or the
    state.
    """
    checked_state(state, of)
    return context_array(inverse_temperatures, "inverse_temperatures", of, (None,))


def on_spheres(constraint: object, of: str) -> bool:
    """Whether heads stay on unit spheres, "sphere", or are "free"."""
    if constraint not in ("sphere", "free"):
        raise bad("constraint", of, "'sphere' or 'free'", constraint)
    return constraint == "sphere"


def gram_overlaps(G: np.ndarray, students: int) -> np.ndarray:
    """(5, runs) of the first head with the first teachers, from Gram matrices (runs, V, V).

    They are 0 with a value that the task does not have, as in classification.
    """
    key, value = (
        G[:, :2, students + i] if students + i < G.shape[1] else np.zeros((len(G), 2))
        for i in (0, 1)
    )
    return np.stack([key[:, 0], value[:, 0], key[:, 1], value[:, 1], G[:, 0, 1]])


class MiniBatchEngine:
    """Base of the engines that draw a fresh batch at every step.

    Args:
        step_size: alpha > 0.
        batch_size: fresh sequences a step, >= 1.
        constraint: "sphere" (projected gradient, unit vectors) or "free".
    """

    def __init__(self, step_size: float, batch_size: int, constraint: str) -> None:
        of = type(self).__name__
        self.step_size = check.real(step_size, "step_size", of, 0, strict=True)
        self.batch_size = check.integer(batch_size, "batch_size", of, 1)
        self.sphere = on_spheres(constraint, of)


class Engine(Protocol):
    """What the loop needs of every engine, reduced or full."""

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps, the t-th at inverse_temperatures[t]."""


class OverlapEngine(Engine, Protocol):
    """One head: starts at overlaps and is read as overlaps."""

    def init(self, overlaps: np.ndarray, seed: int) -> State:
        """State of runs that start at overlaps (5, runs) = (kappa, eta, theta, nu, rho).

        Random streams come from (seed, run).
        """

    def overlaps(self, state: State) -> np.ndarray:
        """(5, runs); non-finite where a run has diverged."""


class GramEngine(Engine, Protocol):
    """Any number of heads: starts at Gram matrices and is read as Gram matrices."""

    def start(self, matrix: np.ndarray, seed: int) -> State:
        """State of runs that start at Gram matrices (runs, n, n) of (k_1, v_1, .., k_1*, v_1*,
        ..).
        """

    def gram(self, state: State) -> np.ndarray:
        """(runs, n, n); non-finite where a run has diverged."""
