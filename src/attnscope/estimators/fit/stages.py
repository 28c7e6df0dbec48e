"""From bags to a model: starts, EM, ridge paths and escalation, each judged by K-fold held-out loss
(held_out.py).

    em   EM from the start with the lowest held-out loss (starts.py, quick_em.py, em.py); with
        Student-t tokens where the tokens' kurtosis asks for it and held-out loss confirms it
    ...       richer models, where there is something left to explain               (rivals.py)
    mean      a share of the prediction given to the mean token                     (pooled.py)
    instances   with few bags of classes: and to the mean of token probabilities    (stacking.py)
    summaries, forest   likewise: and to models of bags as a whole                  (stacking.py)

Out of time (clock.py) nothing more is tried, and what was best so far is fitted on all bags; before
EM has found anything that is the mean token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.best_start import Screened, em_track
from attnscope.estimators.fit.clock import OutOfTime
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.evidence import held_out_densities
from attnscope.estimators.fit.forest import fit_forest
from attnscope.estimators.fit.held_out import (
    Fold,
    Options,
    Track,
    better,
    held_out_answers,
    mean_loss,
)
from attnscope.estimators.fit.instances import fit_instances
from attnscope.estimators.fit.mixture import Fitted, output_losses
from attnscope.estimators.fit.pooled import (
    Plainer,
    Pooled,
    blended_outputs,
    mean_share,
)
from attnscope.estimators.fit.quick_em import whiten_all
from attnscope.estimators.fit.rivals import best_rival, nothing, settled
from attnscope.estimators.fit.stacking import FEW, READERS, doubted, is_sure, shares
from attnscope.estimators.fit.summaries import EDGE, fit_summaries
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = [
    "ROBUST_DOF",
    "Begun",
    "Selected",
    "begin",
    "finish",
    "fit_bags",
    "may_stack",
    "only_the_mean",
    "with_tails",
]

# t with 5 degrees of freedom: bounded influence, and still efficient on Gaussian tokens
ROBUST_DOF = 5.0
# mean |z|^4 over its Gaussian value d(d+2) from which heavy tails are tried: a t has (nu-2)/(nu-4),
# 1.2 at nu = 14
KURTOSIS = 1.2
LARGE = 2**28  # bytes of tokens beyond which no copies of them are made for plainer models
# bags beyond which there is no kernel between each two of them: n^2 numbers, read some thousand times
KERNEL = 1000


class Begun(NamedTuple):
    """EM on these bags: its track, with which degrees of freedom, and the starts' losses."""

    data: Data
    folds: list[Fold]
    options: Options
    track: Track
    start_losses: dict[str, float]

    @property
    def loss(self) -> float:
        return mean_loss(self.folds, self.track)


class Selected(NamedTuple):
    fitted: Fitted
    stages: list[str]
    held_out: np.ndarray  # (n,) losses
    output: np.ndarray  # (n, m) held-out outputs
    spread: np.ndarray  # (n,) held-out spreads
    start_losses: dict[str, float]
    mean_share: float  # of the mean token in the prediction; held-out figures include it
    # other models with a share, likewise: names (stacking.READERS), shares, models
    plainer: tuple[tuple[str, float, Plainer], ...] = ()
    # (n, 2) log densities of held-out labels (evidence.py), of the deciding token alone; None: as
    # the output has it
    density: np.ndarray | None = None

    @property
    def heads(self) -> list[Fitted]:
        return [self.fitted]


def fit_bags(
    data: Data, folds: list[Fold], options: Options, pooled: Pooled | None
) -> Selected:
    """Choose and fit. pooled=None: one token decides, whatever the mean token says."""
    # nothing to attend to: the values are all there is
    if pooled is not None and int(data.lengths.max()) == 1:
        return _pooled_alone(data, pooled, ["ridge"], 0.0)
    try:
        return finish(begin(data, folds, options), pooled)
    except OutOfTime:
        if pooled is None:
            raise
        return only_the_mean(data, pooled)


def only_the_mean(data: Data, pooled: Pooled) -> Selected:
    """What there is before any token was sought: all of the prediction from the mean token."""
    return _pooled_alone(data, pooled, ["mean"], 1.0)


def _pooled_alone(data: Data, pooled: Pooled, stages: list[str], share: float) -> Selected:
    loss = float(np.average(pooled.losses, weights=data.weight))
    return Selected(
        pooled.fitted.model,
        stages,
        pooled.losses,
        pooled.output,
        pooled.spread,
        {stages[0]: loss},
        share,
    )


def begin(data: Data, folds: list[Fold], options: Options, screened: Screened = ()) -> Begun:
    """EM from the best start; `screened`: of the first folds, if at hand."""
    track, start_losses = em_track(data, folds, options, screened=screened)
    assert track is not None
    return Begun(data, folds, options, track, start_losses)


def finish(
    begun: Begun, pooled: Pooled | None, whole: Callable[[], Data] | None = None
) -> Selected:
    """Heavier tails and richer models where they help, shares of plainer ones, and all bags.
    `whole` makes the tokens with every feature where begun.data has fewer.
    """
    begun = with_tails(begun)
    data, folds, options, track, start_losses = begun
    if options.alpha_gate != np.inf:
        track = best_rival(data, folds, track, options, pooled)
    if options.surrender and pooled is not None and _rather_the_mean(begun, track, pooled):
        alone = only_the_mean(data, pooled)
        return _stacked(alone, begun, pooled, whole) if may_stack(data, options) else alone
    options.clock.stage("on all bags")
    output, spread, _ = held_out_answers(folds, track)
    density = held_out_densities(folds, track)
    fitted = track.models[0]
    for _, stage in track.stages:
        fitted = stage(fitted, data)
    stages = [name for name, _ in track.stages]
    losses = output_losses(output, data)
    found = Selected(fitted, stages, losses, output, spread, start_losses, 0.0)
    found = found._replace(density=density)
    if pooled is None or not options.pooling == options.loss == "auto":
        return found
    if may_stack(data, options):
        return _stacked(found, begun, pooled, whole)
    share = mean_share(data, output, pooled)
    output, spread = blended_outputs(output, spread, pooled.output, pooled.spread, share)
    return found._replace(
        stages=stages + ["mean"] * (share > 0),
        held_out=output_losses(output, data),
        output=output,
        spread=spread,
        mean_share=share,
    )


def may_stack(data: Data, options: Options) -> bool:
    """Few bags of classes, and time left."""
    return data.family != GAUSSIAN and data.size <= FEW and not options.clock.over


def _stacked(
    found: Selected, begun: Begun, pooled: Pooled, whole: Callable[[], Data] | None
) -> Selected:
    """With shares by `stacking.shares`."""
    data = begun.data
    if is_sure(data, found.held_out):
        return found
    everything = data if whole is None else whole()
    if everything.tokens.nbytes > LARGE:
        return found
    begun.options.clock.stage("shares of plainer models")
    tried = _plainer(everything, begun)
    outputs = [pooled.output, *(output for _, _, output in tried)]
    if found.mean_share:  # no token was found: all there is, is the mean token
        w = shares(data, outputs)
    else:
        w = shares(data, [doubted(data, found.output, outputs), *outputs])
        outputs = [found.output, *outputs]
    share, *others = w[-1 - len(tried) :].tolist()
    rest = zip(tried, others, strict=True)
    taken = [(name, x, model) for (name, model, _), x in rest if x]
    output = sum(weight * one for weight, one in zip(w, outputs))
    assert isinstance(output, np.ndarray)
    told = [f"{READERS[name]} {x:.2f}" for name, x, _ in [("mean", share, None), *taken]]
    begun.options.say(f"shares: {', '.join(told)}")
    mean = ["mean"] * (share > 0 and "mean" not in found.stages)
    return found._replace(
        stages=[*found.stages, *mean, *(name for name, _, _ in taken)],
        held_out=output_losses(output, data),
        output=output,
        mean_share=share,
        plainer=tuple(taken),
    )


def _plainer(data: Data, begun: Begun) -> list[tuple[str, Plainer, np.ndarray]]:
    """Names, models and held-out outputs (n, C) of those that read whole tokens."""
    options = begun.options
    within = data._replace(tokens=np.clip(data.tokens, -EDGE, EDGE))
    parts = [fold._replace(data=within) for fold in begun.folds]
    each = fit_instances(within, parts, options.alpha_value)
    found: list[tuple[str, Plainer, np.ndarray]] = [("instance", each.fitted, each.output)]
    if data.size <= KERNEL:
        found.append(("summary", *fit_summaries(data, begun.folds)))
    found.append(("forest", *fit_forest(data, begun.folds, options.seed, options.workers)))
    return found


def _rather_the_mean(begun: Begun, track: Track, pooled: Pooled) -> bool:
    """Was no token found, and does the mean token alone predict held-out labels better?"""
    mean = float(np.average(pooled.losses, weights=begun.data.weight))
    free = begun.options.pooling == begun.options.loss == "auto"
    return free and nothing(begun.folds, track) and mean < mean_loss(begun.folds, track)


def with_tails(begun: Begun) -> Begun:
    """With Student-t tokens where the tokens' kurtosis asks for them and held-out loss confirms
    them; whatever it says, later stages start from the same degrees of freedom. Asked once.
    """
    data, folds, options, track, losses = begun
    if not options.maybe_robust or options.clock.over or settled(folds, track):
        return begun
    options = options._replace(maybe_robust=False)
    if _kurtosis(data) <= KURTOSIS:
        return begun._replace(options=options)
    options = options._replace(dof=ROBUST_DOF)
    try:
        heavy, heavy_losses = em_track(data, folds, options, track, min(losses.values()))
    except OutOfTime:
        heavy = None
    if heavy is not None and better(folds, heavy, track):
        return Begun(data, folds, options, heavy, heavy_losses)
    return begun._replace(options=options)


def _kurtosis(data: Data) -> float:
    """Mardia's kurtosis of all tokens over that of a Gaussian."""
    d = data.tokens.shape[1]
    white = whiten_all(data, np.inf)
    return float(np.average(white.square**2, weights=white.weight)) / (d * (d + 2))
