"""From bags to a model: starts, EM, richer models and baselines, each judged by K-fold held-out loss
(held_out.py).

    em          EM from the start with the lowest held-out loss (starts.py, quick_em.py, em.py); with
                Student-t tokens if the tokens' kurtosis is large and the held-out loss confirms it
    ...         richer models, if something is left to explain                      (rivals.py)
    mean        a share of the mean token in the prediction                         (pooled.py)
    instance    with few bags of classes: a share of the mean of token probabilities
                                                                                    (stacking.py)
    summary, forest   with few bags of classes: shares of models of whole bags      (stacking.py)

Out of time (clock.py) no further model is tried, and the best so far is fitted on all bags. Before
EM finds a token, that is the mean token.
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
    held_out_answers,
    is_better,
    is_nearly_explained,
    mean_loss,
)
from attnscope.estimators.fit.instances import fit_instances
from attnscope.estimators.fit.mixture import Fitted, output_losses
from attnscope.estimators.fit.pooled import (
    Baseline,
    Pooled,
    blend_outputs,
    mean_share,
)
from attnscope.estimators.fit.quick_em import whiten_all
from attnscope.estimators.fit.rivals import best_rival, finds_nothing, is_settled
from attnscope.estimators.fit.stacking import (
    BASELINES,
    MAX_STACKING_BAGS,
    discount_selection,
    stacking_weights,
)
from attnscope.estimators.fit.summaries import FEATURE_CLIP_DEVIATIONS, fit_summaries
from attnscope.numerics.compiled.data_pass import GAUSSIAN

__all__ = [
    "ROBUST_DOF",
    "EmFit",
    "Selected",
    "begin",
    "can_stack",
    "finish",
    "fit_bags",
    "select_mean",
    "with_heavy_tails",
]

# t with 5 degrees of freedom: bounded influence, and still efficient on Gaussian tokens
ROBUST_DOF = 5.0
# mean |z|^4 over its Gaussian value d(d+2) above which heavy tails are tried: a Student t has
# (nu-2)/(nu-4), which is 1.2 at nu = 14
HEAVY_TAIL_KURTOSIS = 1.2
MAX_COPY_BYTES = 2**28  # tokens of more bytes are not copied for plain baselines
# with more bags the kernel is skipped: it has n^2 numbers, which are read about a thousand times
MAX_KERNEL_BAGS = 1000


class EmFit(NamedTuple):
    """EM on these bags: its track, the options with the degrees of freedom, and the starts' losses."""

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
    mean_share: float  # of the mean token in the prediction; held-out numbers include it
    # other baselines with a share: names (stacking.BASELINES), shares, models
    baselines: tuple[tuple[str, float, Baseline], ...] = ()
    # (n, 2) log densities of held-out labels (evidence.py) by the deciding token alone; None: they
    # follow from the output
    density: np.ndarray | None = None

    @property
    def heads(self) -> list[Fitted]:
        return [self.fitted]


def fit_bags(
    data: Data, folds: list[Fold], options: Options, pooled: Pooled | None
) -> Selected:
    """Choose and fit a model. pooled=None: no share for the mean token."""
    # bags of one token have no choice of token: the model is its values
    if pooled is not None and int(data.lengths.max()) == 1:
        return _select_pool(data, pooled, ["ridge"], 0.0)
    try:
        return finish(begin(data, folds, options), pooled)
    except OutOfTime:
        if pooled is None:
            raise
        return select_mean(data, pooled)


def select_mean(data: Data, pooled: Pooled) -> Selected:
    """The model before any token is found: the mean token makes the whole prediction."""
    return _select_pool(data, pooled, ["mean"], 1.0)


def _select_pool(data: Data, pooled: Pooled, stages: list[str], share: float) -> Selected:
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


def begin(data: Data, folds: list[Fold], options: Options, screened: Screened = ()) -> EmFit:
    """EM from the best start; `screened`: starts of the first folds, if already computed."""
    track, start_losses = em_track(data, folds, options, screened=screened)
    assert track is not None
    return EmFit(data, folds, options, track, start_losses)


def finish(
    begun: EmFit, pooled: Pooled | None, whole: Callable[[], Data] | None = None
) -> Selected:
    """Try heavier tails and richer models, add shares of baselines, and fit on all bags. `whole`
    makes the tokens with every feature where begun.data has fewer.
    """
    begun = with_heavy_tails(begun)
    data, folds, options, track, start_losses = begun
    if options.alpha_gate != np.inf:
        track = best_rival(data, folds, track, options, pooled)
    if (
        options.stop_without_token
        and pooled is not None
        and _is_mean_better(begun, track, pooled)
    ):
        alone = select_mean(data, pooled)
        return _add_shares(alone, begun, pooled, whole) if can_stack(data, options) else alone
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
    if can_stack(data, options):
        return _add_shares(found, begun, pooled, whole)
    share = mean_share(data, output, pooled)
    output, spread = blend_outputs(output, spread, pooled.output, pooled.spread, share)
    return found._replace(
        stages=stages + ["mean"] * (share > 0),
        held_out=output_losses(output, data),
        output=output,
        spread=spread,
        mean_share=share,
    )


def can_stack(data: Data, options: Options) -> bool:
    """Are there few bags of classes, and is time left?"""
    return (
        data.family != GAUSSIAN and data.size <= MAX_STACKING_BAGS and not options.clock.over
    )


def _add_shares(
    found: Selected, begun: EmFit, pooled: Pooled, whole: Callable[[], Data] | None
) -> Selected:
    """The model with shares of baselines by `stacking.stacking_weights`."""
    data = begun.data
    if is_nearly_explained(data, found.held_out):
        return found
    everything = data if whole is None else whole()
    if everything.tokens.nbytes > MAX_COPY_BYTES:
        return found
    begun.options.clock.stage("shares of plain baselines")
    tried = _fit_baselines(everything, begun)
    outputs = [pooled.output, *(output for _, _, output in tried)]
    if found.mean_share:  # no token was found: the model is the mean token
        w = stacking_weights(data, outputs)
    else:
        w = stacking_weights(
            data, [discount_selection(data, found.output, outputs), *outputs]
        )
        outputs = [found.output, *outputs]
    share, *others = w[-1 - len(tried) :].tolist()
    rest = zip(tried, others, strict=True)
    taken = [(name, x, model) for (name, model, _), x in rest if x]
    output = sum(weight * one for weight, one in zip(w, outputs))
    assert isinstance(output, np.ndarray)
    described = [
        f"{BASELINES[name]} {x:.2f}" for name, x, _ in [("mean", share, None), *taken]
    ]
    begun.options.say(f"shares: {', '.join(described)}")
    mean = ["mean"] * (share > 0 and "mean" not in found.stages)
    return found._replace(
        stages=[*found.stages, *mean, *(name for name, _, _ in taken)],
        held_out=output_losses(output, data),
        output=output,
        mean_share=share,
        baselines=tuple(taken),
    )


def _fit_baselines(data: Data, begun: EmFit) -> list[tuple[str, Baseline, np.ndarray]]:
    """Names, models and held-out outputs (n, C) of the baselines on whole tokens."""
    options = begun.options
    within = data._replace(
        tokens=np.clip(data.tokens, -FEATURE_CLIP_DEVIATIONS, FEATURE_CLIP_DEVIATIONS)
    )
    parts = [fold._replace(data=within) for fold in begun.folds]
    each = fit_instances(within, parts, options.alpha_value)
    found: list[tuple[str, Baseline, np.ndarray]] = [("instance", each.fitted, each.output)]
    if data.size <= MAX_KERNEL_BAGS:
        found.append(("summary", *fit_summaries(data, begun.folds)))
    found.append(("forest", *fit_forest(data, begun.folds, options.seed, options.workers)))
    return found


def _is_mean_better(begun: EmFit, track: Track, pooled: Pooled) -> bool:
    """Was no token found, and does the mean token predict held-out labels better?"""
    mean = float(np.average(pooled.losses, weights=begun.data.weight))
    free = begun.options.pooling == begun.options.loss == "auto"
    return free and finds_nothing(begun.folds, track) and mean < mean_loss(begun.folds, track)


def with_heavy_tails(begun: EmFit) -> EmFit:
    """EM with Student-t tokens, if the tokens' kurtosis is large and the held-out loss confirms it.
    If the kurtosis is large, later stages use these degrees of freedom in either case. Tried once.
    """
    data, folds, options, track, losses = begun
    if not options.maybe_robust or options.clock.over or is_settled(folds, track):
        return begun
    options = options._replace(maybe_robust=False)
    if _relative_kurtosis(data) <= HEAVY_TAIL_KURTOSIS:
        return begun._replace(options=options)
    options = options._replace(dof=ROBUST_DOF)
    try:
        heavy, heavy_losses = em_track(data, folds, options, track, min(losses.values()))
    except OutOfTime:
        heavy = None
    if heavy is not None and is_better(folds, heavy, track):
        return EmFit(data, folds, options, heavy, heavy_losses)
    return begun._replace(options=options)


def _relative_kurtosis(data: Data) -> float:
    """Mardia's kurtosis of all tokens divided by that of a Gaussian."""
    d = data.tokens.shape[1]
    white = whiten_all(data, np.inf)
    return float(np.average(white.square**2, weights=white.weight)) / (d * (d + 2))
