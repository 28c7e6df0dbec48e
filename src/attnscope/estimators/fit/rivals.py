"""Richer models than EM's, where they help: ridge paths and escalation, each judged by held-out loss.

    gate      correction of the EM score, ridge by a warm path from strong to weak      (mixture.py)
    free      the score as a ridge-penalised function of (x, |x|^2), for tokens the token model does
              not fit; from the EM solution (also one of fewer directions, carried.py) or fresh from
              the starts; the noise variance is then lowered to the held-out error as long as that
              helps ("tighten")
    value     ridge on V, warm path
    waves     random features in the gate;   attention, sigmoid: soft attention       (attention.py)

They are not tried where there is nothing left to explain (`settled`), nor where the mean token
explains the labels and the deciding token does not explain them better (`_no_token`). The noise
variance of the bag losses starts at the squared held-out error of the EM stage. Where EM finds
nothing (`nothing`) and `options.surrender`, fresh starts are all that is tried beside it; where it
lays its error to doubt about the token (`in_doubt`), a free score must lead before anything else is.
Out of time (clock.py) nothing more is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnscope.estimators.fit.attention import as_sigmoid, as_softmax, random_waves
from attnscope.estimators.fit.best_start import fresh_track
from attnscope.estimators.fit.carried import is_carried
from attnscope.estimators.fit.clock import OutOfTime, rival_work
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import (
    GATE_PATH,
    Fold,
    Options,
    Stage,
    Track,
    better,
    gain_and_error,
    held_out_answers,
    last_ridge,
    mean_loss,
    path,
    with_variance,
)
from attnscope.estimators.fit.mixture import (
    constant_output,
    freed,
    label_columns,
    output_losses,
)
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.ridge import FLOOR
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["best_rival", "nothing", "settled", "unexplained"]

# factors on the ridge of V: weaker and stronger than what the stage before used
VALUE_PATH = (10.0, 0.1)
# gate ridge with random features, whose many small weights it hardly holds above 3
WAVE_PATH = (3.0, 0.3)
# numbers: richer models are not tried where
# the held-out error is below this times what the model itself foresees (noise, doubt about the
# token, uncertain values),
ROOM = 1.5
# noise and doubt are below this share of the labels' variance (a model that fails takes everything
# for noise), and
CLEAR = 0.25
# the error is below this share: with as many features as bags a failing model may blame its
# uncertain values instead
HALF = 0.5
# classes: richer models are not tried where the held-out loss is below this share of the entropy,
# nor
NEARLY = 0.1
# (and numbers) where the mean token leaves less than this share of the labels' variance and no
# clearly larger loss than the model
INFORMED = 0.5
# work of all rivals that are dropped after two folds, in units of clock.py; half of it is random
# features
RIVALS = 3.0
FRESH = 0.6  # the same: L-BFGS from every start
# standard errors by which EM of numbers in chosen directions, or else a fresh start, must explain
# more than a constant: the best of eight useless ones gains 1.4
REGAINED = 2.0
# standard errors a lower noise variance must gain: hardly any, but it is dropped where it does not
# lead on the first folds
EAGER = 1e-3


def settled(
    folds: list[Fold],
    track: Track,
    margin: float = 0.0,
    answers: tuple[np.ndarray, ...] | None = None,
) -> bool:
    """Numbers: is the held-out error what the model itself foresees, and small? Classes:
    is hardly anything left? `margin`: standard errors by which the error may be above;
    `answers` = `held_out_answers` if they are at hand.
    """
    data = folds[0].data
    if data.family != GAUSSIAN:
        entropy = np.average(output_losses(constant_output(data), data), weights=data.weight)
        return bool(mean_loss(folds, track) < NEARLY * entropy)
    _, spread, unsure = answers or held_out_answers(folds, track)
    error, doubt = gain_and_error(track.losses, data.weight, data.groups)
    foreseen = float(np.mean(spread**2))
    return (
        error < ROOM * foreseen + margin * doubt
        and error < HALF
        and foreseen - float(np.mean(unsure)) < CLEAR
    )


def in_doubt(
    folds: list[Fold], track: Track, answers: tuple[np.ndarray, ...] | None = None
) -> bool:
    """Numbers: does the model find something, foresee its held-out error, and lay it to doubt about
    the token rather than to noise?

    The key is then too weak to tell tokens apart, unless a free score tells more: the token model
    may foresee the error of a gate that is not its own.
    """
    if folds[0].data.family != GAUSSIAN or nothing(folds, track):
        return False
    _, spread, _ = answers or held_out_answers(folds, track)
    noise = float(np.mean([model.values.noise for model in track.models]))
    data = folds[0].data
    error, doubt = gain_and_error(track.losses, data.weight, data.groups)
    return error < ROOM * float(np.mean(spread**2)) + doubt and noise < CLEAR


def _no_token(folds: list[Fold], track: Track, pooled: Pooled | None) -> bool:
    """Does the mean token explain the labels' variance,
    and the deciding token the labels not clearly better?
    """
    if pooled is None:
        return False
    data = folds[0].data
    gain, error = gain_and_error(pooled.losses - track.losses, data.weight, data.groups)

    def squares(guess: np.ndarray) -> float:
        misses = ((label_columns(data) - guess) ** 2).sum(axis=1)
        return float(np.average(misses, weights=data.weight))

    return bool(
        gain < error and squares(pooled.output) < INFORMED * squares(constant_output(data))
    )


def nothing(folds: list[Fold], track: Track, margin: float = 1.0) -> bool:
    """Does the deciding token explain no more of the labels than a constant does,
    by `margin` standard errors?
    """
    data = folds[0].data
    constant = output_losses(constant_output(data), data)
    gain, error = gain_and_error(constant - track.losses, data.weight, data.groups)
    return bool(gain < margin * error)


def _asked_for(options: Options) -> bool:
    """Is a richer model than EM's asked for by name?"""
    return (
        options.gate == "random-features"
        or options.pooling == "sigmoid"
        or options.loss == "attention"
        or options.alpha_gate is not None
    )


def unexplained(folds: list[Fold], track: Track, options: Options) -> bool:
    """Numbers, in chosen directions: has EM found something, and left what richer models may
    explain?
    """
    if folds[0].data.family != GAUSSIAN or nothing(folds, track):
        return False
    if options.alpha_gate == np.inf or options.clock.over:
        return False
    if _asked_for(options):
        return True
    answers = held_out_answers(folds, track)
    return not (settled(folds, track, 1.0, answers) or in_doubt(folds, track, answers))


def best_rival(
    data: Data,
    folds: list[Fold],
    track: Track,
    options: Options,
    pooled: Pooled | None,
) -> Track:
    forced = _asked_for(options)
    # a fit in chosen directions tries richer models only where its error is clearly
    # above what it foresees
    margin = 1.0 if options.surrender else 0.0
    answers = held_out_answers(folds, track) if data.family == GAUSSIAN else None
    if not forced and (options.clock.over or settled(folds, track, margin, answers)):
        return track
    em = track
    if data.family == GAUSSIAN:
        track = with_variance(track, min(mean_loss(folds, track), 1.0))
    # of a carried model it was asked before (widths.py)
    asked = forced or not options.surrender or is_carried(em.models[0])
    doubted = not asked and in_doubt(folds, em, answers)
    if doubted and path(folds, track, "free", _free(options), options, track) is track:
        options.say("the key is too weak to tell tokens apart: no other gate is tried")
        return em

    par = REGAINED if data.family == GAUSSIAN else 1.0
    lost = options.surrender and not forced and nothing(folds, track, par)

    def enough(track: Track) -> bool:
        return not forced and (
            options.clock.over
            or settled(folds, track, margin)
            or _no_token(folds, track, pooled)
            or (lost and nothing(folds, track, REGAINED))
        )

    options.clock.plan(RIVALS * rival_work(*data.tokens.shape))
    if lost:
        options.say("EM finds no deciding token: fresh starts alone are tried")
    track = _mixture_stages(data, folds, track, options, enough, lost)
    if enough(track):
        return track
    if options.gate in ("random-features", "auto"):
        track = _waved(folds, track, options)
        if enough(track):
            return track
    soft = track
    ridges = _ridges(track)
    if options.pooling in ("softmax", "auto") and options.loss in ("attention", "auto"):
        change = lambda model, bags: as_softmax(model)
        soft = path(
            folds,
            track,
            "attention",
            change,
            options,
            None if options.loss == "attention" else track,
            ridges,
        )
    if options.pooling in ("sigmoid", "auto") and options.loss != "mixture":
        return path(
            folds,
            track,
            "sigmoid",
            as_sigmoid,
            options,
            None if options.pooling == "sigmoid" else soft,
            ridges,
        )
    return soft


def _waved(folds: list[Fold], track: Track, options: Options) -> Track:
    """Random features in the gate. A gate that tells tokens apart lowers the error, and the lower
    noise variance tells it which token it was.
    """
    waves = lambda model, bags: random_waves(model, bags, options.seed)
    against = None if options.gate == "random-features" else track
    new = path(folds, track, "waves", waves, options, against, WAVE_PATH, costly=True)
    return track if new is track else _tightened(folds, new, options, 1.0)


def _ridges(track: Track, above: float = 10.0) -> tuple[float, ...]:
    """The gate's path from `above` times its last ridge on:
    a stronger one would forget the gate found.
    """
    return (
        tuple(ridge for ridge in GATE_PATH if ridge <= above * last_ridge(track))
        or GATE_PATH[-1:]
    )


def _mixture_stages(
    data: Data,
    folds: list[Fold],
    em: Track,
    options: Options,
    enough: Callable[[Track], bool],
    lost: bool,
) -> Track:
    same = lambda model, bags: model
    free = _free(options)
    against = None if options.alpha_gate is not None else em
    corrected = em
    rival = em
    # to correct the gate of a model that finds nothing is to start from nothing
    if not lost:
        # a score of few directions is where a free one of all begins; to correct it would hold to
        # those few
        if is_carried(em.models[0]):
            rival = path(folds, em, "free", free, options, against, caution=0)
        else:
            corrected = path(folds, em, "gate", same, options, against)
            rival = path(folds, em, "free", free, options, corrected, caution=0)
    if not enough(rival) or lost:
        rival = _fresh(data, folds, options, free, rival, lost)
    # judged after tightening, which may gain more than the step before
    if rival is not corrected:
        rival = _tightened(folds, rival, options)
    track = rival if better(folds, rival, corrected) else corrected
    if options.alpha_value is None and not enough(track):
        for factor in VALUE_PATH:
            track = path(
                folds,
                track,
                f"value x{factor:g}",
                same,
                options,
                track,
                (last_ridge(track),),
                factor,
            )
    return track


def _free(options: Options) -> Stage:
    return lambda model, bags: freed(model, bags, options.gate != "linear")


def _fresh(
    data: Data,
    folds: list[Fold],
    options: Options,
    free: Stage,
    rival: Track,
    lost: bool,
) -> Track:
    """`lost`: a start must explain more than a constant on the first folds to go on."""
    constant = output_losses(constant_output(data), data) if lost else None
    options.clock.stage("fresh starts", FRESH * rival_work(*data.tokens.shape))
    try:
        fresh = fresh_track(data, folds, options, constant)
    except OutOfTime:
        return rival
    if fresh is None:
        return rival
    return path(folds, fresh, "fresh", free, options, rival, caution=0)


def _tightened(
    folds: list[Fold], track: Track, options: Options, above: float = 10.0
) -> Track:
    """Lower the loss's noise variance to the held-out error reached,
    as long as that lowers the error further.
    """
    same = lambda model, bags: model
    while folds[0].data.family == GAUSSIAN:
        error = mean_loss(folds, track)
        if not error > FLOOR**2:  # nothing left to explain, or nothing finite to go by
            return track
        eager = with_variance(track, min(error, 1.0))
        new = path(
            folds,
            eager,
            "tighten",
            same,
            options,
            track,
            _ridges(track, above),
            caution=EAGER,
        )
        if not mean_loss(folds, new) <= 0.97 * error:  # less than 3 % is not worth a round
            return track
        track = new
    return track
