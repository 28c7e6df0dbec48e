"""The dimension of the set on which tokens lie, by two nearest neighbours.

notation: n tokens in R^D on a set of dimension m; r_1 < r_2 distances of a token to its two nearest
neighbours.

If the tokens' density hardly changes over such distances, (r_2/r_1)^m has the Pareto(1) distribution
for any density (a standard fact). So log(r_2/r_1) is exponential with mean 1/m, and

    m^ = (n - 1)/sum log(r_2/r_1)

is unbiased for independent ratios. Neighbouring tokens share neighbours: the standard deviation of
m^ is about 1.35 times that of independent ratios for m = 1, 2, 4, and 1.5 is used. With n' = n/1.5^2
the interval of m is m^ Gamma(n')/n', and the error is a fifth of the longer half of the interval at
the level of 5 standard errors. At a finite distance curvature, edges and the slope of the density
matter; this distance is of order n^(-1/m) of the whole, and m^ n^(-2/m^) is added to the error. In
ten or more dimensions no number of tokens is large enough, and the error shows it.

m is at most D, so m^ is cut at D. Tokens on a lattice, or rounded tokens, are not a sample of a
density: ties r_1 = r_2 add nothing to the sum. A share of ties changes m^ by this share. Tokens are
refused if the share exceeds MAX_TIE_SHARE, or if the lower end of the interval of m is above D (a
lattice with a little noise).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainccinv, gammaincinv

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["intrinsic_dimension"]

DIMENSION_NAME = "intrinsic_dimension"
# with fewer distinct tokens the interval extends from a third to three times the estimate
MIN_TOKEN_COUNT = 20
FIVE_SIGMA_TAIL = 2.866516e-7  # P(N(0, 1) > 5)
# standard deviation over that of independent ratios; see the module docstring
SHARED_NEIGHBOUR_FACTOR = 1.5
BLOCK_DISTANCES = 1 << 22  # in memory at a time: 32 MB
CANDIDATE_COUNT = (
    8  # the nearest by a fast formula; their distances are then computed exactly
)
# up to this log(r_2/r_1) distances count as equal: the rounding error of coordinates of size 1 at
# distances of 1e-6; in ten dimensions tokens of a density are this close once in 1e8
TIE_LOG_RATIO = 1e-9
MAX_TIE_SHARE = 0.01  # as large as the relative error of m^ from 10,000 tokens
EPS = float(np.finfo(np.float64).eps)


def intrinsic_dimension(tokens: ArrayLike, most: int = 10_000, seed: int = 0) -> Estimate:
    """The dimension of the set on which tokens (..., D) lie, at the scale of nearest neighbours.

    Args:
        tokens: real numbers, any leading axes; equal tokens count once.
        most: if there are more tokens, this many are drawn (with `seed`).

    With the smoothness beta of a function of the tokens, its error from n of them falls like
    n^(-2 beta/(2 beta + m)): claim around-08.

    >>> turn = np.random.default_rng(0).random(2000) * 2 * np.pi
    >>> circle = np.stack([np.cos(turn), np.sin(turn), np.zeros(2000)], axis=1)
    >>> found = intrinsic_dimension(circle)
    >>> round(found.value, 2), round(found.error, 2)
    (1.02, 0.04)
    """
    x = context_array(tokens, "tokens", DIMENSION_NAME, (None,), "an array (n, D)")
    limit = check.integer(most, "most", DIMENSION_NAME, MIN_TOKEN_COUNT, hint="most=10_000")
    rng = np.random.default_rng(check.seed_value(seed, DIMENSION_NAME))
    x = np.unique(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), axis=0)
    if len(x) > limit:
        x = x[np.sort(rng.choice(len(x), limit, replace=False))]
    n = len(x)
    if n < MIN_TOKEN_COUNT or not x.shape[1]:
        raise bad(
            "tokens",
            DIMENSION_NAME,
            f"at least {MIN_TOKEN_COUNT} different ones",
            f"{n}",
            "more tokens",
        )
    near = _two_nearest(_centre_and_scale(x))
    if not near[:, 0].min() > 0:
        got = "two different ones whose distance rounds to 0"
        raise bad(
            "tokens", DIMENSION_NAME, "apart by more than rounding", got, "rounded tokens"
        )
    logs = np.log(near[:, 1] / near[:, 0])
    ties = int(np.count_nonzero(logs <= TIE_LOG_RATIO))
    hint = "tokens before they were rounded, or other than those of a lattice"
    if ties > MAX_TIE_SHARE * n:
        got = f"{ties} of {n} whose two nearest neighbours are equally far away"
        raise bad("tokens", DIMENSION_NAME, "a sample of a density", got, hint)
    m = (n - 1) / float(np.sum(logs))
    effective = n / SHARED_NEIGHBOUR_FACTOR**2
    low = float(gammaincinv(effective, FIVE_SIGMA_TAIL)) / effective
    high = float(gammainccinv(effective, FIVE_SIGMA_TAIL)) / effective
    if m * low > x.shape[1]:
        got = f"neighbours as evenly spaced as in more than {x.shape[1]} dimensions"
        raise bad("tokens", DIMENSION_NAME, "a sample of a density", got, hint)
    error = m * (max(1 - low, high - 1) / 5 + n ** (-2 / m) + ties / n)
    return estimate(
        min(m, float(x.shape[1])), error, "two nearest neighbours, sampled tokens"
    )


def _centre_and_scale(x: np.ndarray) -> np.ndarray:
    """Tokens centred and scaled to size 1, so that squares do not overflow."""
    x = x / np.abs(x).max()
    x = x - x.mean(axis=0)
    return x / np.abs(x).max()


def _two_nearest(x: np.ndarray) -> np.ndarray:
    """Distances (n, 2) of every row to its two nearest others.

    |x|^2 + |y|^2 - 2 x.y names the candidates; their distances are then taken from differences. A
    row whose farthest candidate is not clearly beyond the second nearest is compared with all.
    """
    n = len(x)
    squares = np.sum(x * x, axis=1)
    rounding = 8 * EPS * (x.shape[1] + 4) * float(squares.max())
    count = min(CANDIDATE_COUNT, n - 1)
    out = np.empty((n, 2))
    step = max(1, BLOCK_DISTANCES // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        fast = squares[rows, None] + squares - 2 * x[rows] @ x.T
        here = np.arange(rows.stop - rows.start)
        fast[here, here + start] = np.inf
        nearest = np.argpartition(fast, count - 1, axis=1)[:, :count]
        exact = np.sum((x[nearest] - x[rows, None]) ** 2, axis=2)
        edge = np.take_along_axis(fast, nearest, axis=1).max(axis=1)
        exact.sort(axis=1)
        for i in np.flatnonzero(edge - rounding <= exact[:, 1]):
            every = np.sum((x - x[start + i]) ** 2, axis=1)
            every[start + i] = np.inf
            exact[i, :2] = np.partition(every, 1)[:2]
        out[rows] = exact[:, :2]
    return np.sqrt(out)
