"""Shapes that recur in the figures of the claims."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.claims.compare import BAND
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points

__all__ = ["GREY", "figure", "legend", "level", "panel", "sampled_points"]

GREY = 6  # colour of what belongs to no series: legend entries, reference lines


def panel(title: str, x: str, y: str, *marks: Mark, log: str = "", **more: Any) -> Panel:
    """A panel of these marks with labels x and y; log: the logarithmic axes, "x", "y" or "xy";
    more: as of `Panel`.
    """
    return Panel(title, x, y, marks, log_x="x" in log, log_y="y" in log, **more)


def sampled_points(x: Any, pairs: Any, label: str = "", color: int = 0) -> Points:
    """Means with 95 % bars from (mean, standard error) on the last axis."""
    mean, error = np.moveaxis(np.asarray(pairs, dtype=float), -1, 0)
    return Points(x, mean, label, color, BAND * error)


def level(x: Any, y: float, label: str = "", color: int = GREY, thin: bool = False) -> Line:
    """A dashed horizontal line at y, from the first to the last of x."""
    return Line([x[0], x[-1]], [y, y], label, color, dashed=True, thin=thin)


def legend(words: str = "sampled, 95 %") -> Points:
    """A legend entry for all points."""
    return Points([], [], words, GREY)


def figure(title: str, *panels: Panel, columns: int = 0) -> Figure:
    """A figure with its panels in one row, up to three, else two a row; or `columns` a row."""
    return Figure(title, panels, columns or (len(panels) if len(panels) <= 3 else 2))
