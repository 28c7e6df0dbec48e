"""Views that are computed beforehand, whole: figure, table, note and lines, as the live page shows
them, keyed by their address.

Learning curves, convergence and bags need solvers and data, landscapes and training of softmax and
optimal sigma a quadrature at every point: of these the plain files have the examples listed here and
those of the tours. For other knobs the page says so, and lists what it has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope_explorer.state import State, from_query, to_query
from attnscope_explorer.view_result import ViewResult
from attnscope_explorer.views import bags, convergence, landscape, samples, training

__all__ = [
    "CLOSED_FORM_PREDICTORS",
    "EXAMPLE_ADDRESSES",
    "TEST_EXAMPLES",
    "examples",
    "is_computed_by_page",
    "state_of",
]

CLOSED_FORM_PREDICTORS = ("erf", "linear")  # predictors that the page computes by itself
EXAMPLE_BAGS = 6  # bags that one can look at
EXAMPLE_DIGITS = 6  # significant digits of what is only drawn

# address of a view -> what it is, in words
EXAMPLE_ADDRESSES: dict[str, dict[str, str]] = {
    "landscape": {
        "predictor=softmax&inverse_temperature=2": "softmax, inverse temperature 2",
        "predictor=sigma": "optimal sigma",
    },
    "samples": {
        "": "3 tokens, strength 5, noise 0.3",
        "spike=1": "a weaker shift: strength 1",
        "length=5&spike=1&noise=0.01": "5 tokens, strength 1, noise 0.01: a hard phase",
        "noise=0.01": "hardly any noise",
        "length=10": "10 tokens",
    },
    "convergence": {
        "": "a fixed bandwidth: a plateau",
        "rule=shrinking": "a bandwidth that shrinks with L",
        "bandwidth=0.1": "a narrow bandwidth",
        "noise=0.1": "less noise",
        "keys=6": "keys in 6 dimensions",
    },
    "bags": {
        **{
            f"bag={i}" if i > 1 else "": f"digits, bag {i}: the only 0 decides"
            for i in range(1, EXAMPLE_BAGS + 1)
        },
        "loss=attention": "digits, fitted for the average",
        **{
            f"data=text&bag={i}"
            if i > 1
            else "data=text": f"sentences, bag {i}: one word decides"
            for i in range(1, EXAMPLE_BAGS + 1)
        },
        "data=drawn": "drawn from the task itself",
    },
}
# for tests: one of each view
TEST_EXAMPLES: dict[str, dict[str, str]] = {
    "samples": {"": EXAMPLE_ADDRESSES["samples"][""]},
    "convergence": {"": EXAMPLE_ADDRESSES["convergence"][""]},
    "bags": {"": EXAMPLE_ADDRESSES["bags"][""], "bag=2": EXAMPLE_ADDRESSES["bags"]["bag=2"]},
}
EXAMPLE_VIEWS = {
    "landscape": landscape.landscape,
    "samples": samples.samples,
    "convergence": convergence.convergence,
    "bags": bags.bags,
    "training": training.training,
}


def state_of(view: str, query: str) -> State:
    """The state of an address that must be right."""
    state, sentences = from_query(view, query)
    if sentences:
        raise AttnscopeError(" ".join(sentences))
    return state


def is_computed_by_page(state: State) -> bool:
    """Whether the page shows this state by itself."""
    if state.view in ("landscape", "training"):
        exact = state.predictor in CLOSED_FORM_PREDICTORS
        return exact and (state.view == "landscape" or not state.batch)
    return state.view in ("risk", "posterior")


def examples(
    states: Iterable[tuple[State, str]],
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """view -> query -> record, of those (state, words) that the page cannot compute; and a sentence
    for each that could not be made here (sentences need the encoder of the text corpus).
    """
    out: dict[str, dict[str, Any]] = {}
    left_out: list[str] = []
    for state, words in states:
        query = to_query(state)
        if is_computed_by_page(state) or query in out.get(state.view, {}):
            continue
        try:
            shown = EXAMPLE_VIEWS[state.view](state)
        except AttnscopeError as error:
            left_out.append(f"/{state.view}?{query}: {error}")
            continue
        out.setdefault(state.view, {})[query] = _record(shown) | {"words": words}
    return out, left_out


def _record(shown: ViewResult) -> dict[str, Any]:
    record: dict[str, Any] = {
        "figure": _rounded_numbers(shown.plotly),
        "header": list(shown.header),
        "rows": [list(row) for row in shown.rows],
        "note": shown.note,
        "code": shown.code,
    }
    if shown.words:
        record["sentence"] = [
            [word, _rounded_numbers(w), chosen] for word, w, chosen in shown.words
        ]
    if shown.images:
        record["images"] = [
            [source, _rounded_numbers(w), chosen] for source, w, chosen in shown.images
        ]
    return record


def _rounded_numbers(value: Any) -> Any:
    """The same plain data with numbers of EXAMPLE_DIGITS digits."""
    if isinstance(value, dict):
        return {name: _rounded_numbers(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded_numbers(x) for x in value]
    if isinstance(value, float):
        return float(f"{value:.{EXAMPLE_DIGITS}g}") if math.isfinite(value) else None
    return value
