"""The softmax risk over all overlaps from functions of kappa alone.

notation: as in softmax_integral.py; K2, K1, B1, B2 = work[0:4] there (moments of one token), P = f1
f0^{L-1}, G1 = E1[g K0]/f1, G2 = E1[g^2 K0]/f1 - 1, c = alignment.

The overlaps eta, theta, nu, rho enter I(tau) through polynomials only; the moments know kappa and
the inverse temperature. So at a fixed inverse temperature the excess is a quadratic form in them,

    R = x2.M + x1.N - rho (al Q0 + be Q1) + (y20 + y22) W0 + y21 W1 + y22 W2
        - 2 rho (sc U0 + ge U1) + rho^2 V + T

with al, be, sc, ge, x2, x1, y2 the weights of softmax_integral.weights and 15 integrals over tau,

    M_i = int P K2_i,   N_i = 2(L-1) int P K1_i B1_0,   Q_i = 2(L-1) int P K1_i B1_1,
    (W0, W1, W2) = int P w (1, G1, G2),   w = (L-1) B2_0 + (L-1)(L-2) B1_0^2,
    (U0, U1) = int P u (1, G1),           u = (L-1) B2_1 + (L-1)(L-2) B1_0 B1_1,
    V = int P ((L-1)(B2_2 - B2_0) + (L-1)(L-2) B1_1^2),   T = (L-1) int P B2_0.

Each is analytic in kappa, so that its values at Chebyshev points give it, and its derivative,
everywhere: `profile` doubles their number until the tail of the coefficients is below COEFFICIENT_TAIL of the
largest, or says None where MOST_INTERVALS do not suffice (signal/gamma of 60 and more). Then a risk or a
gradient costs a few hundred multiplications instead of an integral. The error of R is bounded by
ERROR_PER_TERM times the sum of the absolute values of its terms, and where R is much smaller than they are
softmax_risk.py is asked point by point.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.fft import dct

from attnscope.theory.law import Law
from attnscope.theory.risks.softmax_integral import PROFILE_INTEGRALS, Array, Setting
from attnscope.theory.risks.softmax_risk import (
    HALVING_CHANGE,
    softmax_excess,
    trapezoid,
    window_of,
)

__all__ = ["ERROR_PER_TERM", "Profile", "evaluate", "has_profile", "many_excesses", "profile"]

FIRST_INTERVALS = 32  # intervals between Chebyshev points, doubled up to MOST_INTERVALS
MOST_INTERVALS = 512  # some half second of integrals
COEFFICIENT_TAIL = 1e-11  # of the largest coefficient: what the last eighth of them may be
# of the sum of |terms|: ten times the largest that was measured against softmax_risk.py, 6e-14,
# and more (tests/theory/test_softmax_profile.py)
ERROR_PER_TERM = 1e-12
PROFILE_POINTS = 200  # points at once that are worth the integrals of a profile
CANCELLING_SHARE = 1e-3  # a risk below this share of its terms is left to softmax_risk.py


class Profile(NamedTuple):
    """Chebyshev coefficients (PROFILE_INTEGRALS, n) of the integrals, and of their derivatives in kappa."""

    value: np.ndarray
    slope: np.ndarray


def has_profile(law: Law) -> bool:
    """Whether MOST_INTERVALS points may do: kappa moves the scores by their spread in gamma/signal, which
    takes some six points to resolve.
    """
    return law.length >= 2 and 6 * law.signal <= MOST_INTERVALS * law.gamma


@lru_cache(maxsize=8)  # 120 kB each
def profile(inverse_temperature: float, law: Law) -> Profile | None:
    """The integrals of this inverse temperature and law as functions of kappa, or None."""
    if inverse_temperature <= 0 or not has_profile(law):
        return None
    n = FIRST_INTERVALS
    values = integrals_at(chebyshev_points(n), inverse_temperature, law)
    while True:
        found = chebyshev_coefficients(values)
        size = np.abs(found).max(axis=1, keepdims=True)
        if (np.abs(found[:, -n // 8 :]) <= COEFFICIENT_TAIL * np.maximum(size, 1e-300)).all():
            break
        if n == MOST_INTERVALS:
            return None
        n *= 2
        new = integrals_at(chebyshev_points(n)[1::2], inverse_temperature, law)
        both = np.empty((PROFILE_INTEGRALS, n + 1))
        both[:, ::2] = values
        both[:, 1::2] = new
        values = both
    if not np.isfinite(found).all():
        return None
    return Profile(found, np.polynomial.chebyshev.chebder(found, axis=1))


def chebyshev_points(n: int) -> np.ndarray:
    return np.cos(math.pi * np.arange(n + 1) / n)


def chebyshev_coefficients(values: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients of values at the points cos(pi j/n)."""
    n = values.shape[1] - 1
    out = dct(values, type=1, axis=1) / n
    out[:, [0, -1]] /= 2
    return np.ascontiguousarray(out)


def integrals_at(kappa: np.ndarray, inverse_temperature: float, law: Law) -> np.ndarray:
    """The integrals (PROFILE_INTEGRALS, points) at these kappas."""
    out = np.empty((PROFILE_INTEGRALS, len(kappa)))
    numbers = (
        float(inverse_temperature),
        float(law.gamma),
        float(law.signal),
        float(law.alignment),
    )
    for i, kap in enumerate(kappa):
        q = (float(kap), 0.0, 0.0, 0.0, 0.0, *numbers)
        low, high, count = window_of(q, float(law.length), True)
        found = trapezoid(
            q, float(law.length), False, HALVING_CHANGE, low, high, count, profile=True
        )
        sums, _, _, scale, _ = found
        out[:, i] = sums * math.exp(scale)
    return out


# -- from the integrals to the risk ----------------------------------------------------------------


@njit(cache=True, error_model="numpy", nogil=True)
def _clenshaw(coefficients: Array, x: float, out: Array) -> None:
    """The sums of the series at x, into out."""
    for j in range(coefficients.shape[0]):
        a = 0.0
        b = 0.0
        for i in range(coefficients.shape[1] - 1, 0, -1):
            a, b = coefficients[j, i] + 2.0 * x * a - b, a
        out[j] = coefficients[j, 0] + x * a - b


@njit(cache=True, error_model="numpy", nogil=True)
def form(f: Array, q: Setting, signs: bool) -> float:
    """R from the integrals f at the overlaps of q; signs=False: the sum of |terms|."""
    _, eta, the, nu, rho, _, gam, s, c = q
    al = s * (c - the)
    be = gam * (eta - rho)
    sc = s * c
    ge = gam * eta
    g2 = gam * gam
    v = g2 * (2.0 - 2.0 * nu - (eta - rho) ** 2)
    w = g2 * (1.0 - nu - eta * (eta - rho))
    terms = (
        (al * al + v) * f[0],
        2.0 * al * be * f[1],
        be * be * f[2],
        (al * sc + w) * f[3],
        (al * ge + be * sc) * f[4],
        be * ge * f[5],
        -rho * al * f[6],
        -rho * be * f[7],
        (sc * sc + g2 * (1.0 - eta * eta) + ge * ge) * f[8],
        2.0 * sc * ge * f[9],
        ge * ge * f[10],
        -2.0 * rho * sc * f[11],
        -2.0 * rho * ge * f[12],
        rho * rho * f[13],
        f[14],
    )
    total = 0.0
    for x in terms:
        total += x if signs else abs(x)
    return total


@njit(cache=True, error_model="numpy", nogil=True)
def gradient_of(f: Array, slope: Array, q: Setting, out: Array) -> None:
    """dR/d(kappa, eta, theta, nu, rho) into out[0:5]."""
    _, eta, the, _, rho, _, gam, s, c = q
    al = s * (c - the)
    be = gam * (eta - rho)
    sc = s * c
    ge = gam * eta
    g2 = gam * gam
    d = eta - rho
    out[0] = form(slope, q, True)
    out[1] = (
        -2.0 * g2 * d * f[0]
        + 2.0 * al * gam * f[1]
        + 2.0 * be * gam * f[2]
        + g2 * (rho - 2.0 * eta) * f[3]
        + (al * gam + gam * sc) * f[4]
        + gam * (be + ge) * f[5]
        - rho * gam * f[7]
        + 2.0 * sc * gam * f[9]
        + 2.0 * ge * gam * f[10]
        - 2.0 * rho * gam * f[12]
    )
    out[2] = -s * (2.0 * al * f[0] + 2.0 * be * f[1] + sc * f[3] + ge * f[4] - rho * f[6])
    out[3] = -2.0 * g2 * f[0] - g2 * f[3]
    out[4] = (
        2.0 * g2 * d * f[0]
        - 2.0 * al * gam * f[1]
        - 2.0 * be * gam * f[2]
        + g2 * eta * f[3]
        - gam * sc * f[4]
        - gam * ge * f[5]
        - al * f[6]
        - (be - rho * gam) * f[7]
        - 2.0 * (sc * f[11] + ge * f[12])
        + 2.0 * rho * f[13]
    )


@njit(cache=True, error_model="numpy", nogil=True)
def evaluate_points(
    value: Array, slope: Array, points: Array, numbers: Array, out: Array
) -> None:
    """R, the sum of |terms| and the gradient at points (n, 5), into out (n, 7)."""
    f = np.empty(PROFILE_INTEGRALS)
    df = np.empty(PROFILE_INTEGRALS)
    lam, gam, s, c = numbers
    for i in range(len(points)):
        kap, eta, the, nu, rho = points[i]
        q = (kap, eta, the, nu, rho, lam, gam, s, c)
        _clenshaw(value, kap, f)
        _clenshaw(slope, kap, df)
        out[i, 0] = form(f, q, True)
        out[i, 1] = form(f, q, False)
        gradient_of(f, df, q, out[i, 2:])


def evaluate(
    found: Profile, points: np.ndarray, inverse_temperature: float, law: Law
) -> np.ndarray:
    """(n, 7) at overlaps (n, 5): the excess, the sum of the absolute values of its terms, and the
    gradient in the five overlaps.
    """
    numbers = np.array(
        [inverse_temperature, law.gamma, law.signal, law.alignment], dtype=np.float64
    )
    out = np.empty((len(points), 7))
    evaluate_points(
        found.value, found.slope, np.ascontiguousarray(points, dtype=float), numbers, out
    )
    return out


def many_excesses(
    points: np.ndarray, inverse_temperature: float, law: Law
) -> np.ndarray | None:
    """(n, 3) excess, its log and its error at overlaps (n, 5), or None where a profile does not pay
    or is not to be had.
    """
    if len(points) < PROFILE_POINTS:
        return None
    found = profile(float(inverse_temperature), law)
    if found is None:
        return None
    excess, terms = evaluate(found, points, inverse_temperature, law)[:, :2].T
    out = np.stack([excess, np.zeros(len(points)), ERROR_PER_TERM * terms], axis=1)
    sure = excess > CANCELLING_SHARE * terms
    out[sure, 1] = np.log(excess[sure])
    for i in np.flatnonzero(~sure):
        out[i] = softmax_excess(tuple(float(x) for x in points[i]), inverse_temperature, law)
    return out
