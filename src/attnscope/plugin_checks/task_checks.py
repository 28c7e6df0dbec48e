"""What a task of a plugin must satisfy.

    loads       a plain word of its own, made from its defaults
    samples     shapes, finite numbers, the same bits for the same seed
    risk        of softmax and erf heads against the mean loss of sampled tokens
    gradient    against central differences of the risk
    training    six steps of SGD: means and mean squares of the overlaps over RUNS runs, once as a law
                of overlaps and once on vectors. A task that draws no tokens is trained in law alone,
                and its risk must not rise.

Samples, risk and gradient are checked at the small defaults and at random settings of the task's
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnscope.dynamics.train import train
from attnscope.errors import AttnscopeError
from attnscope.plugin_checks.record import CheckFailed, CheckRecord, CheckSkipped, checks
from attnscope.plugin_checks.sampled_risk import (
    STANDARD_ERRORS,
    gradient_strain,
    head_vectors,
    ratio,
    risk_strain,
)
from attnscope.plugin_checks.settings import small_setting, worst_of_settings
from attnscope.plugins import PLAIN_WORD, EntryPoint
from attnscope.predictors.attention import Erf, Softmax
from attnscope.registry import PREDICTORS, TASKS, Entry
from attnscope.tasks.base import has_classes, sampler_of
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.plugin_entries import add_plugin, hyphenated
from attnscope.theory.risk import risk

__all__ = ["announced_entry", "load_step", "task_records"]

HEADS = (Softmax(1.0), Erf(0.5))
RUNS = 200
STEPS = 6
BATCH = 2  # sequences of one step: few, so that the law of the noise matters
LARGEST_STEP = 0.1  # of a task whose risk is 1: overlaps move by some tenths
FEW = 5  # sequences whose shapes are looked at


def task_records(point: EntryPoint, settings: int) -> Iterator[CheckRecord]:
    """The checks of one task."""

    def entry() -> Entry:
        return announced_entry(point, "task")

    steps: list[tuple[str, Callable[[], float | None]]] = [
        load_step(entry),
        ("samples repeat by seed", lambda: _planted_worst(_samples, entry(), settings)),
        (
            "risk against sampled tokens",
            lambda: _planted_worst(_risks, entry(), settings),
        ),
        (
            "gradient against differences",
            lambda: _planted_worst(_gradients, entry(), settings),
        ),
        ("SGD by overlaps and by vectors", lambda: _check_training(entry())),
    ]
    yield from checks(point.origin, "task", point.name, steps)


def load_step(entry: Callable[[], Entry]) -> tuple[str, Callable[[], None]]:
    """The check that a row is found and makes its object from the defaults."""

    def load() -> None:
        entry().make()

    return "loads, with a name of its own", load


def announced_entry(point: EntryPoint, what: str) -> Entry:
    """The row of an announced task or predictor, or one sentence."""
    if not PLAIN_WORD.fullmatch(point.name):
        must = "a word of lower-case letters, digits and hyphens"
        raise point.refusal(repr(point.name), must)
    add_plugin(point, what)
    return (TASKS if what == "task" else PREDICTORS)[hyphenated(point.name)]


def _planted_worst(
    check: Callable[[Any, int, str], float | None], entry: Entry, settings: int
) -> float | None:
    if not entry.planted:
        raise CheckSkipped("a task without planted directions has no heads to check")
    return worst_of_settings(check, entry, settings)


def _samples(task: Any, seed: int, where: str) -> None:
    if not callable(getattr(task, "sample", None)):
        raise CheckFailed(f"{type(task).__name__} has no method sample(n, seed).")
    first, again, other = (task.sample(FEW, seed=x) for x in (seed, seed, seed + 1))
    tokens, target = np.asarray(first[0]), np.asarray(first[1])
    if tokens.ndim != 3 or tokens.shape[0] != FEW or tokens.shape[2] != task.dim:
        raise CheckFailed(
            f"sample({FEW}) has tokens of shape {tokens.shape}, not ({FEW}, length, {task.dim}), "
            f"at {where}."
        )
    if target.shape[:1] != (FEW,):
        raise CheckFailed(
            f"sample({FEW}) has a target of shape {target.shape}, not ({FEW},), at {where}."
        )
    if not (np.isfinite(tokens).all() and np.isfinite(target).all()):
        raise CheckFailed(f"sample({FEW}) has numbers that are not finite at {where}.")
    if not all(np.array_equal(a, b) for a, b in zip(first[:2], again[:2])):
        raise CheckFailed(f"sample gives other numbers for the same seed at {where}.")
    if np.array_equal(tokens, other[0]):
        raise CheckFailed(f"sample gives the same tokens for another seed at {where}.")


def _risks(task: Any, seed: int, where: str) -> float:
    return max(
        risk_strain(task, head, seed, f"{where} ({type(head).__name__})") for head in HEADS
    )


def _gradients(task: Any, seed: int, where: str) -> float:
    return gradient_strain(task, HEADS[0], seed, where)


# -- training --------------------------------------------------------------------------------------


def _check_training(entry: Entry) -> float:
    if not entry.planted:
        raise CheckSkipped("a task without planted directions is not trained")
    values = small_setting(entry)
    task = entry.make(values)
    k, v = head_vectors(task, seed=0)
    several = len(task.teacher_gram) > 2  # then `train` takes arrays of heads
    options: dict[str, Any] = {
        "start": (k[None], v[None]) if several else (k, v),
        "runs": RUNS,
        "steps": STEPS,
        "log_every": STEPS,
        "batch_size": BATCH,
        "step_size": _step_size(task, k, v),
        "progress": False,
    }
    in_law = train(task, HEADS[0], engine="reduced", seed=1, **options)
    try:
        sampler_of(task, "a check")
    except AttnscopeError:
        return _rise(in_law)
    on_vectors = train(task, HEADS[0], engine="full", seed=2, **options)
    return _law_strain(_last_overlaps(in_law), _last_overlaps(on_vectors))


def _step_size(task: Any, k: np.ndarray, v: np.ndarray) -> float:
    if has_classes(task):
        return LARGEST_STEP
    size = float(risk(task, HEADS[0], Overlaps.of(task, k, v)).value)
    return LARGEST_STEP / max(1.0, size)


def _last_overlaps(run: Any) -> np.ndarray:
    """(runs, numbers): the overlaps after the last step."""
    if hasattr(run, "gram"):
        return run.gram[:, -1, :2].reshape(len(run.gram), -1)
    return run.log[:, :, -1].T


def _law_strain(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of the means and mean squares over 5 standard errors."""
    worst = 0.0
    for x, y in ((a, b), (a**2, b**2)):
        difference = np.abs(x.mean(axis=0) - y.mean(axis=0))
        error = np.sqrt((x.var(axis=0) + y.var(axis=0)) / len(x))
        moved = error > 1e-12  # lengths of unit vectors differ by rounding alone
        worst = max(
            worst,
            *(ratio(d, STANDARD_ERRORS * e) for d, e in zip(difference[moved], error[moved])),
            0.0,
        )
    if not worst <= 1:
        raise CheckFailed(
            f"after {STEPS} steps of SGD, {RUNS} runs on overlaps and {RUNS} on vectors differ by "
            f"{worst * STANDARD_ERRORS:.1f} standard errors; {STANDARD_ERRORS} are allowed.",
            worst,
        )
    return worst


def _rise(run: Any) -> float:
    """How much of 5 standard errors the risk has risen; 0 where it has fallen."""
    rises = run.excess[:, -1] - run.excess[:, 0]
    allowed = STANDARD_ERRORS * rises.std() / np.sqrt(len(rises))
    strain = ratio(max(float(rises.mean()), 0.0), float(allowed))
    if not strain <= 1:
        raise CheckFailed(
            f"{STEPS} steps of SGD raise the risk by {rises.mean():.3g}.", strain
        )
    return strain
