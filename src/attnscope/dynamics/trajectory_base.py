"""What Trajectory and HeadTrajectory share: training runs side by side, summarised in a line, drawn,
and saved to a file.
"""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from attnscope.deprecated import old_names
from attnscope.dynamics.engines.engine import State
from attnscope.dynamics.outcome_table import Ends, ends_card
from attnscope.figures.figure import Figure, Panel

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Reached", "Runs"]


class Reached(NamedTuple):
    """All that changes at a log point, replaced as one: an interrupt finds the old or the new."""

    step: int
    logs: int
    state: State
    diverged_at: np.ndarray
    swapped_at: np.ndarray


@old_names
class Runs:
    """Base of dataclasses with `setup` (task, predictor and settings), arrays,
    and the engine's `state`.
    """

    setup: Any
    step: np.ndarray
    inverse_temperature: np.ndarray
    diverged_at: np.ndarray
    state: State

    SETUP: ClassVar[type]  # of `setup`
    LOGGED: ClassVar[str]  # the field that grows
    # its axis along which log points follow each other; runs are the axis before
    LOGS: ClassVar[int]

    # What the loop (loop.py) needs: how a state is read, when a run is lost, and a longer run.

    @property
    def logged(self) -> np.ndarray:
        """The array that grows: overlaps or Gram matrices of all runs at all log points."""
        out: np.ndarray = getattr(self, self.LOGGED)
        return out

    @staticmethod
    def read(engine: Any, state: State) -> np.ndarray:
        """What one log point holds, of a state."""
        raise NotImplementedError

    @staticmethod
    def lost(read: np.ndarray) -> np.ndarray:
        """(runs,) whether a run has diverged."""
        raise NotImplementedError

    @staticmethod
    def held(read: np.ndarray, before: np.ndarray, lost: np.ndarray) -> np.ndarray:
        """The log point: what was read, or the one before again where a run is lost."""
        raise NotImplementedError

    def reached(
        self,
        step: np.ndarray,
        logged: np.ndarray,
        inverse_temperature: np.ndarray,
        at: Reached,
    ) -> Self:
        """The run as far as it came: these log points, and the state and events of the last one."""
        points = {
            "step": step,
            self.LOGGED: logged,
            "inverse_temperature": inverse_temperature,
        }
        changed = at._asdict() | points
        own = {field.name for field in fields(cast(Any, self))}
        news = {name: x for name, x in changed.items() if name in own}
        made: Self = replace(cast(Any, self), **news)
        return made

    # What every reader gets.

    @property
    def runs(self) -> int:
        """How many."""
        return self.logged.shape[self.LOGS - 1]

    @property
    def outcome(self) -> np.ndarray:
        """(runs,) where each run ended, as one word."""
        raise NotImplementedError

    @property
    def excess(self) -> np.ndarray:
        """Risk over noise^2, (runs, logs), at the running inverse temperature."""
        raise NotImplementedError

    def ends(self) -> Ends:
        """The number of runs by outcome, with medians of risk and overlaps."""
        raise NotImplementedError

    @property
    def _summary_line(self) -> str:
        """How many runs, how far, and how many ended where."""
        found, counts = np.unique(self.outcome, return_counts=True)
        ends = ", ".join(f"{n} {name}" for name, n in zip(found, counts))
        return f"{self.runs} runs, {int(self.step[-1])} steps: {ends}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._summary_line})"

    def _card_panels(self) -> list[Panel]:
        """What a notebook shows beside the table of `ends`."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        title = f"{type(self).__name__}: {self._summary_line}"
        return ends_card(title, self.ends(), self._card_panels())

    @property
    def risk(self) -> np.ndarray:
        """Risk, (runs, logs), at the running inverse temperature."""
        return self.excess + self.setup.task.noise**2

    def _frame(self, values: dict[str, np.ndarray]) -> pd.DataFrame:
        """One row per run and logged step, with these values (runs, logs) as columns."""
        import pandas as pd

        columns: dict[str, np.ndarray] = {
            "run": np.repeat(np.arange(self.runs), len(self.step))
        }
        for name, x in (
            ("step", self.step),
            ("inverse_temperature", self.inverse_temperature),
        ):
            columns[name] = np.tile(x, self.runs)
        return pd.DataFrame(columns | {name: x.ravel() for name, x in values.items()})

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
        """Read what `save` wrote. A predictor that contains your own function cannot be stored: pass it
        again.
        """
        from attnscope.dynamics.saved import load

        run: Self = load(cls, path, predictor)
        return run
