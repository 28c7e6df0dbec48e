"""Exact excess risk of every predictor at the oracle directions against inverse temperature,
dimension or length, with what frames it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.figures.render_plotly import plotly_dict
from attnscope.registry import PREDICTORS
from attnscope_explorer.knobs import SINGLE_LOCATION, unused_knobs
from attnscope_explorer.python_lines import (
    HEADER,
    PAPER_PREDICTORS,
    compared,
    computed,
    families,
    registry_import,
    task_line,
)
from attnscope_explorer.stage_data import ORACLE, add_stage, setting
from attnscope_explorer.state import State
from attnscope_explorer.view_result import AXIS_LABELS, ViewResult, colours, number, power
from attnscope_explorer.views.risk_planted import planted_risk

__all__ = ["risk"]

# drawn down to here: beyond, the axis would be all there is to see; the table goes on
LOWEST_DRAWN_RISK = 1e-40
# ... and up to so many times the risk of predicting the mean: what is worse needs no picture
HIGHEST_DRAWN_RATIO = 30.0
TASK_SPANS: dict[str, tuple[float, float, int]] = {
    "dim": (4, 1_000_000, 17),
    "length": (2, 1000, 12),
}
# Points where no best inverse temperature is sought; a best softmax inverse temperature takes 0.2
# s, hence the few points above
FIXED_POINTS = 41
REFERENCE_COLOURS = {"best linear predictor": 4, "null": 6, "Bayes": 5}  # and their colours
# solid beside the dashed Bayes: the best of its kind, and the best of all
SIGMA_COLOUR = {"optimal sigma": 5}


def risk(state: State) -> ViewResult:
    """The view; a quadrature that refuses a point leaves a gap there."""
    if state.task != SINGLE_LOCATION:
        return planted_risk(state)
    code = lines(state)
    names = computed(code)
    figure = _figure(state, names)
    hidden = {"seed", *unused_knobs("risk", state.task)}  # nothing is drawn
    hidden.add(state.against if state.against != "inverse_temperature" else "tuning")
    if state.tuning == "best" and state.against != "inverse_temperature":
        hidden.add("inverse_temperature")
    header = ("curve", "inverse temperature", "excess risk", "where")
    return ViewResult(
        figure,
        _add_stage(plotly_dict(figure), state, names),
        header,
        _rows(state, names),
        code,
        _note(state),
        frozenset(hidden),
    )


def _add_stage(plotly: dict[str, Any], state: State, names: dict[str, Any]) -> dict[str, Any]:
    """Each curve's predictor at the oracle directions, at the inverse temperature, dimension or
    length under the mouse; a curve of best inverse temperatures has that of the chosen task.
    """
    words = {PREDICTORS[word].label: word for word in compared(state)}
    words["optimal sigma"] = "sigma"
    best = {name: t for name, (t, _) in names["optima"].items() if t > 0}
    own = state.against == "inverse_temperature" or state.tuning == "fixed"
    for trace in plotly["data"]:
        name = trace.get("name", "")
        if name in words:
            at = (
                state.inverse_temperature
                if own
                else best.get(name, state.inverse_temperature)
            )
            changed = {"predictor": words[name], "inverse_temperature": at}
            trace["meta"] = {"setting": changed, "label": f"{name} at the oracle"}
    first = setting(state, predictor="softmax")
    if "softmax" in best:
        first["inverse_temperature"] = best["softmax"]
    axis = state.against if own else None
    return add_stage(plotly, first, ORACLE, "softmax at the oracle", axis=axis)


def lines(state: State) -> str:
    usual = families(PAPER_PREDICTORS)
    others = families(word for word in compared(state) if word not in PAPER_PREDICTORS)
    return f'''{HEADER}{registry_import(others)}
oracle = at.Overlaps.oracle()
families = {usual}
others = {others}  # whose best inverse temperatures take seconds


def log_excess(compute):
    """Log of an excess risk, which outlives underflow.

    NaN, a gap, where a quadrature refuses or cannot tell the risk from zero.
    """
    try:
        found = compute()
    except at.AttnscopeError:
        return np.nan
    return found.log_excess if found.error <= found.excess else np.nan


def references(task):
    return {{
        "optimal sigma": log_excess(lambda: at.risk(task, at.optimal_sigma(task), oracle)),
        "best linear predictor": log_excess(task.linear_risk),
        "null": log_excess(task.null_risk),
        "Bayes": log_excess(task.bayes_risk),
    }}


def best(task, family):
    """(inverse temperature, log excess) at the best inverse temperature."""
    try:
        inverse_temperature, risk = at.optimal_inverse_temperature(task, family)
        return inverse_temperature, risk.log_excess
    except at.AttnscopeError:
        return np.nan, np.nan


task = {task_line(state)}
optima = {{name: best(task, family) for name, family in families.items()}}
{_against_inverse_temperature(state) if state.against == "inverse_temperature" else _against_task(state)}'''


def _against_inverse_temperature(state: State) -> str:
    return f"""chosen = {state.inverse_temperature!r}
xs = np.geomspace(1e-3, 1e2, 61)
curves, at_chosen = {{}}, {{}}
for name, family in (families | others).items():
    curves[name] = np.array([log_excess(lambda: at.risk(task, family(x), oracle)) for x in xs])
    at_chosen[name] = log_excess(lambda: at.risk(task, family(chosen), oracle))
curves |= {{name: np.full(len(xs), value) for name, value in references(task).items()}}
"""


def _against_task(state: State) -> str:
    low, high, few = TASK_SPANS[state.against]
    points = few if state.tuning == "best" else FIXED_POINTS
    drawn = "families" if state.tuning == "best" else "(families | others)"
    one = task_line(state, **{state.against: "int(x)"})
    point = (
        "best(task, family)[1]"
        if state.tuning == "best"
        else f"log_excess(lambda: at.risk(task, family({state.inverse_temperature!r}), oracle))"
    )
    return f"""xs = np.unique(np.geomspace({low}, {high}, {points}).round())
tasks = [{one} for x in xs]
curves = {{}}
for name, family in {drawn}.items():
    curves[name] = np.array([{point} for task in tasks])
framed = [references(task) for task in tasks]
curves |= {{name: np.array([row[name] for row in framed]) for name in framed[0]}}
"""


def _figure(state: State, names: dict[str, Any]) -> Figure:
    x = names["xs"]
    own = {
        PREDICTORS[word].label: colour for word, colour in colours(compared(state)).items()
    }
    color = own | SIGMA_COLOUR | REFERENCE_COLOURS
    marks: list[Any] = [
        Line(x, np.exp(values), name, color=color[name], dashed=name in REFERENCE_COLOURS)
        for name, values in names["curves"].items()
    ]
    if state.against == "inverse_temperature":
        for name, (inverse_temperature, log_value) in names["optima"].items():
            if inverse_temperature > 0:
                marks.append(
                    Points(
                        [inverse_temperature],
                        [np.exp(log_value)],
                        "best inverse temperature",
                        color=color[name],
                    )
                )
        chosen = [
            (state.inverse_temperature, np.exp(v))
            for v in names["at_chosen"].values()
            if np.isfinite(v)
        ]
        marks.append(
            Points(
                [x for x, _ in chosen],
                [y for _, y in chosen],
                "chosen inverse temperature",
                color=6,
            )
        )
    shown = np.exp(np.concatenate(list(names["curves"].values())))
    shown = shown[np.isfinite(shown) & (shown > LOWEST_DRAWN_RISK)]
    null = float(np.exp(np.max(names["curves"]["null"])))
    limits = (shown.min() / 3, min(shown.max() * 3, HIGHEST_DRAWN_RATIO * null))
    label = AXIS_LABELS[state.against]
    panel = Panel(
        "excess risk",
        label,
        "excess risk",
        tuple(marks),
        log_x=True,
        log_y=True,
        y_range=limits,
    )
    return Figure(f"excess risk against {label}", (panel,))


def _rows(state: State, names: dict[str, Any]) -> list[tuple[str, ...]]:
    """One row per curve: its best inverse temperature and risk there, or, against d or L,
    its risk at both ends.
    """
    rows: list[tuple[str, ...]] = []
    for name, values in names["curves"].items():
        if name in names["optima"]:
            inverse_temperature, value = names["optima"][name]
            rows.append(
                (name, number(inverse_temperature), power(value), "best inverse temperature")
            )
        if state.against != "inverse_temperature":
            ends = ((names["xs"][i], values[i]) for i in (0, -1))
            rows += [
                (name, "", _risk_text(v), f"at {state.against} {x:.0f}") for x, v in ends
            ]
        elif name in names["at_chosen"]:
            chosen = _risk_text(names["at_chosen"][name])
            rows.append(
                (
                    name,
                    number(state.inverse_temperature),
                    chosen,
                    "chosen inverse temperature",
                )
            )
        else:
            rows.append((name, "", power(values[0]), "any inverse temperature"))
    return rows


def _risk_text(log_value: float) -> str:
    return "refused" if np.isnan(log_value) else power(log_value)


def _note(state: State) -> str:
    where = (
        "All at the oracle directions k = k*, v = v*; excess is the risk over the squared "
        "label noise. "
    )
    if state.against == "inverse_temperature":
        return where + "Optimal sigma and the dashed references have no inverse temperature."
    how = (
        "each at its best inverse temperature"
        if state.tuning == "best"
        else f"at inverse temperature {state.inverse_temperature:g}"
    )
    few = "Only erf, softmax and linear are drawn: the best inverse temperatures of others take long. "
    how += ". " + few if state.tuning == "best" and state.compared == "all" else ". "
    return (
        where
        + f"Attention {how}Below 1e-40 curves leave the picture; a gap is a point that the quadrature refuses."
    )
