"""What a page shows, as a small frozen State, and its address: `/risk?dim=80&against=length`.

One State serves every view, so that a task travels from tab to tab; a view shows the knobs that the
table (knobs.py) lists for it. A State and an address hold only what differs from the view's
defaults. A value that cannot be used is replaced by its default and reported in one sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from attnscope.deprecated import new_link
from attnscope.errors import AttnscopeError, bad
from attnscope_explorer.fields import Choice, Number, Numbers, plain
from attnscope_explorer.knobs import DEFAULTS, FIELDS, OVERLAPS, VIEWS

__all__ = [
    "FIELDS",
    "OVERLAPS",
    "VIEWS",
    "Choice",
    "Number",
    "Numbers",
    "State",
    "carried_query",
    "default_state",
    "from_query",
    "from_values",
    "plain",
    "to_query",
]


@dataclass(frozen=True)
class State:
    """A view and its knobs: `state.dim` is the value of the knob `dim`, chosen or by default.

    chosen: (name, value) of what differs from the view's defaults, in the order of the table.
    """

    view: str = "landscape"
    chosen: tuple[tuple[str, Any], ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in FIELDS:
            raise AttributeError(name)
        return dict(self.chosen).get(name, DEFAULTS[self.view][name])

    def changed(self, **values: Any) -> State:
        """The state with other values of these knobs."""
        base = DEFAULTS[self.view]
        unknown = set(values) - set(base)
        if unknown:
            raise AttributeError(f"no knob is called {', '.join(sorted(unknown))}")
        every = dict(self.chosen) | values
        named = ((name, every[name]) for name in base if name in every)
        return State(self.view, tuple((name, x) for name, x in named if x != base[name]))


def default_state(view: str) -> State:
    """What the view shows when nothing was chosen."""
    if view not in VIEWS:
        must = "one of " + ", ".join(f"/{name}" for name in VIEWS)
        raise bad("the page", "attnscope explore", must, f"/{view[:40]}")
    return State(view)


def from_values(view: str, values: Iterable[tuple[str, object]]) -> tuple[State, list[str]]:
    """The state these texts describe, and a sentence for each that could not be used."""
    default_state(view)
    found: dict[str, Any] = {}
    renamed, sentences = new_link(values)
    for name, text in renamed:
        try:
            if name not in VIEWS[view]:
                must = "one of " + ", ".join(VIEWS[view])
                raise bad("a name", f"the address of /{view}", must, repr(name[:40]))
            found[name] = FIELDS[name].parse(text, name, DEFAULTS[view][name])
        except AttnscopeError as error:
            sentences.append(str(error))
    return State(view).changed(**found), sentences


def from_query(view: str, query: str) -> tuple[State, list[str]]:
    """The state of an address's query, with or without its question mark."""
    return from_values(view, parse_qsl(query.removeprefix("?"), keep_blank_values=True))


def to_query(state: State) -> str:
    """The query that reopens this state: what differs from the view's defaults,
    in the table's order.
    """
    names = VIEWS[state.view]
    return urlencode({name: plain(value) for name, value in state.chosen if name in names})


def carried_query(state: State, view: str) -> str:
    """The query that shows this state's task and inverse temperature in another view: what was
    chosen, and the dimension also where it was not, for views have their own.
    """
    common = set(VIEWS[view]) & set(VIEWS[state.view])
    shared = {name: value for name, value in state.chosen if name in common}
    if "dim" in common:
        shared["dim"] = state.dim
    return to_query(default_state(view).changed(**shared))
