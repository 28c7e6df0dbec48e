"""Whether a figure can mislead: `problems` looks at what the matplotlib renderer really draws.

Each panel is drawn at the report's size, every series alone and all together, and the pixels are
compared. One sentence a problem, naming panel and series:

- hidden: more than 80 % of a series' pixels lie under later ones, or it has none in the picture;
- a legend on data: it covers any data pixel;
- a stretched range: the data (with error bars) span less than 65 % of an axis, measured along it
  (zero at an end, natural bounds, and panels that share a range: see `_with_references`);
- a label beside a line that lies on data or on another label, leaves the axes, or is nearer to
  another series than to its own;
- labels: two legend entries with one text, a series that nothing names, fewer than two ticks;
- colours: one label in two colours, or one colour for different labels in different panels, unless
  `Figure.meanings` says what the colour stands for in all of them; two series alike in one panel.

>>> from attnscope.figures.figure import Figure, Line, Panel
>>> one = Panel("p", "x", "y", (Line([0, 1], [0, 1], "a"), Line([0, 1], [0, 1], "b", 1)))
>>> problems(Figure("t", (one,)))
["panel 'p': 'a' is hidden: 100 % of its pixels lie under other series."]
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas

from attnscope.figures.check_labels import Series, covered_pixels, line_label_problems
from attnscope.figures.figure import Band, Figure, Heat, Line, Mark, Panel, Points
from attnscope.figures.layout_matplotlib import DrawnPanel, pixels
from attnscope.figures.render_matplotlib import INK, canvas_of, color_of

__all__ = ["problems"]

HIDDEN_SHARE = 0.8  # share of a series' pixels
LEAST_AXIS_SHARE = 0.65  # share of an axis
# opacity from which a pixel counts, as a share of the series' most: less is a soft edge
DRAWN_OPACITY = 0.5
COVERING_OPACITY = (
    0.5  # a series of at least this opacity hides what is below: bands (0.2) do not
)
# bounds that a quantity has by nature: shares and probabilities, cosines
NATURAL_BOUNDS = ((0.0, 1.0), (-1.0, 1.0))
# of a natural range that a declared one may add at an end, so that marks on it show
NATURAL_MARGIN = 0.1
LEAST_NATURAL_SHARE = 0.25  # of a natural range: data within less would be a flat line


def problems(figure: Figure) -> list[str]:
    """What a reader could be misled by, one sentence each; [] where nothing was found."""
    found = []
    for i, panel in enumerate(figure.panels):
        name = repr(panel.title) if panel.title else str(i + 1)
        # as the report does: each panel a picture of its own
        with canvas_of(Figure("", (panel,))) as (canvas, (drawn,)):
            engine = canvas.get_layout_engine()
            if engine is not None:  # else it is laid out already
                engine.execute(canvas)
            lines = _hidden_or_covered(canvas, drawn)
            lines += _stretched_axes(drawn, figure) + _tick_problems(drawn)
        found += [
            f"panel {name}: {line}"
            for line in lines + _label_problems(drawn) + _same_looks(panel)
        ]
    return found + _colour_problems(figure)


def _style(mark: Mark) -> tuple[Any, ...]:
    """Marks that agree in it look the same."""
    if isinstance(mark, Heat):
        return (Heat,)
    return (
        type(mark),
        color_of(mark.color),
        *(getattr(mark, n, 0) for n in ("dashed", "thin")),
    )


def _name(mark: Mark) -> str:
    if mark.label:
        return repr(mark.label)
    kind = type(mark).__name__.lower()
    colour = "" if isinstance(mark, Heat) else f" of colour {mark.color}"
    return f"an unnamed {kind}{colour}"


def _is_thin(mark: Mark) -> bool:
    return isinstance(mark, Line) and mark.thin


def _series(canvas: Canvas, drawn: DrawnPanel) -> list[Series]:
    groups: dict[tuple[Any, ...], Series] = {}
    # of many thin lines of one look, the first may carry the label of all
    many = {_style(m): m.label for m in drawn.panel.marks if m.label and _is_thin(m)}
    for i, (mark, artists) in enumerate(zip(drawn.panel.marks, drawn.artists)):
        opacity = pixels(canvas, artists)
        key = (*_style(mark), mark.label or many.get(_style(mark), ""))
        if key in groups:
            np.maximum(groups[key].opacity, opacity, out=groups[key].opacity)
        else:
            depth = (artists[-1].get_zorder(), i)
            groups[key] = Series(_name(mark), mark, depth, opacity)
    return sorted(groups.values(), key=lambda series: series.depth)


def _hidden_or_covered(canvas: Canvas, drawn: DrawnPanel) -> list[str]:
    series = _series(canvas, drawn)
    found = []
    for i, one in enumerate(series):
        if not one.opacity.any():
            # a band without width belongs to the line of its colour
            if not _is_empty(one.mark) and not any(
                _is_own_band(s.mark, one.mark) for s in series
            ):
                found.append(f"{one.name} is hidden: nothing of it lies within the axes.")
            continue
        later = [
            other for other in series[i + 1 :] if other.opacity.max() >= COVERING_OPACITY
        ]
        above = [_mask(other) for other in later if not _is_own_band(other.mark, one.mark)]
        share = np.max(above, axis=0)[_mask(one)].mean() if above else 0.0
        if share > HIDDEN_SHARE:
            much = f"{100 * share:.0f} %"
            found.append(
                f"{one.name} is hidden: {much} of its pixels lie under other series."
            )
    legend = drawn.axes.get_legend()
    if legend is not None:
        where = covered_pixels(canvas, legend)
        on = [one.name for one in series if one.opacity[where].any()]
        if on:
            found.append(f"the legend lies on data: {', '.join(on)}.")
    return found + line_label_problems(canvas, drawn, series)


def _mask(series: Series) -> np.ndarray:
    return series.opacity >= DRAWN_OPACITY * series.opacity.max()


def _is_own_band(upper: Mark, lower: Mark) -> bool:
    """A band narrower than the line or point it belongs to is not hidden by it, only small."""
    return (
        isinstance(lower, Band)
        and isinstance(upper, Line | Points)
        and color_of(upper.color) == color_of(lower.color)
    )


def _stretched_axes(drawn: DrawnPanel, figure: Figure) -> list[str]:
    panel, axes = drawn.panel, drawn.axes
    found = []
    for which, axis, limits, names in (
        ("x", axes.xaxis, axes.get_xlim(), panel.x_names),
        ("y", axes.yaxis, axes.get_ylim(), panel.y_names),
    ):
        low, high = sorted(limits)
        if names:
            # half a place at either end is every name's own room
            if low < -1 or high > len(names):
                found.append(f"the {which} axis goes on beyond its names.")
            continue
        scale = axis.get_transform().transform
        peers = [other for other in figure.panels if _same_axis(other, panel, which)]
        values = np.concatenate([_extent(m, which) for other in peers for m in other.marks])
        values = values[np.isfinite(values) & ((values > 0) | (axis.get_scale() != "log"))]
        if not values.size or values.min() == values.max():
            continue  # nothing to measure a range by
        values = _with_references(values, low, high, axis.get_scale() == "log")
        a, b = scale(np.array([low, high]))
        inside = np.clip(scale(np.array([values.min(), values.max()])), a, b)
        share = (inside[1] - inside[0]) / (b - a)
        if share < LEAST_AXIS_SHARE:
            found.append(
                f"the {which} axis is stretched: the data span {100 * share:.0f} % of "
                f"{low:.3g} to {high:.3g}."
            )
    return found


def _same_axis(a: Panel, b: Panel, which: str) -> bool:
    """Panels with one declared range are made to be compared, if it is one of one quantity, or of
    several with these bounds by nature: all their data count.
    """
    limits, label, log = f"{which}_range", f"{which}_label", f"log_{which}"
    ends = getattr(a, limits)
    if a is b or ends is None:
        return a is b
    same = ends == getattr(b, limits) and getattr(a, log) == getattr(b, log)
    return same and (
        getattr(a, label) == getattr(b, label) or _bounds(*sorted(ends)) is not None
    )


def _bounds(low: float, high: float) -> tuple[float, float] | None:
    """The natural bounds that a range shows, with a margin at most."""
    for bottom, top in NATURAL_BOUNDS:
        room = NATURAL_MARGIN * (top - bottom)
        if bottom - room <= low <= bottom and top <= high <= top + room:
            return bottom, top
    return None


def _with_references(values: np.ndarray, low: float, high: float, log: bool) -> np.ndarray:
    """The data and what a linear axis is drawn for besides: zero, where the range starts or ends
    there, and both natural bounds, where it shows just these and the data lie between them.
    """
    if log:
        return values
    least, most = values.min(), values.max()
    bounds = _bounds(low, high)
    if bounds is not None:
        within = bounds[0] <= least and most <= bounds[1]
        if within and most - least >= LEAST_NATURAL_SHARE * (bounds[1] - bounds[0]):
            return np.append(values, bounds)
    zero = (least >= 0 and -NATURAL_MARGIN * most <= low <= 0) or (
        most <= 0 and 0 <= high <= -NATURAL_MARGIN * least
    )
    return np.append(values, 0.0) if zero else values


def _extent(mark: Mark, which: str) -> np.ndarray:
    """All numbers of a mark along an axis; those of a picture of cells with their outer edges."""
    if isinstance(mark, Heat):
        at = mark.x if which == "x" else mark.y
        half = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
        return np.array([at[0] - half[0], at[-1] + half[-1], *at])
    if which == "x":
        return mark.x
    if isinstance(mark, Band):
        return np.concatenate([mark.low, mark.high])
    if isinstance(mark, Points):
        return np.concatenate(mark.ends)
    return mark.y


def _tick_problems(drawn: DrawnPanel) -> list[str]:
    found = []
    for which, axis in (("x", drawn.axes.xaxis), ("y", drawn.axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        texts = {
            tick.label1.get_text()
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
            if low <= tick.get_loc() <= high
        }
        if len(texts - {""}) < 2:
            found.append(f"the {which} axis has fewer than two ticks.")
    return found


def _label_problems(drawn: DrawnPanel) -> list[str]:
    legend = drawn.axes.get_legend()
    texts = Counter(text.get_text() for text in legend.get_texts()) if legend else Counter()
    found = [f"the legend says {t!r} {n} times." for t, n in texts.items() if n > 1]
    marks = [mark for mark in drawn.panel.marks if mark.label or not _is_empty(mark)]
    named = [_style(mark) for mark in marks if mark.label]
    colours = {style[1] for style in named if style[0] is not Heat}
    looks = {(style[0], *style[2:]) for style in named}
    curves = {_style(mark) for mark in marks if not isinstance(mark, Band)}
    # a lone series is what the axes say
    lone = curves if len(curves) == 1 and Heat not in next(iter(curves)) else set()
    lone_colours = {style[1] for style in lone}
    for mark in {_style(mark): mark for mark in reversed(marks)}.values():
        style = _style(mark)
        if style in named or style in lone:
            continue
        # a band belongs to the line of its colour; elsewhere look and colour may be named apart
        of_line = style[0] is Band and style[1] in colours | lone_colours
        apart = (
            style[0] is not Heat and style[1] in colours and (style[0], *style[2:]) in looks
        )
        if not of_line and not apart:
            found.append(f"{_name(mark)} has no label, and nothing else says what it is.")
    return found


def _is_empty(mark: Mark) -> bool:
    """Draws nothing; with a label it is an entry of the legend for a look, as in
    Points([], [], "sampled", color=6) for markers of several colours.
    """
    return not isinstance(mark, Heat) and not np.isfinite(mark.x).any()


def _same_looks(panel: Panel) -> list[str]:
    looks: dict[tuple[Any, ...], dict[str, None]] = {}
    for mark in panel.marks:
        if mark.label and not isinstance(mark, Heat) and not _is_empty(mark):
            looks.setdefault(_style(mark), {})[mark.label] = None
    return [
        f"{' and '.join(map(repr, labels))} look the same."
        for labels in looks.values()
        if len(labels) > 1
    ]


def _colour_problems(figure: Figure) -> list[str]:
    by_label: dict[str, dict[str, None]] = {}
    by_colour: dict[str, list[tuple[int, set[str]]]] = {}
    declared = {color_of(i) for i, meaning in enumerate(figure.meanings) if meaning}
    declared.add(INK)  # reference lines, named where they stand: no colour with a meaning
    for i, panel in enumerate(figure.panels):
        labels: dict[str, set[str]] = {}
        for mark in panel.marks:
            if mark.label and not isinstance(mark, Heat) and not _is_empty(mark):
                by_label.setdefault(mark.label, {})[color_of(mark.color)] = None
                labels.setdefault(color_of(mark.color), set()).add(mark.label)
        for colour, words in labels.items():
            by_colour.setdefault(colour, []).append((i, words))
    found = [
        f"the label {label!r} has {len(colours)} colours: {', '.join(colours)}."
        for label, colours in by_label.items()
        if len(colours) > 1
    ]
    for colour, uses in by_colour.items():
        clash = next((p for p in combinations(uses, 2) if not p[0][1] & p[1][1]), None)
        if clash and colour not in declared:
            (i, first), (j, second) = clash
            found.append(
                f"the colour {colour} is {_quoted_labels(first)} in panel {i + 1} and {_quoted_labels(second)} in "
                f"panel {j + 1}: use another, or say in Figure(meanings=...) what it stands for."
            )
    return found


def _quoted_labels(labels: set[str]) -> str:
    return ", ".join(map(repr, sorted(labels)))
