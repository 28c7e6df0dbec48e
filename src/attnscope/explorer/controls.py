"""The controls of a view: native inputs with labels. A number has a text box, which is the truth, and a slider that moves it."""

from __future__ import annotations

import math
from typing import Any

from dash import dcc, html

from attnscope.explorer.state import FIELDS, OVERLAPS, VIEWS, Choice, Number, State, plain

__all__ = ["controls", "position", "ticks"]

TICKS = 200  # most positions of a slider: an arrow key moves a dimension by 6 %, a share by 0.5 %
PAUSE = 0.02  # seconds a slider rests before it counts as moved: a drag asks for one figure, not for fifty
GROUPS = {
    "Show": ("against", "tuning"),
    "Bags": ("data", "upload", "loss", "bag"),
    "Attention": ("rule", "bandwidth", "ridge"),
    "Predictor": ("predictor", "temperature", "decay"),
    "Task": ("keys", "dim", "length", "gamma2", "noise"),
    "Axes": ("x", "y", *OVERLAPS),
    "Training": ("batch", "start", "runs", "steps", "step_size"),
    "Draw": ("seed",),
}


def controls(state: State) -> list[Any]:
    """One fieldset per group of knobs that the state's view has, in reading and focus order."""
    groups = {title: [n for n in names if n in VIEWS[state.view]] for title, names in GROUPS.items()}
    return [
        html.Fieldset([html.Legend(title), *(_row(name, state) for name in names)], className="group")
        for title, names in groups.items()
        if names
    ]


def _row(name: str, state: State) -> Any:
    field = FIELDS[name]
    inside = _choice(name, field, state) if isinstance(field, Choice) else _number(name, field, state)
    never_seen = name == "upload"  # set by choosing a file; here so that the address and the figure follow it
    return html.Div(inside, id={"type": "row", "name": name}, className="knob", hidden=never_seen)


def _choice(name: str, field: Choice, state: State) -> list[Any]:
    options = [{"label": text, "value": value} for value, text in field.options.items()]
    radios = dcc.RadioItems(
        options, getattr(state, name), id={"type": "knob", "name": name}, className="pills", inline=True
    )
    return [html.Fieldset([html.Legend(field.label), radios], className="choice")]


def _number(name: str, field: Number, state: State) -> list[Any]:
    value = getattr(state, name)
    box = dcc.Input(
        id={"type": "knob", "name": name},
        type="text",
        value=plain(value),
        debounce=True,
        inputMode="decimal",
        className="box",
    )
    slider = dcc.Input(
        id={"type": "slider", "name": name},
        type="range",
        min=0,
        max=ticks(field),
        step=1,
        value=position(value, field),
        debounce=PAUSE,
        className="range",
    )
    scale = {"low": field.low, "high": field.high, "log": field.log, "whole": field.whole, "ticks": ticks(field)}
    button = [html.Button("Next draw", id="redraw", type="button")] if name == "seed" else []
    return [
        html.Label(
            [html.Span([field.label, html.Small(f" {field.hint}" if field.hint else "")]), box], className="line"
        ),
        *button,
        html.Label([html.Span(f"{field.label}, slider", className="unseen"), slider], hidden=name == "seed"),
        dcc.Store(id={"type": "scale", "name": name}, data=scale),
    ]


def ticks(field: Number) -> int:
    """Positions of a field's slider after the first: one per value where there are few, so that every key press counts."""
    few = field.whole and not field.log
    return int(min(TICKS, field.high - field.low)) if few else TICKS


def position(value: float, field: Number) -> int:
    """Where on its slider a value sits, from 0 to ticks(field)."""
    low, high, x = (math.log(z) if field.log else z for z in (field.low, field.high, value))
    return round(ticks(field) * (x - low) / (high - low))
