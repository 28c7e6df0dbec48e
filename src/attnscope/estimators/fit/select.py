"""From bags to a model: starts, EM, ridge paths and escalation, each judged by K-fold held-out loss (tracks.py).

    em        EM from the start with the lowest held-out loss (starts.py, screen.py, em.py); with Student-t tokens where the tokens'
              kurtosis asks for it and held-out loss confirms it
    gate      correction of the EM score, ridge by a warm path from strong to weak                      (mixture.py)
    free      the score as a ridge-penalised function of (x, |x|^2), for tokens the token model does not fit; from the EM solution or
              fresh from the starts; the noise variance is then lowered to the held-out error as long as that helps ("tighten")
    value     ridge on V, warm path
    waves     random features in the gate;   attention, sigmoid: soft attention                         (attention.py)

The noise variance of the bag losses starts at the squared held-out error of the EM stage.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.attention import as_sigmoid, as_softmax, random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import Em, run_em
from attnscope.estimators.fit.mixture import Fitted, freed, from_em, refine
from attnscope.estimators.fit.screen import screen_starts, whiten_all
from attnscope.estimators.fit.starts import bag_moments, make_starts
from attnscope.estimators.fit.tracks import (
    GATE_PATH,
    Fold,
    Options,
    Stage,
    Track,
    best_fold,
    better,
    each,
    held_out,
    held_out_answers,
    last_ridge,
    make_folds,
    mean_loss,
    path,
    probe_folds,
    with_variance,
)
from attnscope.numerics.data_pass import GAUSSIAN

__all__ = ["ROBUST_DOF", "Selected", "fit_bags"]

SCREEN_STEPS = 6  # EM steps before starts are compared: right and wrong basins differ by then
EM_STEPS = 60
SAME = 0.01  # starts whose held-out losses differ bag by bag by less than this share have found the same
SCREEN_LBFGS = 30  # L-BFGS steps before fresh starts are compared
FRESH_RIDGE = 10.0  # gate ridge of fresh starts: mid-path
FINALISTS = 3  # fresh starts that are run on all folds
VALUE_PATH = (10.0, 0.1)  # factors on the ridge of V: weaker and stronger than what the stage before used
WAVE_PATH = (3.0, 0.3)  # gate ridge with random features, whose many small weights it hardly holds above 3
ROBUST_DOF = 5.0  # t with 5 degrees of freedom: bounded influence, and still efficient on Gaussian tokens
KURTOSIS = 1.2  # mean |z|^4 over its Gaussian value d(d+2) from which heavy tails are tried: a t has (nu-2)/(nu-4), 1.2 at nu = 14
# numbers: richer models are not tried where
ROOM = 1.5  # the held-out error is below this times what the model itself foresees (noise, doubt about the token, uncertain values),
CLEAR = 0.25  # noise and doubt are below this share of the labels' variance (a model that fails takes everything for noise), and
HALF = 0.5  # the error is below this share: with as many features as bags a failing model may blame its uncertain values instead
CLASS_PRECISION = 1.0  # first ridge of V for classes: one unit of log likelihood per unit weight, as is usual


class Selected(NamedTuple):
    fitted: Fitted
    stages: list[str]
    held_out: np.ndarray  # (n,) losses
    output: np.ndarray  # (n, m) held-out outputs
    spread: np.ndarray  # (n,) held-out spreads
    start_losses: dict[str, float]

    @property
    def heads(self) -> list[Fitted]:
        return [self.fitted]


def fit_bags(data: Data, origin: np.ndarray, options: Options) -> Selected:
    """Choose and fit; `origin` is the caller's zero in the data's coordinates."""
    folds = make_folds(data, options.seed)
    track, start_losses = _em_track(data, folds, origin, options)
    assert track is not None
    single = int(data.lengths.max()) == 1  # nothing to attend to: the values are all there is
    if not single and options.maybe_robust and not _settled(folds, track) and _kurtosis(data) > KURTOSIS:
        options = options._replace(dof=ROBUST_DOF)
        heavy, heavy_losses = _em_track(data, folds, origin, options, min(start_losses.values()))
        if heavy is not None and better(folds, heavy, track):
            track, start_losses = heavy, heavy_losses
    if not single and options.alpha_gate != np.inf:
        track = _bag_loss_stages(data, folds, track, origin, options)
    output, spread, _ = held_out_answers(folds, track)
    fitted = track.models[0]
    for _, stage in track.stages:
        fitted = stage(fitted, data)
    return Selected(fitted, [name for name, _ in track.stages], track.losses, output, spread, start_losses)


# -- EM -----------------------------------------------------------------------------------------------------------------


def _em_track(
    data: Data, folds: list[Fold], origin: np.ndarray, options: Options, beat: float = np.inf
) -> tuple[Track | None, dict[str, float]]:
    """EM from the best start, and the starts' losses; None if after a few steps no start has a loss below `beat`."""
    quadratic, ridge = options.gate != "linear", options.alpha_value
    first = CLASS_PRECISION if ridge is None or data.family == GAUSSIAN else ridge

    def screen(fold: Fold) -> dict[str, Em]:
        train = fold.train
        count = 1 if data.lengths.max() == 1 else options.n_starts
        starts = make_starts(bag_moments(train), data.family, origin, count, options.seed, options.dof, first)
        if data.lengths.max() == 1:
            return starts
        return screen_starts(starts, train, quadratic, SCREEN_STEPS, ridge)

    screened = each(screen, folds, options.workers)
    found = {}
    for name in screened[0]:
        models = [from_em(ems[name], data.family) for ems in screened]
        found[name] = Track(models, held_out(folds, models), ())
    losses = {name: mean_loss(folds, track) for name, track in found.items()}
    if min(losses.values()) > beat:
        return None, losses
    tracks = []
    for name in _finalists(folds, found, losses):
        tails = "" if np.isinf(options.dof) else ", Student-t tokens"
        options.say(f"start {name}{tails}: held-out loss {losses[name]:.4g} after {SCREEN_STEPS} EM steps")
        jobs = [(ems[name], fold) for ems, fold in zip(screened, folds)]
        ems = each(lambda job: run_em(job[0], job[1].train, quadratic, EM_STEPS, ridge), jobs, options.workers)
        models = [from_em(em, data.family) for em in ems]
        tracks.append((Track(models, held_out(folds, models), ()), ems))
    track, ems = min(tracks, key=lambda t: mean_loss(folds, t[0]))
    # all bags start from the fold that did best: its basin is known to be good, a fresh start could fall into another
    best = ems[best_fold(folds, track.losses)]
    stage: Stage = lambda model, bags: from_em(run_em(best, bags, quadratic, EM_STEPS, ridge), bags.family)
    return track._replace(stages=(("em", stage),)), losses


def _finalists(folds: list[Fold], found: dict[str, Track], losses: dict[str, float]) -> list[str]:
    """The best start, and the second unless it is clearly worse or is the same solution."""
    first, *rest = sorted(losses, key=lambda name: losses[name])
    gap = lambda name: float(np.abs(found[name].losses - found[first].losses).mean())
    second = next((name for name in rest if gap(name) > SAME * losses[first]), None)
    return [first] if second is None or better(folds, found[first], found[second]) else [first, second]


def _kurtosis(data: Data) -> float:
    """Mardia's kurtosis of all tokens over that of a Gaussian."""
    d, white = data.tokens.shape[1], whiten_all(data, np.inf)
    return float(np.average(white.square**2, weights=white.weight)) / (d * (d + 2))


def _settled(folds: list[Fold], track: Track) -> bool:
    """Is the held-out error what the model itself foresees, and small? (Numbers only.)"""
    if folds[0].data.family != GAUSSIAN:
        return False
    _, spread, unsure = held_out_answers(folds, track)
    error, foreseen = mean_loss(folds, track), float(np.mean(spread**2))
    return error < ROOM * foreseen and error < HALF and foreseen - float(np.mean(unsure)) < CLEAR


# -- bag losses ---------------------------------------------------------------------------------------------------------


def _bag_loss_stages(data: Data, folds: list[Fold], track: Track, origin: np.ndarray, options: Options) -> Track:
    forced = (
        options.gate == "random-features"
        or options.pooling == "sigmoid"
        or options.loss == "attention"
        or options.alpha_gate is not None
    )
    if not forced and _settled(folds, track):
        return track
    if data.family == GAUSSIAN:
        track = with_variance(track, min(mean_loss(folds, track), 1.0))
    track = _mixture_stages(data, folds, track, origin, options)
    if options.gate in ("random-features", "auto"):
        track = _waved(folds, track, options)
    soft, ridges = track, _ridges(track)
    if options.pooling in ("softmax", "auto") and options.loss in ("attention", "auto"):
        change = lambda model, bags: as_softmax(model)
        soft = path(folds, track, "attention", change, options, None if options.loss == "attention" else track, ridges)
    if options.pooling in ("sigmoid", "auto") and options.loss != "mixture":
        return path(
            folds, track, "sigmoid", as_sigmoid, options, None if options.pooling == "sigmoid" else soft, ridges
        )
    return soft


def _waved(folds: list[Fold], track: Track, options: Options) -> Track:
    """Random features in the gate. A gate that tells tokens apart lowers the error, and the lower noise variance tells it which token it was."""
    waves = lambda model, bags: random_waves(model, bags, options.seed)
    against = None if options.gate == "random-features" else track
    new = path(folds, track, "waves", waves, options, against, WAVE_PATH, costly=True)
    return track if new is track else _tightened(folds, new, options, 1.0)


def _ridges(track: Track, above: float = 10.0) -> tuple[float, ...]:
    """The gate's path from `above` times its last ridge on: a stronger one would forget the gate found."""
    return tuple(ridge for ridge in GATE_PATH if ridge <= above * last_ridge(track)) or GATE_PATH[-1:]


def _mixture_stages(data: Data, folds: list[Fold], em: Track, origin: np.ndarray, options: Options) -> Track:
    same = lambda model, bags: model
    free = lambda model, bags: freed(model, bags, options.gate != "linear")
    corrected = path(folds, em, "gate", same, options, None if options.alpha_gate is not None else em)
    rival = path(folds, em, "free", free, options, corrected, caution=0)
    rival = path(folds, _fresh_track(data, folds, origin, options), "fresh", free, options, rival, caution=0)
    if rival is not corrected:  # judged after tightening, which may gain more than the step before
        rival = _tightened(folds, rival, options)
    track = rival if better(folds, rival, corrected) else corrected
    if options.alpha_value is None:
        for factor in VALUE_PATH:
            track = path(folds, track, f"value x{factor:g}", same, options, track, (last_ridge(track),), factor)
    return track


def _fresh_track(data: Data, folds: list[Fold], origin: np.ndarray, options: Options) -> Track:
    """L-BFGS straight from the starts, without EM: for tokens whose mixture the token model would explain by something other than y."""
    precision = CLASS_PRECISION if options.alpha_value is None else options.alpha_value

    def screen(fold: Fold, names: list[str] | None = None) -> dict[str, Fitted]:
        train = fold.train
        starts = make_starts(
            bag_moments(train), data.family, origin, options.n_starts, options.seed, options.dof, precision
        )
        models = {
            name: freed(from_em(starts[name], data.family), train, options.gate != "linear") for name in names or starts
        }
        return {name: refine(m, train, FRESH_RIDGE, m.values.precision, SCREEN_LBFGS) for name, m in models.items()}

    first = folds[: probe_folds(folds)]
    probed = each(screen, first, options.workers)
    losses = {name: np.nanmean(held_out(first, [found[name] for found in probed])) for name in probed[0]}
    names = sorted(losses, key=lambda name: losses[name])[:FINALISTS]
    screened = probed + each(lambda fold: screen(fold, names), folds[len(first) :], options.workers)
    tracks = []
    for name in names:
        models = [found[name] for found in screened]
        tracks.append(Track(models, held_out(folds, models), ()))
    best = min(tracks, key=lambda t: mean_loss(folds, t))
    chosen = best.models[best_fold(folds, best.losses)]
    return best._replace(stages=(("fresh start", lambda model, bags: chosen),))


def _tightened(folds: list[Fold], track: Track, options: Options, above: float = 10.0) -> Track:
    """Lower the loss's noise variance to the held-out error reached, as long as that lowers the error further."""
    same = lambda model, bags: model
    while folds[0].data.family == GAUSSIAN:
        error = mean_loss(folds, track)
        new = path(folds, with_variance(track, min(error, 1.0)), "tighten", same, options, None, _ridges(track, above))
        if mean_loss(folds, new) > 0.97 * error:  # less than 3 % is not worth a round
            return track
        track = new
    return track
