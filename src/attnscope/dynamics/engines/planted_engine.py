"""What SGD on any planted task needs, whether in Gram matrices (planted_sgd.py) or on tokens
(full_planted.py).

notation: B = batch size, L = length, f (B, L, V) the tokens' projections on the vectors, u a head's
output.

The checked numbers of a run, its start at overlaps, the random numbers of one step of one run, and

    d loss(u(f), y)/d f,     u = sum_h u_h(f),

by JAX: all that the data say about the gradient, because a loss sees tokens through f alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from attnscope.dynamics.engines.engine import MiniBatchEngine, State
from attnscope.dynamics.engines.losses import output_loss
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.predictors.attention import Predictor
from attnscope.tasks.base import PlantedTask, Projections
from attnscope.theory.overlaps import Overlaps, checked_overlaps, head_gram

__all__ = ["PlantedEngine", "loss_gradient", "stream"]

PLANTED_STREAM = 0x91A47ED  # separates these random streams from all others
# runs per call of the compiled gradient: its shape never changes, so neither do the bits of a run
RUNS_PER_TILE = 32


class PlantedEngine(MiniBatchEngine):
    """Base of SGD on fresh batches of any planted task.

    State: what a subclass calls HELD, (runs, ...), "seed" and "step".

    Args:
        task: gives projections, or tokens.
        predictor, heads: `heads` heads of this kind, whose outputs add up.
        constraint: "sphere" (unit vectors) or "free".
        loss: "squared", "logistic" for labels whose sign counts, or a function (output, label).
    """

    HELD: ClassVar[str]

    def __init__(
        self,
        task: PlantedTask,
        predictor: Predictor,
        step_size: float,
        batch_size: int,
        *,
        heads: int = 1,
        constraint: str = "sphere",
        loss: Any = "squared",
    ) -> None:
        of = type(self).__name__
        needs("jax", f"{of} on {type(task).__name__}")
        self.task = task
        super().__init__(step_size, batch_size, constraint)
        self.students = 2 * check.integer(heads, "heads", of, 1)
        self._prepare_task()
        self.gradient = loss_gradient(predictor, heads, loss, of)

    def _prepare_task(self) -> None:
        """Check or store what this engine needs of the task in addition."""
        raise NotImplementedError

    def init(self, overlaps: np.ndarray, seed: int = 0) -> State:
        """Runs of one head that start at overlaps (5, runs) with the first teachers."""
        of = type(self).__name__
        o = Overlaps(*check.array(overlaps, "overlaps", of, (5, None)))
        points = zip(*checked_overlaps(o, self.task, of))
        grams = [head_gram(Overlaps(*x), self.task.teacher_gram) for x in points]
        return self.start(np.stack(grams), seed)

    def start(self, matrix: np.ndarray, seed: int = 0) -> State:
        """Runs that start at Gram matrices (runs, V, V) of (k_1, v_1, ..., teachers)."""
        held = self._starting_points(matrix, seed)
        return {self.HELD: held, "seed": np.array(seed), "step": np.array(0)}

    def advance(self, state: State, inverse_temperatures: np.ndarray) -> State:
        """State after len(inverse_temperatures) more steps;
        a run that leaves the finite numbers stays outside.
        """
        held = state[self.HELD].copy()
        step = int(state["step"])
        with np.errstate(all="ignore"):
            for lam in np.asarray(inverse_temperatures, dtype=np.float64):
                held = self._step_all_runs(held, int(state["seed"]), step, float(lam))
                step += 1
        return {self.HELD: held, "seed": state["seed"], "step": np.array(step)}

    def _starting_points(self, matrix: np.ndarray, seed: int) -> np.ndarray:
        raise NotImplementedError

    def _step_all_runs(
        self, held: np.ndarray, seed: int, step: int, lam: float
    ) -> np.ndarray:
        raise NotImplementedError


def stream(seed: int, run: int, step: int) -> np.random.Generator:
    """The random numbers of one step of one run."""
    return np.random.Generator(
        np.random.Philox(key=[seed, run], counter=[0, 0, step, PLANTED_STREAM])
    )


def loss_gradient(
    predictor: Predictor, heads: int, loss: Any, of: str
) -> Callable[[list[Projections], list[np.ndarray], float], np.ndarray]:
    """A function (sequences of each run, their labels, inverse temperature) -> d loss/d fields
    (runs, B, L, 2 heads).
    """
    import jax

    inner = jax.grad(output_loss(predictor, heads, loss, of))
    over_batch = jax.vmap(inner, (0, 0, 0, None))
    compiled = jax.jit(jax.vmap(over_batch, (0, 0, 0, None)))

    def gradient(
        drawn: list[Projections], labels: list[np.ndarray], lam: float
    ) -> np.ndarray:
        seen = np.stack([x.fields[:, :, : 2 * heads] for x in drawn])
        told = np.stack(labels)
        masks = [
            np.ones(x.fields.shape[:2], bool) if x.mask is None else x.mask for x in drawn
        ]
        real = np.stack(masks)
        parts = []
        with computed_x64():
            for i in range(0, len(seen), RUNS_PER_TILE):
                tile = [_filled_tile(x[i : i + RUNS_PER_TILE]) for x in (seen, told, real)]
                parts.append(np.asarray(compiled(*tile, lam)))
        return np.concatenate(parts)[: len(seen)]

    return gradient


def _filled_tile(x: np.ndarray) -> np.ndarray:
    """x with its last row repeated up to RUNS_PER_TILE rows."""
    missing = [(0, RUNS_PER_TILE - len(x))] + [(0, 0)] * (x.ndim - 1)
    return np.pad(x, missing, mode="edge")
