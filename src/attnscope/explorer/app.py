"""The page: four views behind one address bar, served from this machine and asking nothing of any other.

A view is a pure function from a State to what is shown; the callbacks here only carry texts to it and results back. Drawing, playing,
copying and the address are a few client-side functions in assets/explorer.js. A content security policy forbids the browser every
request to another host.
"""

from __future__ import annotations

import logging
import threading
import webbrowser
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, ctx, dcc, html, no_update
from dash import State as Held

from attnscope.errors import AttnscopeError, bad
from attnscope.explorer.controls import controls
from attnscope.explorer.state import VIEWS, State, carried, from_query, from_values, to_query
from attnscope.explorer.view import Shown
from attnscope.explorer.views.landscape import landscape
from attnscope.explorer.views.posterior import posterior
from attnscope.explorer.views.risk import risk
from attnscope.explorer.views.training import presets, training

__all__ = ["create_app", "serve", "shown"]

RENDER: dict[str, Callable[[State], Shown]] = {
    "landscape": landscape,
    "risk": risk,
    "training": training,
    "posterior": posterior,
}
ONE_AT_A_TIME = threading.Lock()  # computations of several tabs queue up instead of fighting for cores and memory
# Nothing of Plotly's cloud: no logo, no link, no upload
GRAPH = {"displaylogo": False, "showSendToCloud": False, "showLink": False, "plotlyServerURL": "", "responsive": True}
GRAPH |= {"displayModeBar": False, "typesetMath": False}  # drag to zoom, double-click to return


@lru_cache(maxsize=32)
def shown(state: State) -> Shown:
    """What the state's view shows; the last few are kept for downloads and for going back and forth."""
    return RENDER[state.view](state)


def answer(view: str, values: list[tuple[str, object]]) -> tuple[State | None, Shown | None, str]:
    """(state, what it shows, "") or (None, None, one sentence)."""
    state, sentences = from_values(view, values)
    if sentences:
        return None, None, " ".join(sentences)
    try:
        with ONE_AT_A_TIME:
            return state, shown(state), ""
    except AttnscopeError as error:
        return None, None, str(error)
    except Exception as error:  # a defect of ours: still one sentence in the page, and the rest in the terminal
        logging.getLogger("attnscope").exception("the computation behind /%s failed", view)
        return None, None, f"The computation behind this page failed ({type(error).__name__}: {str(error)[:120]})."


def create_app() -> Dash:
    """The Dash application; `app.server` is its WSGI side."""
    app = Dash("attnscope.explorer", title="attnscope explorer", update_title=None, suppress_callback_exceptions=True)
    app.layout = _layout()
    _callbacks(app)
    policy = f"default-src 'self'; script-src 'self' {' '.join(app.csp_hashes())}; style-src 'self' 'unsafe-inline'; "
    policy += "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"

    @app.server.after_request
    def guard(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = policy
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    return app


def _layout() -> Any:
    links = [dcc.Link(name.capitalize(), href=f"/{name}", id=f"nav-{name}") for name in VIEWS]
    stores = [dcc.Store(id=name) for name in ("figure", "theme", "query", "sink")]
    return html.Div(
        [
            dcc.Location(id="url"),
            *stores,
            dcc.Download(id="download"),
            dcc.Interval(id="clock", interval=100, disabled=True),
            html.Header([html.H1("attnscope"), html.Nav(links, **{"aria-label": "Views"})]),
            html.Main(id="page"),
        ]
    )


TITLES = {
    "landscape": ("Landscape", "Exact risk over two overlaps, where it pulls, and where training ends."),
    "risk": ("Risk", "What every predictor risks at its best, between the Bayes optimum and predicting the mean."),
    "training": ("Training", "Exact descent in five numbers, whatever the dimension: the paper's four panels."),
    "posterior": ("Posterior", "One sequence: which token decided, who attends to it, and how sure one can be."),
}


def page(path: str, query: str) -> list[Any]:
    """The content of a view's page with its controls set as the address says."""
    view = path.strip("/") or "landscape"
    try:
        state, sentences = from_query(view, query)
    except AttnscopeError as error:
        return [html.P(str(error), role="alert", className="message")]
    title, subtitle = TITLES[view]
    return [
        dcc.Store(id="view", data=view),
        html.Div([html.H2(title), html.P(subtitle)], className="title"),
        html.Form([*controls(state), *_presets(view)], className="controls", **{"aria-label": "Settings"}),
        html.Section(_output(view, sentences), className="output", **{"aria-label": "Result"}),
    ]


def _presets(view: str) -> list[Any]:
    if view != "training":
        return []
    items = [html.Li(html.A(name, href=f"/training?{query}")) for name, query in presets().items()]
    return [html.Fieldset([html.Legend("The paper's experiments"), html.Ul(items)], className="group")]


def _output(view: str, sentences: list[str]) -> list[Any]:
    button = lambda text, name: html.Button(text, id=name, type="button")
    frame = dcc.Input(id="frame", type="range", min=0, max=0, step=1, value=0, className="range")
    scrub = html.Label([html.Span("Step ", id="frame-text"), frame])
    player = html.Div([button("Play", "play"), scrub], className="player", hidden=view != "training")
    save = [button("PNG", "png"), button("SVG", "svg"), button("CSV", "csv"), button("Copy link", "copy-link")]
    return [
        html.P(" ".join(sentences), id="address-message", role="alert", className="message", hidden=not sentences),
        html.P(id="message", role="alert", className="message"),
        dcc.Graph(id="graph", config=GRAPH, className="graph"),
        player,
        html.P(id="note", role="status", className="note"),
        html.Div(save, className="buttons", role="group", **{"aria-label": "Download or share"}),
        html.Div(html.Table(id="table"), className="scroll", tabIndex=0, role="region", **{"aria-label": "Numbers"}),
        html.Div([html.H3("As Python"), button("Copy as Python", "copy")], className="code-title"),
        html.Pre(html.Code(id="code"), tabIndex=0),
    ]


def _table(what: Shown) -> list[Any]:
    head = html.Thead(html.Tr([html.Th(text, scope="col") for text in what.header]))
    row = lambda cells: html.Tr([html.Th(cells[0], scope="row"), *(html.Td(text) for text in cells[1:])])
    return [head, html.Tbody([row(cells) for cells in what.rows])]


def _callbacks(app: Dash) -> None:
    from dash import ALL, MATCH

    knobs, rows = ({"type": kind, "name": ALL} for kind in ("knob", "row"))
    app.callback(Output("page", "children"), Input("url", "pathname"), Input("url", "search"))(
        lambda path, query: page(path or "/", query or "")
    )

    @app.callback(
        Output("figure", "data"),
        Output("table", "children"),
        Output("code", "children"),
        Output("note", "children"),
        Output("message", "children"),
        Output("query", "data"),
        Output("frame", "max"),
        Output("frame", "value"),
        Output(rows, "hidden"),
        *(Output(f"nav-{name}", "href") for name in VIEWS),
        Input(knobs, "value"),
        Held("view", "data"),
    )
    def redraw(values: list[Any], view: str) -> tuple[Any, ...]:
        names = [item["id"]["name"] for item in ctx.inputs_list[0]]
        state, what, sentence = answer(view, list(zip(names, values))) if names else (None, None, "")
        if state is None or what is None:
            unchanged = [no_update] * len(ctx.outputs_list[8])
            return *(no_update,) * 4, sentence, *(no_update,) * 3, unchanged, *(no_update,) * len(VIEWS)
        last = max(0, what.frames - 1)
        hidden = [item["id"]["name"] in what.hidden for item in ctx.outputs_list[8]]
        links = [_link(state, name) for name in VIEWS]
        return what.plotly, _table(what), what.code, what.note, "", to_query(state), last, last, hidden, *links

    @app.callback(
        Output("download", "data"),
        Input("csv", "n_clicks"),
        Held(knobs, "value"),
        Held("view", "data"),
        prevent_initial_call=True,
    )
    def download(clicks: int | None, values: list[Any], view: str) -> Any:
        names = [item["id"]["name"] for item in ctx.states_list[0]]
        _, what, _ = answer(view, list(zip(names, values)))
        return (
            no_update
            if what is None or not clicks
            else {"content": what.figure.to_csv(), "filename": f"attnscope-{view}.csv"}
        )

    def client(function: str, *parts: Any, initial: bool = False) -> None:
        app.clientside_callback(ClientsideFunction("explorer", function), *parts, prevent_initial_call=not initial)

    slider, knob, scale = ({"type": kind, "name": MATCH} for kind in ("slider", "knob", "scale"))
    client("theme", Output("theme", "data"), Input("url", "pathname"), initial=True)
    client("draw", Output("graph", "figure"), Input("figure", "data"), Input("theme", "data"), Input("frame", "value"))
    client("frameText", Output("frame-text", "children"), Input("frame", "value"), Held("figure", "data"))
    client(
        "sync",
        Output(slider, "value"),
        Output(knob, "value"),
        Input(slider, "value"),
        Input(knob, "value"),
        Held(scale, "data"),
    )
    client("address", Output("sink", "data"), Input("query", "data"))
    client(
        "play",
        Output("clock", "disabled"),
        Output("play", "children"),
        Output("frame", "value", allow_duplicate=True),
        Input("play", "n_clicks"),
        Input("clock", "n_intervals"),
        Held("clock", "disabled"),
        Held("frame", "value"),
        Held("frame", "max"),
    )
    client("save", Output("png", "title"), Input("png", "n_clicks"), Input("svg", "n_clicks"), Held("view", "data"))
    client("copy", Output("copy", "children"), Input("copy", "n_clicks"), Held("code", "children"))
    client("copyLink", Output("copy-link", "children"), Input("copy-link", "n_clicks"))
    seed = {"type": "knob", "name": "seed"}
    client("redraw", Output(seed, "value", allow_duplicate=True), Input("redraw", "n_clicks"), Held(seed, "value"))


def _link(state: State, view: str) -> str:
    query = to_query(state) if view == state.view else carried(state, view)
    return f"/{view}" + (f"?{query}" if query else "")


def serve(host: str = "127.0.0.1", port: int = 8050, open_browser: bool = True) -> None:
    """Serve the explorer until Ctrl-C; on this machine only, unless `host` says otherwise."""
    from werkzeug.serving import make_server

    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise bad("port", "explore", "a whole number from 0 to 65535", port, "port=8050")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    try:
        server = make_server(host, port, create_app().server, threaded=True)
    except (OSError, SystemExit) as error:
        raise bad(
            "host and port", "explore", "free and of this machine", f"{host}:{port} ({error})", "another --port"
        ) from None
    address = f"http://{host}:{server.server_port}/"
    if host not in ("127.0.0.1", "localhost", "::1"):
        print(f"Warning: {host} lets other machines of the network open this page; it has no password.")
    print(f"attnscope explorer: {address}  (Ctrl-C ends it)", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
