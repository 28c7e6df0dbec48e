"""Where the runs of a training ended: counts and medians by outcome.

The command line prints this table, and a notebook shows it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.figures.figure import Figure, Panel
from attnscope.figures.inline_svg import pictures
from attnscope.figures.outcomes import by_outcome, names
from attnscope.html_tables import card, table

__all__ = ["SIGNED_RANGE", "Ends", "ends_card", "ends_of", "over_steps"]

UNIT_RANGE = (
    -0.05,
    1.05,
)  # of an axis for cosines and shares: a curve at 0 or 1 stays clear of the frame
SIGNED_RANGE = (-1.05, 1.05)  # of an axis for overlaps of either sign


class Ends(NamedTuple):
    """For each outcome the number of runs and the median of every column, in the order of figures."""

    columns: tuple[str, ...]
    counts: dict[str, int]
    medians: dict[str, list[float]]


def ends_of(outcome: np.ndarray, values: dict[str, np.ndarray]) -> Ends:
    """Runs by their outcome (runs,), with the medians of each of the values (runs,)."""
    found = names(outcome)
    medians = {
        name: [float(np.median(x[outcome == name])) for x in values.values()]
        for name in found
    }
    counts = {name: int(np.sum(outcome == name)) for name in found}
    return Ends(tuple(values), counts, medians)


def over_steps(
    step: np.ndarray, values: np.ndarray, outcome: np.ndarray, what: str, log_y: bool = False
) -> Panel:
    """Values (runs, logs) by outcome against the step; cosines and shares unless `log_y`."""
    marks = by_outcome(step, values, outcome)
    shown = None if log_y else UNIT_RANGE
    return Panel(what, "step", what, marks, log_y=log_y, y_range=shown)


def ends_card(title: str, ends: Ends, panels: list[Panel]) -> str:
    """The table of `attnscope train` with panels beside it, for a notebook."""
    rows = [
        [name, str(n), f"{ends.medians[name][0]:.5f}"]
        + [f"{x:.4f}" for x in ends.medians[name][1:]]
        for name, n in ends.counts.items()
    ]
    head = ["outcome (medians)", "runs", *ends.columns]
    drawn = pictures(Figure("", tuple(panels)), [panel.title for panel in panels])
    return card(table(title, head, rows), drawn)
