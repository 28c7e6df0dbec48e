"""Excess risk at the oracle directions on any planted task: exact where a route exists, else
sampled.

At k = k*, v = v* of the task's first key and value. A sampled point is the mean over SEQUENCES_PER_POINT drawn
sequences, with bars of two standard errors; points of one figure share their draws, so they move up
and down together. Exact points are drawn as a line. Null is the risk of always answering 0; Bayes
is the least any predictor can reach. A task without a value has classes: there k = v is its
direction, and the error, the share of wrong signs, stands in place of the risk.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.figures.render_plotly import plotly_dict
from attnscope.registry import PREDICTORS, TASKS, Entry
from attnscope.tasks.base import has_classes
from attnscope_explorer.knobs import arguments_of, unused_knobs
from attnscope_explorer.python_lines import (
    HEADER,
    compared,
    computed,
    families,
    registry_import,
    state_task,
    task_line,
)
from attnscope_explorer.state import State
from attnscope_explorer.view_result import AXIS_LABELS, ViewResult, colours, number

__all__ = ["planted_risk"]

SEQUENCES_PER_POINT = (
    4000  # sequences behind a sampled point: 16 ms, and a standard error of some 3 %
)
BAR_STANDARD_ERRORS = 2.0  # standard errors
PLANTED_SPANS: dict[str, tuple[float, float, int]] = {
    "inverse_temperature": (1e-3, 1e2, 41),
    "dim": (4, 1_000_000, 9),
    "length": (2, 1000, 9),
}
# Where a point costs 20 ms and more: seconds at higher inverse temperatures, or for the Bayes risk
# of longer sequences
SLOW_SPANS = PLANTED_SPANS | {"inverse_temperature": (1e-2, 10, 21), "length": (2, 100, 7)}
MATRIX_DIM = 10_000  # a task of at most so many dimensions holds a matrix of that size
MOST_MATRIX_DIM = 1000  # of such a task here: a point takes half a second
LOWEST_DRAWN_RISK = 1e-40  # drawn down to here, as in the view of single-location regression
FAR_BELOW_RATIO = (
    1e3  # a reference below every curve by more than this factor is left out of the picture
)
# What frames the curves: its colour, and the methods of tasks that compute it
REFERENCE_METHODS = {
    "null": (6, ("null_risk",)),
    "Bayes": (5, ("bayes_risk", "bayes_error")),
    "linear test": (4, ("linear_error",)),
    "max test": (3, ("max_test_error",)),
}
BAYES_BELOW = "Bayes, below the picture"
MEASURE_NOTES = {
    "error": (
        "Error is the share of wrong signs, at k = v = the task's direction: "
        "a head has no threshold of its own, the tests have."
    ),
    "excess risk": (
        "All at the oracle directions k = k*, v = v* of the first key and value; "
        "excess is the risk over the squared label noise. Null always answers 0."
    ),
}
HELPER_LINES = '''

def excess(compute):
    """(value, its error, whether that is a standard error); NaN, a gap, where it is refused."""
    try:
        found = compute()
    except at.AttnscopeError:
        return np.nan, np.nan, False
    sampled = "sampled" in found.method or "monte-carlo" in found.method
    return found.excess, found.error, sampled


def references(task):
    return {{{references}}}


'''
VALUE_LINES = """
oracle = at.Overlaps.oracle()  # k = k*, v = v*


def risks(task, predictor):
    return excess(lambda: at.risk(task, predictor, oracle, samples={samples}, seed={seed}))
"""
CLASS_LINES = """
aligned = at.Overlaps(1.0, 0.0, 1.0, 0.0, 1.0)  # k = v = the task's direction


def risks(task, predictor):
    return excess(lambda: at.sign_error(task, predictor, aligned, {samples}, {seed}))
"""


def planted_risk(state: State) -> ViewResult:
    """The view of a task other than single-location regression."""
    names_of = arguments_of(state.task)
    if state.against != "inverse_temperature" and state.against not in names_of:
        those = ", ".join(
            name
            for name in PLANTED_SPANS
            if name == "inverse_temperature" or name in names_of
        )
        raise bad(
            "against", "the risk view", f"one of what this task has ({those})", state.against
        )
    if _has_matrix(state) and state.dim > MOST_MATRIX_DIM and state.against != "dim":
        must = (
            f"at most {MOST_MATRIX_DIM} for a task with a {state.dim} by {state.dim} matrix"
        )
        raise bad("dim", "the risk view", must, state.dim, "dim=100")
    code = lines(state)
    names = computed(code)
    hidden = {"tuning", *unused_knobs("risk", state.task)}
    if state.against != "inverse_temperature":
        hidden.add(state.against)
    figure = _figure(state, names)
    header = ("curve", "where", _measure(state), "±", "how")
    rows = _rows(state, names)
    note = _note(state, names)
    return ViewResult(
        figure, plotly_dict(figure), header, rows, code, note, frozenset(hidden)
    )


def lines(state: State) -> str:
    task = task_line(state)
    classes = has_classes(state_task(state))
    known = families(compared(state))
    body = (
        _against_inverse_temperature(state)
        if state.against == "inverse_temperature"
        else _against_task(state)
    )
    measured = (CLASS_LINES if classes else VALUE_LINES).format(
        samples=SEQUENCES_PER_POINT, seed=state.seed
    )
    helpers = HELPER_LINES.format(references=_references(TASKS[state.task], state))
    return f"""{HEADER}{registry_import(task, known)}
families = {known}
{measured}{helpers}task = {task}
{body}"""


def _references(entry: Entry, state: State) -> str:
    """What the task knows of its own risks, as entries of a dictionary."""
    calls = {
        label: _call(entry, method, state)
        for label, (_, methods) in REFERENCE_METHODS.items()
        for method in methods
        if hasattr(entry.kind, method)
    }
    return ", ".join(f'"{label}": excess(lambda: {call})' for label, call in calls.items())


def _call(entry: Entry, method: str, state: State) -> str:
    takes = signature(getattr(entry.kind, method)).parameters
    given = {"samples": SEQUENCES_PER_POINT, "seed": state.seed}
    texts = [f"{name}={x}" for name, x in given.items() if name in takes]
    return f"task.{method}({', '.join(texts)})"


def _has_matrix(state: State) -> bool:
    return any(a.name == "dim" and a.high <= MATRIX_DIM for a in TASKS[state.task].arguments)


def _span(state: State) -> tuple[float, float, int]:
    slow = TASKS[state.task].cost == "sampled" or _has_matrix(state)
    return (SLOW_SPANS if slow else PLANTED_SPANS)[state.against]


def _against_inverse_temperature(state: State) -> str:
    low, high, points = _span(state)
    return f"""chosen = {state.inverse_temperature!r}
xs = np.geomspace({low}, {high}, {points})
curves = {{}}
at_chosen = {{}}
for name, family in families.items():
    curves[name] = np.array([risks(task, family(x)) for x in xs])
    at_chosen[name] = risks(task, family(chosen))
curves |= {{name: np.array([row] * len(xs)) for name, row in references(task).items()}}
"""


def _against_task(state: State) -> str:
    xs = _sweep(state)
    return f"""xs = np.array({xs})
tasks = [{task_line(state, **{state.against: "int(x)"})} for x in xs]
curves = {{}}
for name, family in families.items():
    curves[name] = np.array([risks(task, family({state.inverse_temperature!r})) for task in tasks])
framed = [references(task) for task in tasks]
curves |= {{name: np.array([row[name] for row in framed]) for name in framed[0]}}
"""


def _sweep(state: State) -> list[int]:
    """Dimensions or lengths that the task can have with its other arguments as they are."""
    low, high, points = _span(state)
    if state.against == "dim" and _has_matrix(state):
        high = MOST_MATRIX_DIM
    xs = np.unique(np.geomspace(low, high, points).round()).astype(int)
    knob = arguments_of(state.task)[state.against]
    found = [int(x) for x in xs if _is_possible(state.changed(**{knob: int(x)}))]
    if not found:
        state_task(state)  # says why not
        raise bad(
            state.against,
            "the risk view",
            "one that this task can have",
            "none",
            "other arguments",
        )
    return found


def _is_possible(state: State) -> bool:
    try:
        state_task(state)
    except AttnscopeError:
        return False
    return True


# -- the figure ------------------------------------------------------------------------------------


def _figure(state: State, names: dict[str, Any]) -> Figure:
    color = {PREDICTORS[w].label: c for w, c in colours(compared(state)).items()}
    color |= {name: c for name, (c, _) in REFERENCE_METHODS.items()}
    limits = _limits(names)
    marks: list[Mark] = []
    for name, values in names["curves"].items():
        marks += _curve(names["xs"], values, name, color[name], limits[0])
    if state.against == "inverse_temperature":
        chosen = [row for row in names["at_chosen"].values() if np.isfinite(row[0])]
        places = [state.inverse_temperature] * len(chosen)
        bars = [BAR_STANDARD_ERRORS * row[1] if row[2] else 0.0 for row in chosen]
        heights = [row[0] for row in chosen]
        marks.append(
            Points(places, heights, "chosen inverse temperature", color=6, error=bars)
        )
    label = AXIS_LABELS[state.against]
    measure = _measure(state)
    across = [
        *names["xs"],
        *([state.inverse_temperature] if state.against == "inverse_temperature" else []),
    ]
    x_range = (min(across) / 1.1, max(across) * 1.1)  # room for a marker at either end
    panel = Panel(
        measure,
        label,
        measure,
        tuple(marks),
        log_x=True,
        log_y=True,
        x_range=x_range,
        y_range=limits,
    )
    return Figure(f"{TASKS[state.task].label}: {measure} against {label}", (panel,))


def _measure(state: State) -> str:
    return "error" if has_classes(state_task(state)) else "excess risk"


def _curve(
    x: np.ndarray, values: np.ndarray, name: str, color: int, floor: float
) -> list[Mark]:
    """A line; where its points are sampled, with their bars. What its error hides is a gap."""
    y = np.where(values[:, 1] <= values[:, 0], values[:, 0], np.nan)
    if name in REFERENCE_METHODS:
        unseen = name == "Bayes" and not (y > floor).any()
        return [Line(x, y, BAYES_BELOW if unseen else name, color=color, dashed=True)]
    drawn = (values[:, 2] > 0) & np.isfinite(y)
    if not drawn.any():
        return [Line(x, y, name, color=color)]
    bars = Points(
        x[drawn], y[drawn], f"{name}, sampled", color, BAR_STANDARD_ERRORS * values[drawn, 1]
    )
    return [Line(x, y, "" if drawn.all() else name, color=color), bars]


def _drawable_risks(values: np.ndarray) -> np.ndarray:
    """The values that their errors leave something of, and that are not too small to draw."""
    return values[(values[:, 1] <= values[:, 0]) & (values[:, 0] > LOWEST_DRAWN_RISK), 0]


def _limits(names: dict[str, Any]) -> tuple[float, float]:
    """All curves down to LOWEST_DRAWN_RISK, and the references unless they lie far below."""
    curves = {name: _drawable_risks(values) for name, values in names["curves"].items()}
    seen = np.concatenate([v for name, v in curves.items() if name not in REFERENCE_METHODS])
    lowest = float(seen.min()) / FAR_BELOW_RATIO if seen.size else LOWEST_DRAWN_RISK
    every = np.concatenate([v[v > lowest] for v in curves.values()])
    return (
        (float(every.min()) / 3, float(every.max()) * 3)
        if every.size
        else (LOWEST_DRAWN_RISK, 1.0)
    )


def _rows(state: State, names: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, values in names["curves"].items():
        if state.against != "inverse_temperature":
            rows += [
                _row(name, f"{state.against} {names['xs'][i]}", values[i]) for i in (0, -1)
            ]
        elif name in REFERENCE_METHODS:
            rows.append(_row(name, "any inverse temperature", values[0]))
        else:
            rows.append(
                _row(
                    name,
                    f"inverse temperature {state.inverse_temperature:g}",
                    names["at_chosen"][name],
                )
            )
            best = int(np.nanargmin(values[:, 0])) if np.isfinite(values[:, 0]).any() else 0
            rows.append(
                _row(name, f"least of these, at {names['xs'][best]:.3g}", values[best])
            )
    return rows


def _row(name: str, where: str, value: Any) -> tuple[str, ...]:
    if not np.isfinite(value[0]):
        return name, where, "refused", "", ""
    how = "sampled, standard error" if value[2] else "exact, error bound"
    if value[1] > value[0]:
        return name, where, f"below {value[0] + value[1]:.0e}", "", "too small to tell"
    return name, where, number(float(value[0])), f"{value[1]:.1g}", how


def _note(state: State, names: dict[str, Any]) -> str:
    own = [
        values for name, values in names["curves"].items() if name not in REFERENCE_METHODS
    ]
    every = np.concatenate(own)
    known = every[np.isfinite(every[:, 0])]
    sampled = bool(known.size and (known[:, 2] > 0).any())
    exact = bool(known.size and (known[:, 2] == 0).any())
    how = "Exact. " if exact else ""
    if sampled:
        how = (
            f"{'Partly s' if exact else 'S'}ampled from {SEQUENCES_PER_POINT} sequences a point, which all "
            "points share. "
        )
    if sampled:
        how += "Bars are two standard errors. "
    at = (
        f" Every predictor at inverse temperature {state.inverse_temperature:g}."
        if state.against != "inverse_temperature"
        else ""
    )
    what = MEASURE_NOTES[_measure(state)]
    return f"{TASKS[state.task].label.capitalize().rstrip('?.')}. {how}{what}{at}"
