"""The witness law: a bag is negative if none of its tokens is a witness and nothing else spoke.

    log P(negative | bag) = -S,   S = log(1 + e^b) + sum_l log(1 + e^{u_l + a + c t}),
    log P(positive | bag) = log(1 - e^-S),

so that each token has its own probability p_l = logistic(u_l + a + c t) of being a witness, and
1/(1 + e^b) is the probability that a bag without witness is negative. Every term of S is positive:
tokens can only raise P(positive).

    slopes   dloss/dS = 1 where the bag is negative, -1/(e^S - 1) where it is positive;
             dS/du_l = p_l, dS/da = sum_l p_l, dS/dc = t sum_l p_l, dS/db = logistic(b)

notation: u_l score of a token; t = log of the bag's length less its average; a rate, c slope in the
length (-1: as many witnesses in long bags as in short ones), b background. Exact up to rounding,
all of it in log space: S as small as 1e-300 and as large as float64 holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.numerics.compiled.data_pass import bag_sum

__all__ = ["WITNESS", "Numbers", "log_odds", "loss_and_slopes", "witness_outputs"]

WITNESS = (
    3  # how a bag's tokens are combined, after MIXTURE, SOFTMAX and SIGMOID of data_pass
)
LEAST = 1e-300  # of S: its logarithm stays finite
MOST = 700.0  # e^S beyond is no float64; 1/(e^S - 1) is 0 there


class Numbers(NamedTuple):
    """What belongs to no token: rate a, slope c in the length, background b, average log length."""

    rate: float
    slope: float
    background: float
    log_length: float


def log_odds(u: np.ndarray, offsets: np.ndarray, numbers: Numbers) -> np.ndarray:
    """u_l + a + c t (N,)."""
    lengths = np.diff(offsets)
    t = np.log(lengths) - numbers.log_length
    return u + np.repeat(numbers.rate + numbers.slope * t, lengths)


def witness_outputs(u: np.ndarray, offsets: np.ndarray, numbers: Numbers) -> np.ndarray:
    """P(negative), P(positive) of each bag (n, 2)."""
    total = _evidence(log_odds(u, offsets, numbers), offsets, numbers.background)
    return np.column_stack([np.exp(-total), -np.expm1(-total)])


def loss_and_slopes(
    u: np.ndarray,
    offsets: np.ndarray,
    labels: np.ndarray,
    weight: np.ndarray,
    numbers: Numbers,
) -> tuple[float, np.ndarray, np.ndarray]:
    """Weighted sum of -log P(label), its slopes in u (N,) and in (a, c, b)."""
    odds = log_odds(u, offsets, numbers)
    total = _evidence(odds, offsets, numbers.background)
    positive = labels == 1
    loss = np.where(positive, -np.log(-np.expm1(-total)), total)
    raised = np.where(positive, -1 / np.expm1(np.minimum(total, MOST)), 1.0) * weight
    lengths = np.diff(offsets)
    each = np.repeat(raised, lengths) * _logistic(odds)
    per_bag = bag_sum(each, offsets)
    t = np.log(lengths) - numbers.log_length
    background = float(raised.sum() * _logistic(np.array(numbers.background)))
    slopes = np.array([per_bag.sum(), per_bag @ t, background])
    return float(weight @ loss), each, slopes


def _evidence(odds: np.ndarray, offsets: np.ndarray, background: float) -> np.ndarray:
    """S of each bag (n,)."""
    tokens = bag_sum(np.logaddexp(0, odds), offsets)
    return np.maximum(tokens + np.logaddexp(0, background), LEAST)


def _logistic(u: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(u / 2))
