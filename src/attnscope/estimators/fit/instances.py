"""The mean of token probabilities: every token predicts the class of its bag.

    P(class | bag) = (1/L) sum_l softmax(U^T x_l + c),
    U, c minimise  sum_i weight_i/L_i sum_l -log P(class_i | x_il) + ridge |U|^2/2

Besides the mean token this is the plain baseline for bags of classes: logistic regression on tokens
that all have their bag's label, where the tokens of a bag share its weight. The ridge is chosen
along a path from strong to weak, each point from the last one, by the held-out loss of whole bags
in the same folds as everything else. Tokens outside the range of the training tokens are read as at
its edge (pooled.py).

notation: L tokens in a bag. As a `Fitted` it is a mixture with equal weights (gate 0).
"""

from __future__ import annotations

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import Fold
from attnscope.estimators.fit.mixture import output_losses, refine
from attnscope.estimators.fit.pooled import MeanPool, Pooled, pool_with_range
from attnscope.estimators.fit.ridge import values_from

__all__ = ["fit_instances"]

# ridges of U, added to a sum of log likelihoods over bags in standardised tokens; a bag counts once
TOKEN_RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
TOKEN_LBFGS_STEPS = 20  # per point of the path, each from the last point


def fit_instances(data: Data, folds: list[Fold], ridge: float | None) -> Pooled:
    """`ridge`: None chooses it."""
    parts = [(fold, fold.train, fold.held) for fold in folds]
    blank = values_from(
        np.zeros((data.tokens.shape[1], data.outputs)), np.zeros(data.outputs), 1.0, 1.0
    )
    models = [pool_with_range(blank, train, "each") for _, train, _ in parts]
    best: tuple[np.ndarray, MeanPool, float] | None = None
    lowest = np.inf
    output = np.empty((data.size, max(data.outputs, 2)))
    for point in TOKEN_RIDGES if ridge is None else (ridge,):
        models = [
            _refine_on_tokens(model, train, point)
            for model, (_, train, _) in zip(models, parts)
        ]
        for model, (fold, _, held) in zip(models, parts):
            output[fold.out] = model.answers(held.tokens, held.offsets).output
        loss = float(np.average(output_losses(output, data), weights=data.weight))
        if best is not None and loss > lowest:
            break
        lowest = loss
        best = (output.copy(), models[0], point)
    assert best is not None
    output, near, point = best
    # the sum is convex: a fold's model is close to the minimum over all bags, so a few steps suffice
    final = pool_with_range(near.model.values, data, "each")
    final = _refine_on_tokens(final, data, point)
    return Pooled(final, output_losses(output, data), output, np.zeros(data.size))


def _refine_on_tokens(pool: MeanPool, data: Data, ridge: float) -> MeanPool:
    """L-BFGS steps on the tokens, each as a bag of one token."""
    tokens = data._replace(
        offsets=np.arange(len(data.tokens) + 1),
        labels=data.per_token(data.labels),
        weight=data.per_token(data.weight / data.lengths),
    )
    return pool._replace(model=refine(pool.model, tokens, 1.0, ridge, TOKEN_LBFGS_STEPS))
