"""The controls of a view: native inputs with labels.
A number has a text box, which is the truth, and a slider that moves it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from dash import dcc, html

from attnscope_explorer.fields import Choice, Number, Numbers, plain
from attnscope_explorer.knobs import FIELDS, GROUPS, VIEWS, unused_knobs
from attnscope_explorer.live_figure import LIVE_VIEWS
from attnscope_explorer.state import State

__all__ = ["controls", "position", "ticks"]

# most positions of a slider: an arrow key moves a dimension by 6 %, a share by 0.5 %
MOST_TICKS = 200
# seconds a slider rests before it counts as moved: a drag asks for one answer, not for fifty; longer
# where the figure follows the drag by a request of its own (live_figure.py)
SLIDER_SECONDS = 0.02
LIVE_SLIDER_SECONDS = 0.15


def controls(state: State) -> list[Any]:
    """One fieldset per group of knobs that the state's view has, in reading and focus order."""
    groups = {
        title: [n for n in names if n in VIEWS[state.view]] for title, names in GROUPS.items()
    }
    return [
        html.Fieldset(
            [html.Legend(title), *(_row(name, state) for name in names)], className="group"
        )
        for title, names in groups.items()
        if names
    ]


def _row(name: str, state: State) -> Any:
    field = FIELDS[name]
    inside = INPUTS_BY_KIND[type(field)](name, field, state)
    # the upload is set by choosing a file; it is here so that the address and the figure follow it
    unseen = name == "upload" or name in unused_knobs(state.view, state.task)
    # what assets/quick.js has to know of a slider
    said = {"data-knob": name}
    if isinstance(field, Number):
        said["data-scale"] = json.dumps(_scale(field))
    if state.view in LIVE_VIEWS:
        said["data-quick"] = f"{1000 * LIVE_SLIDER_SECONDS:g}"
    identity = {"type": "row", "name": name}
    return html.Div(inside, id=identity, className="knob", hidden=unseen, **said)


def _scale(field: Number) -> dict[str, Any]:
    return {
        "low": field.low,
        "high": field.high,
        "log": field.log,
        "whole": field.whole,
        "ticks": ticks(field),
    }


def _choice(name: str, field: Choice, state: State) -> list[Any]:
    options = [{"label": text, "value": value} for value, text in field.options.items()]
    radios = dcc.RadioItems(
        options,
        getattr(state, name),
        id={"type": "knob", "name": name},
        className="pills",
        inline=True,
    )
    return [html.Fieldset([html.Legend(field.label), radios], className="choice")]


def _number(name: str, field: Number, state: State) -> list[Any]:
    slider = dcc.Input(
        id={"type": "slider", "name": name},
        type="range",
        min=0,
        max=ticks(field),
        step=1,
        value=position(getattr(state, name), field),
        debounce=LIVE_SLIDER_SECONDS if state.view in LIVE_VIEWS else SLIDER_SECONDS,
        className="range",
    )
    button = [html.Button("Next draw", id="redraw", type="button")] if name == "seed" else []
    return [
        _box(name, field, state, "decimal"),
        *button,
        html.Label(
            [html.Span(f"{field.label}, slider", className="unseen"), slider],
            hidden=name == "seed",
        ),
    ]


def _numbers(name: str, field: Numbers, state: State) -> list[Any]:
    return [_box(name, field, state, "text")]


def _box(name: str, field: Number | Numbers, state: State, keys: str) -> Any:
    identity = {"type": "knob", "name": name}
    value = getattr(state, name)
    text = getattr(field, "absent", "none") if value is None else plain(value)
    box = dcc.Input(
        id=identity, type="text", value=text, debounce=True, inputMode=keys, className="box"
    )
    hint = html.Small(f" {field.hint}" if field.hint else "")
    return html.Label([html.Span([field.label, hint]), box], className="line")


INPUTS_BY_KIND: dict[type, Callable[..., list[Any]]] = {
    Choice: _choice,
    Number: _number,
    Numbers: _numbers,
}


def ticks(field: Number) -> int:
    """Positions of a field's slider after the first:
    one per value where there are few, so that every key press counts.
    """
    few = field.whole and not field.log
    return int(min(MOST_TICKS, field.high - field.low)) if few else MOST_TICKS


def position(value: float | None, field: Number) -> int:
    """Where on its slider a value sits, from 0 to ticks(field);
    what is left out, at its beginning.
    """
    if value is None:
        return 0
    low, high, x = (math.log(z) if field.log else z for z in (field.low, field.high, value))
    return round(ticks(field) * (x - low) / (high - low))
