"""Training that is shown while it runs: each call goes on for a fraction of a second from where the
last one stopped.

How many steps that is, is measured: the first piece is one step, and each piece is sized by the
pace of the one before. Engines give the same bits however the steps are divided, so what is shown
after s steps is what `at.train(..., steps=s)` gives. The last few runs are kept; one that has been
dropped starts again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attnscope.dynamics.engines.engine import Engine
from attnscope.dynamics.engines.engine_table import engine_for
from attnscope.dynamics.loop import advance
from attnscope.dynamics.overlap_runs import exact_excess
from attnscope.dynamics.trajectory import Trajectory
from attnscope.errors import bad
from attnscope_explorer.knobs import SINGLE_LOCATION
from attnscope_explorer.python_lines import (
    computed,
    cost,
    log_every,
    predictor_lines,
    prepared,
    registry_import,
    state_task,
    task_line,
    train_lines,
)
from attnscope_explorer.stable_steps import limit_lines, step_line
from attnscope_explorer.state import State

__all__ = ["LOG_POINTS", "advanced_run", "current_run", "run_lines", "total_steps"]

LOG_POINTS = 100  # frames to play: at 10 a second, ten seconds
PIECE_SECONDS = (
    # seconds per call: short enough to follow and to stop, long enough that drawing does not take
    # most of the time
    0.4
)
# most by which a piece is longer than the one before: a first one, compiled on the way, says little
PIECE_GROWTH = 8
# Most steps, by what one costs: of 30 runs some 20 ms, so a minute or two
MOST_STEPS_BY_COST = {"quadrature": 2000, "sampled": 2000}
PREPARED_STEPS = (
    20_000  # where the gradient was found once for all: a step of 30 runs takes half a ms
)
# Most tokens of one step (batch x tokens x runs), which cannot be divided: 20 ns each where the
# loop is compiled for it, else up to 30 us and 5 kB (measured on a busy machine with 10^6 of them)
MOST_STEP_TOKENS = {"compiled": 5_000_000}
MOST_STEP_TOKENS_ELSE = 100_000
KEPT_RUNS = 12  # runs: 50 of 101 log points are 250 kB


class RunInProgress(NamedTuple):
    """A run on its way, the engine that goes on with it, and its pace in steps per second."""

    run: Trajectory
    engine: Engine
    pace: float


_runs: OrderedDict[State, RunInProgress] = OrderedDict()
_lock = threading.Lock()  # computations that were set aside go on in threads of their own


def total_steps(state: State) -> int:
    """The state's steps, or as many as one can wait for."""
    if not state.batch and prepared(state):
        return min(state.steps, PREPARED_STEPS)
    return min(state.steps, MOST_STEPS_BY_COST.get(_step_cost(state), state.steps))


def _step_cost(state: State) -> str:
    """What a step costs: only single-location regression has compiled loops and closed forms for
    all overlaps.
    """
    return cost(state.predictor) if state.task == SINGLE_LOCATION else "sampled"


def run_lines(state: State, steps: int) -> str:
    """The lines that train the first `steps` of the state's steps."""
    task = task_line(state)
    predictor = predictor_lines(state)
    follows, found = limit_lines(state)
    return f"""import attnscope as at
{registry_import(task, predictor)}{follows}
task = {task}
{predictor}
{found}{step_line(state)}
{train_lines(state, LOG_POINTS, state.runs, steps, total_steps(state))}
"""


def advanced_run(state: State) -> Trajectory:
    """The state's training, further by one call's worth (on a machine that stalls, by a step at
    least) or finished.
    """
    total = total_steps(state)
    end = time.perf_counter() + PIECE_SECONDS
    kept = _stored_run(state)
    if kept is None:
        kept = _first_step(state, total)
        steps = 1
    else:
        # half of what fits, to measure the pace anew
        steps = max(1, int(kept.pace * PIECE_SECONDS / 2))
        kept = _run_with_pace(kept, steps, total)
    while kept.run.step[-1] < total and (left := end - time.perf_counter()) > 0:
        steps = max(1, min(int(kept.pace * left), PIECE_GROWTH * steps))
        kept = _run_with_pace(kept, steps, total)
    _store_run(state, kept)
    return kept.run


def current_run(state: State) -> Trajectory | None:
    """The state's training up to now, if it is kept."""
    kept = _stored_run(state)
    return None if kept is None else kept.run


def _stored_run(state: State) -> RunInProgress | None:
    with _lock:
        return _runs.get(state)


def _store_run(state: State, kept: RunInProgress) -> None:
    with _lock:
        _runs[state] = kept
        _runs.move_to_end(state)
        while len(_runs) > KEPT_RUNS:
            _runs.popitem(last=False)


def _first_step(state: State, total: int) -> RunInProgress:
    """The first step, and the engine that goes on: compiled once."""
    task = state_task(state)
    if len(task.teacher_gram) > 2:
        must = "one with one key and one value: five overlaps do not describe a head on the others"
        raise bad("the task", "the training view", must, state.task, "attnscope train")
    tokens = state.batch * task.length * state.runs
    most = MOST_STEP_TOKENS.get(_step_cost(state), MOST_STEP_TOKENS_ELSE)
    if tokens > most:
        must = (
            f"at most {most:,} tokens in one step for this predictor (batch x tokens x runs)"
        )
        raise bad(
            "the batch", "training", must, f"{tokens:,}", "fewer runs or a smaller batch"
        )
    start = time.perf_counter()
    run = computed(run_lines(state, 1))["run"]
    run = replace(run, setup=replace(run.setup, log_every=log_every(total, LOG_POINTS)))
    return RunInProgress(run, engine_for(run.setup), 1 / _seconds_since(start))


def _run_with_pace(kept: RunInProgress, steps: int, total: int) -> RunInProgress:
    """The run further by `steps`, not beyond `total`, with the pace of these steps."""
    steps = min(steps, total - int(kept.run.step[-1]))
    if steps == 0:
        return kept
    start = time.perf_counter()
    run = _extended_run(kept.run, kept.engine, steps)
    return RunInProgress(run, kept.engine, steps / _seconds_since(start))


def _seconds_since(start: float) -> float:
    # seconds: a clock may stand still for so long
    return max(time.perf_counter() - start, 1e-6)


def _extended_run(run: Trajectory, engine: Engine, steps: int) -> Trajectory:
    """run.extend(steps) that keeps the engine and the exact risks already known:
    for softmax each takes a millisecond.
    """
    new = advance(run, engine, int(run.step[-1]) + steps, show=False)
    same = int(np.sum(run.step[: len(new.step)] == new.step[: len(run.step)]))
    part = exact_excess(
        new.setup.task,
        new.setup.predictor,
        new.log[:, :, same:],
        new.inverse_temperature[same:],
    )
    # where its cached property looks first
    vars(new)["excess"] = np.hstack([run.excess[:, :same], part])
    return new
