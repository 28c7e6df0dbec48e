"""The mean token: the plain baseline for every model of one deciding token, and a part of its
prediction where that helps.

    mean-pool    output g(bag) = f(U^T xbar + c), xbar = the bag's mean token, scaled to unit variance
                 over bags in every feature. The ridge on U is set by the evidence (numbers;
                 ridge.py) or by a K-fold path (classes). A mean token outside the range of the
                 training bags is read as at its edge: a feature that hardly varied in training may
                 take any value later, and the ridge does not bound its effect
    mean share   output (1-w) f(bag) + w g(bag), with the w in [0, 1] that minimises the held-out
                 loss: the label comes from the deciding token with probability 1-w and from the mean
                 token with probability w (stacking; Wolpert 1992, Breiman 1996)

Both terms are held-out predictions of the same folds; the loss is convex in w. w = 0 unless the
gain exceeds a standard error. For bags of one token the baseline is ridge (or ridge logistic)
regression on that token, and it is the whole model.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import minimize_scalar

from attnscope.estimators.fit.data import CONSTANT_RELATIVE_SPREAD, Data
from attnscope.estimators.fit.held_out import Fold, gain_and_error
from attnscope.estimators.fit.mixture import (
    Answers,
    Fitted,
    bag_answers,
    constant_output,
    no_features,
    output_losses,
    refine,
)
from attnscope.estimators.fit.ridge import Values, row_ridge, values_from
from attnscope.numerics.compiled.data_pass import GAUSSIAN, MIXTURE, bag_sum

__all__ = [
    "MeanPool",
    "Pooled",
    "add_baselines",
    "blend_answers",
    "blend_outputs",
    "fit_pooled",
    "mean_share",
    "pool_with_range",
]

# ridges of U, added to a sum of log likelihoods in features of unit variance
POOL_RIDGES = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
POOL_LBFGS_STEPS = 100  # per point of the path, each from the last point
# standard errors by which the mean token must beat a constant to get a share
MEAN_GAIN_STANDARD_ERRORS = 2.0
# standard errors that the mean share must gain: it is one number, not the best of several models
SHARE_GAIN_STANDARD_ERRORS = 1.0


class MeanPool(NamedTuple):
    """A model of bags of one token, and the range (d,) of its training tokens. `reads`: the "mean"
    token, or "each" token with averaged answers (instances.py).
    """

    model: Fitted
    low: np.ndarray
    high: np.ndarray
    reads: str = "mean"

    def answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        if self.reads == "each":
            return bag_answers(self.model, np.clip(tokens, self.low, self.high), offsets)
        alone = np.clip(mean_tokens(tokens, offsets), self.low, self.high)
        return bag_answers(self.model, alone, np.arange(len(alone) + 1))


class Baseline(Protocol):
    """A plain baseline: a model of bags without a deciding token."""

    def answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers: ...


class Pooled(NamedTuple):
    """The baseline, its held-out losses (n,), outputs (n, m) and spreads (n,)."""

    fitted: MeanPool
    losses: np.ndarray
    output: np.ndarray
    spread: np.ndarray


def mean_tokens(tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return bag_sum(tokens, offsets) / np.diff(offsets)[:, None]


def fit_pooled(data: Data, folds: list[Fold], ridge: float | None) -> Pooled:
    """`ridge` as in ridge.evidence_ridge for numbers, the precision of U for classes; None chooses
    it.
    """
    one = mean_tokens(data.tokens, data.offsets)
    centre = np.average(one, axis=0, weights=data.weight)
    scale = np.sqrt(np.average((one - centre) ** 2, axis=0, weights=data.weight))
    scale = np.where(scale > CONSTANT_RELATIVE_SPREAD * scale.max(), scale, 1.0)
    alone = data._replace(tokens=one / scale, offsets=np.arange(data.size + 1), origin=None)
    parts = [fold._replace(data=alone) for fold in folds]
    if data.family == GAUSSIAN:
        models = [_ridge_pool(part.train, ridge) for part in parts]
        final = _ridge_pool(alone, ridge)
    else:
        models, final = _logistic_path(
            alone, parts, POOL_RIDGES if ridge is None else (ridge,)
        )
    output, spread = _held_out_outputs(models, parts)
    bounds = (final.low * scale, final.high * scale)
    fitted = MeanPool(_rescale_model(final.model, scale), *bounds)
    return Pooled(fitted, output_losses(output, data), output, spread)


def pool_with_range(values: Values, data: Data, reads: str = "mean") -> MeanPool:
    """A model with these values, which reads tokens outside the range of `data` as at its edge."""
    d = data.tokens.shape[1]
    model = Fitted(None, np.zeros(d), no_features(d), values, data.family, MIXTURE)
    return MeanPool(model, data.tokens.min(axis=0), data.tokens.max(axis=0), reads)


def _held_out_outputs(
    models: list[MeanPool], parts: list[Fold]
) -> tuple[np.ndarray, np.ndarray]:
    answers = [
        model.answers(part.held.tokens, part.held.offsets)
        for model, part in zip(models, parts)
    ]
    order = np.argsort(np.concatenate([part.out for part in parts]))
    return np.concatenate([a.output for a in answers])[order], np.concatenate(
        [a.spread for a in answers]
    )[order]


def _ridge_pool(data: Data, ridge: float | None) -> MeanPool:
    return pool_with_range(row_ridge(data.tokens, data.labels, data.weight, ridge), data)


def _logistic_path(
    data: Data, parts: list[Fold], ridges: tuple[float, ...]
) -> tuple[list[MeanPool], MeanPool]:
    """Ridges from strong to weak until the held-out loss rises; the models at the best ridge, of
    every fold and of all bags.
    """
    blank = values_from(
        np.zeros((data.tokens.shape[1], data.outputs)), np.zeros(data.outputs), 1.0, 1.0
    )
    models = [pool_with_range(blank, part.train) for part in parts]
    final = pool_with_range(blank, data)
    best = models
    lowest = np.inf

    def step(pool: MeanPool, bags: Data, ridge: float) -> MeanPool:
        return pool._replace(model=refine(pool.model, bags, 1.0, ridge, POOL_LBFGS_STEPS))

    for ridge in ridges:
        models = [step(pool, part.train, ridge) for pool, part in zip(models, parts)]
        loss = float(
            np.average(
                output_losses(_held_out_outputs(models, parts)[0], data), weights=data.weight
            )
        )
        if loss > lowest:
            break
        best = models
        lowest = loss
        final = step(final, data, ridge)
    return best, final


def _rescale_model(fitted: Fitted, scale: np.ndarray) -> Fitted:
    """The model of x/scale as a model of x."""
    old = fitted.values
    root = old.root / scale[:, None] if old.root.size else old.root
    return fitted._replace(
        values=old._replace(
            weights=old.weights / scale[:, None], centre=old.centre * scale, root=root
        )
    )


# -- both together ---------------------------------------------------------------------------------


def mean_share(data: Data, output: np.ndarray, pooled: Pooled) -> float:
    """w from held-out outputs (n, m). It is 0 unless the mean token predicts better than a constant
    and the share lowers the loss by more than SHARE_GAIN_STANDARD_ERRORS standard errors.
    """
    losses = lambda w: output_losses((1 - w) * output + w * pooled.output, data)
    constant = output_losses(constant_output(data), data)
    gain, error = gain_and_error(constant - pooled.losses, data.weight, data.groups)
    if gain <= MEAN_GAIN_STANDARD_ERRORS * error:
        return 0.0
    best = minimize_scalar(
        lambda w: np.average(losses(w), weights=data.weight), bounds=(0, 1), method="bounded"
    )
    gain, error = gain_and_error(losses(0.0) - losses(best.x), data.weight, data.groups)
    return float(best.x) if gain > SHARE_GAIN_STANDARD_ERRORS * error else 0.0


def blend_answers(own: Answers, mean: Answers, w: float) -> Answers:
    """The mixture of two models: mixed outputs, and the variance of the mixture."""
    output, spread = blend_outputs(own.output, own.spread, mean.output, mean.spread, w)
    return own._replace(output=output, spread=spread)


def add_baselines(
    own: Answers,
    baselines: list[tuple[float, Baseline]],
    tokens: np.ndarray,
    offsets: np.ndarray,
) -> Answers:
    """The mixture of the model with its baselines, each with its share."""
    for k, (share, pool) in enumerate(baselines):
        so_far = 1 - sum(later for later, _ in baselines[k + 1 :])
        own = blend_answers(own, pool.answers(tokens, offsets), min(share / so_far, 1.0))
    return own


def blend_outputs(
    output: np.ndarray,
    spread: np.ndarray,
    mean_output: np.ndarray,
    mean_spread: np.ndarray,
    w: float,
) -> tuple[np.ndarray, np.ndarray]:
    apart = w * (1 - w) * (output[:, 0] - mean_output[:, 0]) ** 2
    return (1 - w) * output + w * mean_output, np.sqrt(
        (1 - w) * spread**2 + w * mean_spread**2 + apart
    )
