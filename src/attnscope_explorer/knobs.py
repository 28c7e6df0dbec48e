"""Every knob of the page in one table: a row is a knob's name, kind, default, group and views.

FIELDS, VIEWS, GROUPS and DEFAULTS are read off the table, and so is State (state.py). Words of
tasks and predictors, and the arguments of tasks, come from the registry at the moment when the page
asks: a row added there from outside is a choice here, and its arguments are knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as held
from functools import lru_cache
from typing import Any

from attnscope.registry import PREDICTORS, TASKS, Argument, Entry
from attnscope_explorer.fields import Choice, Field, Number, Numbers

__all__ = [
    "DEFAULTS",
    "FIELDS",
    "GROUPS",
    "OVERLAPS",
    "SINGLE_LOCATION",
    "VIEWS",
    "Knob",
    "arguments_of",
    "knobs",
    "unused_knobs",
]

OVERLAPS = ("kappa", "eta", "theta", "nu", "rho")
LARGEST_SEED = 2**31 - 1  # far more draws than anyone looks at, and a short address
# Knobs of an argument reach so many times its default (or 1): the catalogue's own ranges are of no
# use to a slider
RANGE_FACTOR = 20.0
SINGLE_LOCATION = "single-location"  # the task of the views that have no knob for it


@dataclass(frozen=True)
class Knob:
    """One row.

    defaults: of the views that have their own.
    argument: the task's argument that it sets, if any.
    """

    name: str
    field: Field
    default: Any
    group: str
    views: tuple[str, ...]
    defaults: Mapping[str, Any] = held(default_factory=dict)
    argument: str = ""


_ALL_VIEWS = ("landscape", "risk", "training", "posterior", "convergence", "samples", "bags")
_RANDOM_VIEWS = tuple(
    name for name in _ALL_VIEWS if name != "samples"
)  # views that draw at random
_PLANTED_VIEWS = ("risk", "training")  # views that show any planted task
_TASK_VIEWS = ("landscape", "risk", "training", "posterior")
_TRAINING_VIEWS = ("landscape", "training")
_AXIS_LABELS = {name: name for name in OVERLAPS}


def _view_knobs() -> list[Knob]:
    axes = {
        "inverse_temperature": "inverse_temperature",
        "dim": "dimension",
        "length": "tokens",
    }
    tuning = Choice("Inverse temperatures", {"best": "best for each", "fixed": "as chosen"})
    compared = Choice("Compare", {"usual": "erf, softmax, linear", "all": "every predictor"})
    sources = {"digits": "digits", "text": "sentences", "drawn": "drawn", "upload": "yours"}
    losses = {"auto": "whatever predicts best", "mixture": "the location"}
    losses["attention"] = "the average"
    bag = Number("Bag to look at", 1, 200, whole=True, hint="of those held out")
    upload = Number("Number of the upload", 0, LARGEST_SEED, whole=True)
    return [
        Knob("against", Choice("Against", axes), "inverse_temperature", "Show", ("risk",)),
        Knob("tuning", tuning, "best", "Show", ("risk", "posterior")),
        Knob("compared", compared, "usual", "Show", ("risk",)),
        Knob("data", Choice("Which", sources), "digits", "Bags", ("bags",)),
        Knob("upload", upload, 0, "Bags", ("bags",)),
        Knob("loss", Choice("Fit for", losses), "auto", "Bags", ("bags",)),
        Knob("bag", bag, 1, "Bags", ("bags",)),
    ]


def _attention_knobs() -> list[Knob]:
    rule = Choice(
        "Softmax bandwidth", {"fixed": "as chosen", "shrinking": "shrinking with L"}
    )
    bandwidth = Number("Bandwidth h", 0.1, 4.0, log=True, hint="softmax scores are q·k/h")
    predictor = Choice("Predictor", predictor_labels())
    scores = "lambda, which multiplies the scores"
    inverse_temperature = Number("Inverse temperature", 1e-3, 1e2, log=True, hint=scores)
    rate = "rate r of lambda/(1 + r t); 0 keeps it constant"
    decay = Number("Inverse temperature decay", 0.0, 1e-2, hint=rate)
    ridge = Number("CME ridge", 0.01, 10.0, log=True)
    fits = {"none": "none", "softmax": "softmax", "linear": "linear", "both": "both"}
    penalty = Number("Ridge of the fits", 0.05, 5.0, log=True, hint="on key and value")
    return [
        Knob("rule", rule, "fixed", "Attention", ("convergence",)),
        Knob("bandwidth", bandwidth, 0.25, "Attention", ("convergence",)),
        Knob("ridge", ridge, 0.25, "Attention", ("convergence",)),
        Knob("fits", Choice("Fits beside it", fits), "none", "Fits", ("samples",)),
        Knob("penalty", penalty, 0.5, "Fits", ("samples",)),
        Knob("predictor", predictor, "erf", "Predictor", _TRAINING_VIEWS),
        Knob("inverse_temperature", inverse_temperature, 0.1, "Predictor", _TASK_VIEWS),
        Knob("decay", decay, 0.0, "Predictor", ("training",)),
    ]


def _task_knobs() -> list[Knob]:
    planted = Choice(
        "Which", {word: entry.label for word, entry in TASKS.items() if entry.planted}
    )
    keys = Number("Key dimension d", 2, 8, whole=True, hint="keys on the unit sphere")
    dim = Number("Dimension d", 2, 1e6, log=True, whole=True)
    length = Number("Tokens L", 2, 1000, log=True, whole=True)
    gamma2 = Number(
        "Variance gamma²", 0.05, 2.0, hint="of the informative token around its mean"
    )
    signal = Number("Length of the mean", 0.0, 100.0, hint="none is sqrt(d/2)", optional=True)
    spike = Number("Strength", 0.05, 50.0, log=True, hint="squared length of the mean")
    noise = Number("Label noise", 0.0, 1.0, hint="standard deviation")
    # an excess risk does not depend on the noise
    noisy = ("landscape", "training", "posterior", "convergence", "samples")
    noises = {"convergence": 0.5, "samples": 0.3}
    # at d = 400 the informative token is beyond doubt, and there is nothing to see
    seen = {"posterior": 20}
    return [
        Knob("task", planted, SINGLE_LOCATION, "Task", _PLANTED_VIEWS),
        Knob("keys", keys, 3, "Task", ("convergence",)),
        Knob("dim", dim, 400, "Task", _TASK_VIEWS, seen, "dim"),
        Knob(
            "length", length, 10, "Task", (*_TASK_VIEWS, "samples"), {"samples": 3}, "length"
        ),
        Knob("spike", spike, 5.0, "Task", ("samples",)),
        Knob("gamma2", gamma2, 0.5, "Task", _TASK_VIEWS, argument="gamma2"),
        Knob("signal", signal, None, "Task", _PLANTED_VIEWS, argument="signal"),
        Knob("noise", noise, 0.0, "Task", noisy, noises, "noise"),
    ]


def _training_knobs() -> list[Knob]:
    batch = Number(
        "Batch size", 0, 1000, whole=True, hint="0 is the population gradient, else SGD"
    )
    starts = {"sphere": "sphere", "manifold": "manifold", "moments": "moments"}
    start = Choice("Start", starts)
    swap = Choice("Swap move", {"off": "off", "on": "exchange settled roles"})
    limit = "auto follows the stability limit"
    step_size = Number(
        "Step size", 1e-8, 10.0, log=True, hint=limit, optional=True, absent="auto"
    )
    seed = Number("Seed", 0, LARGEST_SEED, whole=True)
    steps = Number("Steps", 10, 200_000, log=True, whole=True)
    return [
        Knob("batch", batch, 0, "Training", ("training",)),
        Knob("start", start, "sphere", "Training", _TRAINING_VIEWS),
        Knob("runs", Number("Runs", 1, 50, whole=True), 30, "Training", _TRAINING_VIEWS),
        Knob("steps", steps, 20_000, "Training", _TRAINING_VIEWS),
        Knob("step_size", step_size, None, "Training", _TRAINING_VIEWS),
        Knob("swap_move", swap, "off", "Training", _TRAINING_VIEWS),
        Knob("seed", seed, 0, "Draw", _RANDOM_VIEWS, {"posterior": 1}, "seed"),
    ]


def _axis_knobs() -> list[Knob]:
    stars = {"kappa": "k·k*", "eta": "k·v*", "theta": "v·k*", "nu": "v·v*", "rho": "k·v"}
    overlap = {name: Number(f"{name} = {text}", -1.0, 1.0) for name, text in stars.items()}
    return [
        Knob("x", Choice("Horizontal axis", _AXIS_LABELS), "kappa", "Axes", ("landscape",)),
        Knob("y", Choice("Vertical axis", _AXIS_LABELS), "nu", "Axes", ("landscape",)),
        *(Knob(name, overlap[name], 0.0, "Axes", ("landscape",)) for name in OVERLAPS),
    ]


def predictor_labels() -> dict[str, str]:
    """The catalogue's predictors, and the page's own: the best activation of a task."""
    return {word: entry.label for word, entry in PREDICTORS.items()} | {
        "sigma": "optimal sigma"
    }


# -- arguments of tasks ----------------------------------------------------------------------------


def _field(a: Argument) -> Field:
    """The field of an argument, in a range that a slider can serve."""
    if a.options:
        return Choice(a.label, {word: word for word in a.options})
    if a.many:
        return Numbers(a.label, a)
    far = RANGE_FACTOR * max(1.0, abs(a.default or 0.0))
    low = max(a.low, -far)
    high = min(a.high, far)
    hint = "none leaves it out" if a.default is None else ""
    return Number(
        a.label, low, high, a.log and low > 0, a.whole, hint, optional=a.default is None
    )


def _same_kind(one: Field, other: Field) -> bool:
    def kind(field: Field) -> tuple[Any, ...]:
        return (
            type(field),
            getattr(field, "whole", False),
            tuple(getattr(field, "options", ())),
        )

    return kind(one) == kind(other)


def _with_arguments(rows: list[Knob]) -> tuple[dict[str, Knob], dict[str, dict[str, str]]]:
    """The table with a knob for each argument of each planted task; task -> argument -> its knob's
    name.

    Arguments of one name and kind share a knob; one whose name is taken otherwise has a longer
    name.
    """
    table = {row.name: row for row in rows}
    names: dict[str, dict[str, str]] = {}
    for word, entry in TASKS.items():
        if entry.planted:
            names[word] = {a.name: _knob_name(table, entry, a) for a in entry.arguments}
    return table, names


def _knob_name(table: dict[str, Knob], entry: Entry, a: Argument) -> str:
    """The name of the knob of this argument, which is put into the table if it is new."""
    field = _field(a)
    for name in (a.name, f"task_{a.name}", f"{entry.word}_{a.name}"):
        if name not in table:
            default = tuple(a.default) if a.many else a.default
            table[name] = Knob(name, field, default, "Task", _PLANTED_VIEWS, argument=a.name)
        if table[name].argument == a.name and _same_kind(table[name].field, field):
            return name
    raise AssertionError(f"the page has no name for the argument {a.name} of {entry.word}")


@lru_cache(maxsize=4)  # one, as long as nobody adds to the catalogue
def _cached_table(key: tuple[int, ...]) -> tuple[Any, ...]:
    # so that no other row gets one of these ids
    held_on = (*TASKS.values(), *PREDICTORS.values())
    table, names = _with_arguments(
        [
            *_view_knobs(),
            *_attention_knobs(),
            *_task_knobs(),
            *_axis_knobs(),
            *_training_knobs(),
        ]
    )
    return table, names, held_on


def _current_table() -> tuple[Any, ...]:
    return _cached_table(
        tuple(id(entry) for entry in (*TASKS.values(), *PREDICTORS.values()))
    )


def knobs() -> dict[str, Knob]:
    """The table, by name."""
    return _current_table()[0]


def arguments_of(word: str) -> dict[str, str]:
    """Argument -> name of its knob, of a planted task."""
    return _current_table()[1][word]


def unused_knobs(view: str, task: str) -> frozenset[str]:
    """Knobs of arguments that this task does not have."""
    if task not in _current_table()[1]:
        return frozenset()
    own = set(arguments_of(task).values())
    here = {name for name, row in knobs().items() if view in row.views and row.argument}
    return frozenset(here - own)


# -- what is read off the table --------------------------------------------------------------------


class Derived(Mapping[str, Any]):
    """A dictionary computed from the current table, and again when the table changes."""

    def __init__(self, read: Callable[[dict[str, Knob]], dict[str, Any]]) -> None:
        self._read = read
        self._last: tuple[Any, dict[str, Any]] = (None, {})

    def _current_table(self) -> dict[str, Any]:
        table = knobs()
        last = self._last  # one look: other threads read too
        if last[0] is not table:
            last = self._last = (table, self._read(table))
        return last[1]

    def __getitem__(self, name: str) -> Any:
        return self._current_table()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current_table())

    def __len__(self) -> int:
        return len(self._current_table())


def _fields(table: dict[str, Knob]) -> dict[str, Any]:
    return {name: row.field for name, row in table.items()}


def _views(table: dict[str, Knob]) -> dict[str, Any]:
    return {
        view: tuple(name for name, row in table.items() if view in row.views)
        for view in _ALL_VIEWS
    }


def _groups(table: dict[str, Knob]) -> dict[str, Any]:
    groups: dict[str, tuple[str, ...]] = {}
    for name, row in table.items():
        groups[row.group] = (*groups.get(row.group, ()), name)
    return groups


def _defaults(table: dict[str, Knob]) -> dict[str, Any]:
    def of(view: str) -> dict[str, Any]:
        return {name: row.defaults.get(view, row.default) for name, row in table.items()}

    return {view: of(view) for view in _ALL_VIEWS}


FIELDS = Derived(_fields)
VIEWS = Derived(_views)
GROUPS = Derived(_groups)
DEFAULTS = Derived(_defaults)
