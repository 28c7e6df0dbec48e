"""Mean squared errors of attention as functions of the context length L, for a random function on
the sphere.

notation: d = dim, L = length, h = bandwidth, s = noise, c_m = power (weights of the degrees 0, 1,
...; they sum to 1), g = gain, b = sink,
          P_m = zonal harmonic, t = q.k, K = exp(t/h), rho and mu as in
          theory.exchangeable.spectral. Each coordinate of the function is one draw.

Keys are uniform on S^{d-1}, values v = f(k) + s N(0, 1), and f is Gaussian with E f(k) f(k') =
sum_m c_m P_m(k.k'): (0, 1) is f(k) = w.k with w ~ N(0, I_d). The error is E(g sum_l w_l v_l -
f(q))^2 per coordinate, w_l = K_l/(B + sum_j K_j), B = exp(b) (0 without a sink).

Softmax, exact for every L (new here). Given the scores, keys are independent, so E f(k_1) f(k_2) =
sum_m c_m P_m(t_1) P_m(t_2), and

    error = 1 - 2 g S1 + g^2 [(1 + s^2) S2 + S11],
        S1 = sum_m c_m L E[w_1 P_m(t_1)],  S2 = L E w_1^2,
                                                     S11 = sum_m c_m L(L-1) E[w_1 w_2 P_m(t_1)
                                                         P_m(t_2)].

With 1/D = int_0^inf exp(-u D) du, 1/D^2 = int_0^inf u exp(-u D) du and phi(u) = E exp(-u K) the
means factor over tokens:

    E[w_1 P(t_1)]               = int exp(-uB)   E[K P exp(-uK)]   phi^(L-1) du,
    E[w_1^2]                    = int exp(-uB) u E[K^2 exp(-uK)]   phi^(L-1) du,
    E[w_1 w_2 P(t_1) P(t_2)]    = int exp(-uB) u E[K P exp(-uK)]^2 phi^(L-2) du.

The outer integral is a trapezoid sum in log u (the integrand is analytic for |arg u| < pi/2, so the
rule errs by exp(-pi^2/step)), the inner ones are panelled Gauss-Legendre rules in the angle.
Without a sink sum_l w_l = 1 and its computed value is part of the error estimate.

Softmax, large L (delta method; g = 1, no sink), with V = mu_0(h/2)/mu_0(h)^2:

    error = sum_m c_m [(1 - rho_m)^2 + (V/L) (s^2 + 1 - 2 rho_m rho_m(h/2) + rho_m^2 + 2 (1 -
        rho_m)(rho_m(h/2) - rho_m))] + O(V^2/L^2).

CME with the RBF kernel: the deterministic equivalent of kernel ridge regression (a standard
approximation; keys enter as if their features were independent of everything but their covariance),
with N_m harmonics of degree m and r = ridge/L,

    kap = r + (kap/L) sum_m N_m mu_m/(mu_m + kap),   G = (1/L) sum_m N_m (mu_m/(mu_m + kap))^2,
    error = [sum_m c_m (kap/(mu_m + kap))^2 + s^2]/(1 - G) - s^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.theory.exchangeable.curve_sums import curve_sums
from attnscope.theory.exchangeable.spectral import (
    LARGEST_DEGREE,
    SMALLEST_BANDWIDTH,
    log_eigenvalues,
    softmax_filter,
)

__all__ = [
    "BestAttention",
    "best_attention",
    "cme_curve",
    "limit_bandwidth",
    "softmax_curve",
    "softmax_expansion",
]

LINEAR_POWER = (0.0, 1.0)
# the exact sums need about 40/h inner times 16/h outer nodes: a second at this bandwidth if L is
# small
SMALLEST_EXACT_BANDWIDTH = 5e-3
# searched by limit_bandwidth; below this range the recurrences take seconds
LOG_BANDWIDTH_RANGE = (-12.0, 5.0)
# degrees are added until they carry all but this share of the kernel's trace
UNLISTED_TRACE_SHARE = 1e-12


def softmax_curve(
    dim: int,
    length: int,
    bandwidth: float,
    noise: float = 0.5,
    power: Sequence[float] = LINEAR_POWER,
    gain: float = 1.0,
    sink: float | None = None,
) -> Estimate:
    """Exact error of softmax attention on `length` tokens (see the module docstring); `error` is an
    absolute numerical bound.

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        length: L >= 1, tokens in the context.
        bandwidth: h > 0, divides the scores.
        noise: s >= 0, of each coordinate of a value.
        power: c_m >= 0, shares of the function's degrees 0, 1, ..., of sum 1; by default a linear
            function.
        gain: g, which multiplies the answer.
        sink: logit b of one more token of value 0; None is without.

    >>> e = softmax_curve(dim=3, length=64, bandwidth=0.25)
    >>> round(e.value, 12), e.error < 1e-12
    (0.098797036813, True)
    """
    of = "softmax_curve"
    d, L = _checked_sizes(dim, length, of)
    h = check.real(
        bandwidth,
        "bandwidth",
        of,
        SMALLEST_EXACT_BANDWIDTH,
        hint="softmax_expansion, which has no lower limit",
    )
    s, g = check.real(noise, "noise", of, 0), check.real(gain, "gain", of)
    b = None if sink is None else check.real(sink, "sink", of, high=1e4)
    c = _checked_power(power, of)
    fine, coarse = (
        1 - 2 * g * S[0] + g * g * ((1 + s * s) * S[1] + S[2])
        for S in curve_sums(d, L, h, c, b)
    )
    roundoff = 50 * np.finfo(float).eps * (1 + g * g * (1 + s * s))
    return estimate(
        fine, abs(fine - coarse) + roundoff, "one-dimensional integral, exact in L"
    )


def softmax_expansion(
    dim: int,
    length: float,
    bandwidth: float,
    noise: float = 0.5,
    power: Sequence[float] = LINEAR_POWER,
) -> float:
    """Error of softmax attention without gain and sink to order 1/L, in closed form. An infinite
    `length` gives the plateau at fixed bandwidth.
    """
    of = "softmax_expansion"
    d = check.integer(dim, "dim", of, 2, hint="dim=3")
    h = check.real(bandwidth, "bandwidth", of, 2 * SMALLEST_BANDWIDTH)  # its half occurs too
    s = check.real(noise, "noise", of, 0)
    L = math.inf if length == math.inf else check.real(length, "length", of, 1)
    c, m = _checked_power(power, of), np.arange(len(power))
    rho, half = softmax_filter(d, h, m), softmax_filter(d, h / 2, m)
    spread = s**2 + 1 - 2 * rho * half + rho**2 + 2 * (1 - rho) * (half - rho)
    return float(np.sum(c * ((1 - rho) ** 2 + _weight_variance(d, h) / L * spread)))


def cme_curve(
    dim: int,
    length: int,
    ridge: float,
    bandwidth: float = 1.0,
    noise: float = 0.5,
    power: Sequence[float] = LINEAR_POWER,
) -> float:
    """Error of CME attention with the RBF kernel on `length` tokens:
    the deterministic equivalent.

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        length: L >= 1, tokens in the context.
        ridge: > 0, of the whole context, not per token; noise^2/prior variance is Bayes' choice.
        bandwidth: h > 0, of the RBF kernel.
        noise: s >= 0, of each coordinate of a value.
        power: c_m >= 0, shares of the function's degrees 0, 1, ..., of sum 1; by default a linear
            function.

    >>> import attnscope as at
    >>> round(at.cme_curve(dim=3, length=64, ridge=1.0), 6)
    0.037145
    """
    of = "cme_curve"
    d, L = _checked_sizes(dim, length, of)
    r = check.real(ridge, "ridge", of, 0, strict=True, hint="ridge=noise**2") / L
    s, c = check.real(noise, "noise", of, 0), _checked_power(power, of)
    h = check.real(bandwidth, "bandwidth", of, SMALLEST_BANDWIDTH)
    mu, share = _degree_spectrum(d, h, len(c), r * L)

    def surplus(log_kap: float) -> float:
        """1 - r/kap - (1/L) sum_m N_m mu_m/(mu_m + kap): increasing, 0 at the solution."""
        kap = math.exp(log_kap)
        return 1 - r / kap - float(np.sum(share / (mu + kap))) / L

    # kap lies between r and r + trace/L; in logarithms, because it may be as small as r
    bracket = (math.log(r) - 1e-9, math.log(r + 1.01 / L))
    kap = math.exp(brentq(surplus, *bracket, xtol=1e-14, rtol=1e-14))
    lost = np.sum(c * (kap / (mu[: len(c)] + kap)) ** 2)
    G = float(np.sum(share * mu / (mu + kap) ** 2)) / L
    # 1 - G with the equation for kap put in: a sum of positive terms
    left = r / kap + float(np.sum(share * kap / (mu + kap) ** 2)) / L
    return float(lost + (lost + s * s) * G / left)


class BestAttention(NamedTuple):
    """The best softmax attention with an isotropic query-key matrix: scores inverse_bandwidth q.k,
    sink logit (None: best without), gain, error.
    """

    inverse_bandwidth: float
    sink: float | None
    gain: float
    error: float


def best_attention(
    dim: int,
    length: int,
    noise: float = 0.5,
    power: Sequence[float] = LINEAR_POWER,
    sink: bool = True,
) -> BestAttention:
    """Minimise the exact error at this length over bandwidth, sink and gain (in closed form: the
    error is quadratic in it).

    Bandwidths from 5e-3 (SMALLEST_EXACT_BANDWIDTH) to 20 are searched: with next to no noise the
    narrowest is the best of them.

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        length: L >= 1, tokens in the context.
        noise: s >= 0, of each coordinate of a value.
        power: c_m >= 0, shares of the function's degrees 0, 1, ..., of sum 1; by default a linear
            function.
        sink: whether there is one, of the best logit.

    >>> round(best_attention(dim=3, length=256).inverse_bandwidth, 3)
    4.644
    """
    of = "best_attention"
    d, L = _checked_sizes(dim, length, of)
    s, c = (
        check.real(noise, "noise", of, 0, strict=True, hint="noise=0.5"),
        _checked_power(power, of),
    )

    def best_gain(log_inverse: float, b: float | None) -> BestAttention:
        S1, S2, S11 = next(curve_sums(d, L, math.exp(-log_inverse), c, b))
        square = (1 + s * s) * S2 + S11
        return BestAttention(
            math.exp(log_inverse), b, float(S1 / square), float(1 - S1**2 / square)
        )

    limits = (-3.0, -math.log(SMALLEST_EXACT_BANDWIDTH))
    xtol = {"xatol": 1e-9}

    def without_sink(log_inverse: float) -> float:
        return best_gain(log_inverse, None).error

    alone = 0.0  # without a sink one token has weight 1 at every bandwidth
    if L > 1:
        found = minimize_scalar(without_sink, bounds=limits, method="bounded", options=xtol)
        alone = float(found.x)
    without = best_gain(alone, None)
    if not sink:
        return without
    # central differences of step 1e-5 on a function good to 1e-15: gradients to 1e-10, the
    # minimiser to about 1e-8
    options = {"finite_diff_rel_step": 1e-5, "gtol": 1e-10, "ftol": 1e-15}
    found = minimize(
        lambda x: best_gain(x[0], x[1]).error,
        (alone, math.log(L) / 2),
        jac="3-point",
        method="L-BFGS-B",
        bounds=[limits, (-30.0, 30.0)],
        options=options,
    )
    with_sink = best_gain(*map(float, found.x))
    return with_sink if with_sink.error < without.error - 1e-12 else without


def limit_bandwidth(
    dim: int, noise: float = 0.5, power: Sequence[float] = LINEAR_POWER
) -> float:
    """The best bandwidth for L -> infinity when a gain removes the bias: it does not involve L.

    With gain 1/rho the error is V (s^2 + 1 - 2 rho rho(h/2) + rho^2)/(rho^2 L); for a function of
    one degree only.
    """
    of = "limit_bandwidth"
    d = check.integer(dim, "dim", of, 2, hint="dim=3")
    s = check.real(noise, "noise", of, 0)
    c = _checked_power(power, of)
    if np.count_nonzero(c) != 1:
        raise bad(
            "power",
            of,
            "one degree: a gain cannot undo different shrinkage of several",
            power,
        )
    m = int(np.flatnonzero(c)[0])

    def scaled(log_h: float) -> float:
        h = math.exp(log_h)
        rho = float(softmax_filter(d, h, m))
        half = float(softmax_filter(d, h / 2, m))
        return math.log(
            _weight_variance(d, h) * (s**2 + 1 - 2 * rho * half + rho**2) / rho**2
        )

    low, high = LOG_BANDWIDTH_RANGE
    best = minimize_scalar(
        scaled, bounds=LOG_BANDWIDTH_RANGE, method="bounded", options={"xatol": 1e-10}
    ).x
    if min(best - low, high - best) < 1e-3:
        must = (
            f"such that the best bandwidth is between {math.exp(low):.1g} and "
            f"{math.exp(high):.3g}"
        )
        raise bad("noise", of, must, f"noise {s:g}, dim {d}: none inside", "noise=0.5")
    return math.exp(best)


def _weight_variance(d: int, h: float) -> float:
    """V = mu_0(h/2)/mu_0(h)^2: L times the sum of squared weights, at large L."""
    return float(np.exp(log_eigenvalues(d, h / 2, 0) - 2 * log_eigenvalues(d, h, 0)))


def _degree_spectrum(
    d: int, h: float, least: int, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues mu_m of degrees 0, 1, ... and their shares N_m mu_m of the trace 1.

    Degrees are added until what is left of the trace is UNLISTED_TRACE_SHARE of it and of the
    ridge: then the rest, at most left/ridge of the L in the equation for kap, does not matter.
    """
    top = max(16, least)
    while True:
        if top > LARGEST_DEGREE:
            must = f"so large that {LARGEST_DEGREE} degrees carry the kernel"
            raise bad("bandwidth", "cme_curve", must, h, "a larger bandwidth")
        mu = np.exp(log_eigenvalues(d, h, 0)) * softmax_filter(d, h, np.arange(top))
        m = np.arange(1.0, top - 1)
        # of N_{m+1} to N_m
        ratios = np.log((2 * m + d) / (2 * m + d - 2) * (m + d - 2) / (m + 1))
        log_N = np.concatenate([[0.0, math.log(d)], math.log(d) + np.cumsum(ratios)])
        # an eigenvalue below 1e-308 is 0, and so is its share
        with np.errstate(divide="ignore"):
            share = np.exp(np.log(mu) + log_N)
        # shares fall faster than geometrically beyond their largest
        if (
            share[-1] * top <= UNLISTED_TRACE_SHARE * min(1.0, ridge)
            and share[-1] <= share[-2]
        ):
            return mu, share
        top *= 2


def _checked_sizes(dim: int, length: int, of: str) -> tuple[int, int]:
    return check.integer(dim, "dim", of, 2, hint="dim=3"), check.integer(
        length, "length", of, 1
    )


def _checked_power(power: Sequence[float], of: str) -> np.ndarray:
    c = check.array(power, "power", of, (None,), hint="(0, 1) for a linear function").astype(
        np.float64
    )
    if (c < 0).any() or not c.sum() > 0:
        raise bad(
            "power",
            of,
            "non-negative with a positive sum",
            power,
            "(0, 1) for a linear function",
        )
    return c / c.sum()
