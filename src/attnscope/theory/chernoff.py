"""How fast a discrete latent is found: the Chernoff rate, with its prefactor.

notation: topics i, j with priors pi and emissions B; L tokens; Q_s ~ B_i^s B_j^{1-s} the tilted law.

    C = - min_s log sum_x B_i(x)^s B_j(x)^{1-s},   attained at s where log(B_i/B_j) has mean 0 under Q_s;  v = its variance there

With p_i = pi_i prod_l B_i(x_l) and Lambda = log(p_i/p_j) the expected posterior mass on the wrong one of the two topics is, exactly,

    2 sum_x p_i p_j/(p_i + p_j) = 2 pi_i^s pi_j^{1-s} e^{-LC} E_{Q^L} g(Lambda),   g(u) = e^{(1-s)u}/(1 + e^u),

and because Lambda is a sum of L independent terms of mean 0, E g(Lambda) -> int g / sqrt(2 pi L v) with int g = pi/sin(pi s), whence

    1 - E P(z | X)  =  2 pi_i^s pi_j^{1-s} (pi/sin pi s) e^{-LC}/sqrt(2 pi L v) (1 + O(1/L)).

With more topics the pair of smallest C decides. The error is exponentially small in the number of tokens: no regression of a continuous latent
is. On a lattice (two symbols) the constant oscillates with L, invisibly unless the spacing of log(B_i/B_j) is several units.

For two topics E g(Lambda) is also exact at every L, by Fourier inversion: g has the transform pi/sin(pi (1 - s - it)), so

    E g(Lambda) = 1/(2 pi) int pi/sin(pi (1 - s - it)) (pi_i/pi_j)^{it} phi(t)^L dt,   phi(t) = E_{Q_s} (B_i/B_j)^{it},

an integrand that decays like e^{-pi |t|} and is analytic in |Im t| < min(s, 1-s): the trapezoid rule converges exponentially, also for
L = 10^6 and more, where enumeration of counts has long ended.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from attnscope.errors import bad
from attnscope.numerics import validation as check
from attnscope.numerics.estimate import Estimate, estimate
from attnscope.tasks.topics import Topics

__all__ = ["Chernoff", "asymptotic_topic_error", "chernoff", "two_topic_error"]

REACH = 12.0  # e^{-12 pi} = 4e-17: the integrand beyond is rounding


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


def asymptotic_topic_error(task: Topics, length: int) -> Estimate:
    """The law e^{-LC}/sqrt(L) with its constant, without the O(1/L): `error` is the size 1/(L v) of that term, not a bound."""
    L = check.integer(length, "length", "asymptotic_topic_error", 1)
    rate, s, variance, (i, j) = chernoff(task)
    constant = (
        2 * task.prior[i] ** s * task.prior[j] ** (1 - s) * np.pi / np.sin(np.pi * s) / np.sqrt(2 * np.pi * variance)
    )
    log_error = float(np.log(constant) - np.log(L) / 2 - L * rate)
    return estimate(
        math.exp(log_error), math.exp(log_error) / (L * min(variance, 1)), "Chernoff asymptotics", 0.0, log_error
    )


def two_topic_error(task: Topics, length: int) -> Estimate:
    """1 - E P(z | x_1 .. x_L) for two topics, exactly, by the Fourier integral of the module docstring; compare Topics.topic_error."""
    of = "two_topic_error"
    L = check.integer(length, "length", of, 1)
    if task.topics != 2:
        raise bad("task", of, "of two topics", f"{task.topics} topics", "task.topic_error, which enumerates counts")
    rate, s, variance, _ = chernoff(task)
    # 2 pi min(s, 1-s)/step = 40 for the strip of analyticity, and 4 nodes per standard deviation of phi^L
    step = min(0.157 * min(s, 1 - s), 0.25 / (L * variance) ** 0.5)
    t = step * np.arange(-math.ceil(REACH / step), math.ceil(REACH / step) + 1)
    both = (task.emissions > 0).all(axis=0)
    a, b = np.log(task.emissions[:, both])
    phi = np.exp(1j * t[:, None] * (a - b)) @ _tilted(a, b, s)
    odds = math.log(task.prior[0] / task.prior[1])
    terms = np.pi / np.sin(np.pi * (1 - s - 1j * t)) * np.exp(1j * t * odds) * phi**L
    prior = task.prior[0] ** s * task.prior[1] ** (1 - s)
    log_error = math.log(prior / np.pi * step * float(terms.real.sum())) - L * rate
    excess = math.exp(log_error)
    relative = 1e-13 + 1e-15 * L  # phases and the rate are rounded once per token
    return estimate(excess, relative * excess, "Fourier integral", 0.0, log_error)
