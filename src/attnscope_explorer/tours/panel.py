"""A step beside its view in the live page: /tour/NAME/K, and the list of all tours: /tour.

The address of a step is short: its knobs go without saying. Turn one, and the address says them all:
/tour/NAME/K?inverse_temperature=0.2. Sentences with formulas are HTML (MathML, which Dash has no
elements for): they travel in a store, and assets/tours.js puts them into their places.
"""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from attnscope_explorer.fields import plain
from attnscope_explorer.knobs import DEFAULTS
from attnscope_explorer.state import from_query, to_query
from attnscope_explorer.tours.registry import all_tours
from attnscope_explorer.tours.tour import Step, Tour

__all__ = ["panel", "tour_list", "tour_strip"]


def panel(tour: Tour, k: int, step: Step) -> Any:
    """The k-th step: where one is, what is said, what is asked, and the way on."""
    state, _ = from_query(step.view, step.query)
    # all knobs at their defaults differ from this step's: the address says so by one of them
    name = state.chosen[0][0] if state.chosen else ""
    spelled = f"{name}={plain(DEFAULTS[step.view][name])}" if name else ""
    where = [
        dcc.Link("Tours", href="/tour"),
        f" · {tour.title} · {k} of {len(tour.steps)}",
    ]
    present = html.Button(
        "Present",
        id="tour-present",
        type="button",
        title="p: larger, without knobs; then arrows, Home, End; p or Escape ends it",
    )
    return html.Section(
        [
            dcc.Store(id="tour-texts", data=step.html() | {"title": step.title}),
            html.Div([html.P(where), present], className="tour-where"),
            html.H2(step.title),
            html.Div(id="tour-sentence", className="tour-text"),
            html.Div(id="tour-formula", className="tour-formula"),
            html.Div(id="tour-question", className="tour-text tour-question"),
            html.Details(
                [html.Summary("Answer"), *_answer_parts(tour, k, step)],
                key=f"{tour.name}-{k}",
            ),
            _step_links(tour, k),
            _claims(step),
        ],
        id="tour",
        className="tour",
        **{
            "aria-label": f"Tour, step {k} of {len(tour.steps)}",
            "data-preset": to_query(state),
            "data-spelled": spelled,
        },
    )


def _answer_parts(tour: Tour, k: int, step: Step) -> list[Any]:
    told = [html.Div(id="tour-answer", className="tour-text")]
    if step.turned:
        href = f"/tour/{tour.name}/{k}?{step.turned}"
        told.append(html.P(dcc.Link("Turn it for me", href=href), className="tour-turn"))
    return told


def _step_links(tour: Tour, k: int) -> Any:
    """Previous, every step by its number, next."""
    last = len(tour.steps)

    def way(to: int, text: str, identity: str) -> Any:
        inside = 1 <= to <= last
        href = f"/tour/{tour.name}/{to}" if inside else "/tour"
        return dcc.Link(text, href=href, id=identity, className="tour-way")

    numbers = [
        html.Li(
            dcc.Link(
                str(i),
                href=f"/tour/{tour.name}/{i}",
                title=step.title,
                id=f"tour-step-{i}",
                className="here" if i == k else "",
            )
        )
        for i, step in enumerate(tour.steps, start=1)
    ]
    return html.Nav(
        [
            way(k - 1, "Previous" if k > 1 else "Tours", "tour-previous"),
            html.Ol(numbers),
            way(k + 1, "Next" if k < last else "Tours", "tour-next"),
        ],
        className="tour-ways",
        **{"aria-label": "Steps of this tour"},
    )


def _claims(step: Step) -> Any:
    said: list[Any] = ["Checked by the claims "]
    for claim in step.claims:
        said += [html.Code(claim), ", "]
    said[-1:] = [": ", html.Code(f"attnscope show {step.claims[0]}")]
    return html.P(said, className="tour-claims")


def tour_list() -> list[Any]:
    """Every tour with its steps."""
    title = html.Div(
        [
            html.H2("Guided tours"),
            html.P(
                "Each step is a sentence, a formula, a figure to look at, and a question."
            ),
        ],
        className="title",
    )
    return [title, html.Div([_card(tour) for tour in all_tours()], className="tour-cards")]


def _card(tour: Tour) -> Any:
    steps = [
        html.Li(dcc.Link(step.title, href=f"/tour/{tour.name}/{k}"))
        for k, step in enumerate(tour.steps, start=1)
    ]
    heading = html.H3(dcc.Link(tour.title, href=f"/tour/{tour.name}/1"))
    return html.Article([heading, html.P(tour.summary), html.Ol(steps)])


def tour_strip() -> Any:
    """The tours in one line or two, for the start page."""
    links = [
        html.Li(dcc.Link(tour.title, href=f"/tour/{tour.name}/1", title=tour.summary))
        for tour in all_tours()
    ]
    parts = [html.Strong("New here? Take a tour:"), html.Ul(links)]
    return html.Nav(parts, className="tour-strip", **{"aria-label": "Guided tours"})
