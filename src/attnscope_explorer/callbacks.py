"""What happens when something is touched: texts go to `answer`, results come back; drawing,
playing, copying, stopping and the address are client-side functions in assets/explorer.js."""

from __future__ import annotations

from itertools import count
from typing import Any

from dash import ALL, MATCH, ClientsideFunction, Dash, Input, Output, ctx, no_update
from dash import State as Held

from attnscope.errors import AttnscopeError
from attnscope_explorer.compute import answer
from attnscope_explorer.job_queues import WAIT_SECONDS
from attnscope_explorer.knobs import knobs, unused_knobs
from attnscope_explorer.live_figure import figure_with_key
from attnscope_explorer.page import EMPTY_FIGURE, advice, images, page, sentence, table
from attnscope_explorer.state import VIEWS, State, carried_query, from_values, to_query
from attnscope_explorer.uploads import keep_upload
from attnscope_explorer.view_result import ViewResult

__all__ = ["add_callbacks"]

KNOBS, ROWS = ({"type": kind, "name": ALL} for kind in ("knob", "row"))
# What a view shows, in the order of `_parts`
PARTS: tuple[tuple[str, str], ...] = (
    ("figure", "data"),
    ("table", "children"),
    ("code", "children"),
    ("note", "children"),
    ("sentence", "children"),
    ("images", "children"),
    ("advice", "children"),
)
PARTS += (("frame", "max"), ("frame", "value"), ("lived", "data"))
UNCHANGED_PARTS = (no_update,) * len(PARTS)
STILL_COMPUTING = "This takes longer: it goes on being computed, and the page asks again."
_request_numbers = (
    count()
)  # a reply that differs from the last one, so that the page takes notice


def add_callbacks(app: Dash) -> None:
    app.callback(
        Output("page", "children"), Input("url", "pathname"), Input("url", "search")
    )(lambda path, query: page(path or "/", query or ""))
    _add_redraw(app)
    _add_advance(app)
    _add_files(app)
    _add_client_side(app)


def _names(items: list[Any]) -> list[str]:
    """The names of knobs or rows, in the order of their values."""
    return [item["id"]["name"] for item in items]


def _parts(state: State, what: ViewResult, fresh: bool) -> tuple[Any, ...]:
    last = max(0, what.frames - 1)
    lived = {"done": what.done, "total": what.total, "fresh": fresh}
    return (
        figure_with_key(state, what),
        table(what),
        what.code,
        what.note,
        sentence(what),
        images(what),
        advice(what),
        last,
        last,
        lived,
    )


def _waiting_parts(fresh: bool) -> tuple[Any, ...]:
    """The parts of an answer that is still being computed: a note, and the request to ask again."""
    lived = {"done": 0, "total": 1, "fresh": fresh, "asked": next(_request_numbers)}
    changed = {"note": STILL_COMPUTING, "lived": lived}
    return tuple(changed.get(name, no_update) for name, _ in PARTS)


def _empty_parts(fresh: bool) -> tuple[Any, ...]:
    """The parts of an answer that shows nothing: an old figure would not be that of these knobs."""
    meta = {"meta": {"panels": 0, "columns": 1, "empty": True}}
    figure = {"data": [], "layout": EMPTY_FIGURE["layout"] | meta}
    lived = {"done": 0, "total": 0, "fresh": fresh}
    changed = {"figure": figure, "table": [], "lived": lived}
    return tuple(changed.get(name, "" if name != "frame" else 0) for name, _ in PARTS)


def _add_redraw(app: Dash) -> None:
    @app.callback(
        *(Output(*part) for part in PARTS),
        Output("message", "children"),
        Output("query", "data"),
        Output(ROWS, "hidden"),
        *(Output(f"nav-{name}", "href") for name in VIEWS),
        Input(KNOBS, "value"),
        Held("view", "data"),
    )
    def redraw(values: list[Any], view: str) -> tuple[Any, ...]:
        names = _names(ctx.inputs_list[0])
        rows = _names(ctx.outputs_list[len(PARTS) + 2])
        state, what, words = (
            answer(view, list(zip(names, values)), wait=WAIT_SECONDS)
            if names
            else (None, None, "")
        )
        if state is None:
            hidden = _task_rows(view, names, values, rows)
            return (
                *UNCHANGED_PARTS,
                words,
                no_update,
                hidden,
                *(no_update,) * len(VIEWS),
            )
        if what is not None:
            parts = _parts(state, what, fresh=True)
        else:
            parts = _empty_parts(fresh=True) if words else _waiting_parts(fresh=True)
        hidden = [no_update if what is None else name in what.hidden for name in rows]
        if words:
            hidden = _task_rows(view, names, values, rows)
        return (
            *parts,
            words,
            to_query(state),
            hidden,
            *(_view_link(state, name) for name in VIEWS),
        )


def _task_rows(view: str, names: list[str], values: list[Any], rows: list[str]) -> list[Any]:
    """Which rows to hide where there is no answer: those of other tasks;
    the rest stay as they are.
    """
    if not names:
        return [name == "upload" or no_update for name in rows]
    state, _ = from_values(view, zip(names, values))
    away = {"upload", *unused_knobs(view, state.task)}
    table = knobs()
    return [
        name in away if name == "upload" or table[name].argument else no_update
        for name in rows
    ]


def _view_link(state: State, view: str) -> str:
    query = to_query(state) if view == state.view else carried_query(state, view)
    return f"/{view}" + (f"?{query}" if query else "")


def _add_advance(app: Dash) -> None:
    @app.callback(
        *(Output(*part, allow_duplicate=True) for part in PARTS),
        Output("message", "children", allow_duplicate=True),
        Output(ROWS, "hidden", allow_duplicate=True),
        Input("tick", "data"),
        Held(KNOBS, "value"),
        Held("view", "data"),
        prevent_initial_call=True,
    )
    def advance(tick: Any, values: list[Any], view: str) -> tuple[Any, ...]:
        """Training a little further, or what was not ready;
        the page asks again as long as there is more and nobody pressed Stop.
        """
        names = _names(ctx.states_list[0])
        rows = _names(ctx.outputs_list[len(PARTS) + 1])
        same = [no_update] * len(rows)
        if not tick:
            return *UNCHANGED_PARTS, no_update, same
        state, what, words = answer(view, list(zip(names, values)), wait=WAIT_SECONDS)
        if state is None:
            return *UNCHANGED_PARTS, words, same
        if words:
            return *_empty_parts(fresh=False), words, same
        if what is None:
            return *_waiting_parts(fresh=False), no_update, same
        return *_parts(state, what, fresh=False), "", [name in what.hidden for name in rows]


def _add_files(app: Dash) -> None:
    @app.callback(
        Output("download", "data"),
        Input("csv", "n_clicks"),
        Held(KNOBS, "value"),
        Held("view", "data"),
        prevent_initial_call=True,
    )
    def download(clicks: int | None, values: list[Any], view: str) -> Any:
        names = _names(ctx.states_list[0])
        what = (
            answer(view, list(zip(names, values)), go_on=False, wait=WAIT_SECONDS)[1]
            if clicks
            else None
        )
        return (
            no_update
            if what is None
            else {"content": what.figure.to_csv(), "filename": f"attnscope-{view}.csv"}
        )

    @app.callback(
        Output({"type": "knob", "name": "upload"}, "value", allow_duplicate=True),
        Output({"type": "knob", "name": "data"}, "value", allow_duplicate=True),
        Output("upload-message", "children", allow_duplicate=True),
        Input("sent", "data"),
        prevent_initial_call=True,
    )
    def upload(sent: dict[str, str] | None) -> tuple[Any, Any, str]:
        if not sent:
            return no_update, no_update, ""
        try:
            return str(keep_upload(str(sent["name"]), str(sent["contents"]))), "upload", ""
        except AttnscopeError as error:
            return no_update, no_update, str(error)


def _add_client_side(app: Dash) -> None:
    def client(function: str, *parts: Any, initial: bool = False) -> None:
        app.clientside_callback(
            ClientsideFunction("explorer", function), *parts, prevent_initial_call=not initial
        )

    slider, knob = ({"type": kind, "name": MATCH} for kind in ("slider", "knob"))
    frame = Output("frame", "value", allow_duplicate=True)
    play = (Held("clock", "disabled"), Held("frame", "value"), Held("frame", "max"))
    client("theme", Output("theme", "data"), Input("url", "pathname"), initial=True)
    client(
        "draw",
        Output("graph", "figure"),
        Input("figure", "data"),
        Input("theme", "data"),
        Input("frame", "value"),
    )
    client(
        "frameText",
        Output("frame-text", "children"),
        Input("frame", "value"),
        Held("figure", "data"),
    )
    both = (
        Output(slider, "value"),
        Output(knob, "value"),
        Input(slider, "value"),
        Input(knob, "value"),
    )
    client("sync", *both)
    client("address", Output("sink", "data"), Input("query", "data"))
    client("toured", Output("toured", "data"), Input("tour-texts", "data"), initial=True)
    clock = (Output("clock", "disabled"), Output("play", "children"), frame)
    client("play", *clock, Input("play", "n_clicks"), Input("clock", "n_intervals"), *play)
    client(
        "live",
        Output("stop", "hidden"),
        Output("stop", "children"),
        Input("lived", "data"),
        Input("stop", "n_clicks"),
    )
    client(
        "save",
        Output("png", "title"),
        Input("png", "n_clicks"),
        Input("svg", "n_clicks"),
        Held("view", "data"),
    )
    client(
        "copy",
        Output("copy", "children"),
        Input("copy", "n_clicks"),
        Held("code", "children"),
    )
    client("copyLink", Output("copy-link", "children"), Input("copy-link", "n_clicks"))
    client("named", Output("choose", "title"), Input("upload", "id"), initial=True)
    said = Output("upload-message", "children", allow_duplicate=True)
    client(
        "send",
        Output("sent", "data"),
        said,
        Input("upload", "contents"),
        Held("upload", "filename"),
    )
    seen = (Input("figure", "data"), Input("frame", "value"), Input("graph", "hoverData"))
    client("stage", Output("staged", "data"), *seen, Held("view", "data"))
    seed = {"type": "knob", "name": "seed"}
    client(
        "redraw",
        Output(seed, "value", allow_duplicate=True),
        Input("redraw", "n_clicks"),
        Held(seed, "value"),
    )
