"""Loss and slopes of one bag of tokens, from its scores and values: mixture, softmax pooling,
sigmoid pooling.

notation and formulas: data_pass. Each fills c = d/du_l and e = d/dw_l of the bag p .. q-1 of a
block, and z, the slope in the bias.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import REASSOCIATING_FLAGS

__all__ = [
    "BERNOULLI",
    "CATEGORICAL",
    "GAUSSIAN",
    "mixture_loss",
    "normalise",
    "sigmoid_loss",
    "softmax_loss",
]

Array = np.ndarray

ScoresAndValues = tuple[Array, Array, Array]  # u, w of a block, and the bias
LabelModel = tuple[float, int, float]  # label, family, variance
Slopes = tuple[Array, Array, Array, Array]  # c, e, z, and an array for a slope

# label models
GAUSSIAN = 0
BERNOULLI = 1
CATEGORICAL = 2
NEGLIGIBLE_NATS = (
    40.0  # exp(-40) = 4e-18 beside a weight of 1 is below the rounding of float64
)


@njit(**REASSOCIATING_FLAGS)
def _number_loss(label: float, w: float, family: int, variance: float) -> tuple[float, float]:
    """-log f(label | w) (constants dropped) and its derivative in w, for one output."""
    if family == GAUSSIAN:
        return 0.5 * (w - label) ** 2 / variance, (w - label) / variance
    sign = 2.0 * label - 1.0
    t = sign * w
    s = 1.0 / (1.0 + math.exp(-abs(t)))  # the larger of the two probabilities
    return max(-t, 0.0) - math.log(s), -sign * ((1.0 - s) if t > 0 else s)


@njit(**REASSOCIATING_FLAGS)
def _label_loss(label: float, w: Array, family: int, variance: float, slope: Array) -> float:
    """-log f(label | w) (constants dropped); its derivative in w goes to slope."""
    if family != CATEGORICAL:
        loss, slope[0] = _number_loss(label, w[0], family, variance)
        return loss
    top = w[0]
    for k in range(w.shape[0]):
        top = max(top, w[k])
    total = 0.0
    for k in range(w.shape[0]):
        slope[k] = math.exp(w[k] - top)
        total += slope[k]
    for k in range(w.shape[0]):
        slope[k] /= total
    slope[int(label)] -= 1.0
    return top + math.log(total) - w[int(label)]


@njit(**REASSOCIATING_FLAGS)
def normalise(u: Array, p: int, q: int) -> float:
    """u_l -> exp u_l / sum exp u over l = p .. q-1, in place; log sum exp u."""
    top = u[p]
    for l in range(p, q):
        top = max(top, u[l])
    total = 0.0
    for l in range(p, q):
        gap = u[l] - top
        u[l] = math.exp(gap) if gap > -NEGLIGIBLE_NATS else 0.0
        total += u[l]
    scale = 1.0 / total
    for l in range(p, q):
        u[l] *= scale
    return top + math.log(total)


# Of the bag p .. q-1 of a block: fill c = d/du_l and e = d/dw_l, z = the slope in the bias; u and w
# are overwritten. The functions take positions: views of the bag would cost as much as the rest.


@njit(**REASSOCIATING_FLAGS)
def mixture_loss(
    read: ScoresAndValues, p: int, q: int, label_model: LabelModel, slopes: Slopes
) -> float:
    u, w, bias = read
    label, family, variance = label_model
    c, e, z, _ = slopes
    m = bias.shape[0]
    z[:] = 0.0
    if m == 1:
        for l in range(p, q):
            loss, e[l, 0] = _number_loss(label, w[l, 0] + bias[0], family, variance)
            c[l] = u[l] - loss
    else:
        for l in range(p, q):
            for k in range(m):
                w[l, k] += bias[k]
            c[l] = u[l] - _label_loss(label, w[l], family, variance, e[l])
    loss = normalise(u, p, q) - normalise(c, p, q)  # u is p_l now, c is r_l
    for l in range(p, q):
        for k in range(m):
            e[l, k] *= c[l]
            z[k] += e[l, k]
        c[l] = u[l] - c[l]
    return loss


@njit(**REASSOCIATING_FLAGS)
def _pooled_loss(
    read: ScoresAndValues, p: int, q: int, label_model: LabelModel, z: Array, slope: Array
) -> float:
    """The loss at z = b + sum_l u_l w_l; its derivative in z goes to slope."""
    u, w, bias = read
    label, family, variance = label_model
    z[:] = bias
    for l in range(p, q):
        for k in range(bias.shape[0]):
            z[k] += u[l] * w[l, k]
    return _label_loss(label, z, family, variance, slope)


@njit(**REASSOCIATING_FLAGS)
def softmax_loss(
    read: ScoresAndValues, p: int, q: int, label_model: LabelModel, slopes: Slopes
) -> float:
    u, w, bias = read
    c, e, z, slope = slopes
    normalise(u, p, q)  # u is p_l now
    loss = _pooled_loss(read, p, q, label_model, z, slope)
    for l in range(p, q):
        c[l] = 0.0
        for k in range(bias.shape[0]):
            c[l] += u[l] * slope[k] * (w[l, k] + bias[k] - z[k])
            e[l, k] = u[l] * slope[k]
    z[:] = slope
    return loss


@njit(**REASSOCIATING_FLAGS)
def sigmoid_loss(
    read: ScoresAndValues, p: int, q: int, label_model: LabelModel, slopes: Slopes
) -> float:
    u, w, bias = read
    c, e, z, slope = slopes
    for l in range(p, q):  # u is s_l from here on; exp(700) is the largest that fits
        u[l] = 1.0 / (1.0 + math.exp(-u[l])) if u[l] > -700.0 else 0.0
    loss = _pooled_loss(read, p, q, label_model, z, slope)
    for l in range(p, q):
        c[l] = 0.0
        for k in range(bias.shape[0]):
            c[l] += u[l] * (1.0 - u[l]) * slope[k] * w[l, k]
            e[l, k] = u[l] * slope[k]
    z[:] = slope
    return loss
