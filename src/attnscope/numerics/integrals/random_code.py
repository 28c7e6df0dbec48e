"""How often one of m normal columns is found from its noisy copy: a random code of m words.

notation: n examples, columns x_1 .. x_m in R^n standard normal, y = x_J + s e, e standard normal;
others = m - 1; rho = 1/sqrt(1 + s^2); chi_n the length of a standard normal vector in R^n.

The column with the largest score is the right one with probability E (1 - q)^others, q the
probability that a wrong column scores above the right one.

dot, scores y.x_j. Given |y| wrong scores over |y| are standard normal, and the right one is
A = (chi_n + s Z)/sqrt(1 + s^2), so q = Phi(-A). The density of A, with r = (a + s v)/sqrt(1 + s^2),

    f(a) = c_n e^{-a^2/2} int_{r > 0} r^{n-1} e^{-v^2/2} dv,

by completing squares. The inner integrand is log-concave with curvature at least 1 around
v* = 2 s (n-1)/(a + sqrt(a^2 + 4 s^2 (n-1))): 11 units on either side hold all but e^-60 of it.

cosine, scores y.x_j/|x_j|. Wrong angles have q = I((n-1)/2, (n-1)/2; sin^2(phi/2)), the regularised
incomplete beta function. cos(phi) of the right one is the correlation of n pairs of normals with
mean 0 and correlation rho: Fisher's density, in the angle

    f(phi) ~ sin^{n-2}(phi) (1 - u)^{-(n-1/2)} 2F1(1/2, 1/2; n + 1/2; (1 + u)/2),  u = rho cos phi.

One example has cosines +-1: ties, broken by chance.

Panels are refined where others * q = 1 and, for dot products of few examples, within s of a = 0.
Densities are divided by their own integral: constants cancel. The error is the difference of two
rules on the same panels, and rounding: a relative error delta of q moves (1 - q)^others by at most
delta/e, of a density by 2 delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincinv, hyp2f1, log_ndtr, ndtri_exp

from attnscope.numerics.integrals.log_sums import quiet_log
from attnscope.numerics.integrals.quadrature import (
    EPS,
    NORMAL_REACH_SIGMAS,
    doubling_edges,
    legendre,
    panel_nodes,
)

__all__ = ["cosine_success", "dot_success"]

CHI_LOWER_REACH = (
    8.0  # of chi_n below its centre: standard deviation below .71, lower tail lighter
)
INNER_PANELS = 22  # panels of width at most 1 around v*
PANEL_NODES = (
    16  # Gauss nodes on each of them: log-concave of curvature near 1, resolved to rounding
)
DENSITY_ROUNDING = (
    16 * EPS
)  # of densities and tails, times n: logarithms of size n are exponentiated
# relative, against mpmath: betainc 1e-12 to n = 10^4 and 4e-12 at 10^6 (where DENSITY_ROUNDING n is more),
# hyp2f1 3e-15
SPECIAL_FUNCTION_ERROR = 1e-12

Found = tuple[float, float]  # probability and its error


def dot_success(n: int, others: float, s: float) -> Found:
    """P(y.x_J is the largest), n >= 1."""
    root = math.hypot(1.0, s)
    centre = math.sqrt(n)
    low = (max(0.0, centre - CHI_LOWER_REACH) - NORMAL_REACH_SIGMAS * s) / root
    high = (centre + NORMAL_REACH_SIGMAS * (1 + s)) / root
    at = float(-ndtri_exp(-math.log(others))) if others > 1 else 0.0
    # the turn of the wrong scores; and a = 0, where chi_n has an edge that s Z rounds off
    places = [(min(max(at, low), high), 1 / max(1.0, at))]
    if low < 0 < high:
        places.append((0.0, min(s, 1.0)))

    def density(a: np.ndarray) -> np.ndarray:
        return _chi_plus_normal(a, n, s)

    def right(a: np.ndarray) -> np.ndarray:
        return np.exp(others * log_ndtr(a))

    edges = doubling_edges(places, low, high, np.arange(math.ceil(low), math.floor(high) + 1))
    value, error = _density_mean(density, right, edges)
    return value, error + DENSITY_ROUNDING * (n + at**2 + 10)


def _chi_plus_normal(a: np.ndarray, n: int, s: float) -> np.ndarray:
    """The density of (chi_n + s Z)/sqrt(1 + s^2), up to a factor."""
    root = math.hypot(1.0, s)
    bent = np.sqrt(a * a + 4 * s * s * (n - 1))
    # a + bent cancels for a < 0: the other form of the same root
    peak = np.where(
        a > 0, 2 * s * (n - 1) / np.maximum(a + bent, 1e-300), (bent - a) / (2 * s)
    )
    start = np.maximum(peak - INNER_PANELS / 2, -a / s)
    width = (np.maximum(peak, start) + INNER_PANELS / 2 - start) / INNER_PANELS
    x, w = legendre(PANEL_NODES)
    steps = (np.arange(INNER_PANELS)[:, None] + x).ravel()
    v = start[:, None] + width[:, None] * steps
    r = np.maximum((a[:, None] + s * v) / root, 1e-300)
    # relative to r = sqrt(n), where r^(n-1) e^{-r^2/2} has its bulk: no overflow
    logs = (n - 1) * np.log(r / math.sqrt(n)) - v * v / 2 - (a * a / 2)[:, None] + n / 2
    return (np.exp(logs) @ np.tile(w, INNER_PANELS)) * width


def cosine_success(n: int, others: float, s: float) -> Found:
    """P(y.x_J/|x_J| is the largest), n >= 1; ties by chance."""
    if n == 1:
        return _sign_success(others, s)
    a = (n - 1) / 2
    root = math.hypot(1.0, s)
    rho = 1 / root
    apart = s * s / (root * (root + 1))  # 1 - rho

    def density(phi: np.ndarray) -> np.ndarray:
        half = np.sin(phi / 2) ** 2
        away = apart + 2 * rho * half  # 1 - rho cos phi
        logs = (n - 2) * np.log(np.sin(phi) * root / s) - (n - 0.5) * np.log(
            away / (s * rho) ** 2
        )
        return np.exp(logs) * hyp2f1(0.5, 0.5, n + 0.5, 1 - away / 2)

    def right(phi: np.ndarray) -> np.ndarray:
        below = betainc(a, a, np.sin(phi / 2) ** 2)
        above = betainc(a, a, np.cos(phi / 2) ** 2)
        kept = np.where(below < 0.5, np.log1p(-np.minimum(below, 0.5)), quiet_log(above))
        return np.exp(others * kept)

    typical = math.atan(s)
    wide = math.sin(typical) / math.sqrt(n)
    half = float(betaincinv(a, a, 1 / others)) if others > 2 else 0.5
    turn = 2 * math.asin(math.sqrt(min(max(half, 1e-300), 1.0)))
    steep = math.sin(turn) / max(1.0, (n - 1) * abs(math.cos(turn)))
    places = [(typical, wide), (turn, max(steep, 1e-60)), (0.0, min(s, 1.0))]
    edges = doubling_edges(places, 0.0, math.pi)
    value, error = _density_mean(density, right, edges)
    return value, error + SPECIAL_FUNCTION_ERROR + DENSITY_ROUNDING * n


def _sign_success(others: float, s: float) -> Found:
    """One example: the right sign agrees with y's with probability 1/2 + atan(1/s)/pi."""
    agree = 0.5 + math.atan(1 / s) / math.pi
    m = others + 1
    none = math.exp(-others * math.log(2)) if others < 1000 else 0.0
    value = agree * 2 / m * (1 - none / 2) + (1 - agree) * none / m
    return value, 8 * EPS * value


def _density_mean(
    density: Callable[[np.ndarray], np.ndarray],
    function: Callable[[np.ndarray], np.ndarray],
    edges: np.ndarray,
) -> Found:
    """int f g / int f, and the difference of two rules."""
    found = []
    for x, w in panel_nodes(edges):
        f = w * density(x)
        found.append(float(f @ function(x)) / float(f.sum()))
    fine, coarse = found
    return min(max(fine, 0.0), 1.0), abs(fine - coarse) + 8 * EPS
