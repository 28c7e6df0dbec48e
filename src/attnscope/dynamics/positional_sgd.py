"""Training of positional or semantic attention: SGD on fresh sequences, in two overlaps.

notation: of engines/positional_loop.py. A run starts at given overlaps, or at those of a uniform
unit vector, and every run draws from its own generator, a function of (seed, run): more runs, or
more steps by `extend`, change no bit of what was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnscope.dynamics.engines.positional_loop import positional_steps
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.compiled.fast_normal import seed_generators
from attnscope.tasks.planted.positional_semantic import PositionalSemantic
from attnscope.theory.positional_semantic.loss import checked_place, checked_semantic

__all__ = ["PositionalRuns", "positional_sgd"]


@dataclass(frozen=True, eq=False)
class PositionalRuns:
    """What `positional_sgd` returns; `extend` goes on.

    Attributes:
        tasks: one for each run.
        y, m: (runs,), e/P and m of each run after the last step.
        steps: how many were taken.
        step_size, batch_size: as in `positional_sgd`.
        generators: the state of each run's random numbers.

    >>> import attnscope as at
    >>> task = at.PositionalSemantic(dim=100, mix=0.2, contrast=1.0)
    >>> runs = at.positional_sgd(task, (0.1, 0.5), steps=100, step_size=1e-3, seed=1)
    >>> runs.steps, runs.y.shape == runs.m.shape
    (100, True)
    """

    tasks: tuple[PositionalSemantic, ...]
    y: np.ndarray
    m: np.ndarray
    steps: int
    step_size: float
    batch_size: int
    generators: np.ndarray

    @property
    def e(self) -> np.ndarray:
        """(runs,): p.k = P y."""
        return self.y * np.array([task.position for task in self.tasks])

    def extend(self, steps: int) -> PositionalRuns:
        """The same runs after `steps` more: bit for bit what one longer call gives."""
        more = check.integer(steps, "steps", "PositionalRuns.extend", 1)
        position = np.array([task.position for task in self.tasks])
        mix = np.array([task.mix for task in self.tasks])
        fixed = mix * np.array([task.positional_weight for task in self.tasks])
        state, generators = positional_steps(
            np.stack([self.y, self.m]),
            np.stack([mix, fixed, position]),
            self.generators,
            more,
            self.step_size,
            self.batch_size,
            self.tasks[0].dim - 3,
        )
        return replace(
            self, y=state[0], m=state[1], steps=self.steps + more, generators=generators
        )


def positional_sgd(
    task: PositionalSemantic | Sequence[PositionalSemantic],
    start: tuple[Any, Any] | None = None,
    *,
    runs: int = 16,
    steps: int = 1000,
    step_size: float = 1e-3,
    batch_size: int = 1,
    seed: int = 0,
) -> PositionalRuns:
    """SGD of the student's key on its sphere, each step on `batch_size` fresh sequences.

    Args:
        task: one for all runs, or a sequence with one for each run, of one dim >= 3.
        start: (e, m), numbers or arrays (runs,); None: a uniform unit vector for each run.
        runs: how many, where `task` is one.
        steps: how many, >= 1.
        step_size: of k - step_size * gradient; of order 1/dim.
        batch_size: fresh sequences a step, >= 1.
        seed: run i is a function of (seed, i).

    The law is that of SGD on vectors in R^dim, the cost does not depend on dim.

    >>> task = PositionalSemantic(dim=1000, mix=0.2, contrast=1.0)
    >>> found = positional_sgd(task, (0.1, 0.5), steps=40_000, step_size=1e-3, seed=1)
    >>> bool((np.abs(found.m) > 0.8).all())
    True
    """
    tasks: tuple[PositionalSemantic, ...]
    if isinstance(task, (list, tuple)):
        tasks = tuple(task)
    else:
        one = checked_semantic(task, "positional_sgd")
        tasks = (one,) * check.integer(runs, "runs", "positional_sgd", 1)
    if not tasks:
        raise bad(
            "task",
            "positional_sgd",
            "a PositionalSemantic or a sequence of them",
            "an empty one",
        )
    for each in tasks:
        checked_semantic(each, "positional_sgd")
    dims = {each.dim for each in tasks}
    if len(dims) > 1 or min(dims) < 3:
        raise bad("dim", "positional_sgd", "one integer >= 3 for all runs", sorted(dims))
    steps = check.integer(steps, "steps", "positional_sgd", 1)
    step_size = check.real(step_size, "step_size", "positional_sgd", 0, strict=True)
    batch_size = check.integer(batch_size, "batch_size", "positional_sgd", 1)
    seed = check.seed_value(seed, "positional_sgd")
    y, m = _starting_overlaps(tasks, start, seed)
    generators = seed_generators(seed, len(tasks))
    return PositionalRuns(tasks, y, m, 0, step_size, batch_size, generators).extend(steps)


def _starting_overlaps(
    tasks: tuple[PositionalSemantic, ...], start: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(y, m) of every run."""
    runs = len(tasks)
    if start is None:
        # two coordinates of a uniform unit vector: normals over the length of all d of them
        rows = []
        for run in range(runs):
            rng = np.random.default_rng([seed, run])
            pair = rng.standard_normal(2)
            rest = rng.chisquare(tasks[0].dim - 2)
            rows.append(pair / np.sqrt(pair @ pair + rest))
        both = np.array(rows).T
        return both[0], both[1]
    if not isinstance(start, tuple) or len(start) != 2:
        raise bad(
            "start", "positional_sgd", "a pair (e, m) or None", start, "start=(0.1, 0.1)"
        )
    shortest = min(tasks, key=lambda each: each.position)
    e, m = checked_place(shortest, start[0], start[1], "positional_sgd")
    try:
        e = np.broadcast_to(e, (runs,))
        m = np.broadcast_to(m, (runs,))
    except ValueError:
        got = f"shapes {e.shape} and {m.shape}"
        raise bad(
            "start", "positional_sgd", f"numbers or arrays of shape ({runs},)", got
        ) from None
    return e / np.array([each.position for each in tasks]), np.array(m)
