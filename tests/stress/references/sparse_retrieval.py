"""One of m normal columns from its noisy copy, by other formulas than the project's.

notation: n examples, m columns x_j in R^n, y = x_J + s e; others = m - 1.

Hard choices. With M the best of the wrong scores, P(right) = int_0^inf e^{-v} P(score_J > M(v)) dv,
where M(v) is the quantile at which all wrong scores are below with probability e^{-v}: the law of
the maximum instead of the density of the right score.
    dot: M(v) = Phi^-1(e^{-v/others}); P(chi_n + s Z > x) = E_Z Q(n/2, ((x - s Z)_+)^2/2).
    cosine: the angle below which a wrong one lies with probability 1 - e^{-v/others}, by an inverse
    incomplete beta function; the right one is P(r/s + Z > cot(phi) r'), r = chi_n, r' = chi_{n-1}.
    One example: ties counted over the number of wrong columns with y's sign.

Posterior. m = 2: given |x_J - x_1| = delta s the log odds are N(-delta^2/2, delta^2), so the wrong
mass is E e^{-delta^2/8} E_{N(0, delta^2)} 1/(2 cosh(Lambda/2)), delta^2 = 2 chi_n^2/s^2: positive
terms. More columns by plain draws. One context: softmax of -|y - x_j|^2/(2 s^2) in DIGITS digits.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
from scipy.special import betaincinv, gammaincc, gammaln, log_ndtr, ndtr, ndtri, ndtri_exp

__all__ = ["choice_probability", "posterior", "two_columns", "wrong_mass"]

DIGITS = 60
REACH = 9.5
SIGMAS = 5.5  # of a drawn truth that a deterministic answer may be away
DRAWS = 40_000
FEW = 8  # examples up to which chi_{n-1} has mass near 0 that counts


def _panels(low: float, high: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(low, high, count + 1)
    width = np.diff(edges)[:, None]
    nodes = edges[:-1, None] + width * (x + 1) / 2
    return nodes.ravel(), (width * w / 2).ravel()


def _quantiles() -> tuple[np.ndarray, np.ndarray]:
    """v and weights of int e^{-v} . dv, from 1e-17 on; a trapezoid sum in log v, right to 1e-20."""
    w = np.arange(-40.0, 4.2, 0.2)
    return np.exp(w), 0.2 * np.exp(w - np.exp(w))


def _graded(high: float) -> tuple[np.ndarray, np.ndarray]:
    """Panels on [0, high] that are halved towards 0, down to 1e-12."""
    x, w = np.polynomial.legendre.leggauss(12)
    edges = np.concatenate([[0.0], 2.0 ** np.arange(-40, 0), np.arange(1.0, high + 1, 0.5)])
    width = np.diff(edges)[:, None]
    nodes = edges[:-1, None] + width * (x + 1) / 2
    return nodes.ravel(), (width * w / 2).ravel()


def _chi(n: int, count: int, near_zero: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and probabilities of chi_n; `near_zero` where small values decide."""
    c = math.sqrt(n)
    if near_zero:
        r, w = _graded(c + REACH)
    else:
        r, w = _panels(max(0.0, c - 7.0), c + REACH, count)
    logs = (n - 1) * np.log(r) - r * r / 2
    p = w * np.exp(logs - logs.max())
    return r, p / p.sum()


def choice_probability(n: int, m: float, s: float, scores: str) -> float | None:
    """P(the right column has the largest score); None beyond the reach of the grids."""
    others = m - 1.0
    if others == 0 or n == 0:
        return 1 / m
    if scores == "cosine" and n == 1:
        return _ties(round(others), s) if m <= 400 else None
    v, weight = _quantiles()
    if scores == "dot" and s < 0.5 and others <= 60:
        found = _dot_with_edge(n, others, s)
    elif scores == "dot":
        found = weight @ _dot_above(_normal_maximum(v, others), n, s)
    elif s < 0.1 or s > 10 or n > 60 or m > 1e8:
        return None
    else:
        found = weight @ _cosine_above(v, others, n, s)
    return float(found)


def _normal_maximum(v: np.ndarray, others: float) -> np.ndarray:
    above = -np.expm1(-v / others)
    return np.where(above < 0.5, -ndtri(np.minimum(above, 0.5)), ndtri_exp(-v / others))


def _dot_with_edge(n: int, others: float, s: float) -> float:
    """The integral over the largest of few wrong scores, on panels that shrink towards 0, where
    chi_n has an edge that s Z rounds off within s.
    """
    steps = s * 2.0 ** np.arange(-2, 40)
    steps = steps[steps < REACH]
    edges = np.unique(
        np.concatenate([-steps, [0.0], steps, np.arange(-9.0, 10.0), [-REACH, REACH]])
    )
    total = 0.0
    for low, high in itertools.pairwise(edges):
        a, w = _panels(low, high, 1)
        density = (
            others * np.exp((others - 1) * log_ndtr(a) - a * a / 2) / math.sqrt(2 * math.pi)
        )
        total += float((w * density) @ _dot_above(a, n, s))
    return total


def _dot_above(a: np.ndarray, n: int, s: float) -> np.ndarray:
    """P(chi_n + s Z > a sqrt(1 + s^2)), by pieces on either side of the kink at a = s Z."""
    x = a * math.hypot(1.0, s)
    out = np.empty_like(x)
    for i, level in enumerate(x):
        kink = level / s
        out[i] = ndtr(-kink)
        high = min(kink, REACH)
        # chi is below sqrt(n) + REACH: further down nothing is above
        low = max(-REACH, (level - math.sqrt(n) - 2 * REACH) / s)
        if high > low:
            z, w = _panels(low, high, 30)
            density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            out[i] += (w * density) @ gammaincc(n / 2, (level - s * z) ** 2 / 2)
    return out


def _cosine_above(v: np.ndarray, others: float, n: int, s: float) -> np.ndarray:
    a = (n - 1) / 2
    q = -np.expm1(-v / others)
    half = np.where(q < 0.5, betaincinv(a, a, np.minimum(q, 0.5)), 0.0)
    rest = betaincinv(a, a, np.minimum(np.exp(-v / others), 0.5))
    phi = np.where(q < 0.5, 2 * np.arcsin(np.sqrt(half)), 2 * np.arccos(np.sqrt(rest)))
    count = 20 if s > 0.3 else 40
    r, pr = _chi(n, count)
    # a small angle asks how likely r' is to be as small: among few examples often
    other, po = _chi(n - 1, count, near_zero=n <= FEW)
    out = np.empty_like(v)
    for i, angle in enumerate(phi):
        level = r[:, None] / s - other / math.tan(max(angle, 1e-300))
        out[i] = pr @ (ndtr(level) @ po)
    return out


def _ties(others: int, s: float) -> float:
    agree = 0.5 + math.atan(1 / s) / math.pi
    k = np.arange(others + 1)
    logs = (
        gammaln(others + 1) - gammaln(k + 1) - gammaln(others - k + 1) - others * math.log(2)
    )
    return float(
        agree * np.sum(np.exp(logs) / (k + 1)) + (1 - agree) * 0.5**others / (others + 1)
    )


def two_columns(n: int, s: float) -> float:
    """log of the wrong mass, m = 2."""
    # from where columns lie within the noise of each other
    u = np.arange(min(0.0, math.log(s)) - 45.0 / min(n, 10), 4.5, 0.02)
    r = np.exp(u)
    log_chi = n * u - r * r / 2 - (n / 2 - 1) * math.log(2) - float(gammaln(n / 2))
    delta = math.sqrt(2) * r[:, None] / s
    # Lambda/2 = x on the scale of what falls first, the normal density or 1/cosh
    width = np.minimum(delta / 2, 1.0)
    x = width * np.arange(-45.0, 45.0, 0.05)
    log_sech = -np.abs(x) - np.log1p(np.exp(-2 * np.abs(x)))
    normal = -2 * (x / delta) ** 2 - np.log(delta) - math.log(2 * math.pi) / 2
    logs = log_chi[:, None] - delta**2 / 8 + normal + log_sech + np.log(2 * width)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()) * 0.02 * 0.05)


def wrong_mass(n: int, m: int, s: float, seed: int) -> tuple[float, float]:
    """The mean mass on wrong columns of DRAWS contexts, and SIGMAS standard errors."""
    rng = np.random.default_rng(seed)
    masses = []
    for _ in range(8):
        x = rng.standard_normal((DRAWS // 8, n, m))
        y = x[:, :, 0] + s * rng.standard_normal((DRAWS // 8, n))
        t = np.sum(((x - y[:, :, None]) / s) ** 2, axis=1) / 2
        w = np.exp(t.min(axis=1, keepdims=True) - t)
        masses.append(w[:, 1:].sum(axis=1) / w.sum(axis=1))
    q = np.concatenate(masses)
    # masses too rare to be drawn: 14/n of them are missed with probability 8e-7
    return float(q.mean()), SIGMAS * float(q.std()) / len(q) ** 0.5 + 14 / len(q)


def posterior(keys: np.ndarray, values: np.ndarray, query: np.ndarray, s: float) -> list[Any]:
    """[P(J = j)..., prediction] of one context, exactly."""
    with mp.workdps(DIGITS):
        distances = []
        for column in keys.T:
            parts = [
                (mp.mpf(float(y)) - mp.mpf(float(x))) ** 2 for x, y in zip(column, values)
            ]
            distances.append(mp.fsum(parts) / (2 * mp.mpf(float(s)) ** 2))
        least = min(distances)
        weights = [mp.exp(least - d) for d in distances]
        total = mp.fsum(weights)
        p = [w / total for w in weights]
        mean = mp.fsum(w * mp.mpf(float(q)) for w, q in zip(p, query))
        return [float(x) for x in p] + [float(mean)]
