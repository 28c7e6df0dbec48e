"""The training loop over log points, for any heads: divergence, the swap move, the bar, Ctrl-C.

Engines advance by n + m steps with the same bits as by n and then m, so where the work is cut
changes nothing.

Divergence. A run that is lost at a log point (overlaps or Gram matrix no longer finite, or too
long) is followed again from the point before, by bisection, to the update that did it; from that
log point on, its last entry before is repeated.

Swap move. At small inverse temperatures T is nearly symmetric in k and v, and about half of the
random starts end with the roles exchanged. The token mean is s k*/L, so |v.mean| > |k.mean|, that
is |theta| > |kappa|, gives them away (here with the exact mean; with real data, a mean over
samples). A run that has settled in such a state, no overlap having moved by more than
SETTLED_CHANGE in SETTLE_TIME units of gradient-flow time (alpha times steps), has k and v
exchanged, (kappa, eta, theta, nu) -> (theta, nu, kappa, eta), and goes on. Runs are examined for
this at multiples of log_every, after these are logged.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

from attnscope.dynamics.engines.engine import Engine, State
from attnscope.dynamics.schedule import (
    check_schedule,
    inverse_temperatures,
    inverse_temperatures_at,
)
from attnscope.dynamics.trajectory_base import Reached, Runs
from attnscope.numerics.border import validation as check
from attnscope.predictors.inverse_temperature import InverseTemperature
from attnscope.progress import Bar, progress

__all__ = ["advance", "continued", "exchange"]

AnyRuns = TypeVar("AnyRuns", bound=Runs)

# the saddle grows at .3 to .8 (d = 400, lam .02 to .1): a run there would move e^3- to e^8-fold
SETTLE_TIME = 10.0
# change of an overlap that counts as none; noise of SGD at the paper's settings is smaller
SETTLED_CHANGE = 0.05
PIECE_SECONDS = 0.25  # seconds between two looks at the keyboard and two updates of the bar
# steps; doubled and halved from there. One: a step of a giant batch takes seconds
FIRST_PIECE_STEPS = 1
SPINNER_DELAY_SECONDS = 0.7  # seconds after which a silent first call explains itself


def advance(run: AnyRuns, engine: Engine, end: int, show: bool) -> AnyRuns:
    """`run` continued from its last logged step to `end`."""
    every = run.setup.log_every
    begin = int(run.step[-1])
    # an entry between two multiples gives way to the regular ones
    kept = len(run.step) - (begin % every != 0)
    marks = [*range(begin - begin % every + every, end, every), end]
    step = np.concatenate([run.step[:kept], np.array(marks, dtype=np.int64)])
    shape = list(run.logged.shape)
    shape[run.LOGS] = len(step)
    log = np.empty(shape)
    points = np.moveaxis(log, run.LOGS, 0)
    points[:kept] = np.moveaxis(run.logged, run.LOGS, 0)[:kept]
    swapped_at = getattr(run, "swapped_at", np.full(run.runs, -1))
    reached = Reached(begin, kept, run.state, run.diverged_at, swapped_at)
    try:
        compile_under_spinner(engine, run, show)
        shown = progress(end - begin, f"training {run.runs} runs") if show else nullcontext()
        with shown as bar:
            walker = Walker(engine, run.setup.predictor.inverse_temperature, bar)
            for mark in marks:
                reached = advance_interval(walker, run, reached, mark, step, points)
    except KeyboardInterrupt:
        left = end - reached.step
        print(
            f"Interrupted; {reached.step} of {end} steps are kept: go on with run.extend({left}).",
            file=sys.stderr,
        )
        if reached.step == begin:
            return run
    logs = reached.logs
    lam = inverse_temperatures_at(run.setup.predictor.inverse_temperature, step[:logs])
    if logs < len(points):
        log = np.ascontiguousarray(np.moveaxis(points[:logs], 0, run.LOGS))
    return run.reached(step[:logs], log, lam, reached)


def continued(
    run: AnyRuns, engine_of: Callable[[Any], Engine], steps: int, show: bool
) -> AnyRuns:
    """`run` with `steps` further updates by the engine of its setup; what `extend` is."""
    end = int(run.step[-1]) + check.integer(steps, "steps", "extend", 1)
    numbers = run.logged.size // len(run.step) * (end // run.setup.log_every + 2)
    check.fits_in_memory(numbers, 8, "the log", "extend", "fewer steps")
    check_schedule(run.setup.predictor.inverse_temperature, end)
    return advance(run, engine_of(run.setup), end, bool(show))


class Walker:
    """Advances states step by step number, in pieces short enough for the bar and for Ctrl-C."""

    def __init__(
        self, engine: Engine, inverse_temperature: InverseTemperature, bar: Bar | None = None
    ) -> None:
        self.engine = engine
        self.inverse_temperature = inverse_temperature
        self.bar = bar
        self.piece = FIRST_PIECE_STEPS

    def walk(self, state: State, begin: int, end: int) -> State:
        """The state after the updates begin, ..., end - 1."""
        while begin < end:
            n = min(self.piece, end - begin)
            clock = time.perf_counter()
            state = self.engine.advance(
                state, inverse_temperatures(self.inverse_temperature, begin, begin + n)
            )
            if self.bar is not None:
                self.bar.advance(n)
            begin += n
            seconds = time.perf_counter() - clock
            if seconds > 2 * PIECE_SECONDS:
                self.piece = max(1, n // 2)
            elif seconds < PIECE_SECONDS / 2 and n == self.piece:
                self.piece *= 2
        return state


def advance_interval(
    walker: Walker,
    run: Runs,
    at: Reached,
    end: int,
    step: np.ndarray,
    points: np.ndarray,
) -> Reached:
    """One log interval: swap if due, advance, write the next of the log's points."""
    state = at.state
    swapped_at = at.swapped_at
    if run.setup.swap_move and at.step % run.setup.log_every == 0:
        due = _swap_due(run.setup.step_size, step[: at.logs], points[: at.logs], swapped_at)
        state = exchange(state, due)
        swapped_at = np.where(due, at.step, swapped_at)
    after = walker.walk(state, at.step, end)
    read = run.read(walker.engine, after)
    lost = run.lost(read) | (at.diverged_at >= 0)
    points[at.logs] = run.held(read, points[at.logs - 1], lost)
    diverged_at = at.diverged_at.copy()
    new = lost & (diverged_at < 0)
    if new.any():
        again = Walker(walker.engine, walker.inverse_temperature)
        locate_divergence(again, run, state, at.step, end, new, diverged_at)
    return Reached(end, at.logs + 1, after, diverged_at, swapped_at)


def locate_divergence(
    walker: Walker,
    run: Runs,
    state: State,
    begin: int,
    end: int,
    which: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write into `out` after how many updates, in (begin, end], each run in `which` was first
    lost.
    """
    if end - begin == 1:
        out[which] = end
        return
    middle = (begin + end) // 2
    half = walker.walk(state, begin, middle)
    lost = run.lost(run.read(walker.engine, half))
    if (which & lost).any():
        locate_divergence(walker, run, state, begin, middle, which & lost, out)
    if (which & ~lost).any():
        locate_divergence(walker, run, half, middle, end, which & ~lost, out)


# -- the swap move ---------------------------------------------------------------------------------


def _swap_due(
    step_size: float,
    step: np.ndarray,
    points: np.ndarray,
    swapped_at: np.ndarray,
) -> np.ndarray:
    """(runs,) whether a run has settled, long enough after its last swap, with k and v exchanged.

    points: (logs, 5, runs).
    """
    horizon = math.ceil(SETTLE_TIME / step_size)
    now = int(step[-1])
    back = int(np.searchsorted(step, now - horizon, side="right")) - 1
    if back < 0:
        return np.zeros(points.shape[2], dtype=bool)
    kappa = points[-1, 0]
    theta = points[-1, 2]
    settled = np.abs(points[-1] - points[back]).max(axis=0) <= SETTLED_CHANGE
    return (
        settled
        & (np.abs(theta) > np.abs(kappa))
        & ((swapped_at < 0) | (now - swapped_at >= horizon))
    )


def exchange(state: State, which: np.ndarray) -> State:
    """The state with k and v exchanged in the runs `which`:
    overlaps (5, runs), a Gram matrix (runs, 4, 4), or vectors.
    """
    if not which.any():
        return state
    out = dict(state)
    if "overlaps" in state:
        out["overlaps"] = np.where(
            which, state["overlaps"][[2, 3, 0, 1, 4]], state["overlaps"]
        )
    if "gram" in state:
        order = [1, 0, *range(2, state["gram"].shape[1])]
        out["gram"] = np.where(
            which[:, None, None], state["gram"][:, order][:, :, order], state["gram"]
        )
    if "k" in state:
        out["k"] = np.where(which[:, None], state["v"], state["k"])
        out["v"] = np.where(which[:, None], state["k"], state["v"])
    return out


# -- the first call --------------------------------------------------------------------------------


def compile_under_spinner(engine: Engine, run: Runs, show: bool) -> None:
    """On a terminal, take (and forget) one step under a spinner,
    so that compilation is not mistaken for a hang.
    """
    if show and sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty():
        with _spinner("compiling, once"):
            engine.advance(
                run.state,
                inverse_temperatures(
                    run.setup.predictor.inverse_temperature,
                    int(run.step[-1]),
                    int(run.step[-1]) + 1,
                ),
            )


@contextmanager
def _spinner(text: str) -> Iterator[None]:
    """A spinner on stderr if the block takes longer than SPINNER_DELAY_SECONDS."""
    from rich.console import Console

    status = Console(stderr=True).status(text)
    timer = threading.Timer(SPINNER_DELAY_SECONDS, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()
