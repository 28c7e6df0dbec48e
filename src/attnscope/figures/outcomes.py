"""Runs drawn by how they ended: one colour per outcome, the same in every figure.

A median over runs that ended at different places is at none of them, so runs are grouped by outcome
before anything is aggregated. A group of runs that ended at one place is drawn as its median with
the central 95 % of the group; a small group, and runs whose end has no place of its own (undecided,
diverged, on the way), one by one in thin lines. Labels say how many of how many.

>>> outcome = np.array(["oracle"] * 12 + ["swapped"] * 2)
>>> marks = by_outcome([0, 1], np.zeros((14, 2)), outcome)
>>> [mark.label for mark in marks if mark.label]
['oracle, 12 of 14', 'swapped, 2 of 14']
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.figures.figure import Band, Line, Mark

__all__ = ["BANDS", "OUTCOMES", "by_outcome", "group_label", "paths_by_outcome"]

# place in the palette, in the order of drawing. Heads that each found a direction of their own are
# what one head at the oracle is, and share its colour
OUTCOMES = {
    "oracle": 0,
    "specialised": 0,
    "swapped": 1,
    "rotated": 2,
    "undecided": 3,
    "unspecialised": 3,
    "on the way": 3,
    "diverged": 6,
}
# outcomes whose runs may end anywhere: a median of theirs would be at no run's end
SCATTERED_OUTCOMES = ("undecided", "unspecialised", "on the way", "diverged")
DASHED_OUTCOMES = ("swapped",)  # so that it is seen where it lies on the oracle's curve
BANDS = "bands: 95 % of each group"  # what a figure's title says of them
FEW_RUNS = 10  # runs below which the central 95 % are the outermost two: drawn one by one
MOST_DRAWN_RUNS = 30  # runs of a group drawn one by one; more would only blacken a panel


def by_outcome(step: Any, values: np.ndarray, outcome: np.ndarray) -> tuple[Mark, ...]:
    """Marks of values (runs, logs) over the steps, a group at a time; see the module docstring."""
    marks: list[Mark] = []
    for name in names(outcome):
        chosen = values[outcome == name]
        color = OUTCOMES[name]
        if name in SCATTERED_OUTCOMES or len(chosen) < FEW_RUNS:
            label = group_label(name, outcome, MOST_DRAWN_RUNS)
            marks += [
                Line(step, y, _label_of_first(label, i), color, thin=True)
                for i, y in enumerate(chosen[:MOST_DRAWN_RUNS])
            ]
        else:
            low, median, high = np.quantile(chosen, (0.025, 0.5, 0.975), axis=0)
            marks += [
                Band(step, low, high, "", color),
                Line(
                    step,
                    median,
                    group_label(name, outcome),
                    color,
                    dashed=name in DASHED_OUTCOMES,
                ),
            ]
    return tuple(marks)


def paths_by_outcome(x: np.ndarray, y: np.ndarray, outcome: np.ndarray) -> tuple[Mark, ...]:
    """Paths (runs, logs) of one quantity against another, each run in its outcome's colour."""
    return tuple(
        Line(
            x[run],
            y[run],
            _label_of_first(group_label(name, outcome, MOST_DRAWN_RUNS), i),
            OUTCOMES[name],
            thin=True,
        )
        for name in names(outcome)
        for i, run in enumerate(np.flatnonzero(outcome == name)[:MOST_DRAWN_RUNS])
    )


def names(outcome: np.ndarray) -> list[str]:
    """The outcomes that occur, in the order of drawing."""
    return [name for name in OUTCOMES if (outcome == name).any()]


def group_label(name: str, outcome: np.ndarray, most: int | None = None) -> str:
    """For example "oracle, 14 of 30"; where at most `most` runs are drawn and the group has more,
    how many are.
    """
    count = int((outcome == name).sum())
    cut = "" if most is None or count <= most else f", {most} drawn"
    return f"{name}, {count} of {len(outcome)}{cut}"


def _label_of_first(label: str, i: int) -> str:
    """The label on the first of many thin lines."""
    return label if i == 0 else ""
