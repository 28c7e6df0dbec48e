"""Exact risk of normalised attention T(X) = sum_l a_l X_l.v, a_l = h(lam u_l)/(c0 + sum_m h(lam
u_m)), for any h > 0 (u = X.k).

With t = e^tau, 1/(c0 + S)^2 = int t^2 e^{-t (c0 + S)} dtau, S = sum_m h_m, and Y - T = sum_m a_m (Y
- w_m) + a_sink Y, so

    R = int dtau e^{-c0 t} I(tau),   I = E[(sum_m e^{y_m} (Y - w_m) + c0 t Y)^2 exp(-sum_m
        e^{y_m})],   y_m = tau + log h(lam u_m),

and the tokens are independent: I is a polynomial in averages over one token with the kernels K_p =
e^{p y} exp(-e^y) (1: informative, 0: background; F_j = f0^{L-j}, f0 = E0[K_0]):

    I = E1[(Y-w)^2 K2] F_1 + 2(L-1) (E1[(Y-w)Y K1] E0[K1] - E1[(Y-w) K1] E0[w K1]) F_2
        + (L-1) (Y2 E0[K2] - 2 Y1 E0[w K2] + Y0 E0[w^2 K2]) F_2 + (L-1)(L-2) (Y2 E0[K1]^2 - 2 Y1
          E0[K1] E0[w K1] + Y0 E0[w K1]^2) F_3
        + (c0 t)^2 Y2 F_1 + 2 c0 t [E1[(Y-w)Y K1] F_1 + (L-1)(Y2 E0[K1] - Y1 E0[w K1]) F_2],
            Yn = E1[Y^n K_0].

The same transform gives the moments of the weights when m tokens are informative
(`weight_moments`), by which any task with w independent of u is served. For h = exp this is
softmax_risk's integral, there with relative accuracy and a gradient; here for any h. Outer rule:
trapezoid in tau with step TAU_STEP, relative error 3e-13 of R proven by outer_bound's argument,
which uses only h > 0. Inner rule: trapezoid in the standard normal score, whose halved rule
estimates its error. Rounding: I once more with the absolute value of every term, times
EXPONENT_ROUNDING eps per unit of the largest exponent, so that terms of size s^2 that cancel leave
an error of s^2 eps. What lies beyond the grids has probability 1e-18 and counts with the second
moments of Y and T.

notation: lam inverse temperature, kap eta the nu rho the overlaps, gam, s signal, c alignment, L
length, m relevant, g = (u - E u)/sd.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from attnscope.errors import bad
from attnscope.predictors.attention import Normalised
from attnscope.theory.law import Law

__all__ = [
    "LARGEST_EXPONENT",
    "TAU_STEP",
    "Kernels",
    "WeightMoments",
    "kernels",
    "laws_of",
    "normalised_excess",
    "power",
    "rules_for",
    "tau_range",
    "weight_moments",
]

TAU_STEP = 0.27  # outer_bound(0.27) = 3e-13
SCORE_REACH_SIGMAS = 9.0  # a normal score lies beyond with probability 2e-19
TAU_DEPTH_NATS = 40.0  # the slowest decay of an integrand, e^tau, is followed to e^-40
LARGEST_EXPONENT = 7.0  # K_p(7) = 0 in float64
# step of the score times lam sd: the halved rule, twice as coarse, then errs by exp(-pi^2/(2
# FINEST_SCORE_STEP)) = 2e-11
FINEST_SCORE_STEP = 0.2
# lam sd above which the tables would hold more than about 10^7 numbers
LARGEST_SCORE_SPREAD = 60.0
TABLE_ENTRIES_PER_CHUNK = 1 << 20  # entries of a table computed at a time
OUTER_RULE_ERROR = 3e-13  # relative error of the trapezoid rule in tau, outer_bound(TAU_STEP)
# eps per unit of the largest exponent tau + log h, and at least for 4 units: four averages are
# multiplied, each moved by the rounding of its exponents, and a power f0^(L-j) moves by that of
# (L-j) (1 - f0), a few units where it matters
EXPONENT_ROUNDING = 16 * 2.0**-52
# of the second moments: scores beyond SCORE_REACH_SIGMAS, tau beyond TAU_DEPTH_NATS
OMITTED_MOMENT_SHARE = 1e-17


class WeightMoments(NamedTuple):
    """E a_J, E a_J^2 of an informative token's weight, E a_0^2 of a background token's,
    and their common absolute error.
    """

    informative: float
    informative_square: float
    background_square: float
    error: float


class Kernels(NamedTuple):
    """E[poly(g) K_p] at every tau for the polynomials asked for: columns of k0, k1, k2;
    rest = 1 - E[K_0].
    """

    k0: np.ndarray
    k1: np.ndarray
    k2: np.ndarray
    rest: np.ndarray


def normalised_excess(
    predictor: Normalised,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
) -> tuple[float, float]:
    """(excess, error) at scalar overlaps and inverse temperature."""
    laws = laws_of(lam, overlaps[0] * law.signal, law.gamma)
    tau = tau_range(predictor, lam, laws, 1.0, law.length - 1.0)
    rounding = _product_rounding(predictor, lam, laws, tau)
    (fine, size), (coarse, _) = (
        _excess_and_size(predictor, overlaps, lam, law, tau, rounding, *rules)
        for rules in zip(*(rules_for(lam * sd) for _, sd in laws))
    )
    # E Y^2, E w_J^2, and the largest of L background values
    gam, s, L, c = law
    moments = (s * c) ** 2 + (s * overlaps[2]) ** 2 + 2 * gam**2 + 1 + 2 * math.log(L)
    return fine, abs(fine - coarse) + OUTER_RULE_ERROR * abs(
        fine
    ) + rounding * size + OMITTED_MOMENT_SHARE * moments


def _product_rounding(
    predictor: Normalised, lam: float, laws: list[tuple[float, float]], tau: np.ndarray
) -> float:
    """Relative rounding of the product of averages: EXPONENT_ROUNDING times the largest exponent."""
    ends = np.array(
        [mean + sign * SCORE_REACH_SIGMAS * sd for mean, sd in laws for sign in (-1.0, 1.0)]
    )
    scores = lam * ends
    largest = max(
        np.abs(tau).max(),
        np.abs(predictor.log_activation(scores)).max(),
        np.abs(scores).max(),
    )
    return EXPONENT_ROUNDING * (4 + float(largest))


def _excess_and_size(
    predictor: Normalised,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
    tau: np.ndarray,
    rounding: float,
    rule1: tuple[np.ndarray, np.ndarray],
    rule0: tuple[np.ndarray, np.ndarray],
) -> tuple[float, float]:
    """The excess, and the same integral with the absolute value of every term."""
    gam, s, length, c = law
    L = float(length)
    kap, eta, the, nu, rho = overlaps
    (g1, weight1), (g0, weight0) = rule1, rule0
    # E[Y|g], E[w|g] of the informative token
    my = s * c + gam * eta * g1
    mw = s * the + gam * rho * g1
    both = gam**2 * (1 - nu - eta * (eta - rho))  # E[(Y-w) Y|g] - (my-mw) my
    apart = max(0.0, gam**2 * (2 * (1 - nu) - (eta - rho) ** 2))  # Var(Y-w|g)
    polynomials = (
        (my - mw) ** 2 + apart,
        (my - mw) * my + both,
        my - mw,
        my**2 + gam**2 * (1 - eta**2),
        my,
        1 + 0 * my,
    )
    # their sizes; a share of what was added stands for its rounding, 2 eps, in units of `rounding`
    share = 2.0**-51 / rounding
    size_y = np.abs(my) + share * (abs(s * c) + gam * abs(eta * g1))
    size_d = np.abs(my - mw) + share * (
        abs(s * c) + abs(s * the) + gam * (abs(eta) + abs(rho)) * np.abs(g1)
    )
    loss = share * gam**2 * (abs(1 - nu) + (abs(eta) + abs(rho)) ** 2)
    sizes = (
        size_d**2 + apart + loss,
        size_d * size_y + abs(both) + loss,
        size_d,
        size_y**2 + gam**2,
        size_y,
    )
    columns = np.stack([p * weight1 for p in (*polynomials, *sizes)], 1)
    one = kernels(predictor, lam, s * kap, gam, g1, columns, tau)
    along = rho * g0
    spread = (1 + 0 * g0, along, along**2 + 1 - rho**2, np.abs(along))
    zero = kernels(
        predictor, lam, 0.0, 1.0, g0, np.stack([p * weight0 for p in spread], 1), tau
    )
    powers = tuple(power(zero, max(L - j, 0)) for j in (1, 2, 3))
    t = predictor.sink * np.exp(np.minimum(tau, LARGEST_EXPONENT))
    signed = (
        one.k2[:, 0],
        one.k1[:, 1],
        one.k1[:, 2],
        one.k0[:, 3],
        one.k0[:, 4],
        one.k0[:, 5],
    )
    absolute = (
        one.k2[:, 6],
        one.k1[:, 7],
        one.k1[:, 8],
        one.k0[:, 9],
        one.k0[:, 10],
        one.k0[:, 5],
    )
    background = (zero.k1[:, 0], zero.k1[:, 1], zero.k2[:, 0], zero.k2[:, 1], zero.k2[:, 2])
    background_size = (
        zero.k1[:, 0],
        zero.k1[:, 3],
        zero.k2[:, 0],
        zero.k2[:, 3],
        zero.k2[:, 2],
    )
    value = _tau_integrand(signed, background, powers, L, t, -1.0)
    size = _tau_integrand(absolute, background_size, powers, L, t, 1.0)
    return float(value.sum() * TAU_STEP), float(size.sum() * TAU_STEP)


def _tau_integrand(
    informative: tuple[np.ndarray, ...],
    background: tuple[np.ndarray, ...],
    powers: tuple[np.ndarray, ...],
    L: float,
    t: np.ndarray,
    sign: float,
) -> np.ndarray:
    """I e^{-c0 t} at every tau; sign -1, or 1 for a sum of absolute values. t stands for c0 t."""
    x2, x1, z1, y2, y1, y0 = informative
    a0, a1, b0, b1, b2 = background
    F1, F2, F3 = powers
    double = 2 * (x1 * a0 + sign * z1 * a1) + y2 * b0 + sign * 2 * y1 * b1 + y0 * b2
    triple = y2 * a0**2 + sign * 2 * y1 * a0 * a1 + y0 * a1**2
    total = x2 * F1 + (L - 1) * double * F2 + (L - 1) * (L - 2) * triple * F3
    sink = t * t * y2 * F1 + 2 * t * (x1 * F1 + (L - 1) * (y2 * a0 + sign * y1 * a1) * F2)
    return (total + sink) * np.exp(-t)


def weight_moments(
    predictor: Normalised, lam: float, gamma: float, signal: float, relevant: int, length: int
) -> WeightMoments:
    """Moments of the weights at k = k* when `relevant` of `length` tokens are informative; a moment
    of a token that does not exist is 0.

    E a_J = int E1[K1] f1^{m-1} f0^{L-m} e^{-c0 t} dtau, E a_J^2 with K2 for K1, E a_0^2 = int
    E0[K2] f1^m f0^{L-m-1} e^{-c0 t} dtau.
    """
    laws = laws_of(lam, signal, gamma)
    m = float(relevant)
    rest = float(length - relevant)
    tau = tau_range(predictor, lam, laws, m, rest)
    rows = []
    for rule1, rule0 in zip(*(rules_for(lam * sd) for _, sd in laws)):
        one = kernels(predictor, lam, signal, gamma, rule1[0], rule1[1][:, None], tau)
        zero = kernels(predictor, lam, 0.0, 1.0, rule0[0], rule0[1][:, None], tau)
        sink = np.exp(-predictor.sink * np.exp(np.minimum(tau, LARGEST_EXPONENT)))
        others = (
            power(one, max(m - 1, 0)) * power(zero, rest) * sink * TAU_STEP if m else 0 * tau
        )
        outside = (
            power(one, m) * power(zero, max(rest - 1, 0)) * sink * TAU_STEP
            if rest
            else 0 * tau
        )
        rows.append((others @ one.k1[:, 0], others @ one.k2[:, 0], outside @ zero.k2[:, 0]))
    fine, coarse = np.array(rows)
    # the moments are averages of positive numbers below 1
    error = (
        float(np.abs(fine - coarse).max())
        + OUTER_RULE_ERROR
        + _product_rounding(predictor, lam, laws, tau)
        + OMITTED_MOMENT_SHARE
    )
    return WeightMoments(float(fine[0]), float(fine[1]), float(fine[2]), error)


def laws_of(lam: float, mean: float, gamma: float) -> list[tuple[float, float]]:
    """(mean, sd) of the score of an informative and of a background token."""
    if lam * max(1.0, gamma) > LARGEST_SCORE_SPREAD:
        raise bad(
            "inverse_temperature",
            "the normalised risk",
            f"at most {LARGEST_SCORE_SPREAD:g}/max(1, gamma)",
            lam,
            "method='monte-carlo'",
        )
    return [(mean, gamma), (0.0, 1.0)]


def rules_for(width: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """(g, weights) of the trapezoid rule for E[f(G)], and of the one with twice the step."""
    # even: both rules contain g = 0
    count = 2 * math.ceil(
        SCORE_REACH_SIGMAS / min(0.4, FINEST_SCORE_STEP / max(width, 1e-9)) / 2
    )
    g = np.linspace(-SCORE_REACH_SIGMAS, SCORE_REACH_SIGMAS, 2 * count + 1)
    weight = np.exp(-0.5 * g * g) * (SCORE_REACH_SIGMAS / count) / math.sqrt(2 * math.pi)
    return [(g, weight), (g[::2], 2 * weight[::2])]


def tau_range(
    predictor: Normalised, lam: float, laws: list[tuple[float, float]], m: float, rest: float
) -> np.ndarray:
    """Nodes tau from TAU_DEPTH_NATS below -log of the largest S to 4 above -log of the smallest,
    both but
    for events of probability 1e-18.
    """
    log_h = lambda u: float(predictor.log_activation(np.array([lam * u]))[0])
    present = [(law, n) for law, n in zip(laws, (m, rest)) if n > 0]
    high = max(log_h(mean + SCORE_REACH_SIGMAS * sd) for (mean, sd), _ in present) + math.log(
        m + rest
    )
    # the largest of n scores exceeds this quantile with probability 1 - 1e-18
    low = max(
        log_h(mean + sd * max(-SCORE_REACH_SIGMAS, float(ndtri(10 ** (-18 / n)))))
        for (mean, sd), n in present
    )
    if predictor.sink:
        low = max(low, math.log(predictor.sink))
        high = max(high, 0.0) + math.log(2)
    count = math.ceil((high - low + TAU_DEPTH_NATS + 4) / TAU_STEP)
    return -high - TAU_DEPTH_NATS + TAU_STEP * np.arange(count + 1)


def kernels(
    predictor: Normalised,
    lam: float,
    mean: float,
    sd: float,
    g: np.ndarray,
    columns: np.ndarray,
    tau: np.ndarray,
) -> Kernels:
    """Averages of K_0, K_1, K_2 against the weighted polynomials `columns` (nodes, p);
    the last one of plain weight gives `rest`.
    """
    log_h = predictor.log_activation(lam * (mean + sd * g))
    plain = np.exp(-0.5 * g * g) * (g[1] - g[0]) / math.sqrt(2 * math.pi)
    parts: list[Any] = []
    for some in np.array_split(tau, max(1, tau.size * g.size // TABLE_ENTRIES_PER_CHUNK)):
        e = np.exp(np.minimum(some[:, None] + log_h, LARGEST_EXPONENT))  # (tau, nodes)
        k0 = np.exp(-e)
        k1 = e * k0
        parts.append((k0 @ columns, k1 @ columns, (e * k1) @ columns, -np.expm1(-e) @ plain))
    return Kernels(*(np.concatenate(x) for x in zip(*parts)))


def power(kernels: Kernels, exponent: float) -> np.ndarray:
    """E[K_0]^exponent, through 1 - E[K_0]: accurate for long sequences."""
    if exponent == 0:
        return np.ones_like(kernels.rest)
    return np.exp(exponent * np.log1p(-np.minimum(kernels.rest, 1 - 1e-16)))
