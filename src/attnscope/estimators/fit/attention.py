"""Soft attention: the same gate and values, trained to predict by their weighted average instead of
by one token.

    output = sum_l p_l w_l with p = softmax(u), or b + sum_l logistic(u_l) V^T x_l (several tokens
    may count).

Squared error (or cross-entropy) of this average is what prediction is judged by, but nothing in it
asks the weights to sit on the deciding token. Hence it is a polish, started from the mixture and
kept only where held-out loss clearly improves (stages.py).
"""

from __future__ import annotations

import numpy as np

from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.mixture import Fitted, token_scores
from attnscope.numerics.compiled.data_pass import SIGMOID, SOFTMAX, bag_max

__all__ = ["WAVES", "as_sigmoid", "as_softmax", "random_waves"]

# the deciding token starts at logistic(1) = .73, so that both it and its rivals can still move
THRESHOLD = 1.0
# random features, chosen on bags of digits whose only 8 decides (seeds 10-14, not those reported):
WAVES = 600  # NMSE .006 on average over the five seeds, .009 with 400
FEWEST = 100  # however many tokens there are
# of all tokens' features: fewer waves where there are more than about 1e5 tokens
WAVE_BYTES = 2**29
# kernel width in typical distances of two tokens; .35 does as well, .7 a little worse, 1 much worse
WIDTH = 0.5


def as_softmax(fitted: Fitted) -> Fitted:
    return fitted._replace(combine=SOFTMAX)


def as_sigmoid(fitted: Fitted, data: Data) -> Fitted:
    """Start of the sigmoid gate: threshold such that a bag's best token typically passes and its
    others do not.
    """
    best = bag_max(token_scores(fitted, data.tokens), data.offsets)
    features = fitted.features._replace(constant=True)
    gate = np.append(fitted.gate, THRESHOLD - np.median(best))
    return fitted._replace(combine=SIGMOID, features=features, gate=gate)


def random_waves(fitted: Fitted, data: Data, seed: int) -> Fitted:
    """Append random Fourier features (Rahimi and Recht 2007) of a Gaussian kernel WIDTH typical
    distances of two tokens wide, with zero weights.
    """
    rng = np.random.default_rng([seed, 2])
    x = data.tokens
    pairs = rng.integers(0, len(x), (2, 1000))
    width = WIDTH * np.sqrt(np.median(((x[pairs[0]] - x[pairs[1]]) ** 2).sum(axis=1))) or 1.0
    d = x.shape[1]
    count = int(np.clip(WAVE_BYTES // (8 * len(x)), FEWEST, WAVES))
    frequency = rng.standard_normal((d, count)) / width
    features = fitted.features._replace(
        frequency=frequency, phase=rng.uniform(0, 2 * np.pi, count)
    )
    gate = np.concatenate([fitted.gate[:d], np.zeros(count), fitted.gate[d:]])
    return fitted._replace(features=features, gate=gate)
