"""The lines of Python behind a figure. The page runs these very lines and draws what they compute, so what "copy as Python" gives is
what is shown, by construction. Everything inserted into them is a validated number or a word of a fixed list, written by repr."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from attnscope.explorer.state import State

__all__ = ["computed", "log_every", "predictor_lines", "task_line", "training_limits"]

HEADER = "import numpy as np\n\nimport attnscope as at\n"
FAMILY = {"erf": "at.Erf", "softmax": "at.Softmax", "linear": "at.LinearAttention"}
# Steps (of all runs together, for those whose steps cost about a millisecond each) that keep an answer within a second or two
MOST_STEPS = {"erf": 200_000, "linear": 4_000}
MOST_RUN_STEPS = {"softmax": 600, "sigma": 600}


def task_line(state: State, **changed: str) -> str:
    """task = at.SingleLocation(...); `changed` replaces an argument by an expression."""
    arguments = {
        "dim": repr(state.dim),
        "length": repr(state.length),
        "gamma": f"{state.gamma2!r}**0.5",
        "noise": repr(state.noise),
    } | changed
    return f"at.SingleLocation({', '.join(f'{name}={text}' for name, text in arguments.items())})"


def predictor_lines(state: State) -> str:
    """predictor = ..., at the state's temperature or schedule."""
    if state.predictor == "sigma":
        return "predictor = at.optimal_sigma(task)"
    schedule = (
        f"at.InverseTime({state.temperature!r}, rate={state.decay!r})" if state.decay else repr(state.temperature)
    )
    return f"predictor = {FAMILY[state.predictor]}({schedule})"


def training_limits(state: State) -> tuple[int, int, str]:
    """(runs, steps, sentence): what is trained, and what to say if that is less than asked for."""
    if state.predictor in MOST_STEPS:
        runs, steps = state.runs, min(state.steps, MOST_STEPS[state.predictor])
    else:
        runs = min(state.runs, 6)  # enough to see paths part; the rest of the budget goes into steps
        steps = min(state.steps, MOST_RUN_STEPS[state.predictor] // runs)
    if (runs, steps) == (state.runs, state.steps):
        return runs, steps, ""
    return runs, steps, f"Exact steps of this predictor are slow: {runs} runs of {steps} steps instead. "


def log_every(total: int, logs: int) -> int:
    """Steps between two of about `logs` log points."""
    return max(1, total // logs)


def train_lines(state: State, logs: int, runs: int, steps: int, total: int | None = None) -> str:
    """run = at.train(...) for `steps` steps, logged as if about `logs` times over `total`."""
    every = min(steps, log_every(total or steps, logs))
    batch = f", batch_size={state.batch}" if state.batch else ""
    return (
        f'run = at.train(task, predictor, start="{state.start}", runs={runs}, steps={steps}, step_size={state.step_size!r},\n'
        f"               log_every={every}, seed={state.seed}{batch}, progress=False)"
    )


def computed(lines: str, **given: Any) -> dict[str, Any]:
    """The names that the lines define, functions aside; `given` are names they may use.

    A function holds on to the names around it, and they to it: such a circle of large arrays would wait for the garbage collector, so
    the lines' own namespace is emptied.
    """
    names: dict[str, Any] = {"__name__": "attnscope_explorer_lines", **given}
    exec(compile(lines, "<copy as Python>", "exec"), names)
    found = {name: x for name, x in names.items() if not (name.startswith("__") or isinstance(x, FunctionType))}
    names.clear()
    return found
