"""The mean of non-negative draws, with an error that allows for rare events that were not sampled.

notation: x_1..x_n >= 0 the draws, m their mean, s^2 their variance, v_1 the largest of them, `most`
what a draw can typically come to.

The error has two independent sources:

    seen    the draws have the mean and variance of n draws of the value c = sum x^2/sum x with
            probability q = m/c and else 0. Its mean is as uncertain as a share: c times the error of
            the share q (share_error), which is s/sqrt(n) where many draws matter and 3 c/n where
            none or one does; at least Student's widening of s/sqrt(n).
    unseen  above v_1 lies a probability of at most UNSEEN_EVENT_COUNT/n. It is continued to `most` by the
            power law v^-alpha that the top of the sample shows (Hill's estimate of alpha, two of
            its standard errors smaller); alpha = 0 where the top is 0.

The shares are exact for draws that are 0 or c; for others, as for every standard error, the law of
the mean is an approximation. Squares of normals, 1e5 of them: 1 % above s/sqrt(n); 4,000: 5 %.
"""

from __future__ import annotations

import math

import numpy as np

from attnscope.numerics.border.sampled_estimate import share_error, widened

__all__ = ["ERROR_SIGMAS", "UNSEEN_EVENT_COUNT", "SampledMean", "tail_size", "unseen_above"]

# an event of probability 14/n is missed by n draws with probability e^-14 = 8e-7
UNSEEN_EVENT_COUNT = 14.0
ERROR_SIGMAS = 5.0  # standard errors within which the true value of a sampled Estimate lies


class SampledMean:
    """Mean and error of n draws >= 0 that come in blocks: O(sqrt(n)) memory."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0  # sum of (x - mean)^2
        self.top = np.empty(0)  # the largest draws, in order

    def add(self, x: np.ndarray) -> None:
        """A block of draws. Means and sums of squares are merged without cancellation (Chan et
        al.).
        """
        n = len(x)
        total = self.count + n
        delta = x.mean() - self.mean
        self.squares += np.sum((x - x.mean()) ** 2) + delta**2 * self.count * n / total
        self.mean += delta * n / total
        self.count = total
        kept = min(tail_size(self.n) + 1, total)
        self.top = np.sort(np.partition(np.concatenate([self.top, x]), -kept)[-kept:])

    def error(self, most: float) -> float:
        """One standard error of the mean of all n draws, with the allowance for unseen events."""
        n = self.count
        mean = float(self.mean)
        variance = float(self.squares) / n
        plain = math.sqrt(variance * n / (n - 1) / n)
        if not math.isfinite(plain):
            return plain
        seen = widened(plain, n)
        if mean > 0:
            size = mean + variance / mean  # sum x^2/sum x
            seen = max(seen, size * share_error(min(n * mean / size, n), n))
        return math.hypot(seen, unseen_above(self.top, n, most))


def tail_size(n: int) -> int:
    """How many of n draws are the top of the sample."""
    return max(1, min(n - 1, round(n**0.5)))


def unseen_above(top: np.ndarray, n: int, most: float) -> float:
    """What draws above all of the sample may add to its mean, over ERROR_SIGMAS; `top` (k+1,) are the
    largest draws, in order.
    """
    largest = float(top[-1])
    missed = min(UNSEEN_EVENT_COUNT / n, 1.0)
    if largest >= most:
        return 0.0
    if top[0] <= 0:
        return missed * (most - largest) / ERROR_SIGMAS
    k = len(top) - 1
    mean_log = float(np.mean(np.log(top[1:] / top[0])))
    alpha = (1 - 2 / k**0.5) / max(mean_log, 1e-12) if k > 4 else 0.0
    growth = math.log(most / largest)
    beyond = (
        growth if abs(1 - alpha) < 1e-9 else math.expm1((1 - alpha) * growth) / (1 - alpha)
    )
    return missed * largest * beyond / ERROR_SIGMAS
