"""Gaussian averages of the kernels K_p(y) = e^{py} exp(-e^y) over the score of one token, by
trapezoid sums.

A token's log weight is y = yc + width g with g standard normal. This file gives, for p = 1, 2 and n
<= 3,

    E[g^n K_p(y)],   E[g^n K_p'(y)] with K_p' = (p - e^y) K_p,   and   log E[K_0(y)].

K_p times the normal density is log-concave with mode g* = width (p - a), a = e^{y*}, and a step of
r from the mode costs exactly r^2/2 + a (e^{width r} - 1 - width r) nats: every sum runs over a
window around its own mode and carries its own log scale, so averages far below the smallest float
keep their relative accuracy. The trapezoid rule on such entire, decaying functions converges
exponentially; shifting the contour by i eta, eta = 1.4/width (|Im y| < pi/2), gives the step that
leaves exp(-nats). The average of K_0 is taken directly for narrow scores; for wide ones by parts,
E[K_0] = int K_1(y) P(yc + width g < y) dy, whose window stays about 40 wide however large the
temperature is.

numba caches softmax_integral.py with these functions compiled in: after an edit here, touch that
file.

notation: yc centre and `width` standard deviation of y; g the standard normal; a = e^y at the mode;
M the Mills ratio.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["log_survival", "tilted_moments"]

# Standard deviation of y above which E[K_0] goes by parts: the direct window has 9 width/0.25 nodes
# at two exponentials each, the other one about 180 at an error function each; they cost the same
# near 10.
WIDE = 10.0
# log of the ratio of e^y at neighbouring nodes beyond which products under- or overflow
STEEP = 300.0
# nodes between fresh exponentials e^y; products in between lose at most 64 roundings
RESYNC = 64


@njit(cache=True, error_model="numpy")
def node_step(width: float, highest: float, nats: float) -> float:
    """Trapezoid step in g with error exp(-nats): 2 pi eta/step - eta^2/2 = nats;
    `highest` bounds y.
    """
    gaussian = math.sqrt(2.0 * math.pi**2 / nats)
    # either the best shift 2 pi/step keeps |Im y| below pi/2, or K_p = e^{py} all over the window
    if width * 2.0 * math.pi / gaussian < 1.4 or highest < -nats:
        return gaussian
    eta = 1.4 / width
    return 2.0 * math.pi * eta / (nats + 0.5 * eta * eta)


@njit(cache=True, error_model="numpy")
def mode(p: float, yc: float, width: float) -> tuple[float, float]:
    """Mode g* of g -> K_p(yc + width g) exp(-g^2/2), and a = e^{y*}:
    x = width^2 a solves x + log x = c.
    """
    if width == 0.0:
        return 0.0, math.exp(yc)
    c = yc + p * width * width + 2.0 * math.log(width)
    x = c - math.log(c) if c > 2.0 else math.exp(c) / (1.0 + math.exp(c))
    for _ in range(4):  # Newton; the start is within 40 %, so four steps reach rounding
        x = x * (1.0 + c - math.log(x)) / (1.0 + x) if x > 0.0 else 0.0
    a = x / (width * width)
    return width * (p - a), a


@njit(cache=True, error_model="numpy")
def window(y: float, width: float, drop: float) -> tuple[float, float]:
    """Distances left and right of a mode with log weight y,
    where the integrand is `drop` nats lower.
    """
    a = math.exp(y)
    # left: e^{-x} - 1 + x >= max(0, x - 1); right: e^x - 1 - x >= x^2/2, and >= e^x/4 for x >= 1.5
    left = 2.0 * (drop + a) / (a * width + math.sqrt((a * width) ** 2 + 2.0 * (drop + a)))
    right = math.sqrt(2.0 * drop / (1.0 + a * width * width))
    if width > 0.0:
        right = min(right, max(1.5, math.log(4.0 * drop) - y) / width)
    return min(left, math.sqrt(2.0 * drop)), right


@njit(cache=True, error_model="numpy")
def tilted_moments(
    p: float,
    yc: float,
    width: float,
    nats: float,
    drop: float,
    out: np.ndarray,
) -> float:
    """out[0:4] = E[g^n K_p] e^{-scale}, out[4:8] = E[g^n K_p'] e^{-scale}, n = 0..3;
    returns scale.
    """
    g, a = mode(p, yc, width)
    top = yc + width * g
    left, right = window(top, width, drop)
    peak = p * top - a - 0.5 * g * g
    step = node_step(width, top + width * right, nats)
    count = int((left + right) / step) + 2
    e = 0.0
    ratio = math.exp(min(width * step, STEEP))
    fresh = RESYNC if width * step < STEEP else 1
    s0 = s1 = s2 = s3 = s4 = d0 = d1 = d2 = d3 = 0.0
    for i in range(count):
        x = g - left + i * step
        y = yc + width * x
        e = math.exp(y) if i % fresh == 0 else e * ratio
        w = math.exp(p * y - e - 0.5 * x * x - peak)
        wx = w * x
        d = w * (p - e)
        wxx = wx * x
        dx = d * x
        wxxx = wxx * x
        dxx = dx * x
        s0 = s0 + w
        s1 = s1 + wx
        s2 = s2 + wxx
        s3 = s3 + wxxx
        s4 = s4 + wxxx * x
        d0 = d0 + d
        d1 = d1 + dx
        d2 = d2 + dxx
        d3 = d3 + dxx * x
    # Stein: width E[g^n K'] = E[g^{n+1} K] - n E[g^{n-1} K]; for wide scores the sum over K' would
    # cancel
    if width > 1.0:
        d0 = s1 / width
        d1 = (s2 - s0) / width
        d2 = (s3 - 2.0 * s1) / width
        d3 = (s4 - 3.0 * s2) / width
    out[0], out[1], out[2], out[3] = s0, s1, s2, s3
    out[4], out[5], out[6], out[7] = d0, d1, d2, d3
    return peak + math.log(step / math.sqrt(2.0 * math.pi))


@njit(cache=True, error_model="numpy")
def mills(x: float) -> float:
    """P(g > x)/phi(x) for x >= 0, to rounding."""
    if x < 5.0:
        return (
            math.sqrt(0.5 * math.pi) * math.exp(0.5 * x * x) * math.erfc(x / math.sqrt(2.0))
        )
    tail = x
    for k in range(30, 0, -1):  # Laplace's continued fraction: 30 levels give 1e-16 at x = 5
        tail = x + k / tail
    return 1.0 / tail


@njit(cache=True, error_model="numpy")
def log_survival(yc: float, width: float, log_k1: float, nats: float, drop: float) -> float:
    """log E[K_0(y)], through 1 - E[K_0] when yc <= 0 to keep its powers accurate;
    log_k1 = log E[K_1].
    """
    if width > WIDE:
        return _log_survival_by_parts(yc, width, nats, drop)
    step = node_step(width, 0.0, nats)
    e = 0.0
    ratio = math.exp(width * step)
    total = 0.0
    if yc > 0.0:
        g, a = mode(0.0, yc, width)
        left, right = window(yc + width * g, width, drop)
        peak = -a - 0.5 * g * g
        for i in range(int((left + right) / step) + 2):
            x = g - left + i * step
            e = math.exp(yc + width * x) if i % RESYNC == 0 else e * ratio
            total += math.exp(-e - 0.5 * x * x - peak)
        return peak + math.log(total * step / math.sqrt(2.0 * math.pi))
    g, a = mode(1.0, yc, width)  # K_1 <= 1 - K_0 <= min(1, e^y) bounds both ends
    lo = g - window(yc + width * g, width, drop)[0]
    excess = max(0.0, yc + 0.5 * width * width - log_k1)
    hi = min(math.sqrt(2.0 * (drop - log_k1)), width + math.sqrt(2.0 * (drop + excess)))
    for i in range(int((hi - lo) / step) + 2):
        x = lo + i * step
        e = math.exp(yc + width * x) if i % RESYNC == 0 else e * ratio
        total -= math.expm1(-e) * math.exp(-0.5 * x * x)
    return math.log1p(-total * step / math.sqrt(2.0 * math.pi))


@njit(cache=True, error_model="numpy")
def _log_survival_by_parts(yc: float, width: float, nats: float, drop: float) -> float:
    """log E[K_0] = log of int K_1(y) P(yc + width g < y) dy for wide scores;
    its complement when yc <= 0.
    """
    g, a = mode(1.0, yc, width)
    top = yc + width * g
    # over the window the Mills ratio varies by less than e^6
    left, right = window(top, width, drop + 6.0)
    lo = g - left
    side = 1.0 if yc <= 0.0 else -1.0
    if side > 0.0 and lo < 1.0:  # left of g = 1 the tail is flat to e^3 and only e^y decays
        lo = min(lo, min(g, 1.0) - (drop + 3.0) / width)
    peak = top - a - 0.5 * g * g
    step = node_step(width, max(top + width * right, yc), nats)
    total = 0.0
    for i in range(int((g + right - lo) / step) + 2):
        x = lo + i * step
        y = yc + width * x
        log_k1 = y - math.exp(y) - peak
        tail = math.exp(log_k1 - 0.5 * x * x) * mills(abs(x)) / math.sqrt(2.0 * math.pi)
        total += tail if x * side >= 0.0 else math.exp(log_k1) - tail
    log_total = peak + math.log(width * step * total)
    return math.log1p(-math.exp(log_total)) if side > 0.0 else log_total
