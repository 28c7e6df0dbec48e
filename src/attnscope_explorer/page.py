"""The page's skeleton: header, controls, figure, buttons, table, code.
Everything is a native element with a name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from attnscope.errors import AttnscopeError
from attnscope_explorer.controls import controls
from attnscope_explorer.state import VIEWS, from_query
from attnscope_explorer.tours.panel import panel, tour_list, tour_strip
from attnscope_explorer.tours.registry import one_step
from attnscope_explorer.uploads import UPLOAD_BYTES
from attnscope_explorer.view_result import Advice, ViewResult
from attnscope_explorer.views.training import presets

__all__ = ["EMPTY_FIGURE", "advice", "images", "layout", "page", "sentence", "table"]

# Nothing of Plotly's cloud: no logo, no link, no upload
GRAPH_CONFIG = {
    "displaylogo": False,
    "showSendToCloud": False,
    "showLink": False,
    "plotlyServerURL": "",
    "responsive": True,
}
# drag to zoom, double-click to return
GRAPH_CONFIG |= {"displayModeBar": False, "typesetMath": False}
# Until the first answer: Plotly's own empty figure has axes, and is white in the dark
TRANSPARENT = {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"}
EMPTY_FIGURE: dict[str, Any] = {
    "data": [],
    "layout": {"xaxis": {"visible": False}, "yaxis": {"visible": False}, **TRANSPARENT},
}
TITLES = {
    "landscape": (
        "Landscape",
        "Exact risk over two overlaps, where it pulls, and where training ends.",
    ),
    "risk": (
        "Risk",
        "What every predictor risks at its best, between the Bayes optimum and predicting the "
        "mean.",
    ),
    "training": (
        "Training",
        "Exact descent in five numbers, whatever the dimension; runs by outcome.",
    ),
    "posterior": (
        "Posterior",
        "One sequence: which token decided, who attends to it, and how sure one can be.",
    ),
    "convergence": (
        "Convergence",
        "Softmax and CME attention as the context grows: theory, drawn contexts, one sequence.",
    ),
    "samples": (
        "Samples",
        "How many bags one needs: the least possible risk, ridge fits, and where recovery is hard.",
    ),
    "bags": (
        "Your bags",
        "Fit bags in which one token decides the label, and see which. Nothing leaves this "
        "machine.",
    ),
}


def layout() -> Any:
    links = [dcc.Link("Tours", href="/tour", id="nav-tour")]
    links += [dcc.Link(TITLES[name][0], href=f"/{name}", id=f"nav-{name}") for name in VIEWS]
    stores = [
        dcc.Store(id=name)
        for name in (
            "figure",
            "theme",
            "query",
            "sink",
            "lived",
            "tick",
            "sent",
            "toured",
            "staged",
        )
    ]
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


def page(path: str, query: str) -> list[Any]:
    """The content of a view's page with its controls set as the address says, or of a tour's."""
    try:
        view, *words = path.strip("/").split("/")
        if view == "tour":
            return _tour_page(words, query)
        title, subtitle = TITLES.get(view or "landscape", ("", ""))
        head = [html.Div([html.H2(title), html.P(subtitle)], className="title")]
        return _view_page(
            path.strip("/") or "landscape", query, head if view else [tour_strip(), *head]
        )
    except AttnscopeError as error:
        return [html.P(str(error), role="alert", className="message")]


def _tour_page(words: list[str], query: str) -> list[Any]:
    """/tour, /tour/NAME and /tour/NAME/K; a query is of knobs that were turned."""
    if not words:
        return tour_list()
    tour, k, step = one_step(words[0], "/".join(words[1:]) or "1")
    return _view_page(
        step.view, query.removeprefix("?") or step.query, [panel(tour, k, step)]
    )


def _view_page(view: str, query: str, head: list[Any]) -> list[Any]:
    state, sentences = from_query(view, query)
    extra = {"training": _presets, "bags": _upload}.get(view, list)()
    return [
        dcc.Store(id="view", data=view),
        *head,
        # where the page is narrow the knobs are a sheet over its lower end
        html.Button(
            "Knobs",
            type="button",
            className="sheet",
            **{"aria-expanded": "false", "aria-controls": "settings"},
        ),
        html.Form(
            [*controls(state), *extra],
            id="settings",
            className="controls",
            **{"aria-label": "Settings"},
        ),
        html.Section(
            _output(view, sentences),
            className=f"output staged of-{view}",
            **{"aria-label": "Result", "data-view": view},
        ),
    ]


def _presets() -> list[Any]:
    items = [
        html.Li(html.A(name, href=f"/training?{query}")) for name, query in presets().items()
    ]
    return [
        html.Fieldset(
            [html.Legend("The paper's experiments"), html.Ul(items)], className="group"
        )
    ]


def _upload() -> list[Any]:
    how = (
        f"An .npz or .csv of at most {UPLOAD_BYTES // 1_000_000} MB. npz: bags (n, L, d), or tokens and "
        "offsets, and labels y. "
        "csv: a token per row, columns bag and y, numbers beside them. A third of the bags is held "
        "out."
    )
    # the file input over the button takes the keys; it gets its name in explorer.js, because
    # dcc.Upload has no property for it
    look = html.Button("Choose a file", type="button", id="choose", tabIndex=-1)
    button = dcc.Upload(look, id="upload", max_size=-1, multiple=False)
    message = html.P(id="upload-message", role="alert", className="message")
    parts = [html.Legend("Your file"), html.P(how, className="hint"), button, message]
    return [html.Fieldset(parts, className="group")]


def _button(text: str, name: str, **more: Any) -> Any:
    return html.Button(text, id=name, type="button", **more)


def _output(view: str, sentences: list[str]) -> list[Any]:
    frame = dcc.Input(
        id="frame", type="range", min=0, max=0, step=1, value=0, className="range"
    )
    scrub = html.Label([html.Span("Step ", id="frame-text"), frame])
    buttons = [_button("Play", "play"), _button("Stop", "stop", hidden=True), scrub]
    player = html.Div(buttons, className="player", hidden=view != "training")
    save = [
        _button("PNG", "png"),
        _button("SVG", "svg"),
        _button("CSV", "csv"),
        _button("Copy link", "copy-link"),
    ]
    return [
        html.P(
            " ".join(sentences),
            id="address-message",
            role="alert",
            className="message",
            hidden=not sentences,
        ),
        html.P(id="message", role="alert", className="message"),
        html.Div(id="advice", role="status", className="advice"),
        dcc.Graph(id="graph", figure=EMPTY_FIGURE, config=GRAPH_CONFIG, className="graph"),
        html.Aside(id="stage", **{"aria-label": "The task on stage"}),
        player,
        html.P(id="sentence", className="sentence"),
        html.Div(id="images", className="images"),
        html.P(id="note", role="status", className="note"),
        html.Div(
            save, className="buttons", role="group", **{"aria-label": "Download or share"}
        ),
        html.Div(
            html.Table(id="table"),
            className="scroll",
            tabIndex=0,
            role="region",
            **{"aria-label": "Numbers"},
        ),
        html.Div(
            [html.H3("As Python"), _button("Copy as Python", "copy")], className="code-title"
        ),
        html.Pre(html.Code(id="code"), tabIndex=0),
    ]


def advice(what: ViewResult) -> list[Any]:
    """Sentences with buttons that turn knobs (assets/live_stage.js)."""
    return [_advice_line(one) for one in what.advice]


def _advice_line(one: Advice) -> Any:
    buttons = [
        html.Button(text, type="button", **{"data-set": json.dumps(values)})
        for text, values in one.buttons
    ]
    said = html.Span(one.sentence)
    return html.P([said, *buttons], className="advised warn" if one.warn else "advised")


def table(what: ViewResult) -> list[Any]:
    head = html.Thead(html.Tr([html.Th(text, scope="col") for text in what.header]))
    return [head, html.Tbody([_row(cells) for cells in what.rows])]


def _row(cells: Sequence[str]) -> Any:
    name, *rest = cells
    return html.Tr([html.Th(name, scope="row"), *(html.Td(text) for text in rest)])


def _shaded_token(content: Any, weight: float, chosen: bool) -> Any:
    """A word or a picture with its attention: explorer.css makes a shade of the weight, from 0 to 1,
    that words are read on.
    """
    kind = html.Mark if chosen else html.Span
    shade = {"--weight": f"{min(max(weight, 0.0), 1.0):.3f}"}
    return kind(content, style=shade, title=f"attention {weight:.3g}")


def images(what: ViewResult) -> list[Any]:
    """The pictures of a bag in frames shaded by attention;
    the chosen one is outlined, and said in words.
    """
    out: list[Any] = []
    for j, (source, weight, chosen) in enumerate(what.images, start=1):
        said = f"token {j}" + (", chosen" if chosen else "")
        picture = _shaded_token(html.Img(src=source, alt=said), weight, chosen)
        out.append(html.Figure([picture, html.Figcaption(said)]))
    return out


def sentence(what: ViewResult) -> list[Any]:
    """The words shaded by attention; the one that decided is marked up as well,
    for those who do not see colours.
    """
    out: list[Any] = []
    for word, weight, chosen in what.words:
        glue = "" if word.startswith("##") or word in ".,!?" or not out else " "
        out += [glue, _shaded_token(word.removeprefix("##"), weight, chosen)]
    return out
