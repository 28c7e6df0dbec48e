"""Whether a label beside a line can mislead: part of `check`.

It must cover no data pixel and no other label, stay within the axes, and be nearer to its own line
than to any other series.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from attnscope.figures.figure import Heat, Mark
from attnscope.figures.layout_matplotlib import DrawnPanel
from attnscope.figures.render_matplotlib import color_of

__all__ = ["Series", "covered_pixels", "line_label_problems"]


@dataclass(eq=False)
class Series:
    """Marks of one look and label, drawn as one: where, and how high they lie."""

    name: str
    mark: Mark
    depth: tuple[float, int]
    opacity: np.ndarray


def covered_pixels(canvas: Canvas, artist: Any) -> tuple[slice, slice]:
    """Rows and columns of what an artist covers."""
    agg: Any = canvas.canvas
    box = artist.get_window_extent(agg.get_renderer())
    height = agg.get_width_height()[1]
    top, bottom = int(height - box.y1), int(np.ceil(height - box.y0))
    left, right = int(box.x0), int(np.ceil(box.x1))
    return slice(max(0, top), max(0, bottom)), slice(max(0, left), max(0, right))


def line_label_problems(canvas: Canvas, drawn: DrawnPanel, series: list[Series]) -> list[str]:
    """Labels beside lines: clear of data and of each other, within the axes, at the own line."""
    agg: Any = canvas.canvas
    renderer = agg.get_renderer()
    boxes = [text.get_window_extent(renderer) for _, text in drawn.labels]
    room = drawn.axes.get_window_extent()
    found = []
    for i, (place, text) in enumerate(drawn.labels):
        name = f"the label {text.get_text()!r}"
        where = covered_pixels(canvas, text)
        on = [one.name for one in series if one.opacity[where].any()]
        if on:
            found.append(f"{name} lies on data: {', '.join(on)}.")
        met = [drawn.labels[j][1].get_text() for j in range(i) if boxes[i].overlaps(boxes[j])]
        if met:
            found.append(f"{name} lies on another: {', '.join(map(repr, met))}.")
        box = boxes[i]
        if box.x0 < room.x0 or box.x1 > room.x1 or box.y0 < room.y0 or box.y1 > room.y1:
            found.append(f"{name} leaves the axes.")
        own = drawn.panel.marks[place]
        nearest = min(series, key=lambda one: _distance(one, where))
        if not on and not _belongs_to(nearest.mark, own):
            found.append(f"{name} is nearer to {nearest.name} than to its own line.")
    return found


def _distance(series: Series, where: tuple[slice, slice]) -> float:
    """Pixels between a rectangle and the nearest of a series; infinite where it draws nothing."""
    rows, columns = np.nonzero(series.opacity > 0)
    if not rows.size:
        return float("inf")
    down = np.maximum(0, np.maximum(where[0].start - rows, rows - where[0].stop + 1))
    across = np.maximum(0, np.maximum(where[1].start - columns, columns - where[1].stop + 1))
    return float(np.hypot(down, across).min())


def _belongs_to(mark: Mark, line: Mark) -> bool:
    """A mark of the line's colour that has its name or none."""
    if isinstance(mark, Heat) or isinstance(line, Heat):
        return False
    same = color_of(mark.color) == color_of(line.color)
    return same and mark.label in ("", line.label)
