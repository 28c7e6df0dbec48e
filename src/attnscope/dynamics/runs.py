"""What Trajectory and HeadTrajectory share: training runs side by side, said in a line, drawn, and kept in a file."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from attnscope.dynamics.engine import State
from attnscope.figures.figure import Figure

__all__ = ["Runs"]


class Runs:
    """Base of dataclasses with `setup` (task, predictor and settings), arrays, and the engine's `state`."""

    setup: Any
    step: np.ndarray
    state: State

    @property
    def runs(self) -> int:
        """How many."""
        raise NotImplementedError

    @property
    def outcome(self) -> np.ndarray:
        """(runs,) where each ended, in a word."""
        raise NotImplementedError

    @property
    def excess(self) -> np.ndarray:
        """Risk over noise^2, (runs, logs), at the running temperature."""
        raise NotImplementedError

    def __repr__(self) -> str:
        names, counts = np.unique(self.outcome, return_counts=True)
        found = ", ".join(f"{n} {name}" for name, n in zip(names, counts))
        return f"{type(self).__name__}({self.runs} runs, {int(self.step[-1])} steps: {found})"

    @property
    def risk(self) -> np.ndarray:
        """Risk, (runs, logs), at the running temperature."""
        return self.excess + self.setup.task.noise**2

    def figure(self) -> Figure:
        """The runs as plain data to draw."""
        raise NotImplementedError

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """The figure; written to `path` as well (.svg, .png, .pdf) if one is given."""
        figure = self.figure()
        if path is not None:
            figure.save(path)
        return figure

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, the engine's state included, to one .npz file without pickle."""
        from attnscope.dynamics.saved import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], predictor: Any = None) -> Self:
        """Read what `save` wrote. A predictor with a function of yours inside cannot be stored: give it again."""
        from attnscope.dynamics.saved import load

        return load(cls, path, predictor)
