"""Figures as the dictionaries that Plotly draws, in a browser or a notebook:
`plotly.graph_objects.Figure(plotly_dict(figure))`.

Only the description is made here, as plain lists and words: Plotly itself is not imported, and
colours of paper and ink are left to the page. `layout.meta` names the number of panels and of
columns, so that a narrow page can stack them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.figures.figure import Band, Figure, Heat, Line, Mark, Panel, Points

__all__ = ["SCREEN_PALETTE", "plotly_dict"]

# Okabe and Ito's palette without its black, which a dark page swallows, and its yellow, which a
# light one does; sky blue and orange darkened until they stand out 3 to 1 on white, as accessibility
# guidelines ask of graphics (theirs are 2.3 to 1)
SCREEN_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#3A97D3", "#AD8800", "#888888")
COLUMN_GAP = (
    0.11  # between columns, as a share of the width: room for tick labels and an axis title
)
ROW_GAP = 0.34  # between rows, as a share of a row: room for a panel title as well


def plotly_dict(figure: Figure) -> dict[str, Any]:
    """{"data": traces, "layout": layout}, JSON-ready: gaps are None."""
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "annotations": [],
        "meta": {"panels": len(figure.panels), "columns": figure.columns},
    }
    for i, panel in enumerate(figure.panels):
        suffix = "" if i == 0 else str(i + 1)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        traces = [trace | axes for trace in _panel_traces(panel)]
        named = {trace.get("name") for trace in traces} - {""}
        if (
            len(figure.panels) > 1
            and len(named) == 1
            and not named & _other_labels(figure, i)
        ):
            # the panel's title says what its only curve is
            traces = [trace | {"name": ""} for trace in traces]
        data += traces
        axes_of_panel = _axes(panel, suffix, _place(i, len(figure.panels), figure.columns))
        if _same_steps_below(figure, i):
            axes_of_panel[f"xaxis{suffix}"] |= {
                "showticklabels": False,
                "title": {"text": ""},
            }
        layout |= axes_of_panel
        if len(figure.panels) > 1:
            layout["annotations"].append(_title(panel.title, suffix))
    _one_legend_entry_each(data)
    return {"data": data, "layout": layout}


def _other_labels(figure: Figure, i: int) -> set[str]:
    """Labels of the other panels: a name that several share is a group, which no title says."""
    others = (*figure.panels[:i], *figure.panels[i + 1 :])
    return {mark.label for panel in others for mark in panel.marks}


def _same_steps_below(figure: Figure, i: int) -> bool:
    """Whether the panel below has the same horizontal axis, fixed: its labels then serve both.

    Labels are what Plotly takes longest to draw in a figure of many small panels.
    """
    below = i + figure.columns
    if below >= len(figure.panels):
        return False
    here, there = figure.panels[i], figure.panels[below]
    fixed = here.x_range is not None and not here.x_names
    return fixed and (here.x_label, here.x_range, here.log_x) == (
        there.x_label,
        there.x_range,
        there.log_x,
    )


def _panel_traces(panel: Panel) -> list[dict[str, Any]]:
    """The traces of a panel; neighbouring thin lines of one look and length become one trace, with
    a gap after each (`meta.each`: points of one). Drawing takes a time per trace.
    """
    out: list[dict[str, Any]] = []
    for mark in panel.marks:
        for trace in _traces(mark, panel.log_y):
            if isinstance(mark, Line) and mark.thin:
                trace = trace | {"meta": {"each": len(mark.x)}}
                if out and _one_look(out[-1], trace):
                    out[-1] = out[-1] | {
                        axis: [*out[-1][axis], None, *trace[axis]] for axis in "xy"
                    }
                    continue
            out.append(trace)
    return out


def _one_look(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """The first of several may carry the name of all."""
    same = all(one.get(key) == other[key] for key in ("meta", "line"))
    return same and other["name"] in ("", one["name"])


def _traces(mark: Mark, log_y: bool) -> list[dict[str, Any]]:
    if isinstance(mark, Heat):
        return [_heat(mark)]
    color = SCREEN_PALETTE[mark.color % len(SCREEN_PALETTE)]
    name = {"name": mark.label, "legendgroup": mark.label}
    if isinstance(mark, Band):
        return _band(mark, log_y, name, color)
    if isinstance(mark, Points):
        bars: dict[str, Any] = {}
        if mark.error is not None:
            bars = {"error_y": {"type": "data", "array": _list(mark.error)}}
        if mark.below is not None:
            bars["error_y"] |= {"symmetric": False, "arrayminus": _list(mark.below)}
        return [_scatter(mark, "markers", marker={"color": color, "size": 9}) | name | bars]
    dash = "dash" if mark.dashed else "solid"
    return [
        _scatter(
            mark,
            "lines",
            line={"color": color, "width": 1.2 if mark.thin else 2.2, "dash": dash},
        )
        | name
    ]


def _band(mark: Band, log_y: bool, name: dict[str, str], color: str) -> list[dict[str, Any]]:
    """One closed polygon, there and back (`meta.band`: points of one edge); where an edge has gaps,
    also those of a logarithm of zero, two edges and what lies between them.
    """
    x = _list(mark.x)
    low = _list(mark.low)
    high = _list(mark.high)
    edge = name | {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    filled = {"fillcolor": _faint_colour(color)}
    if None in (*low, *high) or (log_y and np.min(mark.low) <= 0):
        return [
            edge | {"x": x, "y": low},
            edge | {"x": x, "y": high, "fill": "tonexty"} | filled,
        ]
    there_and_back = {"x": [*x, *x[::-1]], "y": [*low, *high[::-1]], "meta": {"band": len(x)}}
    return [edge | there_and_back | {"fill": "toself"} | filled]


def _scatter(mark: Line | Points, mode: str, **style: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": mode, "x": _list(mark.x), "y": _list(mark.y), **style}


def _heat(mark: Heat) -> dict[str, Any]:
    """On a logarithmic scale the colours are those of log10 z; the hover text shows z itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.log10(mark.z) if mark.log_z else mark.z
    title, shown = (f"log10 {mark.label}", "customdata") if mark.log_z else (mark.label, "z")
    place = "%{xaxis.title.text} %{x:.3f}<br>%{yaxis.title.text} %{y:.3f}<br>"
    trace = {
        "type": "heatmap",
        "x": _list(mark.x),
        "y": _list(mark.y),
        "z": [_list(row) for row in z],
        "hovertemplate": f"{place}{mark.label} %{{{shown}:.5g}}<extra></extra>",
        "colorscale": "Cividis",
        "colorbar": {
            "title": {"text": title, "side": "right"},
            "thickness": 12,
            "outlinewidth": 0,
        },
    }
    if mark.names:
        return trace | _kind_colours(mark, trace, place)
    return trace | ({"customdata": [_list(row) for row in mark.z]} if mark.log_z else {})


def _kind_colours(mark: Heat, trace: dict[str, Any], place: str) -> dict[str, Any]:
    """A colour of the palette for each name, and the name where one points."""
    count = len(mark.names)
    steps = [
        [(i + side) / count, SCREEN_PALETTE[i % len(SCREEN_PALETTE)]]
        for i in range(count)
        for side in (0, 1)
    ]
    words = [[mark.names[int(z)] if np.isfinite(z) else "" for z in row] for row in mark.z]
    ticks = {"tickvals": list(range(count)), "ticktext": list(mark.names)}
    return {
        "colorscale": steps,
        "zmin": -0.5,
        "zmax": count - 0.5,
        "customdata": words,
        "hovertemplate": f"{place}%{{customdata}}<extra></extra>",
        "colorbar": trace["colorbar"] | ticks,
    }


def _axes(
    panel: Panel, suffix: str, place: tuple[list[float], list[float]]
) -> dict[str, Any]:
    axes = {}
    for which, other, domain in zip("xy", "yx", place):
        names = (f"{which}_label", f"log_{which}", f"{which}_range", f"{which}_names")
        axis = _axis(*(getattr(panel, name) for name in names))
        axes[f"{which}axis{suffix}"] = axis | {"anchor": f"{other}{suffix}", "domain": domain}
    return axes


def _axis(
    label: str, log: bool, limits: tuple[float, float] | None, names: tuple[str, ...]
) -> dict[str, Any]:
    scale = (
        {"type": "log", "exponentformat": "power", "dtick": None}
        if log
        else {"type": "linear"}
    )
    shown = (
        None if limits is None else [float(x) for x in (np.log10(limits) if log else limits)]
    )
    ticks = (
        {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": list(names)}
        if names
        else {}
    )
    return {"title": {"text": label, "standoff": 6}, "zeroline": False, **scale, **ticks} | (
        {} if shown is None else {"range": shown}
    )


def _place(i: int, panels: int, columns: int) -> tuple[list[float], list[float]]:
    """Domains [left, right], [bottom, top] of panel i, in reading order from the top left."""
    rows = -(-panels // columns)
    row, column = divmod(i, columns)
    gap = ROW_GAP / rows
    width = (1 - COLUMN_GAP * (columns - 1)) / columns
    height = (1 - gap * (rows - 1)) / rows
    left = column * (width + COLUMN_GAP)
    top = 1 - row * (height + gap)
    return [left, min(1.0, left + width)], [max(0.0, top - height), top]


def _title(text: str, suffix: str) -> dict[str, Any]:
    where = {
        "xref": f"x{suffix} domain",
        "yref": f"y{suffix} domain",
        "x": 0,
        "y": 1,
        "yshift": 4,
    }
    return where | {
        "text": f"<b>{text}</b>",
        "showarrow": False,
        "xanchor": "left",
        "yanchor": "bottom",
    }


def _one_legend_entry_each(data: list[dict[str, Any]]) -> None:
    """Nameless traces and repetitions of a name stay out of the legend; a band has an entry where
    no line has its name.
    """
    lines = {trace.get("name", "") for trace in data if trace.get("hoverinfo") != "skip"}
    seen: set[str] = set()
    for trace in data:
        name = trace.get("name", "")
        alone = "fill" in trace and name not in lines
        trace["showlegend"] = (
            bool(name)
            and name not in seen
            and (alone or trace.get("hoverinfo") != "skip")
            and "z" not in trace
        )
        seen |= {name} if trace["showlegend"] else set()


def _faint_colour(color: str) -> str:
    r, g, b = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},0.2)"


def _list(values: Any) -> list[float | None]:
    out = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(out)
    return (
        out.tolist()
        if finite.all()
        else [x if ok else None for x, ok in zip(out.tolist(), finite.tolist())]
    )
