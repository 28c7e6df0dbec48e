"""Posterior of the location, Bayes risk and location error of single-location regression, from
Bayes' rule.

notation: density ratio of a token e^{l(x)} = N(x; s k*, gam^2 I)/N(x; 0, I), p_l ~ pi_l e^{l(x_l)},
w = x.v*.

    R_B = E sum_l p_l (w_l - sum_m p_m w_m)^2,    location error = 1 - E p_J = E sum_l p_l (1 - p_l)

    posterior     the densities themselves, in mpmath
    pairs   L = 2, gam = 1: l = s u - s^2/2 is normal, p_J = logistic(l_J - l_1 + log pi_J/pi_1),
        one integral, any size
    two tokens   L = 2, any gam, k* perp v*: given J, l is an affine function of a noncentral
        chi-square with d degrees of freedom,
                  |x - s k*/(1 - gam^2)|^2 up to scale, and weighting by w^2 gives two degrees more: Gauss-Legendre in both,
                  for moderate parameters
    any L         plain draws of (u, w, |rest|^2) per token, for risks that are not rare events
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp, mpf
from scipy.special import logsumexp
from scipy.stats import ncx2

from stress.references.activation_moments import FEW, integral, value

__all__ = ["lost", "pair_error", "posterior", "sampled_risks", "two_tokens"]

DIGITS = 36
DRAWS = 200_000  # tokens of a plain sample
PANELS = 11  # of two standard deviations each
REACH = 11.0  # a chi variable has a standard deviation below 1: e^-60 is outside
RAREST = -30.0  # logarithm of the least result that the REACH leaves untouched
# gam^2 closer to 1 makes the noncentrality s^2/(1 - gam^2)^2 too large for the density's routine
NEAR_ONE = 1e-3
LARGEST = 1e3  # the same for s/(1 - gam^2), s^2/gam^2 and d
RELATIVE = 1e-10  # relative error of the noncentral chi-square density


def posterior(
    x: np.ndarray,
    key: np.ndarray,
    gam: float,
    s: float,
    log_prior: np.ndarray,
    value_: np.ndarray,
) -> tuple[list, Any]:
    """(p (L,), E[Y | X]) of one sequence x (L, d) in mpmath."""
    with mp.workdps(DIGITS):
        logs = []
        for row, prior in zip(x, log_prior, strict=True):
            far = sum(
                (mpf(a) - mpf(s) * mpf(b)) ** 2 for a, b in zip(row, key, strict=True)
            ) / (2 * mpf(gam) ** 2)
            near = sum(mpf(a) ** 2 for a in row) / 2
            logs.append(near - far + (mpf(prior) if np.isfinite(prior) else -mp.inf))
        top = max(logs)
        e = [mp.exp(x - top) for x in logs]
        p = [x / sum(e) for x in e]
        mean = sum(
            q * sum(mpf(a) * mpf(b) for a, b in zip(row, value_, strict=True))
            for q, row in zip(p, x, strict=True)
        )
        return p, mean


def pair_error(s: float, probs: tuple[float, float] = (0.5, 0.5)) -> Any:
    """1 - E p_J at L = 2, gam = 1; also the Bayes risk there,
    because E(w_J - w_1)^2 = 2 given the scores, over 2 E p_J p_1.
    """
    with mp.workdps(DIGITS):
        s = mpf(s)
        pi = [mpf(x) for x in probs]
        if min(pi) == 0:
            return mpf(0)
        total = mpf(0)
        for J in (0, 1):
            # l_J - l_other = s (u_J - u_other) ~ N(s^2, 2 s^2) given J
            m, b = s * s + mp.log(pi[J] / pi[1 - J]), mp.sqrt(2) * s
            total += pi[J] * lost(m, b)
        return total


def lost(m: Any, b: Any) -> Any:
    """E logistic(-(m + b g)), around the peak of its log-concave integrand,
    where g = -b logistic(m + b g).
    """
    m, b = mpf(m), mpf(b)
    if b == 0:
        return value(("logistic",), -m)
    low = -b
    high = mpf(0)
    for _ in range(60):  # bisection: the peak to 1e-18 of b
        g = (low + high) / 2
        if g + b * value(("logistic",), m + b * g) > 0:
            high = g
        else:
            low = g
    reach = mp.sqrt(2 * mp.log(10) * max(mp.dps, DIGITS))
    edges = [g + reach * i / 8 for i in range(-8, 9)]
    edges += [
        (-m + sign * x) / b for x in (0.75, 1.5, 3, 6, 12, 24, 48, 96) for sign in (-1, 1)
    ]
    inside = sorted(x for x in edges if g - reach <= x <= g + reach)
    f = lambda g: [value(("logistic",), -(m + b * g)) * mp.exp(-g * g / 2)]
    return integral(f, inside, FEW)[0] / mp.sqrt(2 * mp.pi)


def _law(
    d: int, weight: int, gam: float, s: float, informative: bool, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """(l, log of its probability) at Gauss-Legendre nodes;
    `weight` 2 for a token weighted by w^2/E w^2.
    """
    # s x.k*/gam^2 - (1/gam^2 - 1)|x|^2/2 = s^2/(2 gam^2 e) - e |x - a|^2/(2 gam^2) with e = 1 -
    # gam^2, a = s k*/e
    e = 1 - gam**2
    a = s / e
    sd, centre = (gam, s) if informative else (1.0, 0.0)
    noncentral = ((centre - a) / sd) ** 2
    df = d + weight
    low = max(np.sqrt(df - 1 + noncentral) - REACH, 0.0)
    high = np.sqrt(df + noncentral) + REACH
    x, w = np.polynomial.legendre.leggauss(nodes)
    edges = np.linspace(low, high, PANELS + 1)
    half = (edges[1] - edges[0]) / 2
    q = (edges[:-1, None] + half * (1 + x)).ravel()
    log_p = (
        ncx2.logpdf(q * q, df, noncentral) + np.log(2 * q) + np.log(np.tile(half * w, PANELS))
    )
    const = -d * np.log(gam) - s**2 / (2 * gam**2) + s**2 / (2 * gam**2 * e)
    return const - e / (2 * gam**2) * sd**2 * q * q, log_p


def two_tokens(
    d: int, gam: float, s: float, probs: tuple[float, float]
) -> tuple[float, float, float] | None:
    """(R_B, location error, relative error of both) at L = 2, k* perp v*;
    None where out of reach (module docstring).
    """
    if (
        abs(1 - gam**2) < NEAR_ONE
        or s / abs(1 - gam**2) > LARGEST
        or s * s / gam**2 > LARGEST
        or d > LARGEST
    ):
        return None
    fine, coarse = (_two_tokens(d, gam, s, probs, nodes) for nodes in (24, 18))
    if not min(fine) > RAREST:
        return None
    away = max(abs(np.expm1(x - y)) for x, y in zip(fine, coarse, strict=True))
    return float(np.exp(fine[0])), float(np.exp(fine[1])), float(away) + RELATIVE


def _two_tokens(
    d: int, gam: float, s: float, probs: tuple[float, float], nodes: int
) -> tuple[float, float]:
    """Logarithms of R_B and of the location error."""
    risk = []
    error = []
    for J in (0, 1):
        if min(probs) == 0:
            return -np.inf, -np.inf
        shift = np.log(probs[J]) - np.log(probs[1 - J])
        for w1, w0 in ((2, 0), (0, 2), (0, 0)):
            l1, p1 = _law(d, w1, gam, s, True, nodes)
            l0, p0 = _law(d, w0, gam, s, False, nodes)
            x = l1[:, None] - l0[None, :] + shift
            lost = -np.logaddexp(0, x)  # log of the posterior of the wrong token
            pair = lost - np.logaddexp(0, -x)
            total = logsumexp(p1[:, None] + p0[None, :] + (pair if w1 + w0 else lost))
            size = np.log(probs[J]) + total
            if w1:
                risk.append(size + 2 * np.log(gam))
            elif w0:
                risk.append(size)
            else:
                error.append(size)
    return float(logsumexp(risk)), float(logsumexp(error))


def sampled_risks(
    d: int,
    gam: float,
    s: float,
    probs: np.ndarray | int,
    c: float,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[float, float, float, float]:
    """(R_B, its standard error, location error, its standard error);
    probs an integer L for uniform ones.
    """
    pi = (
        np.full(probs, 1 / probs)
        if isinstance(probs, int)
        else np.asarray(probs, dtype=float)
    )
    L = len(pi)
    n = max(draws // L, 400)
    rng = np.random.default_rng(seed)
    u, t = rng.standard_normal((2, n, L))
    rest = rng.chisquare(d - 2, (n, L)) if d > 2 else np.zeros((n, L))
    J = rng.choice(L, n, p=pi / pi.sum())
    rows = np.arange(n)
    u[rows, J] = s + gam * u[rows, J]
    t[rows, J] *= gam
    rest[rows, J] *= gam**2
    w = c * u + np.sqrt(max(1 - c * c, 0.0)) * t
    with np.errstate(divide="ignore"):
        logs = np.log(pi) + s * u / gam**2 - (1 / gam**2 - 1) / 2 * (u * u + t * t + rest)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    mean = (p * w).sum(axis=1, keepdims=True)
    spread = (p * (w - mean) ** 2).sum(axis=1)
    wrong = (p * (1 - p)).sum(axis=1)
    root = np.sqrt(n)
    return (
        float(spread.mean()),
        float(spread.std() / root),
        float(wrong.mean()),
        float(wrong.std() / root),
    )


def sampled_group_error(
    d: int, gam: float, s: float, groups: int, size: int, seed: int = 0, draws: int = DRAWS
) -> tuple[float, float]:
    """(expected posterior mass on wrong groups, standard error)
    where L = groups x size positions are equally likely.
    """
    L = groups * size
    n = max(draws // L, 400)
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((n, L))
    rest = rng.chisquare(d - 1, (n, L))
    u[:, 0] = s + gam * u[:, 0]  # by symmetry the first one decides
    rest[:, 0] *= gam**2
    logs = s * u / gam**2 - (1 / gam**2 - 1) / 2 * (u * u + rest)
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    group = p.reshape(n, groups, size).sum(axis=2)
    wrong = (group * (1 - group)).sum(axis=1)
    return float(wrong.mean()), float(wrong.std() / np.sqrt(n))
