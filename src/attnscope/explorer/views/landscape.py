"""The exact risk over two overlaps, the others held fixed: heat map, descent directions, stationary points and training paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.explorer.code import HEADER, computed, predictor_lines, task_line, train_lines, training_limits
from attnscope.explorer.state import OVERLAPS, State
from attnscope.explorer.view import Shown, number
from attnscope.figures.figure import Figure, Heat, Line, Mark, Panel, Points
from attnscope.figures.render_plotly import plotly_dict

__all__ = ["landscape"]

FINE, COARSE = (
    (61, 15),
    (21, 9),
)  # points per axis of the risk and of the arrows; coarse where a point costs a millisecond
ARROW = 0.55  # length of an arrow, as a share of the distance between arrows
LOG_FROM = 100.0  # a risk that varies by more than this factor is coloured by its logarithm
DEEPEST = 0.05  # on a logarithmic scale this share of the points, the deepest, has one colour
COLORS = {"oracle": "#2fc6f0", "swapped": "#ff6b3d", "undecided": "#c9c9c9", "diverged": "#e6399b"}
# (symbol, size): a saddle is small enough to show a minimum that is projected onto the same place
SYMBOLS = {"minimum": ("star", 21), "saddle": ("x", 10), "maximum": ("diamond", 13)}


def landscape(state: State) -> Shown:
    """The view; the flow and the paths are projections of what happens in all five overlaps."""
    if state.x == state.y:
        raise bad("the vertical axis", "the landscape", "another overlap than the horizontal one", state.y)
    code = lines(state)
    names = computed(code)
    figure = _figure(state, names)
    plotly = _styled(plotly_dict(figure), names, state)
    return Shown(figure, plotly, *_table(names), code, _note(state, names), _hidden(state))


def lines(state: State) -> str:
    points, arrows = FINE if state.predictor in ("erf", "linear") else COARSE
    place = ", ".join(
        f"{name}=" + ("a" if name == state.x else "b" if name == state.y else repr(getattr(state, name)))
        for name in OVERLAPS
    )
    return f'''{HEADER}from attnscope.explorer.flow import descent
from attnscope.theory.overlaps import gram

task = {task_line(state)}
{predictor_lines(state)}


def plane(points):
    """A grid over ({state.x}, {state.y}): axis, overlaps of unit vectors, and where these exist."""
    axis = np.linspace(-1, 1, points)
    a, b = np.meshgrid(axis, axis)
    overlaps = at.Overlaps({place})
    overlaps = at.Overlaps(*np.broadcast_arrays(*overlaps))
    possible = np.linalg.eigvalsh(gram(overlaps))[..., 0] >= -1e-9
    return axis, at.Overlaps(*(o[possible] for o in overlaps)), possible


axis, inside, possible = plane({points})
risk = np.full(possible.shape, np.nan)
risk[possible] = at.risk(task, predictor, inside).value

arrow_axis, arrow_at, _ = plane({arrows})
flow = descent(task, predictor, arrow_at)

points = at.stationary_points(task, predictor)

{train_lines(state, 100)}
outcome, final_risk = run.outcome, run.risk[:, -1]
'''


def _figure(state: State, names: dict[str, Any]) -> Figure:
    risk, run = names["risk"], names["run"]
    lowest = np.nanmin(risk, initial=np.inf)
    log = bool(lowest > 0 and np.nanmax(risk, initial=0.0) > LOG_FROM * lowest)
    x, y = (getattr(run.overlaps, name) for name in (state.x, state.y))
    shaft_x, shaft_y, _, _ = _arrows(state, names)
    marks: list[Mark] = [
        Heat(names["axis"], names["axis"], risk, "risk", log_z=log),
        Line(shaft_x, shaft_y, "", thin=True),
    ]
    for name in dict.fromkeys(names["outcome"]):
        ended = names["outcome"] == name
        marks.append(Line(_joined(x[ended]), _joined(y[ended]), f"{ended.sum()} paths: {name}", thin=True))
    for p in names["points"]:
        marks.append(Points(*_places(p.overlaps, state), _label(p)))
    square = (-1.04, 1.04)
    panel = Panel("risk", state.x, state.y, tuple(marks), x_range=square, y_range=square)
    return Figure(f"exact risk over ({state.x}, {state.y})", (panel,))


def _places(o: Any, state: State) -> tuple[list[float], list[float]]:
    """Where a stationary point is drawn. For an odd activation (-k, -v) has the risk of (k, v): every overlap but rho changes sign."""
    a, b = ([float(getattr(o, name))] for name in (state.x, state.y))
    if state.predictor not in ("erf", "linear"):
        return a, b
    return [*a, a[0] if state.x == "rho" else -a[0]], [*b, b[0] if state.y == "rho" else -b[0]]


def _joined(paths: np.ndarray) -> np.ndarray:
    """Paths (runs, logs) as one line with gaps: a browser draws one such trace much faster than many."""
    return np.hstack([paths, np.full((len(paths), 1), np.nan)]).ravel()


def _label(point: Any) -> str:
    return f"{point.name}: {point.kind}, risk {number(point.risk.value)}"


def _arrows(state: State, names: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Shafts (x, y) with gaps between them, and the unit directions (dx, dy) at the arrows' places."""
    at, flow = names["arrow_at"], names["flow"]
    x, y, dx, dy = (np.asarray(getattr(o, name)) for o in (at, flow) for name in (state.x, state.y))
    size = np.hypot(dx, dy)
    still = size <= 1e-12 * size.max(initial=0.0)
    dx, dy = (np.where(still, np.nan, d / np.where(still, 1, size)) for d in (dx, dy))
    long = ARROW * (names["arrow_axis"][1] - names["arrow_axis"][0])
    ends = lambda z, dz: np.stack([z - long * dz / 2, z + long * dz / 2, np.full(z.shape, np.nan)], -1).ravel()
    return ends(x, dx), ends(y, dy), dx, dy


def _styled(plotly: dict[str, Any], names: dict[str, Any], state: State) -> dict[str, Any]:
    """What only this view needs: arrow heads, outcome colours on the heat map, symbols by kind."""
    shaft_x, shaft_y, dx, dy = _arrows(state, names)
    shafts = plotly["data"][1]
    shafts |= {"line": {"color": "rgba(255,255,255,0.55)", "width": 1}, "hoverinfo": "skip"}
    angle = np.degrees(np.arctan2(dx, dy))
    heads = {"symbol": "arrow", "size": 6, "angle": [float(a) if np.isfinite(a) else 0 for a in angle]}
    blank = lambda z: [float(v) if np.isfinite(v) else None for v in z[1::3]]
    heads |= {"color": "rgba(255,255,255,0.7)"}
    tips = {"type": "scatter", "mode": "markers", "x": blank(shaft_x), "y": blank(shaft_y), "marker": heads}
    plotly["data"].insert(2, tips | {"hoverinfo": "skip", "showlegend": False})
    for trace in plotly["data"][3:]:
        if trace["mode"] == "lines":
            color = COLORS[trace["name"].split(": ")[1]]
            trace |= {"line": {"color": color, "width": 1.1}, "opacity": 0.85, "hoverinfo": "skip"}
            rounded = lambda values: [v if v is None else round(v, 4) for v in values]  # a tenth of a pixel
            trace |= {"x": rounded(trace["x"]), "y": rounded(trace["y"])}
    by_label = {_label(p): p for p in names["points"]}
    for trace in plotly["data"]:
        if trace.get("name") in by_label:
            symbol, size = SYMBOLS[by_label[trace["name"]].kind]
            edge = {"color": "#111", "width": 1.5}
            trace |= {"marker": {"symbol": symbol, "size": size, "color": "#ffd400", "line": edge}}
            trace |= {"hovertemplate": "%{fullData.name}<extra></extra>", "cliponaxis": False}
    heat = plotly["data"][0]
    if "customdata" in heat and len(names["inside"].kappa):  # logarithmic: one deep point must not take all the colours
        z = [value for row in heat["z"] for value in row if value is not None]
        heat |= {"zauto": False, "zmin": float(np.quantile(z, DEEPEST)), "zmax": max(z)}
    plotly["layout"]["yaxis"] |= {"scaleanchor": "x", "constrain": "domain"}
    plotly["layout"]["xaxis"] |= {"constrain": "domain"}
    plotly["layout"]["meta"] |= {"square": True}
    return plotly


def _table(names: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = [
        (p.name, p.kind, *(number(float(o)) for o in p.overlaps), number(p.risk.value), f"{p.risk.error:.0e}")
        for p in names["points"]
    ]
    run, outcome = names["run"], names["outcome"]
    for name in dict.fromkeys(["oracle", "swapped", *outcome]):
        ended = outcome == name
        if ended.any():
            medians = np.median(np.abs(run.log[:, ended, -1]), axis=1)
            risk = number(float(np.median(names["final_risk"][ended])))
            rows.append((f"runs: {name}", f"{ended.sum()} of {run.runs}", *(number(m) for m in medians), risk, ""))
    return ("point", "kind", *OVERLAPS, "risk", "error"), rows


def _note(state: State, names: dict[str, Any]) -> str:
    outcome = names["outcome"]
    counts = {name: int((outcome == name).sum()) for name in ("oracle", "swapped", "undecided", "diverged")}
    ends = ", ".join(f"{n} {name}" for name, n in counts.items() if n or name in ("oracle", "swapped"))
    coarse = "" if state.predictor in ("erf", "linear") else "A coarser grid, because a point costs a millisecond. "
    fixed = [n for n in OVERLAPS if n not in (state.x, state.y)]
    at = ", ".join(f"{n} = {getattr(state, n):g}" for n in fixed)
    empty = "" if names["possible"].any() else "No unit vectors have these overlaps: nothing to colour. "
    return (
        f"{len(outcome)} runs of {int(names['run'].step[-1])} steps: {ends}. Colours and arrows at {at}; paths are projected. "
        f"{empty}{coarse}{training_limits(state)[2]}Rows of runs show medians of absolute values."
    )


def _hidden(state: State) -> frozenset[str]:
    return frozenset({state.x, state.y} | ({"temperature"} if state.predictor == "sigma" else set()))
