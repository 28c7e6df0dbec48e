"""How fast a discrete latent is found: the Chernoff rate, with its prefactor.

notation: topics i, j with priors pi and emissions B; L tokens; Q_s ~ B_i^s B_j^{1-s} the tilted
law.

    C = - min_s log sum_x B_i(x)^s B_j(x)^{1-s},
        attained at s where log(B_i/B_j) has mean 0 under Q_s;  v = its variance there

With p_i = pi_i prod_l B_i(x_l) and Lambda = log(p_i/p_j) the expected posterior mass on the wrong
one of the two topics is, exactly,

    2 sum_x p_i p_j/(p_i + p_j) = 2 pi_i^s pi_j^{1-s} e^{-LC} E_{Q^L} g(Lambda),
        g(u) = e^{(1-s)u}/(1 + e^u),

and because Lambda is a sum of L independent terms of mean 0, E g(Lambda) -> int g / sqrt(2 pi L v)
with int g = pi/sin(pi s), whence

    1 - E P(z | X)  =  2 pi_i^s pi_j^{1-s} (pi/sin pi s) e^{-LC}/sqrt(2 pi L v) (1 + O(1/L)).

With more topics the pair of smallest C decides. The error is exponentially small in the number of
tokens: no regression of a continuous latent is. On a lattice (two symbols) the constant oscillates
with L, invisibly unless the spacing of log(B_i/B_j) is several units.

For two topics the wrong mass is also exact at every L, by a contour integral
(theory.exchangeable.two_topics), and that bounds the law's own error. With more topics, and m_ij
the wrong mass of the pair i, j alone,

    m_ij - sum_k min(m_ik, m_jk)  <=  1 - E P(z | X)  <=  sum of all m_ij,

because p >= p_i + p_j, and p_i p_j p_k/((p_i + p_j) p) <= p_i p_k/(p_i + p_k).
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.tasks.base import checked_law
from attnscope.tasks.exchangeable.topics import Topics
from attnscope.theory.exchangeable.two_topics import log_ratio, tilted_law, wrong_mass

__all__ = ["Chernoff", "asymptotic_topic_error", "chernoff", "two_topic_error"]

SMALLEST_FLOAT = 5e-324  # the error of a value that underflows: it is small, but not zero
FAST_COUNT_VECTORS = 200_000  # enumerating this many count vectors is as fast as the integral
# relative error above which enumerated counts replace the integral
INTEGRAL_ERROR_LIMIT = 1e-9


class Chernoff(NamedTuple):
    """rate C of the hardest pair of topics, its tilt s, variance v and the pair (i, j)."""

    rate: float
    tilt: float
    variance: float
    pair: tuple[int, int]


def chernoff(task: Topics) -> Chernoff:
    """The rate at which the posterior mass on wrong topics decays, set by the two topics that are
    hardest to distinguish.

    Topics of prior probability 0 do not occur and do not count.

    Args:
        task: Topics, two or more of positive prior.

    >>> import attnscope as at
    >>> task = at.Topics([0.5, 0.5], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    >>> found = at.chernoff(task)
    >>> round(found.rate, 4), found.pair
    (0.1712, (0, 1))
    """
    of = "chernoff"
    checked_law(task, Topics, of, "Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])")
    pairs = _occurring_pairs(task)
    if not pairs:
        raise bad("task", of, "of at least two topics that occur", task)
    return min(_pair_chernoff(task, i, j) for i, j in pairs)


def _occurring_pairs(task: Topics) -> list[tuple[int, int]]:
    """Pairs of topics with positive prior probability."""
    return list(combinations(np.flatnonzero(task.prior).tolist(), 2))


def _pair_chernoff(task: Topics, i: int, j: int) -> Chernoff:
    p = task.emissions[i]
    q = task.emissions[j]
    both = (p > 0) & (q > 0)
    ratio = log_ratio(p[both], q[both])
    a = np.log(p[both])
    b = np.log(q[both])

    def slope(s: float) -> float:
        return float(tilted_law(a, b, s) @ ratio) if both.any() else 0.0

    if not (slope(0.0) < 0 < slope(1.0)):
        must = (
            f"such that topics {i} and {j} differ and neither forbids symbols that decide "
            "between them"
        )
        raise bad(
            "emissions", "chernoff", must, "a tilt at the end of [0, 1]", "positive emissions"
        )
    s = float(brentq(slope, 0.0, 1.0, xtol=1e-15, rtol=1e-14))
    # M - 1, not M: topics that nearly agree have a rate below rounding of M
    less = math.fsum([*(q[both] * np.expm1(s * ratio)), *q[both], -1.0])
    rate = (
        -math.log1p(less)
        if less > -0.5
        else -math.log(math.fsum(np.exp(s * a + (1 - s) * b)))
    )
    return Chernoff(rate, s, float(tilted_law(a, b, s) @ ratio**2), (i, j))


def asymptotic_topic_error(task: Topics, length: int) -> Estimate:
    """The law e^{-LC}/sqrt(L) with its constant, for the hardest pair of topics; `error` bounds its
    distance from the exact value.

    The bound is from the exact masses of all pairs of topics (see the module docstring).

    Args:
        task: Topics, two or more of positive prior.
        length: L >= 1, the tokens seen.

    >>> import attnscope as at
    >>> task = at.Topics([0.5, 0.5], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    >>> law, exact = at.asymptotic_topic_error(task, 100), at.two_topic_error(task, 100)
    >>> abs(law.value - exact.value) <= law.error
    True
    >>> round(law.value / exact.value, 2)
    1.03
    """
    of = "asymptotic_topic_error"
    checked_law(task, Topics, of, "Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])")
    L = check.integer(length, "length", of, 1)
    rate, s, variance, (i, j) = chernoff(task)
    log_prior = s * math.log(task.prior[i]) + (1 - s) * math.log(task.prior[j])
    constant = 2 * math.pi / math.sin(math.pi * s) / math.sqrt(2 * math.pi * variance)
    log_law = log_prior + math.log(constant) - math.log(L) / 2 - L * rate
    law = math.exp(log_law)
    masses = {pair: _pair_wrong_mass(task, *pair, L, of) for pair in _occurring_pairs(task)}
    own = masses.pop((i, j))
    others = math.fsum(mass.value + mass.error for mass in masses.values())
    error = abs(law - own.value) + own.error + others
    return estimate(law, error + SMALLEST_FLOAT, "Chernoff asymptotics", 0.0, log_law)


def two_topic_error(task: Topics, length: int) -> Estimate:
    """1 - E P(z | x_1 .. x_L) for two topics, exactly, for any priors and any length.

    The contour integral of theory.exchangeable.two_topics; its rounding grows like L eps, its time
    does not grow. Compare Topics.topic_error, which enumerates counts.

    Args:
        task: Topics, two of them.
        length: L >= 1, the tokens seen.

    >>> task = Topics([0.5, 0.5], [[0.7, 0.3], [0.4, 0.6]])
    >>> round(two_topic_error(task, 10).value, 10), round(task.topic_error(10).value, 10)
    (0.2303426404, 0.2303426404)
    """
    of = "two_topic_error"
    checked_law(task, Topics, of, "Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])")
    L = check.integer(length, "length", of, 1)
    if task.topics != 2:
        raise bad(
            "task",
            of,
            "of two topics",
            f"{task.topics} topics",
            "task.topic_error, which enumerates counts",
        )
    few = (
        math.comb(L + task.vocabulary - 1, L) <= FAST_COUNT_VECTORS
        if L <= FAST_COUNT_VECTORS
        else False
    )
    try:
        found = _pair_wrong_mass(task, 0, 1, L, of)
    except AttnscopeError:
        if few:
            return task.topic_error(L)
        raise
    # with laws of many magnitudes on few symbols a handful of counts carries the mass, and the
    # integral cancels
    return (
        task.topic_error(L)
        if few and found.error > INTEGRAL_ERROR_LIMIT * found.excess
        else found
    )


def _pair_wrong_mass(task: Topics, i: int, j: int, length: int, of: str) -> Estimate:
    """2 sum_x p_i p_j/(p_i + p_j)."""
    priors = (float(task.prior[i]), float(task.prior[j]))
    found = wrong_mass(priors, task.emissions[i], task.emissions[j], length, of)
    mass = math.exp(found.log)
    error = math.expm1(found.error) * mass
    if math.isfinite(found.log):
        error += SMALLEST_FLOAT  # where the mass underflows to 0, it is still not 0
    return estimate(mass, error, "contour integral", 0.0, found.log)
