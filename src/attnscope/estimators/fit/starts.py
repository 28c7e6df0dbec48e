"""Starts: directions for the deciding token and its values, from additive moments of the bags.

notation: x centred tokens, S = sum_l x_l of a bag, y centred labels, one column per output; k, v
the directions sought. For the single-location task with whitened background (s = shift, gam^2 =
spread):

    Cov(S, y) ~ v (up to the k.v part),      M = E[y sum_l x_l x_l^T] ~ gam^2 s (v k^T + k v^T),

so the ridge regression of y on S gives v ("sum"), and M v gives k for any mean of the background.
The extreme eigenvectors of M are (k +- v)/sqrt 2 ("spectral"). If the token with the largest value
decides, k = +-v ("tied"). If the background's mean is zero in the caller's units, the mean token is
proportional to k ("mean"). Every statistic is additive over batches and takes O(d^2) memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data, one_hot
from attnscope.estimators.fit.em import Em, TokenModel, whitening
from attnscope.estimators.fit.ridge import MIN_NOISE_SHARE, values_from
from attnscope.numerics.compiled.data_pass import GAUSSIAN, bag_sum

__all__ = ["CLASS_PRECISION", "BagMoments", "add_moments", "bag_moments", "make_starts"]

# length of the initial key in background standard deviations: scores of +-2 weight tokens without
# choosing one
START_KEY_LENGTH = 2.0
# ridge of y on the sum, relative to the mean eigenvalue of Cov(S): the sum is mostly background
# noise
SUM_RIDGE_SHARE = 0.1
# ridge of V for classes where none is given: one unit of log likelihood per unit weight
CLASS_PRECISION = 1.0


class BagMoments(NamedTuple):
    """Sums over bags of weight times: 1, y, y^2 | tokens: count, x, xx^T | S, S S^T, y S | y sum
    xx^T | y times number of tokens, y sum x.
    """

    bags: np.ndarray  # (1 + 2 m,)
    tokens: float
    x: np.ndarray  # (d,)
    xx: np.ndarray  # (d, d)
    ss: np.ndarray  # (1+d, 1+d), of (1, S)
    ys: np.ndarray  # (m, d)
    yxx: np.ndarray  # (m, 1+d, 1+d), of y (1, x)


def bag_moments(data: Data) -> BagMoments:
    y = one_hot(data)
    weight = data.weight
    token_weight = data.per_token(weight)
    s = bag_sum(data.tokens, data.offsets)
    s1 = np.column_stack([np.ones(len(s)), s])
    xw = data.tokens * token_weight[:, None]
    yxx = np.array(
        [_token_gram(data.tokens, token_weight * data.per_token(column)) for column in y.T]
    )
    return BagMoments(
        np.concatenate([[weight.sum()], weight @ y, weight @ y**2]),
        float(token_weight.sum()),
        xw.sum(axis=0),
        xw.T @ data.tokens,
        (s1 * weight[:, None]).T @ s1,
        (y * weight[:, None]).T @ s,
        yxx,
    )


def _token_gram(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x1 = np.column_stack([np.ones(len(x)), x])
    return (x1 * weight[:, None]).T @ x1


def add_moments(a: BagMoments, b: BagMoments) -> BagMoments:
    return BagMoments(*(p + q for p, q in zip(a, b)))  # type: ignore[operator]


def make_starts(
    moments: BagMoments,
    family: int,
    origin: np.ndarray,
    count: int,
    seed: int,
    dof: float = np.inf,
    precision: float = 1.0,
) -> dict[str, Em]:
    """At most `count` starts by name. `origin` (d,): the caller's zero in the data's coordinates."""
    m = len(moments.ys)
    n = moments.bags[0]
    mean_y = moments.bags[1 : 1 + m] / n
    var_y = np.maximum(moments.bags[1 + m :] / n - mean_y**2, 1e-12)
    mean_x = moments.x / moments.tokens
    covariance = moments.xx / moments.tokens - np.outer(mean_x, mean_x)
    whiten = whitening(covariance, moments.tokens)
    v = _sum_ridge(moments, mean_y, n)  # (d, m)
    twist = _label_scatter(moments, mean_y, mean_x)  # (m, d, d)
    keys = _initial_keys(
        v, twist, whiten, mean_x, origin, count, np.random.default_rng([seed, 1])
    )
    size = np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", v, covariance, v), 0))
    v = v * (np.sqrt(var_y) / np.maximum(size, 1e-12)) if family == GAUSSIAN else 0 * v
    bias = mean_y - mean_x @ v if family == GAUSSIAN else np.zeros(m)
    values = values_from(
        v,
        bias,
        max(float(var_y.mean()), MIN_NOISE_SHARE**2) if family == GAUSSIAN else 1.0,
        precision,
    )
    return {
        name: Em(
            TokenModel(
                mean_x,
                whiten,
                START_KEY_LENGTH * key / max(float(np.linalg.norm(key)), 1e-12),
                1.0,
                dof,
            ),
            values,
        )
        for name, key in keys.items()
    }


def _sum_ridge(moments: BagMoments, mean_y: np.ndarray, n: float) -> np.ndarray:
    mean_s = moments.ss[0, 1:] / n
    covariance = moments.ss[1:, 1:] / n - np.outer(mean_s, mean_s)
    cross = moments.ys / n - np.outer(mean_y, mean_s)  # (m, d)
    d = len(mean_s)
    ridge = max(SUM_RIDGE_SHARE * np.trace(covariance) / d, 1e-12)
    return np.linalg.solve(covariance + ridge * np.eye(d), cross.T)


def _label_scatter(moments: BagMoments, mean_y: np.ndarray, mean_x: np.ndarray) -> np.ndarray:
    """M: sum of (y - mean)(x - mean)(x - mean)^T over tokens, one (d, d) per output."""
    total = np.empty((1 + len(mean_x),) * 2)
    total[0, 0], total[0, 1:], total[1:, 0], total[1:, 1:] = (
        moments.tokens,
        moments.x,
        moments.x,
        moments.xx,
    )
    gram = moments.yxx - mean_y[:, None, None] * total  # of (y - mean)(1, x)
    shift = gram[:, 0, 1:, None] * mean_x
    return (
        gram[:, 1:, 1:]
        - shift
        - np.swapaxes(shift, 1, 2)
        + gram[:, 0, 0, None, None] * np.outer(mean_x, mean_x)
    ) / moments.bags[0]


def _initial_keys(
    v: np.ndarray,
    twist: np.ndarray,
    whiten: np.ndarray,
    mean_x: np.ndarray,
    origin: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Initial keys in whitened coordinates: a shift mu of the mean corresponds to W^T mu, a slope a
    to W^-1 a.
    """
    d, m = v.shape
    white_twist = whiten.T @ twist @ whiten  # (m, d, d)
    slopes = np.linalg.solve(whiten, v).T  # (m, d)
    sum_key = np.einsum("mij,mj->i", white_twist, slopes)
    _, e = np.linalg.eigh(
        white_twist[0] if m == 1 else np.einsum("mij,mjk->ik", white_twist, white_twist)
    )
    tied = slopes[0] if m == 1 else e[:, -2 if d > 1 else -1]
    pair = (e[:, -1] + e[:, 0], e[:, -1] - e[:, 0]) if m == 1 else (e[:, -1], -e[:, -1])
    if m == 1 and abs(pair[0] @ slopes[0]) > abs(pair[1] @ slopes[0]):
        pair = pair[::-1]  # of the two the key is the one farther from the value
    # M ~ k v^T + v k^T: the value's sign fixes the key's
    sign = 1.0 if m > 1 else np.sign(pair[1] @ slopes[0]) or 1.0
    named = {
        "sum": sum_key,
        "mean": (mean_x - origin) @ whiten,
        "spectral+": sign * pair[0],
        "spectral-": -sign * pair[0] if m == 1 else pair[1],
        "tied+": tied,
        "tied-": -tied,
    }
    for i in range(max(count - len(named), 0)):
        named[f"random{i}"] = rng.standard_normal(d)
    return dict(list(named.items())[:count])
