"""The knobs as plain data, from the one table of knobs, for the views that the plain files have."""

from __future__ import annotations

from typing import Any

from attnscope.figures.outcomes import OUTCOMES
from attnscope.figures.render_plotly import SCREEN_PALETTE
from attnscope.registry import PREDICTORS
from attnscope_explorer.controls import ticks
from attnscope_explorer.fields import Choice, Number
from attnscope_explorer.knobs import knobs
from attnscope_explorer.page import TITLES
from attnscope_explorer.python_lines import PAPER_PREDICTORS
from attnscope_explorer.state import VIEWS
from attnscope_explorer.views import landscape_drawing, posterior
from attnscope_explorer.views.risk import REFERENCE_COLOURS, SIGMA_COLOUR

__all__ = ["knob_table"]

# Knobs of other tasks and of SGD are for the live page; so are choices that need its solvers
LIVE_PAGE_KNOBS = ("task", "compared", "batch", "upload", "swap_move")
PAGE_PREDICTORS = ("erf", "linear", "softmax", "sigma")
PAGE_CHOICES = {"predictor": PAGE_PREDICTORS}
LOWEST_VALUES = {
    "dim": 5
}  # below, the page's Hessians have no direction outside span{k, v, k*, v*}


def knob_table() -> dict[str, Any]:
    """{"views": name -> title, subtitle, knobs; "knobs": name -> field; "colours"}."""
    table = knobs()
    used = _knobs_by_view()
    views = {
        view: {"title": TITLES[view][0], "subtitle": TITLES[view][1], "knobs": names}
        for view, names in used.items()
    }
    every = dict.fromkeys(name for names in used.values() for name in names)
    return {
        "colours": _colours(),
        "views": views,
        "knobs": {name: _field(name, table[name]) for name in table if name in every},
    }


def _colours() -> dict[str, Any]:
    """Colours and symbols as the live page has them."""
    predictors = {word: SCREEN_PALETTE[PREDICTORS[word].colour] for word in PAPER_PREDICTORS}
    predictors["sigma"] = SCREEN_PALETTE[SIGMA_COLOUR["optimal sigma"]]
    references, outcomes = (
        {name: SCREEN_PALETTE[colour] for name, colour in colours.items()}
        for colours in (REFERENCE_COLOURS, OUTCOMES)
    )
    return {
        "palette": list(SCREEN_PALETTE),
        "predictors": predictors,
        "references": references,
        "outcomes": outcomes,
        "paths": landscape_drawing.OUTCOME_COLOURS,
        "symbols": {
            kind: list(look) for kind, look in landscape_drawing.POINT_SYMBOLS.items()
        },
        "posterior": {
            "other": SCREEN_PALETTE[posterior.OTHER_COLOUR],
            "informative": SCREEN_PALETTE[posterior.INFORMATIVE_COLOUR],
        },
    }


def _knobs_by_view() -> dict[str, list[str]]:
    table = knobs()
    own = {
        name
        for name, row in table.items()
        if not row.argument or name in _SINGLE_LOCATION_KNOBS
    }
    return {
        view: [name for name in VIEWS[view] if name in own and name not in LIVE_PAGE_KNOBS]
        for view in TITLES
    }


# arguments of single-location regression that have a knob
_SINGLE_LOCATION_KNOBS = ("dim", "length", "gamma2", "signal", "noise", "seed")


def _field(name: str, row: Any) -> dict[str, Any]:
    field = row.field
    out: dict[str, Any] = {"label": field.label, "group": row.group, "default": row.default}
    out["defaults"] = dict(row.defaults)
    if isinstance(field, Choice):
        kept = PAGE_CHOICES.get(name, tuple(field.options))
        out["options"] = {word: text for word, text in field.options.items() if word in kept}
        return out
    if not isinstance(field, Number):
        raise TypeError(f"the plain files have no control for the knob {name}")
    out |= {
        "low": max(field.low, LOWEST_VALUES.get(name, field.low)),
        "high": field.high,
        "log": field.log,
        "whole": field.whole,
    }
    return out | {
        "hint": field.hint,
        "optional": field.optional,
        "absent": getattr(field, "absent", "none"),
        "ticks": ticks(field),
    }
