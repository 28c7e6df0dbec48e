"""The figure alone, for a slider that moves: POST /figure, asked by assets/quick.js.

The framework's own way to a redrawn figure is a chain of callbacks, each with its bookkeeping, that
ends in texts, tables and links as well; for a figure that takes 20 ms to compute it costs ten times
as much. This way asks the same lanes for the same answer, and the chain finds it there when the
slider rests. The gate (request_filter.py) admits it as any other request: by name, origin and form.

A body is {"output": "figure", "view": a view, "inputs": [{"name": a knob, "value": its text}]}; the
answer is {"figure": ...}, or {} where there is none (yet): the chain says why.
"""

from __future__ import annotations

import json
from typing import Any

from flask import Flask, Response, request

from attnscope_explorer.compute import answer
from attnscope_explorer.job_queues import WAIT_SECONDS
from attnscope_explorer.state import VIEWS, State, to_query
from attnscope_explorer.view_result import ViewResult

__all__ = ["LIVE_VIEWS", "add_figure", "figure_with_key"]

# views whose figure is a function of the knobs alone: training goes on by itself, fits take seconds
LIVE_VIEWS = ("landscape", "risk", "posterior", "convergence", "samples")


def add_figure(server: Flask) -> None:
    """Serve POST /figure."""

    @server.post("/figure")
    def figure() -> Response:
        asked = _view_and_knobs(request.get_json(silent=True))
        if asked is None:
            return Response("the request is not one of this page's\n", 400)
        view, values = asked
        state, what, _ = answer(view, values, wait=WAIT_SECONDS)
        found = (
            {} if state is None or what is None else {"figure": figure_with_key(state, what)}
        )
        text = json.dumps(found, allow_nan=False, separators=(",", ":"))
        return Response(text, mimetype="application/json")


def _view_and_knobs(content: Any) -> tuple[str, list[tuple[str, object]]] | None:
    """(view, texts of knobs) of a body, or None if it has another form."""
    view = content.get("view") if isinstance(content, dict) else None
    if view not in LIVE_VIEWS:
        return None
    pairs: list[tuple[str, object]] = []
    for each in content["inputs"]:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or name not in VIEWS[view]:
            return None
        pairs.append((name, each.get("value")))
    return str(view), pairs


def figure_with_key(state: State, what: ViewResult) -> dict[str, Any]:
    """The figure with the knobs it is of, where they decide all of it."""
    if state.view not in LIVE_VIEWS:
        return what.plotly
    layout = what.plotly["layout"]
    meta = layout["meta"] | {"key": f"{state.view}?{to_query(state)}"}
    return what.plotly | {"layout": layout | {"meta": meta}}
