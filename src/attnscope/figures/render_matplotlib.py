"""Figures drawn by matplotlib: SVG, PNG or PDF.

The same data gives the same bytes: fixed ids, no dates, no user settings.

matplotlib is used through its object interface and the Agg canvas: no window, and no figure
outlives its call. Legends and ticks are placed by `layout_matplotlib`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure as Canvas

from attnscope.errors import bad
from attnscope.figures.layout_matplotlib import (
    PANEL_HEIGHT,
    PANEL_WIDTH,
    DrawnPanel,
    set_legends,
    set_ticks,
)
from attnscope.figures.marks import Band, Line, Mark, Panel, Points, Sheet
from attnscope.files import check_place, whole_file

__all__ = ["PALETTE", "canvas_of", "color_of", "png", "svg", "write"]

INK = "#000000"
# Okabe and Ito's palette: distinguishable with any colour vision
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK)
STYLE: dict[str, Any] = {
    "svg.hashsalt": "attnscope",  # ids of clip paths and markers: fixed instead of random
    # text stays text: small files that can be searched and read aloud
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,  # a legend never lies on data
    "legend.fontsize": 8.0,
}
INK_SETTINGS = (
    "text.color",
    "axes.edgecolor",
    "axes.labelcolor",
    "xtick.color",
    "ytick.color",
)
NO_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": None}
# that fit side by side under a panel; names that would touch their neighbours are written steeply
NAME_LETTERS = 44
# what lies on top where marks meet: areas below, a dashed line on a solid one (whose colour shows
# in the gaps), markers on lines; else the later one
DRAWING_DEPTHS = {"heat": 0.5, "band": 1.0, "solid": 2.0, "dashed": 2.1, "points": 2.2}


def write(figure: Sheet, path: str | os.PathLike[str]) -> None:
    """Draw the figure into a file; its ending (.svg, .png, .pdf) says how."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in NO_DATE:
        raise bad(
            "path",
            "plot",
            "a file name that ends in .svg, .png or .pdf",
            str(path),
            "figure.svg",
        )
    check_place(target, "plot")
    content = _draw(figure, kind)
    with whole_file(target, "plot") as part:
        part.write_bytes(content)


def svg(figure: Sheet) -> str:
    """The figure as SVG text."""
    return _draw(figure, ".svg").decode()


def png(figure: Sheet, ink: str) -> bytes:
    """The figure as PNG without background, words and axes in the colour `ink`."""
    return _draw(figure, ".png", ink, transparent=True)


def _draw(figure: Sheet, kind: str, ink: str = INK, transparent: bool = False) -> bytes:
    with canvas_of(figure, ink) as (canvas, _):
        out = io.BytesIO()
        how: dict[str, Any] = {
            "format": kind[1:],
            "metadata": NO_DATE[kind],
            "transparent": transparent,
        }
        canvas.savefig(out, dpi=150, **how)
    return out.getvalue()


@contextmanager
def canvas_of(figure: Sheet, ink: str = INK) -> Iterator[tuple[Canvas, list[DrawnPanel]]]:
    """The figure as matplotlib's, and each panel with what was drawn for each of its marks."""
    rows = -(-len(figure.panels) // figure.columns)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change the bytes
        matplotlib.rcParams.update(STYLE | dict.fromkeys(INK_SETTINGS, ink))  # type: ignore[arg-type]
        size = (PANEL_WIDTH * figure.columns, PANEL_HEIGHT * rows + 0.3)
        canvas = Canvas(figsize=size, layout="constrained")
        FigureCanvasAgg(canvas)
        canvas.suptitle(_escaped_text(figure.title))
        drawn = [
            _panel(canvas, canvas.add_subplot(rows, figure.columns, i + 1), panel)
            for i, panel in enumerate(figure.panels)
        ]
        set_legends(canvas, drawn, rows, figure.columns)
        yield canvas, drawn


def _panel(canvas: Canvas, axes: Any, panel: Panel) -> DrawnPanel:
    artists = [_mark(canvas, axes, mark, panel) for mark in panel.marks]
    axes.set(
        title=_escaped_text(panel.title),
        xlabel=_escaped_text(panel.x_label),
        ylabel=_escaped_text(panel.y_label),
    )
    set_ticks(axes, panel, _escaped_text)
    if any(
        len(a) + len(b) > 2 * NAME_LETTERS / len(panel.x_names)
        for a, b in pairwise(panel.x_names)
    ):
        axes.tick_params(axis="x", rotation=60, labelsize=7)
    return DrawnPanel(panel, axes, artists)


def _mark(canvas: Canvas, axes: Any, mark: Mark, panel: Panel) -> list[Any]:
    """Draw it; all that was drawn, the first of which stands for it in a legend."""
    label = _escaped_text(mark.label)
    if isinstance(mark, Line):
        kind = "dashed" if mark.dashed else "solid"
        return axes.plot(
            mark.x,
            mark.y,
            label=label,
            color=_drawn_colour(mark.color),
            linewidth=0.6 if mark.thin else 1.5,
            linestyle="--" if mark.dashed else "-",
            zorder=DRAWING_DEPTHS[kind],
        )
    if isinstance(mark, Band):
        area = axes.fill_between(
            mark.x,
            mark.low,
            mark.high,
            label=label,
            color=_drawn_colour(mark.color),
            alpha=0.2,
            linewidth=0,
            zorder=DRAWING_DEPTHS["band"],
        )
        return [area]
    if isinstance(mark, Points):
        bars = axes.errorbar(
            mark.x,
            mark.y,
            yerr=mark.error if mark.below is None else (mark.below, mark.error),
            label=label,
            color=_drawn_colour(mark.color),
            fmt="o",
            markersize=3.5,
            zorder=DRAWING_DEPTHS["points"],
        )
        return [bars, *bars.get_children()]
    edges = _edges(mark.x, panel.log_x), _edges(mark.y, panel.log_y)
    kinds = len(mark.names)
    norm: Normalize | None = LogNorm() if mark.log_z else None
    colors = None
    if kinds:  # a colour each: the bar's ticks stand in the middle of theirs
        norm = BoundaryNorm(np.arange(kinds + 1) - 0.5, kinds)
        colors = ListedColormap([color_of(i) for i in range(kinds)])
    area = axes.pcolormesh(
        *edges, mark.z, norm=norm, cmap=colors, rasterized=True, zorder=DRAWING_DEPTHS["heat"]
    )
    axes.grid(False)
    bar = canvas.colorbar(area, ax=axes, label=label)
    if kinds:
        bar.set_ticks(range(kinds), labels=[_escaped_text(name) for name in mark.names])
        bar.minorticks_off()
    return [area]


def _edges(centres: np.ndarray, log: bool) -> np.ndarray:
    """Cell edges half-way between the centres, as the axis measures it;
    the end cells are as wide as their neighbours.
    """
    x = np.log(centres) if log else centres
    if len(x) == 1:
        x = np.array([x[0] - 0.5, x[0] + 0.5])
    else:
        middles = (x[1:] + x[:-1]) / 2
        x = np.concatenate([[2 * x[0] - middles[0]], middles, [2 * x[-1] - middles[-1]]])
    return np.exp(x) if log else x


def color_of(i: int) -> str:
    """What the palette has for a mark's `color`."""
    return PALETTE[i % len(PALETTE)]


def _drawn_colour(i: int) -> Any:
    """The colour it is drawn in: the palette's black is whatever words are written in."""
    color = color_of(i)
    return matplotlib.rcParams["text.color"] if color == INK else color


def _escaped_text(text: str) -> str:
    return text.replace("$", r"\$")  # plain words: a dollar sign must not start a formula
