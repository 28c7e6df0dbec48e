"""Averages over one bag whose location is inferred from scores of finite strength and from a noisy
label.

notation: s^2 = strength of the scores, q = variance of the tokens' known values w_l, V = variance
of the label given the informative token, q + V = T the label's; lam_l = log of a position's prior.

Token j is informative, with prior e^{lam_j}:  z_l = s g_l + s^2 1[l=j],  w_l ~ N(0, q),  y = w_j +
sqrt(V) N(0, 1),  e_l = (y - w_l)/sqrt(V),  r_l ~ exp(lam_l + z_l - e_l^2/2). Wanted are

    A = E r_j,    B = E r_j e_j^2,    M = E log sum_l exp(lam_l + z_l - e_l^2/2).

With 1/S = int e^{-tau S} d tau at tau = e^t, given y the tokens are independent and enter as
factors (so the length is a power, and may be huge). F(x) = E exp(-e^{x + s g}), P = 1 - F:

    phi0(t, y) = 1 - E P(t - e^2/2),          e   | y ~ N(y/sqrt V, q/V)          background
    phi1(t, y) = 1 - E P(t + s^2 - e^2/2),    e_j | y ~ N(y sqrt V/T, q/T)        informative
    E r_j h(e_j) = E_y int dt E[h(e_j) P'(t + lam_j + s^2 - e_j^2/2)] prod_{l != j} phi0(t + lam_l)
    M            = E_y int dt [exp(-e^t) - phi1(t + lam_j) prod_{l != j} phi0(t + lam_l)].

Exact: these formulas. Approximate, each to about 1e-10 and geometrically better with its step: the
trapezoid rules over t (|Im t| < pi/2 is free of singularities: exp(-pi^2/step)), over g, e and y,
Gauss-Hermite over s g and e where they are narrow, and P between the nodes of its table (quintics
through P, P', P''). The table is a convolution: x + s g runs over the lattice of x itself.
A second, finer `Rule` measures the error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from attnscope.numerics.integrals.location_table import (
    COARSE_RULE,
    FINE_RULE,
    TABLE_REACH_SIGMAS,
    TABLE_TOP,
    Rule,
    hermite,
    narrow_means,
    quintic_table,
    rows,
)

__all__ = ["COARSE_RULE", "FINE_RULE", "Averages", "Positions", "Rule", "averages", "located"]

CHANNEL_DEPTH_NATS = 33.0  # nats followed below 1: e^-33 = 5e-15
# nats by which a score and a label may deviate together: probability e^-32 = 1e-14
UNLIKELY_NATS = 32.0
NARROW_DEVIATION = (
    0.15  # standard deviation of e below which a few Gauss-Hermite nodes resolve it
)
RAREST_LOG_PRIOR = -40.0  # a position whose prior is e^-40 of the largest one has no effect


class Positions(NamedTuple):
    """The prior of the location, as kinds of bags: kind c has probability weight[c], and counts[c,
    m] positions with logarithm shift[m] of their prior (less constant[c]), one of which is
    informative with probability mass[c, m].
    """

    shift: np.ndarray
    counts: np.ndarray
    mass: np.ndarray
    weight: np.ndarray
    constant: np.ndarray

    @classmethod
    def of_lengths(cls, lengths: np.ndarray, weight: np.ndarray) -> Positions:
        """Every position alike, in bags of these lengths."""
        counts = np.asarray(lengths, dtype=float)[:, None]
        return cls(
            np.zeros(1),
            counts,
            np.ones_like(counts),
            np.asarray(weight, dtype=float),
            -np.log(counts[:, 0]),
        )

    @classmethod
    def of_probs(cls, probs: np.ndarray, counts: np.ndarray) -> Positions:
        """Positions of these distinct probabilities > 0, so many of each."""
        top = float(np.max(probs))
        return cls(
            np.log(probs / top),
            np.asarray(counts, dtype=float)[None],
            (probs * counts)[None],
            np.ones(1),
            np.array([math.log(top)]),
        )

    @property
    def longest(self) -> float:
        return float(self.counts.sum(axis=1).max())


class Averages(NamedTuple):
    """A, B and M of the module docstring, M with the constant of the prior."""

    A: float
    B: float
    M: float


def averages(
    s: float, q: float, V: float, positions: Positions, rule: Rule = COARSE_RULE
) -> Averages:
    """The three averages at s >= 0, q >= 0, V > 0.

    >>> three = Positions.of_lengths(np.array([3]), np.ones(1))
    >>> A, B, M = averages(5.0**0.5, 0.0, 1.0, three)  # a label without information
    >>> round(A, 8), round(B, 8)
    (0.85475574, 0.85475574)
    """
    T = q + V
    y, weight = _half_trapezoid(rule.output)
    y = y * math.sqrt(T)
    behind = _Law(y / math.sqrt(V), math.sqrt(q / V))
    ahead = _Law(y * math.sqrt(V) / T, math.sqrt(q / T))
    return _channel_averages(s, positions, behind, ahead, weight, rule)


def located(s: float, positions: Positions, rule: Rule = COARSE_RULE) -> float:
    """E p_j, p_l ~ exp(lam_l + z_l): the posterior mass on the informative token without a label.

    >>> five = Positions.of_lengths(np.array([5]), np.ones(1))
    >>> round(located(1.0, five), 8)
    0.36081761
    """
    no_label = _Law(np.zeros(1), 0.0)
    return _channel_averages(s, positions, no_label, no_label, np.ones(1), rule).A


class _Law(NamedTuple):
    """e given y: its mean at each y, and its standard deviation."""

    mean: np.ndarray
    deviation: float


def _channel_averages(
    s: float,
    positions: Positions,
    behind: _Law,
    ahead: _Law,
    y_weight: np.ndarray,
    rule: Rule,
) -> Averages:
    """The sums over t and y, for the laws of e of background and informative tokens."""
    shifts = np.maximum(positions.shift, RAREST_LOG_PRIOR)
    low, count = _t_range(s, positions, shifts, rule)
    step = rule.table * rule.stride
    t = low + step * np.arange(count)
    first, cells = quintic_table(s, math.log(positions.longest), rule)
    highest = t[-1] + shifts.max() - first
    P0, _, _ = _conditional_means(t, shifts, behind, cells, first, highest, rule, tilt=0.0)
    P1, K, Kee = _conditional_means(
        t, shifts, ahead, cells, first, highest + s * s, rule, tilt=s * s
    )
    lphi = np.log1p(-np.minimum(P0, 1 - 1e-16))
    weight = step * y_weight
    background = np.exp(-np.exp(np.minimum(t, 7.0)))[:, None]
    A = 0.0
    B = 0.0
    M = 0.0
    for c, share in enumerate(positions.weight):
        everyone = np.tensordot(positions.counts[c], lphi, axes=1)
        product = 0.0
        for m in np.flatnonzero(positions.mass[c]):
            others = np.exp(everyone - lphi[m])
            part = share * positions.mass[c, m]
            A += part * float(np.sum((K[m] * others) @ weight))
            B += part * float(np.sum((Kee[m] * others) @ weight))
            product = product + positions.mass[c, m] * (1 - P1[m]) * others
        M += share * (positions.constant[c] + float(np.sum((background - product) @ weight)))
    return Averages(float(A), float(B), float(M))


def _t_range(
    s: float, positions: Positions, shifts: np.ndarray, rule: Rule
) -> tuple[float, int]:
    """Lowest t, and how many."""
    low = (
        -s * s
        - min(s * s / 2, TABLE_REACH_SIGMAS * s)
        - CHANNEL_DEPTH_NATS
        - math.log(positions.longest)
    )
    far = s * s / 2 + UNLIKELY_NATS if s < TABLE_REACH_SIGMAS else TABLE_REACH_SIGMAS * s
    high = max(far - s * s, 0.0) + TABLE_TOP - float(shifts.min())
    step = rule.table * rule.stride
    return low, math.ceil((high - low) / step) + 1


@lru_cache
def _half_trapezoid(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes >= 0 and folded weights of N(0, 1)."""
    x = step * np.arange(math.ceil(TABLE_REACH_SIGMAS / step) + 1)
    w = 2 * step * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    w[0] /= 2
    return x, w


# -- means over e given y --------------------------------------------------------------------------


def _conditional_means(
    t: np.ndarray,
    shifts: np.ndarray,
    law: _Law,
    cells: np.ndarray,
    first: float,
    depth: float,
    rule: Rule,
    tilt: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E P, E P' and E P' e^2 at t + shift + tilt - e^2/2 given y, (shifts, t, y) each.

    depth: how far above the table's first x any argument lies; beyond sqrt(2 depth) e is too far
    off for P to be more than 0.
    """
    shape = (shifts.size, t.size, law.mean.size)
    P = np.empty(shape)
    K = np.empty(shape)
    Kee = np.empty(shape)
    if law.deviation <= NARROW_DEVIATION:
        x, w = hermite(rule.narrow)
        for m, shift in enumerate(shifts):
            narrow_means(
                t + shift + tilt,
                law.mean,
                law.deviation * x,
                w,
                cells,
                first,
                rule.table,
                P[m],
                K[m],
                Kee[m],
            )
        return P, K, Kee
    e, weight = _folded_trapezoid(law, math.sqrt(2 * max(depth, 1.0)), rule)
    squares = (e * e)[:, None] * weight
    for m, shift in enumerate(shifts):
        found = rows(t + shift + tilt, 0.5 * e * e, cells, first, rule.table)
        P[m] = found[0] @ weight
        K[m] = found[1] @ weight
        Kee[m] = found[1] @ squares
    return P, K, Kee


def _folded_trapezoid(
    law: _Law, furthest: float, rule: Rule
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes e >= 0 and weights (e, y) of a trapezoid rule on the whole line, both signs folded."""
    relative, absolute = rule.label
    h = min(relative * law.deviation, absolute)
    end = min(furthest, float(law.mean.max()) + TABLE_REACH_SIGMAS * law.deviation)
    e = h * np.arange(math.ceil(end / h) + 1)
    plus = (e[:, None] - law.mean) / law.deviation
    minus = (e[:, None] + law.mean) / law.deviation
    weight = np.exp(-0.5 * plus * plus) + np.exp(-0.5 * minus * minus)
    weight[0] /= 2
    return e, weight * (h / law.deviation / math.sqrt(2 * math.pi))
