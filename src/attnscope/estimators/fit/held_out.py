"""Candidates compared by K-fold held-out loss. A track is one model per fold, its held-out losses, and
the stages that made it.

A stage maps (model, data) to a model. It runs on every fold's training part from that fold's
current model. The result replaces the current model only if the held-out loss (squared error, or
minus log probability) falls by more than RIVAL_GAIN_STANDARD_ERRORS standard errors of the paired
differences. To save work a rival first runs on a few folds and is dropped if it is not better
there. Finally the accepted stages run on all bags.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.clock import Clock, rival_work
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import Fold, gain_and_error, make_folds
from attnscope.estimators.fit.mixture import (
    Answers,
    Fitted,
    Inputs,
    bag_answers,
    bag_losses,
    constant_loss,
    gate_inputs,
    refine,
)
from attnscope.estimators.fit.ridge import MIN_NOISE_SHARE
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = [
    "Fold",
    "Options",
    "Stage",
    "Track",
    "gain_and_error",
    "is_better",
    "make_folds",
    "ridge_path_rival",
    "with_variance",
]

# folds on which a rival is tried before it runs on all: 40 % of the bags reveal a clear loser
PROBE_FOLDS = 2
PROBE_BAGS = 30  # held-out bags of these folds, at least; with fewer bags more folds are used
# L-BFGS steps per point of a path, each from the last point; 60 steps are no more accurate (bags of
# digits, eight seeds) and a fifth slower
PATH_LBFGS_STEPS = 40
# ridges of the gate, strong to weak, added to a sum of log likelihoods in standardised tokens
GATE_RIDGES = (300.0, 30.0, 3.0, 0.3)
# a path ends where the loss changes by less than this share, or after two points that do not lower
# it by this share
PATH_STALL_SHARE = 0.001
# standard errors by which a rival must be better on the first folds; a smaller lead hardly ever
# becomes RIVAL_GAIN_STANDARD_ERRORS on all folds
PROBE_LEAD_STANDARD_ERRORS = 0.25
# standard errors that a richer model must gain: about six are tried, and the best of six useless
# models gains 1.3 on average
RIVAL_GAIN_STANDARD_ERRORS = 1.5
# work of a path on two folds, and of a path with random features, in units of clock.py
PATH_WORK_UNITS = 0.25
WAVE_PATH_WORK_UNITS = 1.5
# classes: a model whose held-out loss is below this share of the entropy leaves hardly anything to
# explain
EXPLAINED_ENTROPY_SHARE = 0.1
Stage = Callable[..., Fitted]  # (model, data) -> model


class Options(NamedTuple):
    gate: str = "auto"
    pooling: str = "auto"
    loss: str = "auto"
    alpha_gate: float | None = None  # None: by cross-validation
    alpha_value: float | None = None
    n_starts: int = 8
    dof: float = np.inf  # of the tokens' Student t; infinite: Gaussian
    maybe_robust: bool = False  # try heavy tails where the tokens show them
    seed: int = 0
    workers: int = 1
    say: Callable[[str], None] = lambda line: None
    clock: Clock = Clock()  # without a limit
    # if EM finds no deciding token, only fresh starts are tried besides it (rivals.py)
    stop_without_token: bool = False
    # enough for the likelihood to converge where the token model fits; elsewhere its last digits do
    # not matter
    em_steps: int = 30


class Track(NamedTuple):
    """A candidate: one model per fold, held-out losses (n,), and the stages that made it."""

    models: list[Fitted]
    losses: np.ndarray
    stages: tuple[tuple[str, Stage], ...]


# -- rivals ----------------------------------------------------------------------------------------


def ridge_path_rival(
    folds: list[Fold],
    track: Track,
    name: str,
    change: Stage,
    options: Options,
    against: Track | None = None,
    ridges: tuple[float, ...] = GATE_RIDGES,
    factor: float = 1.0,
    caution: float = RIVAL_GAIN_STANDARD_ERRORS,
    costly: bool = False,
) -> Track:
    """`change` followed by L-BFGS along the gate's ridge path; its best point if it beats
    `against`, which is returned otherwise.

    against=None: the new track is always returned. `factor` multiplies the ridge of V, once. A
    `costly` path ends at its first point that is not better. Out of time, `against` is returned.
    """
    if against is not None and options.clock.over:
        return against
    work = (WAVE_PATH_WORK_UNITS if costly else PATH_WORK_UNITS) * rival_work(
        *folds[0].data.tokens.shape
    )
    options.clock.stage(name, work)
    if options.alpha_gate is not None:
        ridges = (options.alpha_gate,)
    steps = [
        _refine_stage(ridge, factor if i == 0 else 1.0, options)
        for i, ridge in enumerate(ridges)
    ]
    probe = probe_folds(folds)
    first = folds if against is None else folds[:probe]
    held = np.concatenate([fold.out for fold in first])
    par = (
        average_loss(folds, against.losses, held)
        if costly and against is not None
        else np.inf
    )
    reached = _follow_path(
        first, track.models[: len(first)], change, steps, options, True, par
    )
    if len(first) < len(folds):
        assert against is not None
        lead, error = max(_mean_gain(folds, against.losses - losses) for _, losses in reached)
        options.say(f"{name}: held-out loss lower by {lead:.4g} on {probe} folds")
        # a rival that need not win clearly is dropped only if it clearly loses
        if (
            lead <= (min(caution, PROBE_LEAD_STANDARD_ERRORS) if caution > 0 else -1) * error
            or options.clock.over
        ):
            return against
        others = _follow_path(
            folds[probe:], track.models[probe:], change, steps[: len(reached)], options, False
        )
        reached = [
            (a + b, np.where(np.isnan(x), y, x)) for (a, x), (b, y) in zip(reached, others)
        ]
    best = int(np.argmin([average_loss(folds, losses) for _, losses in reached]))
    done = tuple((f"ridge {ridge:g}", step) for ridge, step in zip(ridges[: best + 1], steps))
    new = Track(*reached[best], (*track.stages, (name, change), *done))
    options.say(
        f"{name}, gate ridge {ridges[best]:g}: held-out loss {mean_loss(folds, new):.4g}"
    )
    return new if against is None or is_better(folds, new, against, caution) else against


def probe_folds(folds: list[Fold]) -> int:
    """The number of folds on which a rival is tried first."""
    held = np.cumsum([len(fold.out) for fold in folds])
    return min(max(PROBE_FOLDS, int(np.searchsorted(held, PROBE_BAGS)) + 1), len(folds))


def _follow_path(
    folds: list[Fold],
    models: list[Fitted],
    change: Stage,
    steps: list[Stage],
    options: Options,
    stop: bool,
    par: float = np.inf,
) -> list[tuple[list[Fitted], np.ndarray]]:
    """Models and held-out losses (NaN outside these folds) after each step; `stop` once the loss no
    longer falls or is above `par`.
    """

    def begin(job: tuple[Fitted, Fold]) -> tuple[Fitted, Inputs, Inputs]:
        train = job[1].train
        model = change(job[0], train)
        return model, gate_inputs(model, train.tokens), gate_inputs(model, job[1].held.tokens)

    changed = map_jobs(begin, list(zip(models, folds)), options.workers)
    models, inputs, held_inputs = ([part[i] for part in changed] for i in range(3))
    out: list[tuple[list[Fitted], np.ndarray]] = []
    bags = np.concatenate([f.out for f in folds])
    lowest = np.inf
    worse = 0
    for step in steps:
        jobs = list(zip(models, folds, inputs))
        models = map_jobs(
            lambda job: step(job[0], job[1].train, job[2]),  # noqa: B023
            jobs,
            options.workers,
        )
        out.append((models, held_out(folds, models, held_inputs)))
        loss = average_loss(folds, out[-1][1], bags)
        worse = worse + 1 if loss > (1 - PATH_STALL_SHARE) * lowest else 0
        if stop and (
            worse == 2 or loss > par or abs(loss - lowest) < PATH_STALL_SHARE * lowest
        ):
            break
        if stop and options.clock.over:
            break
        lowest = min(loss, lowest)
    return out


def _refine_stage(ridge: float, factor: float, options: Options) -> Stage:
    def step(model: Fitted, bags: Data, inputs: Inputs | None = None) -> Fitted:
        precision = model.values.precision * factor
        if options.alpha_value is not None:
            precision = options.alpha_value / (
                model.values.variance if bags.family == GAUSSIAN else 1.0
            )
        return refine(model, bags, ridge, precision, PATH_LBFGS_STEPS, inputs)

    return step


def last_ridge(track: Track) -> float:
    ridges = [float(name.split()[1]) for name, _ in track.stages if name.startswith("ridge")]
    return ridges[-1] if ridges else GATE_RIDGES[0]


def with_variance(track: Track, variance: float) -> Track:
    """Fix the noise variance, at least at the rounding error of labels of variance 1.
    lambda = precision * variance stays the same.
    """
    variance = max(variance, MIN_NOISE_SHARE**2)

    def stage(model: Fitted, bags: Data | None) -> Fitted:
        old = model.values
        return model._replace(
            values=old._replace(
                variance=variance, precision=old.precision * old.variance / variance
            )
        )

    return track._replace(
        models=[stage(m, None) for m in track.models],
        stages=(*track.stages, ("noise", stage)),
    )


# -- judging ---------------------------------------------------------------------------------------


def average_loss(
    folds: list[Fold], losses: np.ndarray, bags: np.ndarray | None = None
) -> float:
    weight = folds[0].data.weight
    return float(
        np.average(losses, weights=weight)
        if bags is None
        else np.average(losses[bags], weights=weight[bags])
    )


def mean_loss(folds: list[Fold], track: Track) -> float:
    return average_loss(folds, track.losses)


def is_nearly_explained(data: Data, losses: np.ndarray) -> bool:
    """Do classes with these held-out losses (n,) leave hardly anything to explain?"""
    return data.average(losses) < EXPLAINED_ENTROPY_SHARE * constant_loss(data)


def is_better(
    folds: list[Fold], new: Track, old: Track, caution: float = RIVAL_GAIN_STANDARD_ERRORS
) -> bool:
    """Is the held-out loss of `new` lower by more than `caution` standard errors of the paired
    differences?
    """
    mean, error = _mean_gain(folds, old.losses - new.losses)
    return bool(mean > caution * error)


def _mean_gain(folds: list[Fold], gain: np.ndarray) -> tuple[float, float]:
    return gain_and_error(gain, folds[0].data.weight, folds[0].data.groups)


def best_fold(folds: list[Fold], losses: np.ndarray) -> int:
    return int(np.argmin([average_loss(folds, losses, f.out) for f in folds]))


def map_jobs(function: Callable, jobs: list, workers: int) -> list:
    if workers == 1:
        return [function(job) for job in jobs]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, jobs))


def held_out(
    folds: list[Fold], models: list[Fitted], inputs: list[Inputs] | None = None
) -> np.ndarray:
    """Losses (n,) of bags held out by these folds, NaN elsewhere; `inputs`:
    `gate_inputs` of their tokens if already computed.
    """
    out = np.full(folds[0].data.size, np.nan)
    for i, (fold, model) in enumerate(zip(folds, models)):
        out[fold.out] = bag_losses(model, fold.held, inputs[i] if inputs else None)
    return out


def held_out_answers(
    folds: list[Fold], track: Track
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs (n, m), spreads (n,) and the part of the squared spread due to uncertain values
    (n,).
    """
    answers: list[Answers] = []
    for model, fold in zip(track.models, folds):
        held = fold.held
        answers.append(bag_answers(model, held.tokens, held.offsets))
    n = folds[0].data.size
    output = np.empty((n, answers[0].output.shape[1]))
    spread = np.empty(n)
    unsure = np.empty(n)
    for fold, answer in zip(folds, answers):
        output[fold.out], spread[fold.out], unsure[fold.out] = (
            answer.output,
            answer.spread,
            answer.unsure,
        )
    return output, spread, unsure
