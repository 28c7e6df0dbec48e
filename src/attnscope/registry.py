"""What there is, in words: tasks and predictors with labels, colours, costs and arguments.

One list, read by the command line, studies, the explorer and saved files; a word here is a word
everywhere. An entry names its class by address, so that reading the list loads nothing. `add` puts
in a row from outside: with its class (and, if it has an exact risk, a route in theory/route.py) a
new task or predictor is a full citizen.

Flat arguments are what people type: numbers, words and short lists. `gamma2` is gamma^2, as in the
papers' plots; a signal of None is sqrt(dim/2). Where a class takes something else (a task inside a
task, a matrix), `build` makes the object from flat arguments (tasks/flat.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attnscope.deprecated import module_attribute, new_entry, new_name
from attnscope.errors import AttnscopeError, bad
from attnscope.registry_entry import Argument, Entry

__all__ = [
    "PREDICTORS",
    "TASKS",
    "Argument",
    "Entry",
    "add",
    "find",
    "make",
    "named",
    "remove",
    "word_of",
]


# -- arguments that several entries share ----------------------------------------------------------

DIM = Argument("dim", "Dimension d", 400, 2, 1e15, whole=True, log=True)
LENGTH = Argument("length", "Tokens L", 10, 1, 1e12, whole=True, log=True)
GAMMA2 = Argument("gamma2", "Variance gamma^2", 0.5, 1e-50, 1e50, log=True)
NOISE = Argument("noise", "Label noise", 0.0, 0, 1e50)
SIGNAL = Argument("signal", "Length of the mean", None, 0, 1e50)
SEED = Argument("seed", "Seed of the directions", 0, 0, 2**63 - 1, whole=True)
INVERSE_TEMPERATURE = Argument(
    "inverse_temperature", "Inverse temperature", 0.1, 0, 1e50, log=True
)
REST = (GAMMA2, NOISE, SIGNAL, SEED)  # of most planted tasks
DIM_KEY = Argument("dim_key", "Key dimension", 3, 1, 1e4, whole=True)
MAP = (  # of tasks with a hidden linear map
    Argument("dim_value", "Value dimension", 1, 1, 1e4, whole=True),
    Argument("prior_variance", "Prior variance", 1.0, 1e-50, 1e50),
    replace(NOISE, default=0.5, low=1e-50),
)
FLAT_MODULE = "attnscope.tasks.flat"
ATTENTION_MODULE = "attnscope.predictors.attention"

PREDICTORS: dict[str, Entry] = {
    entry.word: entry
    for entry in (
        Entry("erf", f"{ATTENTION_MODULE}:Erf", "erf", (INVERSE_TEMPERATURE,), "closed", 0),
        Entry(
            "softmax",
            f"{ATTENTION_MODULE}:Softmax",
            "softmax",
            (INVERSE_TEMPERATURE,),
            "quadrature",
            1,
        ),
        Entry(
            "linear",
            f"{ATTENTION_MODULE}:LinearAttention",
            "linear",
            (INVERSE_TEMPERATURE, Argument("offset", "Offset", 0.0)),
            "closed",
            2,
        ),
        Entry(
            "softmax-one",
            f"{ATTENTION_MODULE}:SoftmaxOne",
            "softmax with a sink",
            (INVERSE_TEMPERATURE,),
            "quadrature",
            3,
        ),
        Entry(
            "softplus",
            f"{ATTENTION_MODULE}:SoftplusAttention",
            "softplus",
            (INVERSE_TEMPERATURE,),
            "quadrature",
            4,
        ),
    )
}

TASKS: dict[str, Entry] = {
    entry.word: entry
    for entry in (
        Entry(
            "single-location",
            "attnscope.tasks.planted.single_location:SingleLocation",
            "one token decides",
            (DIM, LENGTH, *REST),
            build=f"{FLAT_MODULE}:single_location",
        ),
        Entry(
            "grid-location",
            "attnscope.tasks.planted.grid_location:GridLocation",
            "one cell of a grid decides",
            (
                Argument("rows", "Rows", 3, 1, 1e6, whole=True),
                Argument("columns", "Columns", 3, 1, 1e6, whole=True),
                DIM,
                *REST,
            ),
            build=f"{FLAT_MODULE}:grid_location",
        ),
        Entry(
            "multi-location",
            "attnscope.tasks.planted.multi_location:MultiLocation",
            "several tokens decide",
            (
                DIM,
                LENGTH,
                Argument("relevant", "Informative tokens", 2, 1, 1e6, whole=True),
                Argument(
                    "weights", "Weights", "equal", options=("equal", "sum", "dirichlet")
                ),
                *REST,
            ),
            "sampled",
            build=f"{FLAT_MODULE}:multi_location",
        ),
        Entry(
            "max-location",
            "attnscope.tasks.planted.max_location:MaxLocation",
            "the largest score decides",
            (DIM, LENGTH, Argument("strength", "Strength", 5.0, 0, 1e6), NOISE, SEED),
            "sampled",
        ),
        Entry(
            "random-length",
            "attnscope.tasks.planted.random_length:RandomLength",
            "sequences of random length",
            (
                DIM,
                Argument("lengths", "Lengths", (5, 15), 1, 1e9, whole=True, many=True),
                *REST,
            ),
            build=f"{FLAT_MODULE}:random_length",
        ),
        Entry(
            "correlated-background",
            "attnscope.tasks.planted.correlated_background:CorrelatedBackground",
            "a background with covariance",
            (
                replace(DIM, default=20, high=10_000),
                LENGTH,
                Argument("decay", "Token variances i^-decay", 1.0, 0, 10),
                Argument(
                    "degrees_of_freedom", "Student-t degrees of freedom", None, 2.01, 1e9
                ),
                *REST,
            ),
            build=f"{FLAT_MODULE}:correlated_background",
        ),
        Entry(
            "multi-direction",
            "attnscope.tasks.planted.multi_direction:MultiDirection",
            "several key and value directions",
            (
                DIM,
                LENGTH,
                Argument("directions", "Directions", 2, 1, 6, whole=True),
                Argument(
                    "positions", "Positions", "distinct", options=("distinct", "independent")
                ),
                *REST,
            ),
            "sampled",
            build=f"{FLAT_MODULE}:multi_direction",
        ),
        Entry(
            "spike-mixture",
            "attnscope.tasks.planted.spike_mixture:SpikeMixture",
            "one of several spikes",
            (
                replace(DIM, default=20, high=1e6),
                LENGTH,
                Argument("strengths", "Lengths of the spikes", (3.0, 3.0), 0, 1e6, many=True),
                replace(GAMMA2, default=1.0),
                NOISE,
                SEED,
            ),
            "sampled",
            build=f"{FLAT_MODULE}:spike_mixture",
        ),
        Entry(
            "sparse-tokens",
            "attnscope.tasks.planted.sparse_tokens:SparseTokenClassification",
            "is any token shifted?",
            (
                DIM,
                LENGTH,
                Argument("strength", "Strength", 5.0, 0, 1e6),
                Argument("marked", "Shifted tokens", 1, 1, 1e6, whole=True),
                SEED,
            ),
            "sampled",
        ),
        Entry(
            "linear-map",
            "attnscope.tasks.exchangeable.linear_map:LinearMap",
            "a hidden linear map",
            (
                DIM_KEY,
                *MAP,
            ),
            planted=False,
        ),
        Entry(
            "drifting-map",
            "attnscope.tasks.exchangeable.drifting_map:DriftingMap",
            "a hidden map that drifts",
            (
                replace(DIM_KEY, default=8),
                *MAP,
                Argument("decay", "Decay of the map", 0.99, 0, 1),
                Argument(
                    "keys",
                    "Law of the keys",
                    "sphere",
                    options=("normal", "sphere", "one-hot"),
                ),
            ),
            "sampled",
            planted=False,
        ),
        Entry(
            "gaussian-location",
            "attnscope.tasks.exchangeable.gaussian_location:GaussianLocation",
            "a hidden mean",
            (
                replace(DIM, default=3, low=1),
                Argument("prior_variance", "Prior variance", 1.0, 1e-50, 1e50),
                Argument("noise_variance", "Token variance", 0.25, 1e-50, 1e50),
            ),
            planted=False,
        ),
        Entry(
            "topics",
            "attnscope.tasks.exchangeable.topics:Topics",
            "a hidden topic",
            (
                Argument("prior", "Topic probabilities", (0.5, 0.5), 0, 1, many=True),
                Argument(
                    "emissions",
                    "Word probabilities, topic by topic",
                    (0.7, 0.3, 0.4, 0.6),
                    0,
                    1,
                    many=True,
                ),
            ),
            build=f"{FLAT_MODULE}:topics",
            planted=False,
        ),
        Entry(
            "topic-mixture",
            "attnscope.tasks.exchangeable.topic_mixture:TopicMixture",
            "a mixture of disjoint topics",
            (
                Argument("topics", "Topics", 4, 1, 1e7, whole=True),
                Argument("words", "Words of a topic", 5, 1, 1e7, whole=True),
                Argument("concentration", "Concentration", 0.3, 1e-50, 1e50, log=True),
            ),
            planted=False,
        ),
        Entry(
            "sphere-regression",
            "attnscope.tasks.exchangeable.sphere_regression:SphereRegression",
            "regression on the sphere",
            (
                replace(DIM, default=3, high=64),
                replace(NOISE, default=0.5, low=1e-50),
                Argument(
                    "degrees", "Degrees of the harmonics", (1,), 0, 64, whole=True, many=True
                ),
            ),
            planted=False,
        ),
        Entry(
            "sparse-retrieval",
            "attnscope.tasks.exchangeable.sparse_retrieval:SparseRetrieval",
            "a hidden coordinate",
            (
                Argument("features", "Coordinates", 16, 1, 1e15, whole=True, log=True),
                replace(NOISE, default=1.0, low=1e-50),
            ),
            planted=False,
        ),
        Entry(
            "order",
            "attnscope.tasks.exchangeable.positions:OrderTask",
            "the order of two symbols decides",
            (Argument("symbols", "Symbols", 4, 3, 1e6, whole=True), NOISE),
            planted=False,
        ),
    )
}


# shipped tasks that are no word of commands, because neither heads nor contexts are what they are
# about: what they are instead, and the functions that serve them
SERVED_ELSEWHERE = {
    "positional-semantic": (
        "a PositionalSemantic, whose student is one vector that weighs two tokens",
        "at.positional_loss, positional_minima, positional_phases or positional_sgd in Python "
        "(docs/positional_semantic.md)",
    )
}


def __getattr__(name: str) -> Any:
    return module_attribute(__name__, name)


def add(entry: Entry, table: dict[str, Entry]) -> Entry:
    """Put a row into TASKS or PREDICTORS; a word is taken once. A plugin's row is checked for what
    lists of all rows print.
    """
    if not isinstance(entry.label, str) or not all(
        isinstance(argument, Argument) for argument in entry.arguments
    ):
        raise AttnscopeError(
            f"row {entry.word!r} of {entry.origin or 'the registry'} must have a label in words and "
            "arguments that are Argument; try another version of its package."
        )
    if table is PREDICTORS and new_entry(a.name for a in entry.arguments):
        arguments = tuple(replace(a, name=new_name(a.name)) for a in entry.arguments)
        entry = replace(entry, arguments=arguments)
    if entry.word in table:
        raise AttnscopeError(
            f"word of a catalogue row must be new, got {entry.word!r}, which is taken; try another."
        )
    table[entry.word] = entry
    return entry


def remove(word: str, table: dict[str, Entry]) -> None:
    """Take a row out again."""
    table.pop(word, None)


def find(word: object, table: Mapping[str, Entry], of: str, what: str) -> Entry:
    """The row of a word, or one sentence with the words there are, or with what serves it instead.
    An underscore serves for a hyphen.
    """
    spelled = str(word).replace("_", "-")
    if spelled in SERVED_ELSEWHERE and spelled not in table and table is TASKS:
        kind, sibling = SERVED_ELSEWHERE[spelled]
        raise bad(what, of, "a task with heads or contexts", kind, sibling)
    if spelled not in table:
        raise bad(what, of, "one of " + ", ".join(table), str(word))
    return table[spelled]


def make(
    word: object, table: Mapping[str, Entry], values: Mapping[str, object], of: str, what: str
) -> Any:
    """The object of a word, from flat arguments."""
    return find(word, table, of, what).make(values, of)


def _by_class() -> dict[str, Entry]:
    """Rows by the name of their class, which is read off its address where it is not loaded."""
    rows = [*TASKS.values(), *PREDICTORS.values()]
    return {
        (row.home.rpartition(":")[2] if isinstance(row.home, str) else row.home.__name__): row
        for row in rows
    }


def named(name: str) -> type | None:
    """The class of this name among all rows, for files that store it."""
    row = _by_class().get(name)
    return None if row is None else row.kind


def word_of(thing: object) -> str | None:
    """The word of an object's most special listed class."""
    rows = _by_class()
    return next(
        (rows[kind.__name__].word for kind in type(thing).__mro__ if kind.__name__ in rows),
        None,
    )
