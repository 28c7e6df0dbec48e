"""Truths of deciding by attention, from the definitions.

notation: w_l = softmax(q.k/h), c(a, y) = b (y - a)+ + u (a - y)+, tau = b/(b + u).

The least weighted cost is a minimum over all outcomes as actions, in DIGITS digits. The regret of
classes with uniform outcomes: for few tokens the four kinds of a token (of the class or not, below
a or not) are counted by multinomial probabilities, P(a^ > a) integrated in DIGITS digits and the
least cost subtracted; for one class by the moments of an order statistic; for more tokens by
drawing them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import mpmath as mp
import numpy as np

__all__ = ["least_cost", "regret", "weighted_cost"]

DIGITS = 40
FEW = 5  # tokens that are counted
DRAWS = 20_000
SIGMAS = 6.0


def _weights(q: np.ndarray, k: np.ndarray, h: float) -> list[mp.mpf]:
    exact = lambda x: [mp.mpf(float(a)) for a in x]
    scores = [mp.fdot(exact(q), exact(row)) / mp.mpf(h) for row in k]
    top = max(scores)
    e = [mp.exp(s - top) for s in scores]
    total = mp.fsum(e)
    return [x / total for x in e]


def weighted_cost(
    q: np.ndarray, k: np.ndarray, y: np.ndarray, h: float, cost: Callable[[float, float], mp.mpf],
    action: float,
) -> float:  # fmt: skip
    """sum_l w_l c(a, y_l)."""
    with mp.workdps(DIGITS):
        pairs = zip(_weights(q, k, h), y)
        return float(mp.fsum(w * cost(float(action), float(x)) for w, x in pairs))


def least_cost(
    q: np.ndarray, k: np.ndarray, y: np.ndarray, h: float, cost: Callable[[float, float], mp.mpf],
    actions: Sequence[float],
) -> float:  # fmt: skip
    """The least over these actions."""
    with mp.workdps(DIGITS):
        w = _weights(q, k, h)
        means = [mp.fsum(v * cost(float(a), float(x)) for v, x in zip(w, y)) for a in actions]
        return float(min(means))


def regret(
    L: int, b: float, u: float, mu: Sequence[float], B: float, p: Sequence[float], seed: int
) -> tuple[list[float], float | list[float]]:
    """Regret for a query of each class, and the reference's own error."""
    if len(mu) == 1:
        return [_order_statistic(L, b, u)], 0.0
    if L <= FEW:
        counted = [_counted(c, L, b, u, mu, B, p) for c in range(len(mu))]
        return counted, 1e-15 * (b + u) * (1 + max(mu) - min(mu))  # its nodes are float64
    drawn = [_drawn(c, L, b, u, mu, B, p, seed) for c in range(len(mu))]
    return [d[0] for d in drawn], [d[1] for d in drawn]


def _order_statistic(n: int, b: float, u: float) -> float:
    with mp.workdps(DIGITS):
        tau = mp.mpf(b) / (mp.mpf(b) + mp.mpf(u))
        j = int(mp.ceil(tau * n - mp.mpf(10) ** -12))
        mean = mp.mpf(j) / (n + 1)
        variance = mp.mpf(j * (n + 1 - j)) / ((n + 1) ** 2 * (n + 2))
        return float((mp.mpf(b) + mp.mpf(u)) / 2 * (variance + (mean - tau) ** 2))


def _share(a: mp.mpf, m: float) -> mp.mpf:
    return min(max(a - mp.mpf(m), mp.mpf(0)), mp.mpf(1))


def _cost(a: mp.mpf, m: float, b: mp.mpf, u: mp.mpf) -> mp.mpf:
    """E c(a, m + U(0, 1))."""
    z = a - mp.mpf(m)
    f = _share(a, m)
    return b * (max(-z, mp.mpf(0)) + (1 - f) ** 2 / 2) + u * (
        max(z - 1, mp.mpf(0)) + f**2 / 2
    )


def _counted(
    c: int, L: int, b: float, u: float, mu: Sequence[float], B: float, p: Sequence[float]
) -> float:
    with mp.workdps(DIGITS):
        short = mp.mpf(b)
        over = mp.mpf(u)
        tau = short / (short + over)
        weight = mp.exp(mp.mpf(B))
        kinds = []
        for A in range(L + 1):
            for rest in range(L + 1 - A):
                for Q in range(L + 1 - A - rest):
                    M = L - A - rest - Q
                    left = weight * ((1 - tau) * A - tau * rest) + (1 - tau) * Q - tau * M
                    if left < -(mp.mpf(10) ** -12):  # does not reach tau: a^ > a
                        kinds.append((A, rest, Q, M))

        def above(a: mp.mpf) -> mp.mpf:
            own = mp.mpf(p[c]) * _share(a, mu[c])
            others = mp.fsum(
                mp.mpf(p[k]) * _share(a, mu[k]) for k in range(len(mu)) if k != c
            )
            parts = (own, mp.mpf(p[c]) - own, others, 1 - mp.mpf(p[c]) - others)
            total = mp.mpf(0)
            for counts in kinds:
                ways = mp.factorial(L)
                for n, x in zip(counts, parts):
                    ways = ways / mp.factorial(n) * (x**n if n else 1)
                total += ways
            return total

        edges = sorted({mp.mpf(m) + shift for m in mu for shift in (0, 1)})
        slope = lambda a: (short + over) * _share(a, mu[c]) - short
        value = _cost(edges[0], mu[c], short, over)
        x, w = np.polynomial.legendre.leggauss(8)  # exact: degree 15 and FEW + 1 are asked
        for low, high in pairwise(edges):
            half = (high - low) / 2
            for node, part in zip(x, w):
                a = low + half * (1 + mp.mpf(float(node)))
                value += half * mp.mpf(float(part)) * slope(a) * above(a)
        return float(value - _cost(mp.mpf(mu[c]) + tau, mu[c], short, over))


def _drawn(
    c: int, L: int, b: float, u: float, mu: Sequence[float], B: float, p: Sequence[float], seed: int
) -> tuple[float, float]:  # fmt: skip
    rng = np.random.default_rng([seed, c])
    kind = rng.choice(len(mu), size=(DRAWS, L), p=np.asarray(p) / np.sum(p))
    y = np.asarray(mu)[kind] + rng.random((DRAWS, L))
    w = np.where(kind == c, 1.0, math.exp(-B))
    order = np.argsort(y, axis=1)
    sums = np.cumsum(np.take_along_axis(w, order, axis=1), axis=1)
    tau = b / (b + u)
    first = np.argmax(sums >= (tau - 1e-12) * sums[:, -1:], axis=1)
    a = np.take_along_axis(np.take_along_axis(y, order, axis=1), first[:, None], 1)[:, 0]
    z = a - mu[c]
    f = np.clip(z, 0, 1)
    cost = b * (np.maximum(-z, 0) + (1 - f) ** 2 / 2) + u * (np.maximum(z - 1, 0) + f**2 / 2)
    found = cost - (b * (1 - tau) ** 2 / 2 + u * tau**2 / 2)
    return float(found.mean()), SIGMAS * float(found.std(ddof=1)) / DRAWS**0.5 + 1e-9 * (
        b + u
    )
