"""How fast a discrete latent is found: the Chernoff rate, with its prefactor.

notation: topics i, j with priors pi and emissions B; L tokens; Q_s ~ B_i^s B_j^{1-s} the tilted law.

    C = - min_s log sum_x B_i(x)^s B_j(x)^{1-s},   attained at s where log(B_i/B_j) has mean 0 under Q_s;  v = its variance there

With p_i = pi_i prod_l B_i(x_l) and Lambda = log(p_i/p_j) the expected posterior mass on the wrong one of the two topics is, exactly,

    2 sum_x p_i p_j/(p_i + p_j) = 2 pi_i^s pi_j^{1-s} e^{-LC} E_{Q^L} g(Lambda),   g(u) = e^{(1-s)u}/(1 + e^u),

and because Lambda is a sum of L independent terms of mean 0, E g(Lambda) -> int g / sqrt(2 pi L v) with int g = pi/sin(pi s), whence

    1 - E P(z | X)  =  2 pi_i^s pi_j^{1-s} (pi/sin pi s) e^{-LC}/sqrt(2 pi L v) (1 + O(1/L)).

With more topics the pair of smallest C decides. The error is exponentially small in the number of tokens: no regression of a continuous latent
is. On a lattice (two symbols) the constant oscillates with L: g is smooth enough (its transform decays like e^{-pi|t|}) for this to be
invisible unless the spacing of log(B_i/B_j) is several units.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.tasks.topics import Topics

__all__ = ["Chernoff", "asymptotic_topic_error", "chernoff"]


class Chernoff(NamedTuple):
    """rate C of the hardest pair of topics, its tilt s, variance v and the pair (i, j)."""

    rate: float
    tilt: float
    variance: float
    pair: tuple[int, int]


def chernoff(task: Topics) -> Chernoff:
    """The rate at which the posterior mass on wrong topics decays, set by the two topics hardest to tell apart."""
    if task.topics < 2:
        raise bad("task", "chernoff", "of at least two topics", task)
    return min(_pair(task, i, j) for i, j in combinations(range(task.topics), 2))


def _pair(task: Topics, i: int, j: int) -> Chernoff:
    both = (task.emissions[i] > 0) & (task.emissions[j] > 0)
    a, b = np.log(task.emissions[i][both]), np.log(task.emissions[j][both])
    slope = lambda s: float(_tilted(a, b, s) @ (a - b)) if both.any() else 0.0
    if not (slope(0.0) < 0 < slope(1.0)):
        must = f"such that topics {i} and {j} differ and neither forbids symbols that decide between them"
        raise bad("emissions", "chernoff", must, "a tilt at the end of [0, 1]", "positive emissions")
    s = float(brentq(slope, 0.0, 1.0, xtol=1e-15, rtol=1e-14))
    rate = -math.log(np.sum(np.exp(s * a + (1 - s) * b)))
    return Chernoff(rate, s, float(_tilted(a, b, s) @ (a - b) ** 2), (i, j))


def _tilted(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
    w = np.exp(s * a + (1 - s) * b)
    return w / w.sum()


def asymptotic_topic_error(task: Topics, length: int) -> float:
    """The right-hand side of the module's last formula without its O(1/L): compare Topics.topic_error."""
    L = check.integer(length, "length", "asymptotic_topic_error", 1)
    rate, s, variance, (i, j) = chernoff(task)
    prior = task.prior[i] ** s * task.prior[j] ** (1 - s)
    return float(2 * prior * np.pi / np.sin(np.pi * s) * np.exp(-L * rate) / np.sqrt(2 * np.pi * L * variance))
