"""Figures drawn by matplotlib: SVG, PNG or PDF.

The same data gives the same bytes: fixed ids, no dates, no user settings.

matplotlib is used through its object interface and the Agg canvas: no window, and no figure
outlives its call.
"""

from __future__ import annotations

import io
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from attnscope.errors import bad
from attnscope.figures.figure import Band, Figure, Heat, Line, Mark, Panel, Points
from attnscope.files import check_place, whole_file

__all__ = ["svg", "write"]

# Okabe and Ito's palette: distinguishable with any colour vision
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLE: dict[str, Any] = {
    "svg.hashsalt": "attnscope",  # ids of clip paths and markers: fixed instead of random
    # text stays text: small files that can be searched and read aloud
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.framealpha": 0.85,  # readable over a heat map
    "legend.edgecolor": "none",
}
NO_DATE = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": None}
# inches of one panel
WIDTH = 4.4
HEIGHT = 3.0
# that fit side by side under a panel; names that would touch their neighbours are written steeply
LETTERS = 44


def write(figure: Figure, path: str | os.PathLike[str]) -> None:
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


def svg(figure: Figure) -> str:
    """The figure as SVG text."""
    return _draw(figure, ".svg").decode()


def _draw(figure: Figure, kind: str) -> bytes:
    rows = -(-len(figure.panels) // figure.columns)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change the bytes
        matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]
        canvas = Canvas(
            figsize=(WIDTH * figure.columns, HEIGHT * rows + 0.3), layout="constrained"
        )
        FigureCanvasAgg(canvas)
        canvas.suptitle(_text(figure.title))
        for i, panel in enumerate(figure.panels):
            _panel(canvas, canvas.add_subplot(rows, figure.columns, i + 1), panel)
        out = io.BytesIO()
        canvas.savefig(out, format=kind[1:], dpi=150, metadata=NO_DATE[kind])
    return out.getvalue()


def _panel(canvas: Canvas, axes: Any, panel: Panel) -> None:
    for mark in panel.marks:
        _mark(canvas, axes, mark, panel)
    axes.set(
        title=_text(panel.title), xlabel=_text(panel.x_label), ylabel=_text(panel.y_label)
    )
    for limits, set_limits in (
        (panel.x_range, axes.set_xlim),
        (panel.y_range, axes.set_ylim),
    ):
        if limits is not None:
            set_limits(*limits)
    for log, names, axis, set_scale in (
        (panel.log_x, panel.x_names, axes.xaxis, axes.set_xscale),
        (panel.log_y, panel.y_names, axes.yaxis, axes.set_yscale),
    ):
        if names:
            axis.set_ticks(range(len(names)), [_text(name) for name in names])
        elif log:
            set_scale("log")
            # plain text: a formula per tick triples the time
            axis.set_major_formatter(FuncFormatter(_power))
            axis.set_minor_formatter(
                NullFormatter() if _decades(axis) > 1 else FuncFormatter(_power)
            )
        else:
            # more labels than that run into each other at this width
            axis.set_major_locator(MaxNLocator(5))
    if any(
        len(a) + len(b) > 2 * LETTERS / len(panel.x_names) for a, b in pairwise(panel.x_names)
    ):
        axes.tick_params(axis="x", rotation=60, labelsize=7)
    if any(mark.label for mark in panel.marks if not isinstance(mark, Heat)):
        axes.legend()


def _mark(canvas: Canvas, axes: Any, mark: Mark, panel: Panel) -> None:
    label = _text(mark.label)
    if isinstance(mark, Line):
        width = 0.6 if mark.thin else 1.5
        style = "--" if mark.dashed else "-"
        axes.plot(
            mark.x,
            mark.y,
            label=label,
            color=_color(mark.color),
            linewidth=width,
            linestyle=style,
        )
    elif isinstance(mark, Band):
        axes.fill_between(
            mark.x,
            mark.low,
            mark.high,
            label=label,
            color=_color(mark.color),
            alpha=0.2,
            linewidth=0,
        )
    elif isinstance(mark, Points):
        axes.errorbar(
            mark.x,
            mark.y,
            yerr=mark.error,
            label=label,
            color=_color(mark.color),
            fmt="o",
            markersize=3.5,
        )
    else:
        edges = _edges(mark.x, panel.log_x), _edges(mark.y, panel.log_y)
        drawn = axes.pcolormesh(
            *edges, mark.z, norm=LogNorm() if mark.log_z else None, rasterized=True
        )
        axes.grid(False)
        canvas.colorbar(drawn, ax=axes, label=label)


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


def _decades(axis: Any) -> float:
    low, high = axis.get_view_interval()
    return abs(math.log10(high / low)) if low > 0 and high > 0 else 0.0


def _power(x: float, _position: int) -> str:
    """0.01, 1000, 1e-5, 2e6: short and without padding zeros."""
    return (
        f"{x:g}"
        if 1e-4 < abs(x) < 1e5
        else f"{x:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    )


def _color(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def _text(text: str) -> str:
    return text.replace("$", r"\$")  # plain words: a dollar sign must not start a formula
