"""One slot of an associative memory that drifts: its mean variance, exact.

notation: x the variance of a slot's content given what was written, a = decay, lam = prior
variance, s = noise, p the chance that a token writes to the slot (1/d for one-hot keys).

Between tokens x -> T x = a^2 x + (1 - a^2) lam, and a token that writes makes it K T x, K x =
x s^2/(x + s^2). With u_m(x) the mean variance m tokens later,

    u_0(x) = x,   u_m(x) = (1 - p) u_{m-1}(T x) + p u_{m-1}(K T x),

a linear map on functions of x in [0, lam]. After h writes without drift u is 1/(1/x + h/s^2), with
a pole at -s^2/h: in y = log(x + o), o = s^2 over the number of writes that drift leaves standing,
these are smooth. Values at Chebyshev points in y carry them to roundoff, the map is a matrix M, and
u_L(lam) is a row of M^L. The same with fewer points is the error. Without drift (a = 1) only the
number of writes counts, and u_L(lam) = sum_h Binomial(L, p)(h) / (1/lam + h/s^2).
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["slot_variance"]

EPS = float(np.finfo(np.float64).eps)
# points: errors fall like exp(-n pi^2/width) on an interval of that width, this many leave 1e-15
CHEBYSHEV_POINTS = 48
POINTS_PER_WIDTH = 6.0
MOST_POINTS = 600  # points: no setting tried needed more than 300
FORGOTTEN_NATS = 20.0  # a^2m <= exp(-2 * 20) = 4e-18
WRITE_REACH_SIGMAS = (
    12.0  # standard deviations of the number of writes that are summed: 1e-32 is left
)


def slot_variance(
    prior: float, noise: float, decay: float, share: float, length: int
) -> tuple[float, float]:
    """u_L(lam) and a bound on its error."""
    s2 = noise * noise
    if decay == 1.0:
        value = _trace_by_counts(prior, s2, share, length)
        return value, 1e-12 * value  # the binomial law of SciPy is good to 1e-13
    lasting = min(length, 1 / ((1 - decay) * (1 + decay)))
    offset = s2 / (1 + share * lasting)
    points = round(CHEBYSHEV_POINTS + POINTS_PER_WIDTH * math.log1p(prior / offset))
    # u_m forgets x like a^2m: more than this many tokens change nothing that is left in float64
    length = min(length, math.ceil(FORGOTTEN_NATS / (1 - decay)))
    # M preserves constants up to the rounding of its rows, L times
    rounding = EPS * (64 * math.log2(length + 2) * points**0.5 + 4 * length) * prior
    coarse = math.inf
    while True:
        fine = _trace_by_iteration(prior, s2, offset, decay, share, length, points)
        gap = abs(fine - coarse)
        if gap <= rounding or points > MOST_POINTS:
            return fine, gap + rounding
        coarse = fine
        points = points * 3 // 2


def _trace_by_counts(prior: float, s2: float, share: float, length: int) -> float:
    from scipy.stats import binom  # imported late: half a second

    middle = length * share
    spread = (
        WRITE_REACH_SIGMAS * math.sqrt(length * share * (1 - share)) + WRITE_REACH_SIGMAS**2
    )
    writes = np.arange(max(0, math.floor(middle - spread)), min(length, middle + spread) + 1)
    left = prior * (s2 / (s2 + writes * prior))
    return float(np.sum(binom.pmf(writes, length, share) * left))


def _trace_by_iteration(
    prior: float, s2: float, offset: float, a: float, share: float, length: int, n: int
) -> float:
    """u_L(lam) with n points."""
    width = math.log1p(prior / offset)  # of the interval in y
    angle = math.pi * np.arange(n) / (n - 1)
    # from lam down to 0, the last without the cancellation in exp(y) - s^2
    x = offset * np.expm1(width * (1 + np.cos(angle)) / 2)
    x[0] = prior
    later = a * a * x + (1 - a) * (1 + a) * prior
    written = later * (s2 / (later + s2))
    there, thither = (2 * np.log1p(z / offset) / width - 1 for z in (later, written))
    M = (1 - share) * _interpolation_matrix(np.cos(angle), there)
    M += share * _interpolation_matrix(np.cos(angle), thither)
    return float((np.linalg.matrix_power(M, length) @ x)[0])


def _interpolation_matrix(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(m, n): values at the Chebyshev points -> values at `at` (m,), by the barycentric formula."""
    sign = (-1.0) ** np.arange(len(nodes))
    sign[[0, -1]] /= 2
    away = at[:, None] - nodes
    same = away == 0
    parts = sign / np.where(same, 1.0, away)
    rows = parts / parts.sum(axis=1, keepdims=True)
    hit = same.any(axis=1)
    rows[hit] = same[hit]
    return rows
