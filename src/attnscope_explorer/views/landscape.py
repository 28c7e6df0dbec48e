"""The exact risk over two overlaps, the others held fixed:
heat map, descent directions, stationary points and training paths.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.figures.figure import Figure, Heat, Line, Mark, Panel, Points
from attnscope.figures.render_plotly import plotly_dict
from attnscope_explorer.python_lines import (
    HEADER,
    computed,
    cost,
    predictor_lines,
    prepared,
    registry_import,
    task_line,
    train_lines,
    training_limits,
)
from attnscope_explorer.stable_steps import (
    STABLE_STEP_IMPORT,
    limit_line,
    step_line,
    training_advice,
)
from attnscope_explorer.state import FIELDS, OVERLAPS, State
from attnscope_explorer.view_result import Advice, ViewResult, number
from attnscope_explorer.views.landscape_drawing import OUTCOMES, label, styled_landscape

__all__ = ["landscape"]

# points per axis of the risk and of the arrows; coarse where a point costs a millisecond
FINE_GRID = (61, 15)
COARSE_GRID = (21, 9)
# dimensions from which on any five overlaps of a Gram matrix are those of some k and v
FREE_OVERLAPS_DIM = 4
ARROW_LENGTH = 0.55  # length of an arrow, as a share of the distance between arrows
# of its head: length as a share of the arrow's, and angle
BARB_LENGTH, BARB_ANGLE = 0.38, math.radians(28)
LOG_COLOUR_RATIO = (
    100.0  # a risk that varies by more than this factor is coloured by its logarithm
)


def landscape(state: State) -> ViewResult:
    """The view; the flow and the paths are projections of what happens in all five overlaps."""
    if state.x == state.y:
        raise bad(
            "the vertical axis",
            "the landscape",
            "another overlap than the horizontal one",
            state.y,
        )
    code = lines(state)
    names = computed(code)
    figure = _figure(state, names)
    plotly = styled_landscape(plotly_dict(figure), names, state)
    return ViewResult(
        figure,
        plotly,
        *_table(names),
        code,
        _note(state, names),
        _hidden_knobs(state),
        advice=tuple(_advice(state, names)),
    )


def lines(state: State) -> str:
    points, arrows = COARSE_GRID if _is_slow(state) else FINE_GRID
    predictor = predictor_lines(state)
    place = ", ".join(
        f"{name}="
        + ("a" if name == state.x else "b" if name == state.y else repr(getattr(state, name)))
        for name in OVERLAPS
    )
    small = state.dim < FREE_OVERLAPS_DIM
    space = "wide" if small else "task"
    wide = (
        f"wide = {task_line(state, dim=str(FREE_OVERLAPS_DIM), signal='task.signal')}\n"
        if small
        else ""
    )
    return f'''{HEADER}{registry_import(predictor)}from attnscope_explorer.flow import descent
{STABLE_STEP_IMPORT}from attnscope.theory.overlaps import gram

task = {task_line(state)}
{predictor}
{wide}

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
risk[possible] = at.risk({space}, predictor, inside).value

arrow_axis, arrow_at, _ = plane({arrows})
flow = descent({space}, predictor, arrow_at)

points = at.stationary_points(task, predictor)
{limit_line("points")}
{step_line(state)}
{train_lines(state, 100, *training_limits(state)[:2])}
outcome, final_risk = run.outcome, at.risk({space}, predictor, at.Overlaps(*run.log[..., -1])).value
'''


def _figure(state: State, names: dict[str, Any]) -> Figure:
    risk = names["risk"]
    run = names["run"]
    lowest = np.nanmin(risk, initial=np.inf)
    log = bool(lowest > 0 and np.nanmax(risk, initial=0.0) > LOG_COLOUR_RATIO * lowest)
    x, y = (getattr(run.overlaps, name) for name in (state.x, state.y))
    marks: list[Mark] = [
        Heat(names["axis"], names["axis"], risk, "risk", log_z=log),
        Line(*_arrows(state, names), "", thin=True),
    ]
    for name in dict.fromkeys(names["outcome"]):
        ended = names["outcome"] == name
        marks.append(
            Line(
                _line_with_gaps(x[ended]),
                _line_with_gaps(y[ended]),
                f"{ended.sum()} paths: {name}",
                thin=True,
            )
        )
    for p in names["points"]:
        marks.append(Points(*_places(p.overlaps, state, names["predictor"]), label(p)))
    square = (-1.04, 1.04)
    panel = Panel("risk", state.x, state.y, tuple(marks), x_range=square, y_range=square)
    return Figure(f"exact risk over ({state.x}, {state.y})", (panel,))


def _is_slow(state: State) -> bool:
    return cost(state.predictor) not in ("compiled", "closed") and not prepared(state)


def _is_odd(predictor: Any) -> bool:
    """Whether its weights change sign with the scores."""
    scores = np.array([[-1.3, 0.2, 0.7, 2.1]])
    return bool(
        np.allclose(
            predictor.weights(-scores), -predictor.weights(scores), rtol=1e-12, atol=0
        )
    )


def _places(o: Any, state: State, predictor: Any) -> tuple[list[float], list[float]]:
    """Where a stationary point is drawn. For an odd activation (-k, -v) has the risk of (k, v):
    every overlap but rho changes sign.
    """
    a, b = ([float(getattr(o, name))] for name in (state.x, state.y))
    if not _is_odd(predictor):
        return a, b
    return [*a, a[0] if state.x == "rho" else -a[0]], [
        *b,
        b[0] if state.y == "rho" else -b[0],
    ]


def _line_with_gaps(paths: np.ndarray) -> np.ndarray:
    """Paths (runs, logs) as one line with gaps:
    a browser draws one such trace much faster than many.
    """
    return np.hstack([paths, np.full((len(paths), 1), np.nan)]).ravel()


def _arrows(state: State, names: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Arrows (x, y) as one line with gaps, each tail, tip, barb, tip, barb:
    hundreds of markers would take a browser 100 ms.
    """
    # points of the plane as complex numbers
    at, way = (
        np.asarray(getattr(o, state.x)) + 1j * np.asarray(getattr(o, state.y))
        for o in (names["arrow_at"], names["flow"])
    )
    nowhere = complex(np.nan, np.nan)
    size = np.abs(way)
    still = size <= 1e-12 * size.max(initial=0.0)
    way = np.where(still, nowhere, way / np.where(still, 1, size))
    way *= ARROW_LENGTH * (names["arrow_axis"][1] - names["arrow_axis"][0])
    tip = at + way / 2
    left, right = (
        tip - cmath.rect(BARB_LENGTH, turn) * way for turn in (BARB_ANGLE, -BARB_ANGLE)
    )
    gap = np.full(at.shape, nowhere)
    line = np.stack([at - way / 2, tip, left, tip, right, gap], -1).ravel()
    return line.real, line.imag


def _table(names: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows = [
        (
            p.name,
            p.kind,
            *(number(float(o)) for o in p.overlaps),
            number(p.risk.value),
            f"{p.risk.error:.0e}",
        )
        for p in names["points"]
    ]
    run = names["run"]
    outcome = names["outcome"]
    for name in dict.fromkeys(["oracle", "swapped", *outcome]):
        ended = outcome == name
        if ended.any():
            medians = np.median(np.abs(run.log[:, ended, -1]), axis=1)
            risk = number(float(np.median(names["final_risk"][ended])))
            rows.append(
                (
                    f"runs: {name}",
                    f"{ended.sum()} of {run.runs}",
                    *(number(m) for m in medians),
                    risk,
                    "",
                )
            )
    return ("point", "kind", *OVERLAPS, "risk", "error"), rows


def _outcome_counts(outcome: np.ndarray) -> dict[str, int]:
    return {name: int((outcome == name).sum()) for name in OUTCOMES}


def _advice(state: State, names: dict[str, Any]) -> list[Advice]:
    most = training_limits(state.changed(steps=int(FIELDS["steps"].high)))[1]
    return training_advice(state, names["limit"], names["run"], most, (state.x, state.y))


def _note(state: State, names: dict[str, Any]) -> str:
    outcome = names["outcome"]
    counts = _outcome_counts(outcome)
    ends = ", ".join(
        f"{n} {name}" for name, n in counts.items() if n or name in ("oracle", "swapped")
    )
    points = len(names["axis"])
    coarse = (
        "a coarser grid, because a point costs a millisecond; " if _is_slow(state) else ""
    )
    grid = f"Risk at {points} x {points} points ({coarse}colours between them are blended). "
    fixed = [n for n in OVERLAPS if n not in (state.x, state.y)]
    at = ", ".join(f"{n} = {getattr(state, n):g}" for n in fixed)
    empty = (
        ""
        if names["possible"].any()
        else "No unit vectors have these overlaps: nothing to colour. "
    )
    if state.dim < FREE_OVERLAPS_DIM:
        grid += (
            f"In d = {state.dim} few of these heads exist: colours and arrows are those of four "
            "dimensions with the same signal. "
        )
    return (
        f"{len(outcome)} runs of {int(names['run'].step[-1])} steps: {ends}. Colours and arrows at "
        f"{at}; paths are projected. "
        f"{empty}{grid}{training_limits(state)[2]}Rows of runs show medians of absolute values."
    )


def _hidden_knobs(state: State) -> frozenset[str]:
    return frozenset(
        {state.x, state.y}
        | ({"inverse_temperature"} if state.predictor == "sigma" else set())
    )
