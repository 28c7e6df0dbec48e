"""Training of a predictor on a planted task: `train` checks its arguments, draws the starts, picks
the engine, runs it and keeps the log.

One update is a step of projected (Riemannian) gradient descent on the two unit spheres,

    k <- normalise(k - alpha (I - k k^T) grad_k R),   the same for v,

with R the population risk (batch_size=None) or the mean squared error of a fresh batch.
engine_table.py lists which engine serves which case; all of them advance by any number of steps
with the same bits as one step at a time, so interrupting the work at log points, for the progress
bar or by Ctrl-C changes nothing.

The loop itself, with the swap move and Ctrl-C, is loop.py.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from attnscope.dynamics.engines.engine import on_spheres
from attnscope.dynamics.engines.engine_table import engine_for, heads_engine
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.dynamics.loop import advance
from attnscope.dynamics.schedule import check_schedule, inverse_temperatures
from attnscope.dynamics.setup import HeadSetup, Setup
from attnscope.dynamics.starts import HeadsStart, Start, starting_grams, starting_overlaps
from attnscope.dynamics.trajectory import Trajectory
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.predictors.attention import Predictor, has_one_head
from attnscope.predictors.heads import MultiHead, adds_heads
from attnscope.tasks.base import PlantedTask, is_planted_class
from attnscope.theory.route import checked_planted, checked_predictor

__all__ = ["Constraint", "EngineName", "train"]

EngineName = Literal["reduced", "full"]
Constraint = Literal["sphere", "free"]


@overload
def train(
    task: PlantedTask,
    predictor: Predictor,
    start: Start = "sphere",
    runs: int = 30,
    steps: int = 20_000,
    step_size: float = 4e-3,
    log_every: int = 200,
    seed: int = 0,
    batch_size: int | None = None,
    engine: EngineName = "reduced",
    swap_move: bool = False,
    progress: bool = True,
    constraint: Constraint = "sphere",
) -> Trajectory: ...


@overload
def train(
    task: PlantedTask,
    predictor: MultiHead,
    start: HeadsStart = "sphere",
    runs: int = 30,
    steps: int = 20_000,
    step_size: float = 4e-3,
    log_every: int = 200,
    seed: int = 0,
    batch_size: int | None = None,
    engine: EngineName = "reduced",
    swap_move: bool = False,
    progress: bool = True,
    constraint: Constraint = "sphere",
) -> HeadTrajectory: ...


def train(
    task: PlantedTask,
    predictor: Predictor | MultiHead,
    start: Start | HeadsStart = "sphere",
    runs: int = 30,
    steps: int = 20_000,
    step_size: float = 4e-3,
    log_every: int = 200,
    seed: int = 0,
    batch_size: int | None = None,
    engine: EngineName = "reduced",
    swap_move: bool = False,
    progress: bool = True,
    constraint: Constraint = "sphere",
) -> Trajectory | HeadTrajectory:
    """Train `runs` independent copies of the predictor's directions k and v.

    Args:
        task: a planted task: SingleLocation, MultiLocation, ..., or your own Planted.
        predictor: one head, or a MultiHead; its inverse temperature may be a function of the step.
        start: "sphere" | "manifold" | "moments" | Moments(samples) | Overlaps (numbers, or arrays
            of shape (runs,)) | (k, v).
        runs: how many, >= 1.
        steps, step_size: number of updates and alpha.
        log_every: overlaps are kept after 0, log_every, 2 log_every, ... and `steps` updates.
        seed: run i is a function of (seed, i), whatever the number of runs.
        batch_size: None for the population gradient, an integer for SGD on fresh batches.
        engine: "reduced" (five overlaps, any dim) or "full" (vectors of length dim).
        swap_move: exchange k and v where the token mean shows that they have exchanged roles
            (loop.py).
        progress: show a bar on stderr if that is a terminal.
        constraint: "sphere" (unit vectors), or for a MultiHead also "free" (plain SGD, norms move).

    With MultiHead(head, H), or a task of more than two teachers, all H heads are trained, by SGD or
    (batch_size=None) on the risk's fixed nodes, some ten milliseconds a step and run, and a
    HeadTrajectory comes back; start is "sphere", a pair (K, V) of arrays (H, dim), or Gram matrices
    (heads.py).

    A schedule (predictor.inverse_temperature a function of the step) is checked before anything
    runs, up to step 10^7; beyond, when it is used. Ctrl-C returns what was logged; `extend` goes on
    from there.

    >>> from attnscope.predictors.attention import Erf
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> run = train(SingleLocation(dim=400, length=10), Erf(0.1), start="manifold", runs=3, steps=8000, log_every=4000)
    >>> run.step, run.outcome.tolist()
    (array([   0, 4000, 8000]), ['oracle', 'oracle', 'oracle'])
    """
    several: MultiHead | None = None
    if not has_one_head(predictor):
        several = predictor if adds_heads(predictor) else None
    elif len(getattr(task, "teacher_gram", ())) > 2:
        # several keys and values: five overlaps do not describe a head
        several = MultiHead(predictor, 1)
    if several is None and constraint != "sphere":
        raise bad(
            "constraint",
            "train",
            "'sphere' for one head on five overlaps",
            constraint,
            "MultiHead(predictor, heads=1)",
        )
    if several is None and not is_planted_class(type(task)):
        raise bad(
            "task", "train", "a planted task", task, "SingleLocation(dim=400, length=10)"
        )
    runs, steps, settings = _checked_numbers(
        runs, steps, step_size, log_every, seed, batch_size, engine
    )
    if several is not None:
        if swap_move is not False:
            raise bad("swap_move", "train", "False for a MultiHead", swap_move)
        on_spheres(constraint, "train")
        heads_setup = HeadSetup(task, several, **settings, constraint=constraint)
        return _train_heads(heads_setup, start, runs, steps, bool(progress))
    if not isinstance(swap_move, (bool, np.bool_)):
        raise bad("swap_move", "train", "True or False", swap_move)
    known = predictor if has_one_head(predictor) else checked_predictor(predictor, "train")
    setup = Setup(task, known, **settings, swap_move=bool(swap_move))
    return _train_head(setup, start, runs, steps, bool(progress))


def _train_head(
    setup: Setup, start: Any, runs: int, steps: int, progress: bool
) -> Trajectory:
    machine = engine_for(setup)
    first = _first_point(setup, runs, steps, 5)
    overlaps = starting_overlaps(setup.task, start, runs, setup.seed)
    state = machine.init(overlaps, setup.seed)
    begin = Trajectory(
        **first,
        log=np.clip(machine.overlaps(state), -1, 1)[:, :, None],
        swapped_at=first["diverged_at"].copy(),
        state=state,
    )
    return advance(begin, machine, steps, progress)


def _train_heads(
    setup: HeadSetup, start: Any, runs: int, steps: int, progress: bool
) -> HeadTrajectory:
    checked_planted(setup.task, "train")
    heads = setup.predictor.heads
    first = _first_point(setup, runs, steps, (2 * heads + len(setup.task.teacher_gram)) ** 2)
    machine = heads_engine(setup)
    G = starting_grams(setup.task, heads, start, runs, setup.seed)
    begin = HeadTrajectory(**first, gram=G[:, None], state=machine.start(G, setup.seed))
    return advance(begin, machine, steps, progress)


def _first_point(
    setup: Setup | HeadSetup, runs: int, steps: int, numbers: int
) -> dict[str, Any]:
    """What runs that log `numbers` each time hold at step 0, if their whole log fits."""
    entries = numbers * runs * (steps // setup.log_every + 2)
    check.fits_in_memory(entries, 8, "the log", "train", "a larger log_every")
    inverse_temperature = setup.predictor.inverse_temperature
    check_schedule(inverse_temperature, steps)
    return {
        "setup": setup,
        "step": np.zeros(1, dtype=np.int64),
        "inverse_temperature": inverse_temperatures(inverse_temperature, 0, 1),
        "diverged_at": np.full(runs, -1, dtype=np.int64),
    }


def _checked_numbers(
    runs: object,
    steps: object,
    step_size: object,
    log_every: object,
    seed: object,
    batch_size: object,
    engine: object,
) -> tuple[int, int, dict[str, Any]]:
    """(runs, steps, the settings that Setup and HeadSetup share)."""
    of = "train"
    runs = check.integer(runs, "runs", of, 1, hint="runs=30")
    steps = check.integer(steps, "steps", of, 1, hint="steps=20_000")
    alpha = check.real(step_size, "step_size", of, 0, strict=True, hint="step_size=4e-3")
    log_every = check.integer(log_every, "log_every", of, 1, hint="log_every=200")
    if log_every > steps:
        raise bad(
            "log_every",
            of,
            f"at most steps = {steps}",
            log_every,
            f"log_every={max(1, steps // 100)}",
        )
    if batch_size is not None:
        batch_size = check.integer(
            batch_size,
            "batch_size",
            of,
            1,
            hint="batch_size=None for the population gradient",
        )
    if engine not in ("reduced", "full"):
        raise bad("engine", of, "'reduced' or 'full'", engine, "engine='reduced'")
    settings = {
        "step_size": alpha,
        "log_every": log_every,
        "seed": check.seed_value(seed, of),
        "batch_size": batch_size,
        "engine": str(engine),
    }
    return runs, steps, settings
