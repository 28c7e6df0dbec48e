"""Every token speaks for its bag's class: the mean of token probabilities.

    P(class | bag) = (1/L) sum_l softmax(U^T x_l + c),
    U, c minimise  sum_i weight_i/L_i sum_l -log P(class_i | x_il) + ridge |U|^2/2

the plainest model of bags of classes beside that of the mean token: logistic regression on tokens
that all have their bag's label, a bag's tokens of its weight in total. The ridge is chosen along a
warm path from strong to weak by the held-out loss of whole bags, in the same folds as everything
else. Tokens outside the range of those seen in training are read as at its edge (pooled.py).

notation: L tokens in a bag. As a `Fitted` it is a mixture with equal weights (gate 0).
"""

from __future__ import annotations

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import Fold
from attnscope.estimators.fit.mixture import Fitted, no_features, output_losses, refine
from attnscope.estimators.fit.pooled import MeanPool, Pooled
from attnscope.estimators.fit.ridge import Values, values_from
from attnscope.numerics.compiled.data_pass import MIXTURE

__all__ = ["fit_instances"]

# of U, beside a sum of log likelihoods over bags in standardised tokens: a bag counts once
RIDGES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
STEPS = 20  # of L-BFGS per point of the path, each from the point before


def fit_instances(data: Data, folds: list[Fold], ridge: float | None) -> Pooled:
    """`ridge`: None chooses it."""
    parts = [(fold, fold.train, fold.held) for fold in folds]
    blank = values_from(
        np.zeros((data.tokens.shape[1], data.outputs)), np.zeros(data.outputs), 1.0, 1.0
    )
    models = [_bounded(blank, train) for _, train, _ in parts]
    best: tuple[np.ndarray, MeanPool, float] | None = None
    lowest = np.inf
    output = np.empty((data.size, max(data.outputs, 2)))
    for point in RIDGES if ridge is None else (ridge,):
        models = [_step(model, train, point) for model, (_, train, _) in zip(models, parts)]
        for model, (fold, _, held) in zip(models, parts):
            output[fold.out] = model.answers(held.tokens, held.offsets).output
        loss = float(np.average(output_losses(output, data), weights=data.weight))
        if best is not None and loss > lowest:
            break
        lowest = loss
        best = (output.copy(), models[0], point)
    assert best is not None
    output, near, point = best
    # the sum is convex: from a fold's model, which is close, all bags reach the same in a few steps
    final = _bounded(near.model.values, data)
    final = _step(final, data, point)
    return Pooled(final, output_losses(output, data), output, np.zeros(data.size))


def _bounded(values: Values, data: Data) -> MeanPool:
    d = data.tokens.shape[1]
    model = Fitted(None, np.zeros(d), no_features(d), values, data.family, MIXTURE)
    return MeanPool(model, data.tokens.min(axis=0), data.tokens.max(axis=0), reads="each")


def _step(pool: MeanPool, data: Data, ridge: float) -> MeanPool:
    """On tokens as bags of one."""
    tokens = data._replace(
        offsets=np.arange(len(data.tokens) + 1),
        labels=data.per_token(data.labels),
        weight=data.per_token(data.weight / data.lengths),
    )
    return pool._replace(model=refine(pool.model, tokens, 1.0, ridge, STEPS))
