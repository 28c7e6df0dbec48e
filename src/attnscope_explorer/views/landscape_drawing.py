"""How the landscape is drawn: faint arrows, paths in the colour of their outcome, stationary points
by kind, a stage behind every point.

Stationary points that are projected onto one place stand side by side around it, with a thin line to
where they are: in the plane of kappa and nu the swapped minimum and the degenerate saddle are both
at the origin. Figures and tables keep the exact places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope_explorer.stage_data import add_stage, head, plane, setting
from attnscope_explorer.state import OVERLAPS, State
from attnscope_explorer.view_result import number

__all__ = ["OUTCOMES", "OUTCOME_COLOURS", "label", "styled_landscape"]

OUTCOMES = ("oracle", "swapped", "undecided", "diverged")
PATH_CELL = 1e-3  # points of a path within one such cell are drawn once: less than a pixel
DEEPEST_SHARE = (
    0.05  # on a logarithmic scale this share of the points, the deepest, has one colour
)
# stationary points nearer than this hide each other, and are drawn this far apart
HIDING_DISTANCE = 0.05
DRAWN_DISTANCE = 0.13
OUTCOME_COLOURS = {
    "oracle": "#2fc6f0",
    "swapped": "#ff6b3d",
    "undecided": "#c9c9c9",
    "diverged": "#e6399b",
}
# (symbol, size): a saddle is small enough to show a minimum that is projected onto the same place
POINT_SYMBOLS = {
    "minimum": ("star", 21),
    "saddle": ("x", 10),
    "maximum": ("diamond", 13),
    "flat": ("circle", 10),
}


def label(point: Any) -> str:
    """A stationary point in the legend."""
    return f"{point.name}: {point.kind}, risk {number(point.risk.value)}"


def styled_landscape(
    plotly: dict[str, Any], names: dict[str, Any], state: State
) -> dict[str, Any]:
    """The figure with what only this view needs."""
    heat, arrows, *rest = plotly["data"]
    _style_heat(heat, names)
    line = {"color": "rgba(255,255,255,0.6)", "width": 1}
    arrows |= {"line": line, "hoverinfo": "skip"} | _rounded_places(arrows)
    for trace in rest:
        if trace["mode"] == "lines":
            _style_path(trace, names, state)
    plotly["data"] += _style_points(rest, names, state)
    plotly["layout"]["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
    plotly["layout"]["xaxis"] |= {"constrain": "domain"}
    plotly["layout"]["meta"] |= {"square": True}
    best = next((p for p in names["points"] if p.name == "oracle"), None)
    first = [1.0, 0.0, 0.0, 1.0, 0.0] if best is None else best.overlaps
    return add_stage(
        plotly, setting(state), first, "a head at the oracle", plane=plane(state)
    )


def _style_heat(heat: dict[str, Any], names: dict[str, Any]) -> None:
    heat |= {"zsmooth": "fast"}
    # logarithmic: one deep point must not take all the colours
    if "customdata" in heat and len(names["inside"].kappa):
        z = [value for row in heat["z"] for value in row if value is not None]
        heat |= {"zauto": False, "zmin": float(np.quantile(z, DEEPEST_SHARE)), "zmax": max(z)}


def _rounded_places(trace: dict[str, Any]) -> dict[str, Any]:
    """The trace's places to a tenth of a pixel."""
    return {
        axis: [v if v is None else round(v, 4) for v in trace[axis]] for axis in ("x", "y")
    }


def _style_path(trace: dict[str, Any], names: dict[str, Any], state: State) -> None:
    """Paths of one outcome: points that no eye can tell apart are drawn once, and each knows its
    head.
    """
    outcome = trace["name"].split(": ")[1]
    log = names["run"].log[:, names["outcome"] == outcome]
    gap = np.full((*log.shape[:2], 1), np.nan)
    every = np.concatenate([log, gap], axis=2).reshape(5, -1)
    cell = np.round(np.stack([trace["x"], trace["y"]]).astype(float) / PATH_CELL)
    # NaN, a gap, differs from everything
    kept = np.append(True, (cell[:, 1:] != cell[:, :-1]).any(axis=0))
    # the overlaps that the axes do not show, in thousandths: short, and below a pixel of the stage
    others = [i for i, name in enumerate(OVERLAPS) if name not in (state.x, state.y)]
    rest = np.trunc(1000 * np.nan_to_num(every[others][:, kept])).astype(int)
    shown = {axis: [v for v, k in zip(trace[axis], kept) if k] for axis in ("x", "y")}
    leaping = names["run"].setup.step_size > names["limit"]
    trace |= {
        "line": {"color": OUTCOME_COLOURS[outcome], "width": 0.6 if leaping else 1.1},
        "opacity": 0.25 if leaping else 0.85,
        "hovertemplate": f"a run: {outcome}<extra></extra>",
        "meta": {
            "rest": rest.T.ravel().tolist(),
            "label": f"a run on its way, in the end {outcome}",
        },
    }
    trace |= _rounded_places(shown)


def _style_points(
    traces: list[dict[str, Any]], names: dict[str, Any], state: State
) -> list[dict[str, Any]]:
    """Symbols by kind; returns the lines from those that were moved aside to their places."""
    by_label = {label(p): p for p in names["points"]}
    mine = [trace for trace in traces if trace.get("name") in by_label]
    for trace in mine:
        point = by_label[trace["name"]]
        symbol, size = POINT_SYMBOLS[point.kind]
        # a minimum has the colour of the paths that end in it
        color = OUTCOME_COLOURS.get(point.name, "#ffd400")
        edge = {"color": "#111", "width": 1.5}
        o = np.array([float(x) for x in point.overlaps])
        mirrored = [o, np.append(-o[:4], o[4])]
        trace |= {
            "marker": {"symbol": symbol, "size": size, "color": color, "line": edge},
            "hovertemplate": "%{fullData.name}<extra></extra>",
            "cliponaxis": False,
            "meta": {
                "heads": [head(x) for x in mirrored[: len(trace["x"])]],
                "label": f"a head at the point {point.name} ({point.kind})",
            },
        }
    return _separate_points(mine)


def _separate_points(traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Move marks of different points that hide each other to either side of their place."""
    places: list[tuple[float, float, dict[str, Any], int]] = []
    for trace in traces:
        for i, place in enumerate(zip(trace["x"], trace["y"])):
            places.append((*place, trace, i))
    x: list[float | None] = []
    y: list[float | None] = []
    done: set[int] = set()
    for n, (a, b, _, _) in enumerate(places):
        close = [
            m
            for m, other in enumerate(places)
            if m not in done and abs(other[0] - a) + abs(other[1] - b) < HIDING_DISTANCE
        ]
        # one mark of each: the mirror image of a point at the origin is the point itself
        each = {id(places[m][2]): m for m in reversed(close)}
        if n in done or len(each) < 2:
            continue
        done |= set(close)
        for k, m in enumerate(sorted(each.values())):
            side = DRAWN_DISTANCE * (k - (len(each) - 1) / 2)
            for other in close:
                trace, i = places[other][2:]
                if trace is places[m][2]:
                    trace["x"][i] += side
            x += [a, a + side, None]
            y += [b, b, None]
    if not x:
        return []
    line = {"color": "#111", "width": 1.2}
    leader = {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line}
    return [leader | {"name": "", "hoverinfo": "skip", "showlegend": False}]
