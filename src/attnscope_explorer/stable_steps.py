"""How a view steers itself: the step size follows the stability limit, and what a reader should
know or try next is said in a sentence with buttons that turn the knobs.

The limit is that of theory/optima/stable_step.py, for tasks whose landscape is derived. A step size
that was chosen is used unchanged; where none was, it is PAPER_STEP_SIZE below the limit and half the limit
beyond, where a step lands on the minimum along the stiffest direction instead of leaping over it.
Under a schedule the first inverse temperature decides: of those used it is the highest, and
curvature grows with it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from attnscope.dynamics.trajectory import Trajectory
from attnscope_explorer.knobs import SINGLE_LOCATION
from attnscope_explorer.python_lines import (
    computed,
    cost,
    population_cost,
    predictor_lines,
    registry_import,
    task_line,
)
from attnscope_explorer.state import FIELDS, State
from attnscope_explorer.view_result import Advice, number

__all__ = [
    "PAPER_STEP_SIZE",
    "STABLE_STEP_IMPORT",
    "limit_line",
    "limit_lines",
    "limit_of",
    "step_advice",
    "step_line",
    "training_advice",
]

PAPER_STEP_SIZE = 4e-3  # the paper's step size
STEADY_OVERLAP = (
    0.05  # an overlap that moves by more in the last tenth of a run has not arrived
)
MORE_STEPS_FACTOR = 10  # times as many steps for runs that are still on their way


# a risk that nobody has differentiated exactly has no limit here
COSTS_WITH_LIMIT = ("compiled", "closed", "quadrature")
STABLE_STEP_IMPORT = "from attnscope.theory.optima.stable_step import stable_step\n"


def limit_line(points: str) -> str:
    """limit = ..., from stationary points."""
    return (
        f"limit = stable_step({points})  # 2 / the largest Hessian eigenvalue at the minima"
    )


def has_limit(state: State) -> bool:
    """Whether the landscape of the state's task and predictor is derived."""
    return state.task == SINGLE_LOCATION and cost(state.predictor) in COSTS_WITH_LIMIT


def step_line(state: State) -> str:
    """step_size = ..., which follows `limit` where there is one and nothing was chosen."""
    if state.step_size is not None:
        return f"step_size = {state.step_size!r}"
    if not has_limit(state):
        return f"step_size = {PAPER_STEP_SIZE!r}"
    return f'step_size = {PAPER_STEP_SIZE!r} if limit > {PAPER_STEP_SIZE!r} else float(f"{{limit / 2:.2g}}")'


def limit_lines(state: State) -> tuple[str, str]:
    """(import, lines that find the limit) where the step size follows it, else nothing."""
    if state.step_size is not None or not has_limit(state):
        return "", ""
    first = predictor_lines(state.changed(decay=0.0)).removeprefix("predictor = ")
    of = first if state.decay else "predictor"
    return STABLE_STEP_IMPORT, limit_line(f"at.stationary_points(task, {of})") + "\n"


@lru_cache(maxsize=64)  # a number each
def _computed_limit(lines: str) -> float:
    return float(computed(lines)["limit"])


def limit_of(state: State) -> float | None:
    """The limit of the state's setting, or None where nobody has derived one."""
    if not has_limit(state):
        return None
    task = task_line(state)
    predictor = predictor_lines(state.changed(decay=0.0))
    return _computed_limit(
        f"""import attnscope as at
{registry_import(predictor)}{STABLE_STEP_IMPORT}
task = {task}
{predictor}
{limit_line("at.stationary_points(task, predictor)")}
"""
    )


# -- sentences and buttons -------------------------------------------------------------------------


def training_advice(
    state: State,
    limit: float | None,
    run: Trajectory,
    most: int,
    plane: tuple[str, str] | None = None,
) -> list[Advice]:
    """About finished runs: the step size, runs with the roles swapped, and runs that need more steps,
    of which `most` are trained at once. `plane`: the overlaps that are drawn, where they can be
    chosen.
    """
    step = step_advice(state, limit, run.setup.step_size)
    advice = [*step, *swap_advice(state, run.outcome, plane)]
    if any(one.warn for one in step):
        return advice  # more unstable steps are no cure
    return [*advice, *unfinished_advice(state, run.log, run.outcome, most)]


def step_advice(state: State, limit: float | None, used: float) -> list[Advice]:
    """About the step size: a warning where the chosen one is unstable, and what was done where
    none was chosen.
    """
    if limit is None or (state.step_size is None and used == PAPER_STEP_SIZE):
        return []
    if state.step_size is None:
        said = (
            f"The step size follows the stability limit {number(limit)}, beyond which steps leap over "
            f"the minimum: it is {number(used)} here instead of {PAPER_STEP_SIZE:g}."
        )
        return [Advice(said)]
    if state.step_size <= limit:
        return []
    said = (
        f"The step size {number(state.step_size)} is unstable here: the limit is 2 over the "
        f"largest curvature at the minima, {number(limit)}. Paths leap to and fro instead of "
        "descending."
    )
    return [Advice(said, (("Use a stable step", {"step_size": "auto"}),), warn=True)]


def unfinished_advice(
    state: State, log: np.ndarray, outcome: np.ndarray, most: int
) -> list[Advice]:
    """A button for more steps where runs have no outcome yet and still move; `most` steps are
    trained at once.
    """
    late = log[:, outcome == "undecided"]
    if not late.shape[1]:
        return []
    before = max(0, int(0.9 * log.shape[2]) - 1)
    moving = np.abs(late[:, :, -1] - late[:, :, before]).max(axis=0) > STEADY_OVERLAP
    still = int(moving.sum()) or (late.shape[1] if _at_start(late) else 0)
    more = int(min(MORE_STEPS_FACTOR * state.steps, most, FIELDS["steps"].high))
    if not still or more <= state.steps:
        return []
    said = f"{still} of {log.shape[1]} runs are still on their way."
    return [Advice(said, ((f"Train {more:,} steps", {"steps": str(more)}),))]


def _at_start(late: np.ndarray) -> bool:
    """Whether these runs have hardly left the saddle at small overlaps."""
    return bool(np.abs(late[:, :, -1]).max() < 10 * max(1e-9, np.abs(late[:, :, 0]).max()))


def swap_advice(
    state: State, outcome: np.ndarray, plane: tuple[str, str] | None
) -> list[Advice]:
    """What to do about runs that end with the roles swapped; `plane`: the drawn overlaps."""
    swapped = int((outcome == "swapped").sum())
    if not swapped:
        return []
    buttons: list[tuple[str, dict[str, str]]] = []
    where = ""
    if plane is not None and set(plane) != {"eta", "theta"}:
        where = " Where they end is seen best over eta and theta."
        buttons.append(("Show the (eta, theta) plane", {"x": "eta", "y": "theta"}))
    elif plane is not None:
        buttons.append(("Back to (kappa, nu)", {"x": "kappa", "y": "nu"}))
    if state.start != "moments" and state.task == SINGLE_LOCATION:
        buttons.append(("Start from moments", {"start": "moments"}))
    if state.swap_move == "off" and population_cost(state.predictor) == "compiled":
        buttons.append(("Use the swap move", {"swap_move": "on"}))
    said = (
        f"{swapped} of {len(outcome)} runs end with the roles swapped: k along v*, v "
        f"along k*.{where}"
    )
    return [Advice(said, tuple(buttons))]
