"""Training that is shown while it runs: each call goes on for a fraction of a second from where the last one stopped.

Engines give the same bits however the steps are divided, so what is shown after s steps is what `at.train(..., steps=s)` gives. The last
few runs are kept; one that has been dropped starts again.
"""

from __future__ import annotations

import time
from collections import OrderedDict

import numpy as np

from attnscope.dynamics.trajectory import Trajectory, exact_excess
from attnscope.explorer.code import computed, predictor_lines, task_line, train_lines
from attnscope.explorer.state import State

__all__ = ["LOGS", "advanced", "current", "run_lines", "total_steps"]

LOGS = 100  # frames to play: at 10 a second, ten seconds
PIECE = (
    0.4  # seconds per call: short enough to follow and to stop, long enough that drawing does not take most of the time
)
SLOW = {"softmax": 2000, "sigma": 2000}  # most steps, where one of 30 runs takes some 20 ms: a minute or two
KEPT = 12  # runs: 50 of 101 log points are 250 kB

_runs: OrderedDict[State, Trajectory] = OrderedDict()


def total_steps(state: State) -> int:
    """The state's steps, or as many as one can wait for."""
    return min(state.steps, SLOW.get(state.predictor, state.steps))


def run_lines(state: State, steps: int) -> str:
    """The lines that train the first `steps` of the state's steps."""
    return f"""import attnscope as at

task = {task_line(state)}
{predictor_lines(state)}
{train_lines(state, LOGS, state.runs, steps, total_steps(state))}
"""


def advanced(state: State) -> Trajectory:
    """The state's training, further by one piece (on a machine that stalls, by a step at least) or finished."""
    end, total = time.perf_counter() + PIECE, total_steps(state)
    run, steps = current(state), max(1, total // LOGS)  # the first piece ends with the first logged step
    if run is None:
        run = computed(run_lines(state, steps))["run"]
    elif run.step[-1] < total:
        run, steps = _paced(run, steps, total, end)
    while run.step[-1] < total and time.perf_counter() < end:
        run, steps = _paced(run, steps, total, end)
    _runs[state] = run
    _runs.move_to_end(state)
    while len(_runs) > KEPT:
        _runs.popitem(last=False)
    return run


def current(state: State) -> Trajectory | None:
    """The state's training as far as it is, if it is kept."""
    return _runs.get(state)


def _paced(run: Trajectory, steps: int, total: int, end: float) -> tuple[Trajectory, int]:
    """The run further by `steps`, not beyond `total`, and how many more fit before `end` at that pace."""
    steps, start = min(steps, total - int(run.step[-1])), time.perf_counter()
    run = _extended(run, steps)
    now = time.perf_counter()
    return run, max(1, int(steps / max(now - start, 1e-6) * (end - now)))


def _extended(run: Trajectory, steps: int) -> Trajectory:
    """run.extend(steps) that carries over the exact risks already known: for softmax each takes a millisecond."""
    new = run.extend(steps, progress=False)
    same = int(np.sum(run.step[: len(new.step)] == new.step[: len(run.step)]))
    part = exact_excess(new.setup.task, new.setup.predictor, new.log[:, :, same:], new.temperature[same:])
    vars(new)["excess"] = np.hstack([run.excess[:, :same], part])  # where its cached property looks first
    return new
