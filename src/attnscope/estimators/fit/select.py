"""From bags to a model: starts, EM, ridge paths and escalation, each judged by K-fold held-out loss.

A stage maps (model, data) to a model. It is run on every fold's training part from that fold's current model; a stage replaces the
current model only if the held-out loss (squared error, or minus log probability) falls by more than two standard errors of
the paired differences. The accepted stages are then run on all bags. What each stage is:

    em        EM from the named start with the lowest held-out loss (starts.py, em.py)
    gate      correction of the EM score, ridge by a warm path from strong to weak                      (mixture.py)
    free      the score as a ridge-penalised function of (x, |x|^2), for tokens the token model does not fit; from the EM solution or
              fresh from the starts; the noise variance is then lowered to the held-out error as long as that helps ("tighten")
    value     ridge on V, warm path
    waves     random features in the gate;   attention, sigmoid: soft attention                         (attention.py)

The noise variance of the bag losses starts at the squared held-out error of the EM stage.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.attention import as_sigmoid, as_softmax, random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import Em, run_em
from attnscope.estimators.fit.mixture import Answers, Fitted, bag_answers, bag_losses, freed, from_em, refine
from attnscope.estimators.fit.starts import bag_moments, make_starts
from attnscope.numerics.data_pass import GAUSSIAN

__all__ = ["Options", "Selected", "fit_bags"]

FOLDS = 5
SCREEN_STEPS = 6  # EM steps before starts are compared: right and wrong basins differ by then
EM_STEPS = 60
LBFGS_STEPS = 60
SCREEN_LBFGS = 30  # L-BFGS steps before fresh starts are compared
FRESH_RIDGE = 10.0  # gate ridge of fresh starts: mid-path
GATE_PATH = (
    300.0,
    30.0,
    3.0,
    0.3,
)  # ridge on the gate, strong to weak, beside a sum of log likelihoods in standardised tokens
VALUE_PATH = (10.0, 0.1)  # factors on the ridge of V: weaker and stronger than what the stage before used
# numbers: richer models are not tried where the held-out error is below both
ROOM = 1.5  # times the error the model itself foresees (noise, doubt about the token, uncertain values), and
CLEAR = 0.25  # of the labels' variance: a model that fails altogether foresees that, taking everything for noise
CLASS_PRECISION = 1.0  # first ridge of V for classes: one unit of log likelihood per unit weight, as is usual
CAUTION = 2.0  # standard errors a richer model must gain: some twenty are tried, and the best of twenty useless ones gains about two
Stage = Callable[[Fitted, Data], Fitted]


class Options(NamedTuple):
    gate: str = "auto"
    pooling: str = "auto"
    loss: str = "auto"
    alpha_gate: float | None = None  # None: by cross-validation
    alpha_value: float | None = None
    n_starts: int = 8
    dof: float = np.inf
    seed: int = 0
    workers: int = 1
    say: Callable[[str], None] = lambda line: None


class Fold(NamedTuple):
    """Which bags are held out; the parts are copied when asked for, so that folds take no memory between stages."""

    data: Data
    rest: np.ndarray
    out: np.ndarray

    @property
    def train(self) -> Data:
        return self.data.take(self.rest)

    @property
    def held(self) -> Data:
        return self.data.take(self.out)


class Track(NamedTuple):
    """A candidate: one model per fold, held-out losses (n,), and the stages that made it."""

    models: list[Fitted]
    losses: np.ndarray
    stages: tuple[tuple[str, Stage], ...]


class Selected(NamedTuple):
    fitted: Fitted
    stages: list[str]
    held_out: np.ndarray  # (n,) losses
    output: np.ndarray  # (n, m) held-out outputs
    spread: np.ndarray  # (n,) held-out spreads
    start_losses: dict[str, float]


def fit_bags(data: Data, origin: np.ndarray, options: Options) -> Selected:
    """Choose and fit; `origin` is the caller's zero in the data's coordinates."""
    folds = make_folds(data, options.seed)
    track, start_losses = _em_track(data, folds, origin, options)
    single = int(data.lengths.max()) == 1  # nothing to attend to: the values are all there is
    if not single and options.alpha_gate != np.inf:
        track = _bag_loss_stages(data, folds, track, origin, options)
    fitted = _on_all_bags(data, track)
    answers = _held_out_answers(data, folds, track)
    return Selected(fitted, [name for name, _ in track.stages], track.losses, *answers, start_losses)


def make_folds(data: Data, seed: int) -> list[Fold]:
    """Random folds; sorted by label first so that every fold sees every class and the whole range."""
    rng = np.random.default_rng([seed, 0])
    count = min(FOLDS, data.size)
    order = np.lexsort((rng.random(data.size), data.labels))
    fold = np.empty(data.size, int)
    for block in range(0, data.size, count):
        rows = order[block : block + count]
        fold[rows] = rng.permutation(count)[: len(rows)]
    everyone = np.arange(data.size)
    return [Fold(data, everyone[fold != f], everyone[fold == f]) for f in range(count) if (fold == f).any()]


# -- EM -----------------------------------------------------------------------------------------------------------------


def _em_track(data: Data, folds: list[Fold], origin: np.ndarray, options: Options) -> tuple[Track, dict[str, float]]:
    quadratic, ridge = options.gate != "linear", options.alpha_value
    first = CLASS_PRECISION if ridge is None or data.family == GAUSSIAN else ridge

    def screen(fold: Fold) -> dict[str, Em]:
        train = fold.train
        moments = bag_moments(train)
        starts = make_starts(moments, data.family, origin, options.n_starts, options.seed, options.dof, first)
        if data.lengths.max() == 1:
            starts = dict(list(starts.items())[:1])
        return {name: run_em(em, train, quadratic, SCREEN_STEPS, ridge) for name, em in starts.items()}

    screened = _map(screen, folds, options.workers)
    losses = {
        name: _assemble(data, folds, [from_em(ems[name], data.family) for ems in screened]) for name in screened[0]
    }
    mean = {name: float(np.average(loss, weights=data.weight)) for name, loss in losses.items()}
    tracks = []
    for name in sorted(mean, key=lambda name: mean[name])[:2]:
        options.say(f"start {name}: held-out loss {mean[name]:.4g} after {SCREEN_STEPS} EM steps")
        jobs = [(ems[name], fold) for ems, fold in zip(screened, folds)]
        ems = _map(lambda job: run_em(job[0], job[1].train, quadratic, EM_STEPS, ridge), jobs, options.workers)
        models = [from_em(em, data.family) for em in ems]
        tracks.append((Track(models, _assemble(data, folds, models), ()), ems))
    track, ems = min(tracks, key=lambda t: _mean_loss(data, t[0]))
    # all bags start from the fold that did best: its basin is known to be good, a fresh start could fall into another
    best = ems[_best_fold(data, folds, track.losses)]
    stage: Stage = lambda model, bags: from_em(run_em(best, bags, quadratic, EM_STEPS, ridge), bags.family)
    return track._replace(stages=(("em", stage),)), mean


# -- bag losses ---------------------------------------------------------------------------------------------------------


def _bag_loss_stages(data: Data, folds: list[Fold], track: Track, origin: np.ndarray, options: Options) -> Track:
    error, foreseen = _mean_loss(data, track), float(np.mean(_held_out_answers(data, folds, track)[1] ** 2))
    forced = (
        options.gate == "random-features"
        or options.pooling == "sigmoid"
        or options.loss == "attention"
        or options.alpha_gate is not None
    )
    if data.family == GAUSSIAN and error < ROOM * foreseen and error < CLEAR and not forced:
        return track
    if data.family == GAUSSIAN:
        track = _with_variance(track, min(error, 1.0))
    track = _mixture_stages(data, folds, track, origin, options)
    if options.gate in ("random-features", "auto"):
        waves = lambda model, bags: random_waves(model, bags, options.seed)
        track = _path(data, folds, track, "waves", waves, options, forced=options.gate == "random-features")
    if options.pooling in ("sigmoid", "auto") and options.loss != "mixture":
        sigmoid = _path(data, folds, track, "sigmoid", as_sigmoid, options, forced=options.pooling == "sigmoid")
    else:
        sigmoid = track
    if options.pooling in ("softmax", "auto") and options.loss in ("attention", "auto"):
        soft = lambda model, bags: as_softmax(model)
        track = _path(data, folds, track, "attention", soft, options, forced=options.loss == "attention")
    return (
        sigmoid if sigmoid is not track and (options.pooling == "sigmoid" or _better(data, sigmoid, track)) else track
    )


def _mixture_stages(data: Data, folds: list[Fold], em: Track, origin: np.ndarray, options: Options) -> Track:
    same = lambda model, bags: model
    norm = options.gate != "linear"
    free = lambda model, bags: freed(model, bags, norm)
    corrected = _path(data, folds, em, "gate", same, options, forced=options.alpha_gate is not None)
    fresh = _fresh_track(data, folds, origin, options)
    rivals = [_path(data, folds, t, name, free, options, forced=True) for t, name in ((em, "free"), (fresh, "fresh"))]
    rival = _tightened(data, folds, min(rivals, key=lambda t: _mean_loss(data, t)), options)
    track = rival if _better(data, rival, corrected) else corrected
    if options.alpha_value is None:
        for factor in VALUE_PATH:
            track = _path(data, folds, track, f"value x{factor:g}", same, options, factor=factor)
    return track


def _fresh_track(data: Data, folds: list[Fold], origin: np.ndarray, options: Options) -> Track:
    """L-BFGS straight from the starts, without EM: for tokens whose mixture the token model would explain by something other than y."""
    first = CLASS_PRECISION if options.alpha_value is None else options.alpha_value

    def screen(fold: Fold) -> dict[str, Fitted]:
        train = fold.train
        starts = make_starts(
            bag_moments(train), data.family, origin, options.n_starts, options.seed, options.dof, first
        )
        models = {name: freed(from_em(em, data.family), train, options.gate != "linear") for name, em in starts.items()}
        return {name: refine(m, train, FRESH_RIDGE, m.values.precision, SCREEN_LBFGS) for name, m in models.items()}

    screened = _map(screen, folds, options.workers)
    tracks = []
    for name in screened[0]:
        models = [found[name] for found in screened]
        tracks.append(Track(models, _assemble(data, folds, models), ()))
    best = min(tracks, key=lambda t: _mean_loss(data, t))
    chosen = best.models[_best_fold(data, folds, best.losses)]
    return best._replace(stages=(("fresh start", lambda model, bags: chosen),))


def _tightened(data: Data, folds: list[Fold], track: Track, options: Options) -> Track:
    """Lower the loss's noise variance to the held-out error reached, as long as that lowers the error further."""
    same = lambda model, bags: model
    while data.family == GAUSSIAN:
        error = _mean_loss(data, track)
        new = _path(data, folds, _with_variance(track, min(error, 1.0)), "tighten", same, options, forced=True)
        if _mean_loss(data, new) > 0.97 * error:  # less than 3 % is not worth a round
            return track
        track = new
    return track


def _mean_loss(data: Data, track: Track) -> float:
    return float(np.average(track.losses, weights=data.weight))


def _best_fold(data: Data, folds: list[Fold], losses: np.ndarray) -> int:
    return int(np.argmin([np.average(losses[f.out]) for f in folds]))


def _path(
    data: Data,
    folds: list[Fold],
    track: Track,
    name: str,
    change: Stage,
    options: Options,
    forced: bool = False,
    factor: float = 1.0,
) -> Track:
    """`change` followed by L-BFGS along the gate's ridge path; the best point on it if it beats `track` (or must be taken)."""
    if factor != 1.0 or options.alpha_gate is not None:
        path: tuple[float, ...] = (_last_alpha(track),) if options.alpha_gate is None else (options.alpha_gate,)
    else:
        path = GATE_PATH
    models = _map(lambda job: change(job[0], job[1].train), list(zip(track.models, folds)), options.workers)
    best, worse, stages = None, 0, (*track.stages, (name, change))
    for alpha in path:
        step = _refinement(alpha, factor, options)
        factor = 1.0  # once
        models = _map(lambda job: step(job[0], job[1].train), list(zip(models, folds)), options.workers)  # noqa: B023
        stages = (*stages, (f"ridge {alpha:g}", step))
        candidate = Track(models, _assemble(data, folds, models), stages)
        options.say(f"{name}, gate ridge {alpha:g}: held-out loss {_mean_loss(data, candidate):.4g}")
        if best is None or _mean_loss(data, candidate) < _mean_loss(data, best):
            best, worse = candidate, 0
        else:
            worse += 1
        if worse == 2:
            break
    assert best is not None
    return best if forced or _better(data, best, track) else track


def _refinement(alpha: float, factor: float, options: Options) -> Stage:
    def step(model: Fitted, bags: Data) -> Fitted:
        precision = model.values.precision * factor
        if options.alpha_value is not None:
            precision = options.alpha_value / (model.values.variance if bags.family == GAUSSIAN else 1.0)
        return refine(model, bags, alpha, precision, LBFGS_STEPS)

    return step


def _last_alpha(track: Track) -> float:
    ridges = [float(name.split()[1]) for name, _ in track.stages if name.startswith("ridge")]
    return ridges[-1] if ridges else GATE_PATH[0]


def _better(data: Data, new: Track, old: Track) -> bool:
    """Is the held-out loss of `new` lower by more than CAUTION standard errors of the paired differences?"""
    gain = old.losses - new.losses
    mean = np.average(gain, weights=data.weight)
    error = np.sqrt(np.average((gain - mean) ** 2, weights=data.weight) / max(np.count_nonzero(data.weight) - 1, 1))
    return bool(mean > CAUTION * error)


def _with_variance(track: Track, variance: float) -> Track:
    """Fix the noise variance; the ridge lambda = precision * variance is kept."""

    def stage(model: Fitted, bags: Data) -> Fitted:
        old = model.values
        return model._replace(values=old._replace(variance=variance, precision=old.precision * old.variance / variance))

    models = [stage(model, None) for model in track.models]  # type: ignore[arg-type]
    return track._replace(models=models, stages=(*track.stages, ("noise", stage)))


# -- folds --------------------------------------------------------------------------------------------------------------


def _map(function: Callable, jobs: list, workers: int) -> list:
    if workers == 1:
        return [function(job) for job in jobs]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, jobs))


def _assemble(data: Data, folds: list[Fold], models: list[Fitted]) -> np.ndarray:
    out = np.empty(data.size)
    for fold, model in zip(folds, models):
        out[fold.out] = bag_losses(model, fold.held)
    return out


def _on_all_bags(data: Data, track: Track) -> Fitted:
    model = track.models[0]
    for _, stage in track.stages:
        model = stage(model, data)
    return model


def _held_out_answers(data: Data, folds: list[Fold], track: Track) -> tuple[np.ndarray, np.ndarray]:
    answers: list[Answers] = [bag_answers(m, f.held.tokens, f.held.offsets) for m, f in zip(track.models, folds)]
    output, spread = np.empty((data.size, answers[0].output.shape[1])), np.empty(data.size)
    for fold, answer in zip(folds, answers):
        output[fold.out], spread[fold.out] = answer.output, answer.spread
    return output, spread
