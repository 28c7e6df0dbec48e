"""Where matplotlib puts ticks and legends of a panel.

Series are named beside their lines where there is room (`labels_matplotlib`). Else a legend lies
where no data pixel is, or below the axes, for which the picture grows; a range is never stretched
for it. Axes have at least two ticks, logarithmic ones too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from matplotlib.transforms import ScaledTranslation

from attnscope.figures.labels_matplotlib import (
    MOST_LABELS,
    NamedSeries,
    label_directly,
    line_path,
)
from attnscope.figures.marks import Heat, Line, Mark, Panel

__all__ = ["PANEL_HEIGHT", "PANEL_WIDTH", "DrawnPanel", "pixels", "set_legends", "set_ticks"]

# inches of one panel
PANEL_WIDTH = 4.4
PANEL_HEIGHT = 3.0
LEGEND_GAP = 0.06  # inches between an axis and the legend below it
LEGEND_PAD = 4  # pixels kept free around a legend
# where a legend is tried, as shares of the free way (right, up): corners, then sides, then within
LEGEND_PLACES = (
    *((1, 1), (0, 1), (1, 0), (0, 0), (1, 0.5), (0, 0.5), (0.5, 1), (0.5, 0)),
    *((x, y) for y in (1, 0.75, 0.25, 0) for x in (0.75, 0.25)),
    *((x, y) for x in (1, 0) for y in (0.75, 0.25)),
)
# more labels than that run into each other at this width
MOST_TICKS = 5
# on a logarithmic axis of this ratio or less: beyond, small ticks are a grey bar and cost time
SMALL_TICKS_RATIO = 1e4


@dataclass(frozen=True, eq=False)
class DrawnPanel:
    """A panel, its axes, the artists of each of its marks, and the texts beside its lines, each
    with the place of its mark among them.
    """

    panel: Panel
    axes: Any
    artists: list[list[Any]]
    labels: list[tuple[int, Any]] = field(default_factory=list)


def pixels(canvas: Canvas, artists: list[Any]) -> np.ndarray:
    """How opaque each pixel (row, column) of the canvas is with nothing but these on it."""
    agg: Any = canvas.canvas
    renderer = agg.get_renderer()
    renderer.clear()
    for artist in artists:
        if hasattr(artist, "draw"):
            artist.draw(renderer)
    return np.array(renderer.buffer_rgba())[:, :, 3] / 255.0


def set_legends(canvas: Canvas, drawn: list[DrawnPanel], rows: int, columns: int) -> None:
    """Names for the series of each panel: beside their lines, else a legend inside where there is
    free room, else below.
    """
    labelled = [(i, one) for i, one in enumerate(drawn) if _entries(one)]
    if not labelled:
        return
    engine: Any = canvas.get_layout_engine()
    engine.execute(canvas)  # where the axes are is what decides
    outside = [
        (i, one)
        for i, one in labelled
        if not _label_beside_lines(canvas, one) and not _place_legend_inside(canvas, one)
    ]
    if not outside:
        canvas.set_layout_engine("none")  # it is laid out
        return
    heights = [0.0] * rows
    for i, one in outside:
        heights[i // columns] = max(heights[i // columns], _place_legend_below(canvas, one))
    width, height = canvas.get_size_inches()
    canvas.set_size_inches(width, height + sum(heights))


def _entries(drawn: DrawnPanel) -> tuple[list[Any], list[str]] | None:
    """Handles and words of the legend: a label that a line, its points and its band share has one
    entry, which shows all three.
    """
    shared: dict[tuple[str, int], list[Any]] = {}
    kinds: dict[tuple[str, int], list[type]] = {}
    for place, (mark, artists) in enumerate(zip(drawn.panel.marks, drawn.artists)):
        if isinstance(mark, Heat) or not mark.label:
            continue
        key = (mark.label, mark.color)
        if type(mark) in kinds.get(key, ()) and not getattr(mark, "thin", False):
            key = (mark.label, -1 - place)  # said twice: `check` must see it
        elif type(mark) in kinds.get(key, ()):
            continue  # one of many
        kinds.setdefault(key, []).append(type(mark))
        shared.setdefault(key, []).append(artists[0])
    if not shared:
        return None
    handles = [found[0] if len(found) == 1 else tuple(found) for found in shared.values()]
    return handles, [label.replace("$", r"\$") for label, _ in shared]


def _label_beside_lines(canvas: Canvas, drawn: DrawnPanel) -> bool:
    """Name the series beside their lines, if all of them have lines, and room there."""
    marks = drawn.panel.marks
    groups: dict[str, list[int]] = {}
    for i, mark in enumerate(marks):
        if mark.label:
            groups.setdefault(mark.label, []).append(i)
    lines = {
        label: next((i for i in group if isinstance(marks[i], Line)), -1)
        for label, group in groups.items()
    }
    if (
        len(groups) > MOST_LABELS
        or -1 in lines.values()
        or any(isinstance(m, Heat) for m in marks)
    ):
        return False
    drawings = [pixels(canvas, artists) > 0 for artists in drawn.artists]
    series = []
    for label, i in lines.items():
        line = marks[i]
        assert isinstance(line, Line)
        # an unnamed band or point of its colour belongs to it
        own = [
            j
            for j, mark in enumerate(marks)
            if _color(mark) == line.color and mark.label in ("", label)
        ]
        if any(_color(marks[j]) != line.color for j in groups[label]):
            return False  # one name, two colours: `check` must see it
        mask = np.any([drawings[j] for j in own], axis=0)
        series.append(NamedSeries(label, line.color, line_path(drawn.axes, line), mask))
    texts = label_directly(canvas, drawn.axes, series, np.any(drawings, axis=0))
    if texts is None:
        return False
    drawn.labels.extend(zip(lines.values(), texts))
    return True


def _color(mark: Mark) -> int:
    return -1 if isinstance(mark, Heat) else mark.color


def _place_legend_inside(canvas: Canvas, drawn: DrawnPanel) -> bool:
    """Put the legend where nothing is drawn, if there is such a place."""
    entries = _entries(drawn)
    if entries is None or any(isinstance(mark, Heat) for mark in drawn.panel.marks):
        return False
    agg: Any = canvas.canvas
    axes = drawn.axes
    legend = axes.legend(*entries, loc="lower left", borderaxespad=0.0)
    box = legend.get_window_extent(agg.get_renderer())
    room = axes.get_window_extent()
    free = room.width - box.width - 2 * LEGEND_PAD, room.height - box.height - 2 * LEGEND_PAD
    if min(free) >= 0:
        taken = pixels(canvas, [a for artists in drawn.artists for a in artists]) > 0
        for right, up in LEGEND_PLACES:
            x = room.x0 + LEGEND_PAD + right * free[0]
            y = room.y0 + LEGEND_PAD + up * free[1]
            top = taken.shape[0] - math.ceil(y + box.height + LEGEND_PAD)
            bottom = taken.shape[0] - math.floor(y - LEGEND_PAD)
            across = slice(math.floor(x - LEGEND_PAD), math.ceil(x + box.width + LEGEND_PAD))
            if not taken[max(top, 0) : bottom, across].any():
                corner = (x - room.x0) / room.width, (y - room.y0) / room.height
                axes.legend(
                    *entries, loc="lower left", bbox_to_anchor=corner, borderaxespad=0
                )
                return True
    legend.remove()
    return False


def _place_legend_below(canvas: Canvas, drawn: DrawnPanel) -> float:
    """Put the legend below the axes, in as many columns as fit; its height in inches."""
    entries = _entries(drawn)
    if entries is None:
        return 0.0
    agg: Any = canvas.canvas
    axes = drawn.axes
    renderer = agg.get_renderer()
    room = axes.get_window_extent()
    outer = axes.get_tightbbox(renderer)
    left = (outer.x0 - room.x0) / canvas.dpi
    down = (outer.y0 - room.y0) / canvas.dpi - LEGEND_GAP
    place = axes.transAxes + ScaledTranslation(left, down, canvas.dpi_scale_trans)
    for columns in range(min(3, len(entries[1])), 0, -1):
        legend = axes.legend(
            *entries,
            loc="upper left",
            ncols=columns,
            bbox_to_anchor=(0, 0),
            bbox_transform=place,
            borderaxespad=0.0,
            borderpad=0.0,
            columnspacing=1.2,
        )
        box = legend.get_window_extent(renderer)
        if box.width <= max(outer.width, room.width):
            break
    return float(box.height / canvas.dpi + LEGEND_GAP)


def set_ticks(axes: Any, panel: Panel, text: Callable[[str], str]) -> None:
    """Scales, limits and ticks of both axes."""
    for log, names, limits, axis, which in (
        (panel.log_x, panel.x_names, panel.x_range, axes.xaxis, "x"),
        (panel.log_y, panel.y_names, panel.y_range, axes.yaxis, "y"),
    ):
        if log and not names:
            axes.set(**{f"{which}scale": "log"})
        if limits is None and names:
            limits = (-0.5, len(names) - 0.5)  # the same room for every name
        if limits is not None:
            axes.set(**{f"{which}lim": limits})
        if names:
            axis.set_ticks(range(len(names)), [text(name) for name in names])
            axis.grid(False)  # nothing is read off between names
        elif log:
            low, high = sorted(getattr(axes, f"get_{which}lim")())
            axis.set_major_locator(FixedLocator(_log_ticks(low, high)))
            few = high <= low * SMALL_TICKS_RATIO
            axis.set_minor_locator(LogLocator(subs=range(2, 10)) if few else NullLocator())
            # plain text: a formula per tick triples the time
            axis.set_major_formatter(FuncFormatter(_power_text))
            axis.set_minor_formatter(NullFormatter())
        else:
            axis.set_major_locator(MaxNLocator(MOST_TICKS))


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, or where there are fewer than three 1, 2, 5 times such, or round numbers."""
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    stride = -(-(last - first + 1) // (MOST_TICKS + 1))
    powers = [10.0**e for e in range(first, last + 1) if stride == 1 or e % stride == 0]
    if len(powers) > 2:
        return powers
    near = range(first - 1, last + 1)
    fine = [m * 10.0**e for e in near for m in (1, 2, 5)]
    shown = [x for x in fine if low * (1 - 1e-9) <= x <= high * (1 + 1e-9)]
    if len(shown) > 2:
        return shown
    return [x for x in MaxNLocator(MOST_TICKS).tick_values(low, high) if low <= x <= high]


def _power_text(x: float, _position: int) -> str:
    """0.01, 1000, 1e-5, 2e6: short and without padding zeros."""
    return (
        f"{x:g}"
        if 1e-4 < abs(x) < 1e5
        else f"{x:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    )
