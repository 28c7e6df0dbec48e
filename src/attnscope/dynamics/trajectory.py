"""What training returns: runs by their overlaps (overlap_runs.py), drawn, tabulated, explained and
continued.

notation: overlaps (kappa, eta, theta, nu, rho) = (k.k*, k.v*, v.k*, v.v*, k.v).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnscope.dynamics.engines.engine_table import engine_for
from attnscope.dynamics.loop import continued
from attnscope.dynamics.outcome_table import SIGNED_RANGE, over_steps
from attnscope.dynamics.overlap_runs import OverlapRuns
from attnscope.figures.figure import Figure, Panel
from attnscope.figures.outcomes import BANDS, by_outcome, paths_by_outcome
from attnscope.html_tables import Sentences
from attnscope.tasks.base import has_classes

if TYPE_CHECKING:
    import pandas as pd

    from attnscope.dynamics.rates import EscapeTime, MeasuredRate

__all__ = ["Trajectory"]

# smallest distance that is drawn: the resolution of float64 at 1
SMALLEST_DISTANCE = 1e-16
AXIS_START = (
    -0.03
)  # start of the axes of non-negative quantities, so that a curve at 0 stays visible


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(OverlapRuns):
    """Training runs side by side; see the module docstring and `train`.

    Attributes:
        setup: the task, the predictor and the settings of `train`.
        step: (logs,) 0, log_every, 2 log_every, ..., always ending with the last step.
        log: (5, runs, logs) the overlaps in the order of Overlaps; `overlaps` gives them by name.
        inverse_temperature: (logs,) that of each logged step.
        diverged_at: (runs,) the step after which a run was no longer finite, or -1.
        swapped_at: (runs,) the step of the last swap move, or -1.
        state: what the engine needs to go on from the last logged step.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=40, length=5)
    >>> run = at.train(task, at.Erf(0.1), runs=3, steps=400, step_size=1e-2)
    >>> run.step, run.excess.shape
    (array([  0, 200, 400]), (3, 3))
    >>> run.extend(200).step
    array([  0, 200, 400, 600])
    """

    def to_frame(self) -> pd.DataFrame:
        """One row per run and logged step: run, step, inverse temperature, the five overlaps,
        excess, distance.
        """
        values = self.overlaps._asdict() | {"excess": self.excess, "distance": self.distance}
        return self._frame(values)

    def figure(self, ended: bool = True) -> Figure:
        """Excess risk, distance to the manifold, the five overlaps and the paths, as plain data.

        Runs are grouped by outcome: medians with the central 95 % of each group, or one by one
        (figures/outcomes.py). ended=False: no outcome yet, all runs one by one.
        """
        outcome = self.outcome if ended else np.full(self.runs, "on the way")
        classes = has_classes(self.setup.task)
        what = "error" if classes else "excess risk"
        drawn = lambda values: by_outcome(self.step, values, outcome)
        # on the manifold the distance is 0, which no logarithm shows
        off = bool((self.distance > 0).all())
        far = float(self.distance.max())
        near = max(SMALLEST_DISTANCE, float(self.distance.min()))
        shown = (near / 1.3, far * 1.3) if off else (AXIS_START, max(1.05, 1.05 * far))
        away = Panel(
            "off the manifold",
            "step",
            "distance",
            drawn(self.distance),
            log_y=off,
            y_range=shown,
        )
        overlaps = [
            Panel(
                f"|{name}|", "step", f"|{name}|", drawn(np.abs(x)), y_range=(AXIS_START, 1.05)
            )
            for name, x in self._in_pairs()
        ]
        kappa = self.overlaps.kappa
        nu = self.overlaps.nu
        paths = Panel(
            "paths",
            "kappa",
            "nu",
            paths_by_outcome(kappa, nu, outcome),
            x_range=SIGNED_RANGE,
            y_range=SIGNED_RANGE,
        )
        panels = (
            Panel(what, "step", what, drawn(self.excess), log_y=True),
            away,
            *overlaps,
            paths,
        )
        title = (
            f"{self.setup.predictor!r}, {self.setup.task.dim} dimensions, {self.runs} runs "
            f"({BANDS})"
        )
        return Figure(title, panels, columns=2)

    def _in_pairs(self) -> list[tuple[str, np.ndarray]]:
        """The overlaps by name: the oracle's two, those of swapped roles, and k.v."""
        o = self.overlaps._asdict()
        return [(name, o[name]) for name in ("kappa", "nu", "eta", "theta", "rho")]

    def extend(self, steps: int, progress: bool = True) -> Trajectory:
        """A new Trajectory that goes `steps` further, bit for bit that of an uninterrupted run.

        If this one ended between two multiples of log_every, that last entry is left out of the new
        one.
        """
        return continued(self, engine_for, steps, progress)

    def diagnose(self) -> Sentences:
        """What happened, in sentences: one group of runs after the other, with the numbers."""
        from attnscope.dynamics.diagnose import diagnose

        return Sentences(diagnose(self))

    def _card_panels(self) -> list[Panel]:
        """The excess risk over the steps and the paths; where the risk at every log point costs
        much and is not there yet, |kappa| and |nu|.
        """
        o = self.overlaps
        if not self.excess_is_cheap:
            sizes = {"|kappa|": np.abs(o.kappa), "|nu|": np.abs(o.nu)}
            return [over_steps(self.step, x, self.outcome, name) for name, x in sizes.items()]
        what = "error" if has_classes(self.setup.task) else "excess risk"
        marks = paths_by_outcome(o.kappa, o.nu, self.outcome)
        paths = Panel(
            "paths", "kappa", "nu", marks, x_range=SIGNED_RANGE, y_range=SIGNED_RANGE
        )
        return [over_steps(self.step, self.excess, self.outcome, what, log_y=True), paths]

    def rate(self, limit: str = "oracle") -> MeasuredRate:
        """Measured linear rate of the runs that ended at `limit`, beside the predicted one."""
        from attnscope.dynamics.rates import measured_rate

        return measured_rate(self, limit)

    def escape(self, level: float = 0.3) -> EscapeTime:
        """Steps until each run has left the saddle at orthogonal vectors, measured and predicted to
        first order: until the unstable part of its overlaps has grown to `level`.
        """
        from attnscope.dynamics.rates import measured_escape

        return measured_escape(self, level)
