"""Soft attention: the gate and the values of the mixture, trained to predict by a weighted average of
tokens instead of by one token.

    output = sum_l p_l w_l with p = softmax(u), or b + sum_l logistic(u_l) V^T x_l (several tokens
    may count).

Predictions are judged by the squared error (or cross-entropy) of this average, but nothing in it
puts the weights on the deciding token. So soft attention only refines a model: it starts from the
mixture, and stages.py keeps it only where the held-out loss clearly improves.
"""

from __future__ import annotations

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.mixture import Fitted, token_scores
from attnscope.numerics.compiled.data_pass import SIGMOID, SOFTMAX, bag_max

__all__ = ["WAVE_COUNT", "as_sigmoid", "as_softmax", "random_waves"]

# log odds of the deciding token at the start: at logistic(1) = .73 its weight and those of the
# other tokens can still move
START_LOG_ODDS = 1.0
# random features, chosen on bags of digits whose only 8 decides: NMSE .006, and .009 with 400
WAVE_COUNT = 600
MIN_WAVE_COUNT = 100  # for any number of tokens
# bytes of the random features of all tokens: beyond about 1e5 tokens there are fewer waves
WAVE_FEATURE_BYTES = 2**29
# kernel width in typical distances of two tokens; .35 is as good, .7 a little worse, 1 much worse
WAVE_KERNEL_WIDTH = 0.5


def as_softmax(fitted: Fitted) -> Fitted:
    return fitted._replace(combine=SOFTMAX)


def as_sigmoid(fitted: Fitted, data: Data) -> Fitted:
    """Start of the sigmoid gate, with a threshold that the best token of a typical bag passes and
    its other tokens do not.
    """
    best = bag_max(token_scores(fitted, data.tokens), data.offsets)
    features = fitted.features._replace(constant=True)
    gate = np.append(fitted.gate, START_LOG_ODDS - np.median(best))
    return fitted._replace(combine=SIGMOID, features=features, gate=gate)


def random_waves(fitted: Fitted, data: Data, seed: int) -> Fitted:
    """Append random Fourier features (Rahimi and Recht 2007) of a Gaussian kernel WAVE_KERNEL_WIDTH typical
    distances of two tokens wide, with zero weights.
    """
    rng = np.random.default_rng([seed, 2])
    x = data.tokens
    pairs = rng.integers(0, len(x), (2, 1000))
    width = (
        WAVE_KERNEL_WIDTH * np.sqrt(np.median(((x[pairs[0]] - x[pairs[1]]) ** 2).sum(axis=1)))
        or 1.0
    )
    d = x.shape[1]
    count = int(np.clip(WAVE_FEATURE_BYTES // (8 * len(x)), MIN_WAVE_COUNT, WAVE_COUNT))
    frequency = rng.standard_normal((d, count)) / width
    features = fitted.features._replace(
        frequency=frequency, phase=rng.uniform(0, 2 * np.pi, count)
    )
    gate = np.concatenate([fitted.gate[:d], np.zeros(count), fitted.gate[d:]])
    return fitted._replace(features=features, gate=gate)
