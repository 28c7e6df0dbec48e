"""Richer models than EM's, where they help: ridge paths and further stages, each judged by held-out
loss.

    gate      correction of the EM score, with ridges from strong to weak               (mixture.py)
    free      the score as a ridge-penalised function of (x, |x|^2), for tokens that the token model
              does not fit; from the EM solution (also one of fewer directions, widened_start.py) or
              from the starts; then the noise variance is lowered to the held-out error as long as
              that helps ("tighten")
    value     ridge on V, as a path
    waves     random features in the gate;   attention, sigmoid: soft attention       (attention.py)

They are not tried if nothing is left to explain (`is_settled`), or if the mean token explains the
labels and the deciding token does not explain them better (`_mean_suffices`). The noise variance of
the bag losses starts at the squared held-out error of the EM stage. If EM finds nothing
(`finds_nothing`) and `options.stop_without_token` is set, only fresh starts are tried besides it.
If EM attributes its error to uncertainty about the token (`is_in_doubt`), a free score must be
better before anything else is tried. Out of time (clock.py) no further model is tried.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnscope.estimators.fit.attention import as_sigmoid, as_softmax, random_waves
from attnscope.estimators.fit.best_start import fresh_track
from attnscope.estimators.fit.clock import OutOfTime, rival_work
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import (
    GATE_RIDGES,
    Fold,
    Options,
    Stage,
    Track,
    gain_and_error,
    held_out_answers,
    is_better,
    is_nearly_explained,
    last_ridge,
    mean_loss,
    ridge_path_rival,
    with_variance,
)
from attnscope.estimators.fit.mixture import (
    constant_output,
    label_columns,
    output_losses,
    with_free_score,
)
from attnscope.estimators.fit.pooled import Pooled
from attnscope.estimators.fit.ridge import MIN_NOISE_SHARE
from attnscope.estimators.fit.widened_start import is_widened
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["best_rival", "finds_nothing", "is_settled", "may_gain_from_richer"]

# factors on the ridge of V of the last stage
VALUE_RIDGE_FACTORS = (10.0, 0.1)
# gate ridges with random features; with ridges above 3 their many small weights hardly grow
WAVE_GATE_RIDGES = (3.0, 0.3)
# numbers: richer models are not tried if these three conditions hold.
# The held-out error is below this factor times the error that the model itself predicts (noise,
# uncertainty about the token, uncertain values);
FORESEEN_ERROR_FACTOR = 1.5
# noise and uncertainty about the token are below this share of the labels' variance (a model that
# fails explains everything as noise);
MAX_DOUBT_SHARE = 0.25
# the error is below this share: with as many features as bags a failing model may explain its error
# by uncertain values instead
MAX_ERROR_SHARE = 0.5
# nor are they tried if the mean token leaves less than this share of the labels' variance, with a
# loss not clearly above the model's
MEAN_VARIANCE_SHARE = 0.5
# work of all rivals that are dropped after two folds, in units of clock.py; half of it is for random
# features
RIVAL_WORK_UNITS = 3.0
FRESH_WORK_UNITS = 0.6  # work of L-BFGS from every start, in the same units
# standard errors by which EM for numbers in chosen directions, or a fresh start, must beat a
# constant: the best of eight useless starts gains 1.4
FRESH_GAIN_STANDARD_ERRORS = 2.0
# standard errors that a lower noise variance must gain: hardly any, but it is dropped if it is not
# better on the first folds
TIGHTEN_GAIN_STANDARD_ERRORS = 1e-3


def is_settled(
    folds: list[Fold],
    track: Track,
    margin: float = 0.0,
    answers: tuple[np.ndarray, ...] | None = None,
) -> bool:
    """Numbers: is the held-out error small, and as large as the model itself predicts? Classes: is
    hardly anything left to explain? `margin`: standard errors by which the error may be larger;
    `answers` = `held_out_answers` if already computed.
    """
    data = folds[0].data
    if data.family != GAUSSIAN:
        return is_nearly_explained(data, track.losses)
    _, spread, unsure = answers or held_out_answers(folds, track)
    error, doubt = gain_and_error(track.losses, data.weight, data.groups)
    foreseen = float(np.mean(spread**2))
    return (
        error < FORESEEN_ERROR_FACTOR * foreseen + margin * doubt
        and error < MAX_ERROR_SHARE
        and foreseen - float(np.mean(unsure)) < MAX_DOUBT_SHARE
    )


def is_in_doubt(
    folds: list[Fold], track: Track, answers: tuple[np.ndarray, ...] | None = None
) -> bool:
    """Numbers: does the model find something, predict its held-out error, and attribute it to
    uncertainty about the token rather than to noise?

    Then the key is too weak to distinguish tokens, unless a free score is better: the token model
    may predict the error of a gate that does not belong to it.
    """
    if folds[0].data.family != GAUSSIAN or finds_nothing(folds, track):
        return False
    _, spread, _ = answers or held_out_answers(folds, track)
    noise = float(np.mean([model.values.noise for model in track.models]))
    data = folds[0].data
    error, doubt = gain_and_error(track.losses, data.weight, data.groups)
    return (
        error < FORESEEN_ERROR_FACTOR * float(np.mean(spread**2)) + doubt
        and noise < MAX_DOUBT_SHARE
    )


def _mean_suffices(folds: list[Fold], track: Track, pooled: Pooled | None) -> bool:
    """Does the mean token explain the labels' variance, and does the deciding token not explain the
    labels clearly better?
    """
    if pooled is None:
        return False
    data = folds[0].data
    gain, error = gain_and_error(pooled.losses - track.losses, data.weight, data.groups)

    def squares(guess: np.ndarray) -> float:
        misses = ((label_columns(data) - guess) ** 2).sum(axis=1)
        return float(np.average(misses, weights=data.weight))

    return bool(
        gain < error
        and squares(pooled.output) < MEAN_VARIANCE_SHARE * squares(constant_output(data))
    )


def finds_nothing(folds: list[Fold], track: Track, margin: float = 1.0) -> bool:
    """Is the deciding token not better than a constant by `margin` standard errors?"""
    data = folds[0].data
    constant = output_losses(constant_output(data), data)
    gain, error = gain_and_error(constant - track.losses, data.weight, data.groups)
    return bool(gain < margin * error)


def _is_richer_requested(options: Options) -> bool:
    """Did the caller ask for a richer model than EM's by name?"""
    return (
        options.gate == "random-features"
        or options.pooling == "sigmoid"
        or options.loss == "attention"
        or options.alpha_gate is not None
    )


def may_gain_from_richer(folds: list[Fold], track: Track, options: Options) -> bool:
    """Numbers, in chosen directions: did EM find something, and may richer models explain more?"""
    if folds[0].data.family != GAUSSIAN or finds_nothing(folds, track):
        return False
    if options.alpha_gate == np.inf or options.clock.over:
        return False
    if _is_richer_requested(options):
        return True
    answers = held_out_answers(folds, track)
    return not (is_settled(folds, track, 1.0, answers) or is_in_doubt(folds, track, answers))


def best_rival(
    data: Data,
    folds: list[Fold],
    track: Track,
    options: Options,
    pooled: Pooled | None,
) -> Track:
    forced = _is_richer_requested(options)
    # a fit in chosen directions tries richer models only if its error is clearly above its own
    # prediction of it
    margin = 1.0 if options.stop_without_token else 0.0
    answers = held_out_answers(folds, track) if data.family == GAUSSIAN else None
    if not forced and (options.clock.over or is_settled(folds, track, margin, answers)):
        return track
    em = track
    if data.family == GAUSSIAN:
        track = with_variance(track, min(mean_loss(folds, track), 1.0))
    # for a widened model the question was answered before (widths.py)
    asked = forced or not options.stop_without_token or is_widened(em.models[0])
    doubted = not asked and is_in_doubt(folds, em, answers)
    if (
        doubted
        and ridge_path_rival(folds, track, "free", _free_stage(options), options, track)
        is track
    ):
        options.say("the key is too weak to distinguish tokens: no other gate is tried")
        return em

    par = FRESH_GAIN_STANDARD_ERRORS if data.family == GAUSSIAN else 1.0
    lost = options.stop_without_token and not forced and finds_nothing(folds, track, par)

    def enough(track: Track) -> bool:
        return not forced and (
            options.clock.over
            or is_settled(folds, track, margin)
            or _mean_suffices(folds, track, pooled)
            or (lost and finds_nothing(folds, track, FRESH_GAIN_STANDARD_ERRORS))
        )

    options.clock.plan(RIVAL_WORK_UNITS * rival_work(*data.tokens.shape))
    if lost:
        options.say("EM finds no deciding token: only fresh starts are tried")
    track = _mixture_stages(data, folds, track, options, enough, lost)
    if enough(track):
        return track
    if options.gate in ("random-features", "auto"):
        track = _wave_rival(folds, track, options)
        if enough(track):
            return track
    soft = track
    ridges = _gate_ridges(track)
    if options.pooling in ("softmax", "auto") and options.loss in ("attention", "auto"):
        change = lambda model, bags: as_softmax(model)
        soft = ridge_path_rival(
            folds,
            track,
            "attention",
            change,
            options,
            None if options.loss == "attention" else track,
            ridges,
        )
    if options.pooling in ("sigmoid", "auto") and options.loss != "mixture":
        return ridge_path_rival(
            folds,
            track,
            "sigmoid",
            as_sigmoid,
            options,
            None if options.pooling == "sigmoid" else soft,
            ridges,
        )
    return soft


def _wave_rival(folds: list[Fold], track: Track, options: Options) -> Track:
    """Random features in the gate. A better gate lowers the error, and the lower noise variance then
    helps to identify the deciding token.
    """
    waves = lambda model, bags: random_waves(model, bags, options.seed)
    against = None if options.gate == "random-features" else track
    new = ridge_path_rival(
        folds, track, "waves", waves, options, against, WAVE_GATE_RIDGES, costly=True
    )
    return track if new is track else _tighten_noise(folds, new, options, 1.0)


def _gate_ridges(track: Track, above: float = 10.0) -> tuple[float, ...]:
    """The gate's ridges from `above` times its last ridge on; a stronger ridge would undo the gate."""
    return (
        tuple(ridge for ridge in GATE_RIDGES if ridge <= above * last_ridge(track))
        or GATE_RIDGES[-1:]
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
    free = _free_stage(options)
    against = None if options.alpha_gate is not None else em
    corrected = em
    rival = em
    # a model that finds nothing has no gate worth correcting
    if not lost:
        # a widened score is the start of a free score in all directions; a correction would keep it
        # in few directions
        if is_widened(em.models[0]):
            rival = ridge_path_rival(folds, em, "free", free, options, against, caution=0)
        else:
            corrected = ridge_path_rival(folds, em, "gate", same, options, against)
            rival = ridge_path_rival(folds, em, "free", free, options, corrected, caution=0)
    if not enough(rival) or lost:
        rival = _fresh_rival(data, folds, options, free, rival, lost)
    # compared after tightening, which may gain more than the last step
    if rival is not corrected:
        rival = _tighten_noise(folds, rival, options)
    track = rival if is_better(folds, rival, corrected) else corrected
    if options.alpha_value is None and not enough(track):
        for factor in VALUE_RIDGE_FACTORS:
            track = ridge_path_rival(
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


def _free_stage(options: Options) -> Stage:
    return lambda model, bags: with_free_score(model, bags, options.gate != "linear")


def _fresh_rival(
    data: Data,
    folds: list[Fold],
    options: Options,
    free: Stage,
    rival: Track,
    lost: bool,
) -> Track:
    """The free score from fresh starts. `lost`: a start goes on only if it beats a constant on the
    first folds.
    """
    constant = output_losses(constant_output(data), data) if lost else None
    options.clock.stage("fresh starts", FRESH_WORK_UNITS * rival_work(*data.tokens.shape))
    try:
        fresh = fresh_track(data, folds, options, constant)
    except OutOfTime:
        return rival
    if fresh is None:
        return rival
    return ridge_path_rival(folds, fresh, "fresh", free, options, rival, caution=0)


def _tighten_noise(
    folds: list[Fold], track: Track, options: Options, above: float = 10.0
) -> Track:
    """Lower the noise variance of the loss to the held-out error, as long as that lowers the error
    further.
    """
    same = lambda model, bags: model
    while folds[0].data.family == GAUSSIAN:
        error = mean_loss(folds, track)
        if (
            not error > MIN_NOISE_SHARE**2
        ):  # nothing is left to explain, or the error is not finite
            return track
        eager = with_variance(track, min(error, 1.0))
        new = ridge_path_rival(
            folds,
            eager,
            "tighten",
            same,
            options,
            track,
            _gate_ridges(track, above),
            caution=TIGHTEN_GAIN_STANDARD_ERRORS,
        )
        if not mean_loss(folds, new) <= 0.97 * error:  # less than 3 % is not worth a round
            return track
        track = new
    return track
