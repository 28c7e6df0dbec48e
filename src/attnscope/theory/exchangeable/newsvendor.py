"""The regret of deciding by attention: newsvendor costs, classes of tokens, exact at every length.

notation: b, u costs per unit short and left over, tau = b/(b + u); L = length; class c has
probability p_c and outcomes Y = mu_c + U(0, 1), distribution function F_c; B = inverse bandwidth.

Keys are the classes (unit vectors), so a token of the query's class weighs e^B, any other 1, and
`attention_decision` takes the smallest a^ with sum_l w_l 1[y_l <= a] >= tau sum_l w_l. With N
tokens of the class, A of them <= a, and Q of the L - N others <= a,

    P(a^ <= a) = P( (A - tau N) + e^-B (Q - tau (L - N)) >= 0 ),
    N ~ Bin(L, p_c),  A ~ Bin(N, F_c(a)),  Q ~ Bin(L - N, G_c(a)),  G_c = mean of F over other classes.

The expected cost of a has slope s(a) = (b + u)(F_c(a) - tau), zero at a* = mu_c + tau, so

    regret = E[cost(a^) - cost(a*)] = int |s(a)| P(a^ on the far side of a from a*) da,

an integral of a positive function without cancellation. Between the kinks mu, mu + 1 of the F the
integrand is a polynomial of degree at most L + 1: Gauss-Legendre rules with L/2 + 2 nodes are
exact, and all that is left is rounding. One class: a^ is the order statistic j = ceil(tau n) of n
uniform numbers, and

    regret = (b + u)/2 [ j (n + 1 - j)/((n + 1)^2 (n + 2)) + (j/(n + 1) - tau)^2 ].

Derived for this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.quadrature import legendre

__all__ = ["decision_regret"]

# tokens: (L/2) L^2 terms a panel, a second or two at this length
NEWSVENDOR_LENGTH_LIMIT = 200
# float64 can distinguish sums of weights from ties down to a weight of e^-20 = 2e-9
LARGEST_INVERSE_BANDWIDTH = 20.0
EPS = float(np.finfo(np.float64).eps)
# a term is a product of three binomial probabilities, each the exponential of numbers up to
# L log L, and lgamma and log are right to about 4 eps
ROUNDINGS_PER_TERM = 64.0


def decision_regret(
    length: int,
    short: float,
    over: float,
    shifts: Sequence[float] | np.ndarray = (0.0,),
    inverse_bandwidth: float = 0.0,
    probabilities: Sequence[float] | np.ndarray | None = None,
) -> Estimate:
    """Expected regret of `attention_decision` for a query of each class: (classes,) numbers.

    Args:
        length: tokens, at most 200.
        short, over: costs per unit.
        shifts: mu_c, one for each class; outcomes are mu_c + U(0, 1).
        inverse_bandwidth: score of a token of the query's class, 0 to 20; others have 0.
        probabilities: of the classes; equal if None.

    >>> e = decision_regret(length=5, short=9.0, over=1.0)
    >>> e.value.round(6), bool(e.error[0] < 1e-12)
    (array([0.121429]), True)
    >>> decision_regret(30, 9.0, 1.0, shifts=(0.0, 0.7, 1.6), inverse_bandwidth=3.0).value.round(5)
    array([0.11652, 0.04526, 0.07797])
    """
    of = "decision_regret"
    L = check.integer(length, "length", of, 1, NEWSVENDOR_LENGTH_LIMIT)
    b = check.real(short, "short", of, 0, strict=True)
    u = check.real(over, "over", of, 0, strict=True)
    mu = check.array(shifts, "shifts", of, (None,)).astype(np.float64)
    B = check.real(inverse_bandwidth, "inverse_bandwidth", of, 0, LARGEST_INVERSE_BANDWIDTH)
    equal = np.full(len(mu), 1 / len(mu))
    p = equal if probabilities is None else check.probabilities(
        probabilities, "probabilities", of, len(mu)
    )  # fmt: skip
    values = np.array([_regret_integral(c, L, b, u, mu, B, p) for c in range(len(mu))])
    relative = ROUNDINGS_PER_TERM * EPS * (1 + L * np.log(L + 1))
    # where outcomes lie is rounded: by EPS of the largest shift
    placed = EPS * (b + u) * (1 + np.abs(mu).max()) * (1 + np.ptp(mu))
    return estimate(values, relative * values + 8 * placed, "closed sum, exact in L")


def _regret_integral(
    c: int, L: int, b: float, u: float, mu: np.ndarray, B: float, p: np.ndarray
) -> float:
    """The integral over all panels between kinks."""
    tau = b / (b + u)
    best = mu[c] + tau
    edges = np.unique(np.concatenate([mu, mu + 1, [best]]))
    x, weight = legendre(L // 2 + 2)
    total = 0.0
    for low, high in pairwise(edges):
        a = low + (high - low) * x
        own = np.clip(a - mu[c], 0.0, 1.0)
        slope = (b + u) * np.abs(own - tau)
        others = np.delete(np.arange(len(mu)), c)
        shares = np.clip(a[:, None] - mu[others], 0.0, 1.0) @ p[others]
        rest = float(p[others].sum())
        share = np.clip(shares / rest, 0.0, 1.0) if rest > 0 else np.zeros_like(a)
        far = _far_side_probability(
            own, share, L, float(p[c]), tau, np.exp(-B), above=low >= best
        )
        total += float((high - low) * weight @ (slope * far))
    return total


def _far_side_probability(
    own: np.ndarray, share: np.ndarray, L: int, p: float, tau: float, leak: float, above: bool
) -> np.ndarray:
    """P(a^ > a) if above, else P(a^ <= a), at every a; own = F_c(a), share = G_c(a)."""
    out = np.zeros_like(own)
    counts = _binomial_probabilities(L, np.array([p]))[0]
    for N in np.flatnonzero(counts):
        M = L - int(N)
        first = _binomial_probabilities(int(N), own)
        second = _binomial_probabilities(M, share)
        # the least Q that reaches tau, for every A; sums equal up to rounding reach it
        A = np.arange(int(N) + 1)
        need = tau * M - (A - tau * N) / leak
        least = np.clip(np.ceil(need - 8 * EPS * (L + 1) / leak), 0, M + 1).astype(int)
        if above:
            tail = np.cumsum(second, axis=1)
            tail = np.concatenate([np.zeros((len(own), 1)), tail], axis=1)
        else:
            tail = np.cumsum(second[:, ::-1], axis=1)[:, ::-1]
            tail = np.concatenate([tail, np.zeros((len(own), 1))], axis=1)
        out += counts[N] * np.sum(first * tail[:, least], axis=1)
    return out


def _binomial_probabilities(n: int, p: np.ndarray) -> np.ndarray:
    """Probabilities of 0 .. n, (len(p), n + 1)."""
    k = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.exp(ways + xlogy(k, p[:, None]) + xlog1py(n - k, -p[:, None]))
