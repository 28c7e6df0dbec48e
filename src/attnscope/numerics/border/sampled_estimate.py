"""A positive number estimated by sampling, as an Estimate that never exceeds a known upper bound.

Where the draws give no more than an upper bound, the method says so.

notation: R the number, known to a relative standard error e; `ceiling` a number that R cannot
exceed.

A value above the ceiling is lowered to it, which moves it towards R whatever R is. Where 5 e > 1 the
draws do not determine how small R is: the method then ends in "at most", and the result states that
R is below value + 5 error.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv, stdtrit

from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = [
    "GROUP_COUNTS",
    "SampledLog",
    "affordable",
    "grouped_log_mean",
    "groups_of",
    "sampled_estimate",
    "share_error",
    "widened",
]

GROUP_COUNTS = (
    8,
    64,
)  # smallest and largest number of groups behind an error: with 64 it is 12 % wider
FIVE_SIGMA_TAIL = 2.866516e-7  # P(N(0,1) > 5)
SQUARED_ROUNDING = (
    8 * np.finfo(np.float64).eps
) ** 2  # of a squared difference of numbers whose squares average to the ceiling
UNSURE_RELATIVE_ERROR = (
    0.2  # above this relative standard error, 5 standard errors reach down to 0
)


class SampledLog(NamedTuple):
    """log of a positive number (-inf for 0), and its relative standard error."""

    log_value: float
    relative_error: float


def affordable(samples: int, cost: float, work: float, fewest: int, passes: int = 1) -> int:
    """How many draws of this cost, each made `passes` times, fit into `work`; at most `samples`.

    0 where even one pass over `fewest` draws, the least that an error needs, costs more than `work`.
    """
    least = min(fewest, samples)
    if least * cost > work:
        return 0
    return max(min(samples, int(work / (passes * cost))), least // passes)


def groups_of(samples: int, parts: int) -> tuple[int, int]:
    """(groups, draws per group and part) for about `samples` draws from a mixture of `parts`
    laws.
    """
    groups = min(max(samples // parts, GROUP_COUNTS[0]), GROUP_COUNTS[1])
    return groups, max(1, samples // (groups * parts))


def widened(error: float, groups: int) -> float:
    """An error with groups - 1 degrees of freedom, so that 5 of it hold as 5 standard errors do."""
    return error * float(stdtrit(groups - 1, 1 - FIVE_SIGMA_TAIL)) / 5


def share_error(count: float, n: int) -> float:
    """The error of the share count/n of n draws: a fifth of the longer half of its interval.

    The interval (Clopper and Pearson) misses the probability by chance FIVE_SIGMA_TAIL on either side, for
    every count: no event among n draws means a probability below 15/n, whereas a standard error
    would be 0.
    """
    share = count / n
    low = float(betaincinv(count, n - count + 1, FIVE_SIGMA_TAIL)) if count else 0.0
    high = float(betainccinv(count + 1, n - count, FIVE_SIGMA_TAIL)) if count < n else 1.0
    return max(share - low, high - share) / 5


def grouped_log_mean(logs: np.ndarray, groups: int) -> SampledLog:
    """Mean of e^logs, draw i in group i mod `groups`, its error from the means of the groups."""
    top = float(logs.max())
    if top == -math.inf:
        return SampledLog(-math.inf, 0.0)
    means = np.exp(logs - top).reshape(-1, groups).mean(0)
    mean = float(means.mean())
    error = float(means.std(ddof=1)) / math.sqrt(groups) / mean
    return SampledLog(top + math.log(mean), widened(error, groups))


def sampled_estimate(out: SampledLog, ceiling: float, noise: float, method: str) -> Estimate:
    """The number with its standard error, at most `ceiling`."""
    value = min(math.exp(min(out.log_value, 700.0)), ceiling)
    error = min(
        out.relative_error * math.exp(min(out.log_value, 700.0)) + SQUARED_ROUNDING * ceiling,
        ceiling,
    )
    log_value = min(out.log_value, math.log(ceiling)) if ceiling > 0 else -math.inf
    said = method + ", at most" if out.relative_error > UNSURE_RELATIVE_ERROR else method
    return estimate(value, error, said, noise, log_value)
