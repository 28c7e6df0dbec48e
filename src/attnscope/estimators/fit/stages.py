"""From bags to a model: starts, EM, ridge paths and escalation, each judged by K-fold held-out loss
(held_out.py).

    em   EM from the start with the lowest held-out loss (starts.py, quick_em.py, em.py); with
        Student-t tokens where the tokens'
              kurtosis asks for it and held-out loss confirms it
    gate      correction of the EM score, ridge by a warm path from strong to weak      (mixture.py)
    free   the score as a ridge-penalised function of (x, |x|^2), for tokens the token model does
        not fit; from the EM solution or
              fresh from the starts; the noise variance is then lowered to the held-out error as
              long as that helps ("tighten")
    value     ridge on V, warm path
    waves     random features in the gate;   attention, sigmoid: soft attention       (attention.py)
    mean      a share of the prediction given to the mean token                          (pooled.py)

Richer models are not tried where there is nothing left to explain (`_settled`), nor where the mean
token explains the labels and the deciding token does not explain them better (`_no_token`). The
noise variance of the bag losses starts at the squared held-out error of the EM stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.attention import as_sigmoid, as_softmax, random_waves
from attnscope.estimators.fit.best_start import em_track, fresh_track
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import (
    GATE_PATH,
    Fold,
    Options,
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
    Fitted,
    constant_output,
    freed,
    label_columns,
    output_losses,
)
from attnscope.estimators.fit.pooled import Pooled, blended_outputs, mean_share
from attnscope.estimators.fit.quick_em import whiten_all
from attnscope.estimators.fit.ridge import FLOOR
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = ["ROBUST_DOF", "Selected", "fit_bags"]

# factors on the ridge of V: weaker and stronger than what the stage before used
VALUE_PATH = (10.0, 0.1)
# gate ridge with random features, whose many small weights it hardly holds above 3
WAVE_PATH = (3.0, 0.3)
# t with 5 degrees of freedom: bounded influence, and still efficient on Gaussian tokens
ROBUST_DOF = 5.0
# mean |z|^4 over its Gaussian value d(d+2) from which heavy tails are tried: a t has (nu-2)/(nu-4),
# 1.2 at nu = 14
KURTOSIS = 1.2
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
# standard errors a lower noise variance must gain: hardly any, but it is dropped where it does not
# lead on the first folds
EAGER = 1e-3


class Selected(NamedTuple):
    fitted: Fitted
    stages: list[str]
    held_out: np.ndarray  # (n,) losses
    output: np.ndarray  # (n, m) held-out outputs
    spread: np.ndarray  # (n,) held-out spreads
    start_losses: dict[str, float]
    mean_share: float  # of the mean token in the prediction; held-out figures include it

    @property
    def heads(self) -> list[Fitted]:
        return [self.fitted]


def fit_bags(
    data: Data, folds: list[Fold], options: Options, pooled: Pooled | None
) -> Selected:
    """Choose and fit. pooled=None: one token decides, whatever the mean token says."""
    # nothing to attend to: the values are all there is
    if pooled is not None and int(data.lengths.max()) == 1:
        loss = float(np.average(pooled.losses, weights=data.weight))
        return Selected(
            pooled.fitted.model,
            ["ridge"],
            pooled.losses,
            pooled.output,
            pooled.spread,
            {"ridge": loss},
            0.0,
        )
    track, start_losses = em_track(data, folds, options)
    assert track is not None
    if options.maybe_robust and not _settled(folds, track) and _kurtosis(data) > KURTOSIS:
        options = options._replace(dof=ROBUST_DOF)
        heavy, heavy_losses = em_track(
            data, folds, options, track, min(start_losses.values())
        )
        if heavy is not None and better(folds, heavy, track):
            track = heavy
            start_losses = heavy_losses
    if options.alpha_gate != np.inf:
        track = _bag_loss_stages(data, folds, track, options, pooled)
    output, spread, _ = held_out_answers(folds, track)
    share = 0.0
    if pooled is not None and options.pooling == options.loss == "auto":
        share = mean_share(data, output, pooled)
        output, spread = blended_outputs(output, spread, pooled.output, pooled.spread, share)
    fitted = track.models[0]
    for _, stage in track.stages:
        fitted = stage(fitted, data)
    stages = [name for name, _ in track.stages] + ["mean"] * (share > 0)
    return Selected(
        fitted, stages, output_losses(output, data), output, spread, start_losses, share
    )


def _kurtosis(data: Data) -> float:
    """Mardia's kurtosis of all tokens over that of a Gaussian."""
    d = data.tokens.shape[1]
    white = whiten_all(data, np.inf)
    return float(np.average(white.square**2, weights=white.weight)) / (d * (d + 2))


def _settled(folds: list[Fold], track: Track) -> bool:
    """Numbers: is the held-out error what the model itself foresees, and small? Classes:
    is hardly anything left?
    """
    data = folds[0].data
    if data.family != GAUSSIAN:
        entropy = np.average(output_losses(constant_output(data), data), weights=data.weight)
        return bool(mean_loss(folds, track) < NEARLY * entropy)
    _, spread, unsure = held_out_answers(folds, track)
    error = mean_loss(folds, track)
    foreseen = float(np.mean(spread**2))
    return (
        error < ROOM * foreseen and error < HALF and foreseen - float(np.mean(unsure)) < CLEAR
    )


def _no_token(folds: list[Fold], track: Track, pooled: Pooled | None) -> bool:
    """Does the mean token explain the labels' variance,
    and the deciding token the labels not clearly better?
    """
    if pooled is None:
        return False
    data = folds[0].data
    gain, error = gain_and_error(pooled.losses - track.losses, data.weight)

    def squares(guess: np.ndarray) -> float:
        misses = ((label_columns(data) - guess) ** 2).sum(axis=1)
        return float(np.average(misses, weights=data.weight))

    return bool(
        gain < error and squares(pooled.output) < INFORMED * squares(constant_output(data))
    )


# -- bag losses ------------------------------------------------------------------------------------


def _bag_loss_stages(
    data: Data,
    folds: list[Fold],
    track: Track,
    options: Options,
    pooled: Pooled | None,
) -> Track:
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

    def enough(track: Track) -> bool:
        return not forced and (_settled(folds, track) or _no_token(folds, track, pooled))

    track = _mixture_stages(data, folds, track, options, enough)
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
) -> Track:
    same = lambda model, bags: model
    free = lambda model, bags: freed(model, bags, options.gate != "linear")
    corrected = path(
        folds, em, "gate", same, options, None if options.alpha_gate is not None else em
    )
    rival = path(folds, em, "free", free, options, corrected, caution=0)
    if not enough(rival):
        rival = path(
            folds,
            fresh_track(data, folds, options),
            "fresh",
            free,
            options,
            rival,
            caution=0,
        )
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
