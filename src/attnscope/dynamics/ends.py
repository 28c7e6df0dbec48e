"""Where runs ended, told by outcome: medians over the runs of each, on the command line and in a
notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnscope.figures.figure import Figure, Panel
from attnscope.figures.inline_svg import pictures
from attnscope.figures.outcomes import by_outcome, names, paths_by_outcome
from attnscope.html_tables import card, table
from attnscope.tasks.base import has_classes

if TYPE_CHECKING:
    from attnscope.dynamics.heads import HeadTrajectory
    from attnscope.dynamics.trajectory import Trajectory

__all__ = ["Ends", "counted", "head_ends", "heads_card", "overlap_ends", "run_card"]


UNIT = (-0.05, 1.05)  # cosines and shares, a curve at 0 or 1 clear of the axes
SQUARE = (-1.05, 1.05)


class Ends(NamedTuple):
    """Outcome -> how many runs, and the medians of what the columns name; in the order of figures."""

    columns: tuple[str, ...]
    counts: dict[str, int]
    medians: dict[str, list[float]]


def _ends(outcome: np.ndarray, values: dict[str, np.ndarray]) -> Ends:
    found = names(outcome)
    medians = {
        name: [float(np.median(x[outcome == name])) for x in values.values()]
        for name in found
    }
    counts = {name: int(np.sum(outcome == name)) for name in found}
    return Ends(tuple(values), counts, medians)


def overlap_ends(run: Trajectory) -> Ends:
    """Excess risk and sizes of the overlaps at the last log point."""
    last = run.last_excess
    what = "error" if has_classes(run.setup.task) else "excess"
    o = run.overlaps
    shown = {"kappa": o.kappa, "eta": o.eta, "theta": o.theta, "nu": o.nu}
    sizes = {f"|{name}|": np.abs(np.asarray(x)[:, -1]) for name, x in shown.items()}
    return _ends(run.outcome, {what: last} | sizes)


def head_ends(run: HeadTrajectory) -> Ends:
    """Excess risk and what the heads know together, at the last log point."""
    values = {"excess": run.risk_at(-1).excess}
    values |= {"form cosine": run.form_cosine[:, -1], "span": run.span[:, -1]}
    return _ends(run.outcome, values)


def counted(run: Trajectory | HeadTrajectory) -> str:
    """How many runs, how far, and how many ended where."""
    found, counts = np.unique(run.outcome, return_counts=True)
    ends = ", ".join(f"{n} {name}" for name, n in zip(found, counts))
    return f"{run.runs} runs, {int(run.step[-1])} steps: {ends}"


def run_card(run: Trajectory) -> str:
    """The table of `attnscope train`, the excess risk over the steps and the paths.

    A risk at every log point is drawn where it costs little or is there already; else |kappa| and
    |nu|.
    """
    o = run.overlaps
    ends = overlap_ends(run)
    if run.excess_is_cheap:
        what = ends.columns[0].replace("excess", "excess risk")
        marks = paths_by_outcome(o.kappa, o.nu, run.outcome)
        paths = Panel("paths", "kappa", "nu", marks, x_range=SQUARE, y_range=SQUARE)
        panels = [_over_steps(run, what, run.excess, log_y=True), paths]
    else:
        sizes = {"|kappa|": o.kappa, "|nu|": o.nu}
        panels = [_over_steps(run, name, np.abs(x)) for name, x in sizes.items()]
    return _card(run, ends, panels)


def heads_card(run: HeadTrajectory) -> str:
    """The table of `attnscope train`, form cosine and span over the steps."""
    values = {"form cosine": run.form_cosine, "span": run.span}
    panels = [_over_steps(run, name, x) for name, x in values.items()]
    return _card(run, head_ends(run), panels)


def _over_steps(
    run: Trajectory | HeadTrajectory, what: str, values: np.ndarray, log_y: bool = False
) -> Panel:
    marks = by_outcome(run.step, values, run.outcome)
    shown = None if log_y else UNIT
    return Panel(what, "step", what, marks, log_y=log_y, y_range=shown)


def _card(run: Trajectory | HeadTrajectory, ends: Ends, panels: list[Panel]) -> str:
    rows = [
        [name, str(n), f"{ends.medians[name][0]:.5f}"]
        + [f"{x:.4f}" for x in ends.medians[name][1:]]
        for name, n in ends.counts.items()
    ]
    head = ["outcome (medians)", "runs", *ends.columns]
    drawn = pictures(Figure("", tuple(panels)), [panel.title for panel in panels])
    return card(table(f"{type(run).__name__}: {counted(run)}", head, rows), drawn)
