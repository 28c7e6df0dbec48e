"""The lines of Python behind a figure. The page runs these very lines and draws what they compute,
so what "copy as Python" gives is what is shown, by construction. Everything inserted into them is a
validated number or a word of a fixed list, written by repr.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from attnscope.registry import PREDICTORS, TASKS
from attnscope_explorer.knobs import SINGLE_LOCATION, arguments_of
from attnscope_explorer.state import State

__all__ = [
    "HEADER",
    "compared",
    "computed",
    "cost",
    "families",
    "family",
    "log_every",
    "population_cost",
    "predictor_lines",
    "prepared",
    "registry_import",
    "state_task",
    "task_line",
    "train_lines",
    "training_limits",
]

HEADER = "import numpy as np\n\nimport attnscope as at\n"
# The paper's predictors, whose best inverse temperatures are found in a fraction of a second
PAPER_PREDICTORS = ("erf", "softmax", "linear")
# Most steps of a landscape's paths that keep an answer within a second or two, by what a step costs
MOST_PATH_STEPS = {"compiled": 200_000, "closed": 4_000}
MOST_PREPARED_PATH_STEPS = (
    20_000  # of all runs together, where a step takes ten to twenty microseconds a run
)
MOST_SLOW_PATH_STEPS = (
    600  # of all runs together, where a step takes about a millisecond a run
)


def cost(predictor: str) -> str:
    """What an exact step of training costs: "compiled" (a loop of its own),
    or the catalogue's word.
    """
    from attnscope.dynamics.engines.engine_table import COMPILED

    if predictor not in PREDICTORS:
        return "quadrature"  # the page's own: optimal sigma
    entry = PREDICTORS[predictor]
    return "compiled" if entry.kind in COMPILED else entry.cost


def population_cost(predictor: str) -> str:
    """The same of a step along the population gradient."""
    from attnscope.dynamics.engines.engine_table import COMPILED_POPULATION

    known = predictor in PREDICTORS and PREDICTORS[predictor].kind in COMPILED_POPULATION
    return "compiled" if known else cost(predictor)


def prepared(state: State) -> bool:
    """Whether the population gradient is found once for all overlaps (softmax_profile.py)."""
    if state.predictor != "softmax" or state.task != SINGLE_LOCATION or state.decay:
        return False
    from attnscope.theory.law import Law
    from attnscope.theory.risks.softmax_profile import has_profile

    return has_profile(Law.of(state_task(state)))


def registry_import(*texts: str) -> str:
    """The line that imports the tables of the catalogue that these lines use, if any."""
    names = [
        name for name in ("PREDICTORS", "TASKS") if any(f"{name}[" in text for text in texts)
    ]
    return f"from attnscope.registry import {', '.join(names)}\n" if names else ""


def task_line(state: State, **changed: str) -> str:
    """The task as an expression; `changed` replaces an argument by an expression."""
    texts = {
        name: repr(value)
        for name, value in _argument_values(state).items()
        if value is not None
    } | changed
    if state.task != SINGLE_LOCATION:
        inside = ", ".join(f"{name!r}: {text}" for name, text in texts.items())
        return f"TASKS[{state.task!r}].make({{{inside}}})"
    texts["gamma"] = f"{texts.pop('gamma2')}**0.5"
    names = [name for name in ("dim", "length", "gamma", "noise", "signal") if name in texts]
    return f"at.SingleLocation({', '.join(f'{name}={texts[name]}' for name in names)})"


def _argument_values(state: State) -> dict[str, Any]:
    """The task's arguments by name, as the knobs are set."""
    return {name: getattr(state, knob) for name, knob in arguments_of(state.task).items()}


def family(word: str) -> str:
    """The class of a predictor as an expression, called with an inverse temperature or a schedule."""
    import attnscope as at

    kind = PREDICTORS[word].kind
    name = kind.__name__
    return f"at.{name}" if getattr(at, name, None) is kind else f"PREDICTORS[{word!r}].kind"


def state_task(state: State) -> Any:
    """The state's task."""
    return TASKS[state.task].make(_argument_values(state), "this page")


def compared(state: State) -> tuple[str, ...]:
    """The predictors drawn beside each other: the usual ones, or all of the catalogue."""
    return tuple(PREDICTORS) if state.compared == "all" else PAPER_PREDICTORS


def families(words: Iterable[str]) -> str:
    """{label: class} as an expression."""
    return (
        "{" + ", ".join(f"{PREDICTORS[word].label!r}: {family(word)}" for word in words) + "}"
    )


def predictor_lines(state: State) -> str:
    """predictor = ..., at the state's inverse temperature or schedule."""
    if state.predictor == "sigma":
        return "predictor = at.optimal_sigma(task)"
    schedule = (
        f"at.InverseTime({state.inverse_temperature!r}, rate={state.decay!r})"
        if state.decay
        else repr(state.inverse_temperature)
    )
    return f"predictor = {family(state.predictor)}({schedule})"


def training_limits(state: State) -> tuple[int, int, str]:
    """(runs, steps, sentence): what is trained, and what to say if that is less than asked for."""
    most = MOST_PATH_STEPS.get(population_cost(state.predictor))
    if prepared(state):
        most = max(1, MOST_PREPARED_PATH_STEPS // state.runs)
    if most is not None:
        runs = state.runs
        steps = min(state.steps, most)
    else:
        # enough to see paths part; the rest of the budget goes into steps
        runs = min(state.runs, 6)
        steps = min(state.steps, MOST_SLOW_PATH_STEPS // runs)
    if (runs, steps) == (state.runs, state.steps):
        return runs, steps, ""
    return (
        runs,
        steps,
        f"Exact steps of this predictor are slow: {runs} runs of {steps} steps instead. ",
    )


def log_every(total: int, logs: int) -> int:
    """Steps between two of about `logs` log points."""
    return max(1, total // logs)


def train_lines(
    state: State, logs: int, runs: int, steps: int, total: int | None = None
) -> str:
    """run = at.train(...) for `steps` steps of `step_size`, logged as if about `logs` times over
    `total`.
    """
    every = min(steps, log_every(total or steps, logs))
    batch = f", batch_size={state.batch}" if state.batch else ""
    swap = ", swap_move=True" if state.swap_move == "on" else ""
    return (
        f'run = at.train(task, predictor, start="{state.start}", runs={runs}, steps={steps}, step_size=step_size,\n'
        f"               log_every={every}, seed={state.seed}{batch}{swap}, progress=False)"
    )


def computed(lines: str, **given: Any) -> dict[str, Any]:
    """The names that the lines define, functions aside; `given` are names they may use.

    A function holds on to the names around it, and they to it: such a circle of large arrays would
    wait for the garbage collector, so the lines' own namespace is emptied.
    """
    names: dict[str, Any] = {"__name__": "attnscope_explorer_lines", **given}
    exec(compile(lines, "<copy as Python>", "exec"), names)
    found = {
        name: x
        for name, x in names.items()
        if not (name.startswith("__") or isinstance(x, FunctionType))
    }
    names.clear()
    return found
