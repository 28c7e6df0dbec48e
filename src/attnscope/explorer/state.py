"""What a page shows, as a small frozen State, and its form in the address: `/risk?dim=80&against=length`.

One State serves every view, so that a task travels from tab to tab; a view shows the fields VIEWS lists for it. The address holds only
what differs from the view's defaults. A value that cannot be used is replaced by its default and reported in one sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from attnscope.errors import AttnscopeError, bad

__all__ = [
    "FIELDS",
    "TASK",
    "VIEWS",
    "Choice",
    "Number",
    "State",
    "carried",
    "default_state",
    "from_query",
    "from_values",
    "plain",
    "to_query",
]

OVERLAPS = ("kappa", "eta", "theta", "nu", "rho")
LARGEST_SEED = 2**31 - 1  # far more draws than anyone looks at, and a short address


@dataclass(frozen=True)
class State:
    """Every knob of every view; what the names mean is in FIELDS."""

    view: str = "landscape"
    predictor: str = "erf"
    temperature: float = 0.1
    dim: int = 400
    length: int = 10
    gamma2: float = 0.5
    noise: float = 0.0
    step_size: float = 4e-3
    steps: int = 20_000
    runs: int = 30
    start: str = "sphere"
    seed: int = 0
    x: str = "kappa"
    y: str = "nu"
    kappa: float = 0.0
    eta: float = 0.0
    theta: float = 0.0
    nu: float = 0.0
    rho: float = 0.0
    against: str = "temperature"
    tuning: str = "best"
    decay: float = 0.0
    batch: int = 0
    keys: int = 3
    bandwidth: float = 0.25
    rule: str = "fixed"
    ridge: float = 0.25
    data: str = "digits"
    loss: str = "auto"
    bag: int = 1
    upload: int = 0


@dataclass(frozen=True)
class Number:
    """A number in [low, high]; `log` says how its slider moves, `whole` that it is an integer."""

    label: str
    low: float
    high: float
    log: bool = False
    whole: bool = False
    hint: str = ""

    def parse(self, text: object, name: str) -> float | int:
        must = f"{'a whole' if self.whole else 'a'} number from {plain(self.low)} to {plain(self.high)}"
        try:
            value = float(str(text).replace("_", ""))
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high or (self.whole and value != int(value)):
            raise bad(name, "this page", must, repr(str(text)[:40]), f"{name}={plain(getattr(State(), name))}")
        return int(value) if self.whole else value


@dataclass(frozen=True)
class Choice:
    """One of a few words, each with the text its button shows."""

    label: str
    options: Mapping[str, str]

    def parse(self, text: object, name: str) -> str:
        if str(text) not in self.options:
            raise bad(name, "this page", "one of " + ", ".join(self.options), repr(str(text)[:40]))
        return str(text)


_AXES = {name: name for name in OVERLAPS}
FIELDS: dict[str, Number | Choice] = {
    "predictor": Choice(
        "Predictor", {"erf": "erf", "softmax": "softmax", "sigma": "optimal sigma", "linear": "linear"}
    ),
    "temperature": Number("Temperature", 1e-3, 1e2, log=True, hint="lambda, which multiplies the scores"),
    "dim": Number("Dimension d", 4, 1e6, log=True, whole=True),
    "length": Number("Tokens L", 2, 1000, log=True, whole=True),
    "gamma2": Number("Variance gamma²", 0.05, 2.0, hint="of the informative token around its mean"),
    "noise": Number("Label noise", 0.0, 1.0, hint="standard deviation"),
    "step_size": Number("Step size", 1e-5, 0.1, log=True),
    "steps": Number("Steps", 10, 200_000, log=True, whole=True),
    "runs": Number("Runs", 1, 50, whole=True),
    "start": Choice("Start", {"sphere": "sphere", "manifold": "manifold"}),
    "seed": Number("Seed", 0, LARGEST_SEED, whole=True),
    "x": Choice("Horizontal axis", _AXES),
    "y": Choice("Vertical axis", _AXES),
    "kappa": Number("kappa = k·k*", -1.0, 1.0),
    "eta": Number("eta = k·v*", -1.0, 1.0),
    "theta": Number("theta = v·k*", -1.0, 1.0),
    "nu": Number("nu = v·v*", -1.0, 1.0),
    "rho": Number("rho = k·v", -1.0, 1.0),
    "against": Choice("Against", {"temperature": "temperature", "dim": "dimension", "length": "tokens"}),
    "tuning": Choice("Temperatures", {"best": "best for each", "fixed": "as chosen"}),
    "decay": Number("Temperature decay", 0.0, 1e-2, hint="rate r of lambda/(1 + r t); 0 keeps it constant"),
    "batch": Number("Batch size", 0, 1000, whole=True, hint="0 is the population gradient, else SGD"),
}
FIELDS |= {
    "keys": Number("Key dimension d", 2, 8, whole=True, hint="keys on the unit sphere"),
    "bandwidth": Number("Bandwidth h", 0.1, 4.0, log=True, hint="softmax scores are q·k/h"),
    "rule": Choice("Softmax bandwidth", {"fixed": "as chosen", "shrinking": "shrinking with L"}),
    "ridge": Number("CME ridge", 0.01, 10.0, log=True),
    "data": Choice("Which", {"digits": "digits", "text": "sentences", "drawn": "drawn", "upload": "yours"}),
    "loss": Choice(
        "Fit for", {"auto": "whatever predicts best", "mixture": "the location", "attention": "the average"}
    ),
    "bag": Number("Bag to look at", 1, 200, whole=True, hint="of those held out"),
    "upload": Number("Number of the upload", 0, LARGEST_SEED, whole=True),
}
TASK = ("dim", "length", "gamma2", "noise")
VIEWS: dict[str, tuple[str, ...]] = {
    "landscape": (
        "predictor",
        "temperature",
        *TASK,
        "x",
        "y",
        *OVERLAPS,
        "start",
        "runs",
        "steps",
        "step_size",
        "seed",
    ),
    "risk": ("against", "tuning", "temperature", "dim", "length", "gamma2"),
    "training": ("predictor", "temperature", "decay", *TASK, "batch", "start", "runs", "steps", "step_size", "seed"),
    "posterior": ("tuning", "temperature", *TASK, "seed"),
    "convergence": ("rule", "bandwidth", "ridge", "keys", "noise", "seed"),
    "bags": ("data", "upload", "loss", "bag", "seed"),
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "posterior": {
        "dim": 20,
        "seed": 1,
    },  # at d = 400 the informative token is beyond doubt, and there is nothing to see
    "convergence": {"noise": 0.5},
}


def default_state(view: str) -> State:
    """What the view shows when nothing was chosen."""
    if view not in VIEWS:
        raise bad("the page", "attnscope explore", "one of " + ", ".join(f"/{name}" for name in VIEWS), f"/{view[:40]}")
    return replace(State(view=view), **DEFAULTS.get(view, {}))


def from_values(view: str, values: Iterable[tuple[str, object]]) -> tuple[State, list[str]]:
    """The state these texts describe, and a sentence for each that could not be used (its default stands)."""
    state, sentences = default_state(view), []
    for name, text in values:
        try:
            if name not in VIEWS[view]:
                raise bad("a name", f"the address of /{view}", "one of " + ", ".join(VIEWS[view]), repr(name[:40]))
            value: Any = FIELDS[name].parse(text, name)
            state = replace(state, **{name: value})
        except AttnscopeError as error:
            sentences.append(str(error))
    return state, sentences


def from_query(view: str, query: str) -> tuple[State, list[str]]:
    """The state of an address's query, with or without its question mark."""
    return from_values(view, parse_qsl(query.removeprefix("?"), keep_blank_values=True))


def to_query(state: State, only: tuple[str, ...] | None = None) -> str:
    """The query that reopens this state: what differs from the view's defaults, in the order of its controls."""
    base = default_state(state.view)
    names = VIEWS[state.view] if only is None else only
    values = {name: getattr(state, name) for name in names if getattr(state, name) != getattr(base, name)}
    return urlencode({name: plain(value) for name, value in values.items()})


def carried(state: State, view: str) -> str:
    """The query that shows this state's task and temperature in another view."""
    shared = [f.name for f in fields(State) if f.name in VIEWS[view] and f.name in VIEWS[state.view]]
    home = default_state(state.view)
    changed = {name: getattr(state, name) for name in shared if getattr(state, name) != getattr(home, name)}
    return to_query(replace(default_state(view), **changed))


def plain(value: object) -> str:
    """A value as people type it; float(text) gives the same bits back."""
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return str(value)
