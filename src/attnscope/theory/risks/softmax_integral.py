"""The one-dimensional integral behind the softmax risk: integrand, gradient, and the trapezoid sum
over them.

With a_m the softmax weights, Y - T = sum_m a_m (Y - w_m) and 1/S^2 = int t e^{-tS} dt, t = e^tau,
give

    R = int I(tau) dtau,  I = E[(sum_m e^{y_m} (Y - w_m))^2 exp(-sum_m e^{y_m})] >= 0,
        y_m = tau + lam u_m,

and the tokens are independent, so I is a polynomial in averages over one token (kernels K_p of
softmax_moments.py; index 1 the informative token, 0 a background token; P = f1 f0^{L-1}):

    I/P = X2 + 2(L-1)(X1 A0 - Z1 A1) + (L-1)(Y2 B0 - 2 Y1 B1 + B2)
        + (L-1)(L-2)(Y2 A0^2 - 2 Y1 A0 A1 + A1^2)
    X2 = E1[(Y-w)^2 K2]/f1, X1 = E1[(Y-w)Y K1]/f1, Z1 = E1[(Y-w) K1]/f1, Yn = E1[Y^n K0]/f1, f1
        = E1[K0],
    A0 = E0[K1]/f0, A1 = E0[w K1]/f0, B0 = E0[K2]/f0, B1 = E0[w K2]/f0, B2 = E0[w^2 K2]/f0, f0
        = E0[K0].

The first, third and fourth term are averages of squares, and the second is at most twice the root
of the first times the other two: a tiny risk is a sum of tiny positive numbers, not a difference of
large ones. Each term has its own exponent. The gradient differentiates the averages: in kap and lam
through K_p', else in the weights. The integral over tau is a trapezoid sum (softmax_trapezoid.py).

notation: kap eta the nu rho the overlaps, lam temperature, gam, s signal, c alignment; u = x.k, w =
x.v, g = (u - E u)/sd; q the tuple (kap, eta, the, nu, rho, lam, gam, s, c).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.theory.risks.softmax_moments import log_survival, tilted_moments

__all__ = ["CRUDE", "FINE", "NEGLIGIBLE", "Array", "Setting", "integrand", "token_averages"]

Array = np.ndarray
Quadratic = tuple[float, float, float]  # coefficients of 1, g, g^2
Setting = tuple[float, ...]  # q of the notation

# nats of aliasing error and of truncation in a token average: below 1e-13 together
FINE = (37.0, 41.0)
CRUDE = (7.0, 9.0)  # the same for locating the integrand: a few per mille
# nats below the largest at which a part of the gradient is not resolved for itself
NEGLIGIBLE = 500.0


@njit(cache=True, error_model="numpy")
def poly(k: Array, first: int, a: Quadratic) -> float:
    """E[(a0 + a1 g + a2 g^2) .] from the moments k[first], k[first + 1], k[first + 2]."""
    return a[0] * k[first] + a[1] * k[first + 1] + a[2] * k[first + 2]


@njit(cache=True, error_model="numpy")
def weights(q: Setting) -> tuple[Quadratic, Quadratic, Quadratic, Quadratic, Quadratic]:
    """Coefficients in 1, g, g^2 of E[.|g] for (Y-w)^2, (Y-w)Y, Y-w, Y^2,
    Y of the informative token.
    """
    _, eta, the, nu, rho, _, gam, s, c = q
    al = s * (c - the)
    be = gam * (eta - rho)
    sc = s * c
    ge = gam * eta
    g2 = gam * gam
    # negative only by rounding of the overlaps
    variance = max(0.0, g2 * (2.0 - 2.0 * nu - (eta - rho) ** 2))
    covariance = g2 * (1.0 - nu - eta * (eta - rho))
    x2 = (al * al + variance, 2.0 * al * be, be * be)
    x1 = (al * sc + covariance, al * ge + be * sc, be * ge)
    y2 = (sc * sc + g2 * (1.0 - eta * eta), 2.0 * sc * ge, ge * ge)
    return x2, x1, (al, be, 0.0), y2, (sc, ge, 0.0)


@njit(cache=True, error_model="numpy")
def token_averages(
    tau: float,
    q: Setting,
    quality: tuple[float, float],
    work: Array,
) -> tuple[float, float, float, float, float, float]:
    """Moments in work[0:4] (informative K1, K2, background K1, K2);
    returns log f1, log f0 and exponents.
    """
    kap = q[0]
    lam = q[5]
    gam = q[6]
    s = q[7]
    nats, drop = quality
    yc = tau + lam * s * kap
    width = lam * gam
    ek1 = tilted_moments(1.0, yc, width, nats, drop, work[0])
    ek2 = tilted_moments(2.0, yc, width, nats, drop, work[1])
    eb1 = tilted_moments(1.0, tau, lam, nats, drop, work[2])
    eb2 = tilted_moments(2.0, tau, lam, nats, drop, work[3])
    log_f1 = log_survival(yc, width, ek1 + math.log(work[0, 0]), nats, drop)
    log_f0 = log_survival(tau, lam, eb1 + math.log(work[2, 0]), nats, drop)
    return log_f1, log_f0, ek1 - log_f1, ek2 - log_f1, eb1 - log_f0, eb2 - log_f0


@njit(cache=True, error_model="numpy")
def integrand(
    tau: float,
    q: Setting,
    length: float,
    quality: tuple[float, float],
    with_gradient: bool,
    work: Array,
    out: Array,
    logs: Array,
) -> float:
    """I(tau) in out[0], gradient in out[1:7], sum of |products| in out[7], times e^{-scale};
    returns scale.

    logs[0:4] receives the logs of positive envelopes of the four terms (squares without their cross
    products), log-concave up to polynomial weights. For the gradient the first two drop weights
    that may vanish where their derivatives do not.
    """
    rho = q[4]
    width = q[5] * q[6]
    n1 = length - 1.0
    n2 = (length - 1.0) * (length - 2.0)
    log_f1, log_f0, ek1, ek2, eb1, eb2 = token_averages(tau, q, quality, work)
    x2, x1, z1, y2, y1 = weights(q)
    k1 = work[0]
    k2 = work[1]
    b1 = work[2]
    b2 = work[3]
    X2 = poly(k2, 0, x2)
    X1 = poly(k1, 0, x1)
    Z1 = poly(k1, 0, z1)
    # Stein: G1 = E1[g K0]/f1 = -width E1[K1]/f1 and G2 = E1[g^2 K0]/f1 - 1 = -width E1[g K1]/f1
    G1 = -width * math.exp(ek1) * k1[0]
    G2 = -width * math.exp(ek1) * k1[1]
    Y1 = y1[0] + y1[1] * G1
    Y2 = y2[0] + y2[2] + y2[1] * G1 + y2[2] * G2
    A0 = b1[0]
    A1 = rho * b1[1]
    B0 = b2[0]
    B1 = rho * b2[1]
    B2 = rho * rho * b2[2] + (1.0 - rho * rho) * b2[0]

    Ye = max(max(Y2, Y1 * Y1), 1e-9 * q[6] ** 2)  # a crude Y2 may be negative
    logs[0] = ek2 + math.log(k2[0] if with_gradient else x2[0] * k2[0] + x2[2] * k2[2])
    logs[1] = ek1 + eb1 + math.log(2.0 * n1 * k1[0] * A0 if with_gradient else 0.0)
    logs[2] = eb2 + math.log(n1 * (Ye * B0 + B2))
    logs[3] = 2.0 * eb1 + math.log(n2 * (Ye * A0 * A0 + A1 * A1))
    scale = logs.max()
    top = log_f1 + n1 * log_f0
    logs += top
    # factors of the terms; a vanishing term has no say in the scale, the cap keeps its exponential
    # finite
    h1 = math.exp(min(ek2 - scale, 600.0))
    h2 = 2.0 * n1 * math.exp(min(ek1 + eb1 - scale, 600.0))
    h3 = n1 * math.exp(eb2 - scale)
    h4 = n2 * math.exp(2.0 * eb1 - scale)
    t1 = h1 * X2
    t2 = h2 * (X1 * A0 - Z1 * A1)
    t3 = h3 * (Y2 * B0 - 2.0 * Y1 * B1 + B2)
    t4 = h4 * (Y2 * A0 * A0 - 2.0 * Y1 * A0 * A1 + A1 * A1)
    out[0] = t1 + t2 + t3 + t4
    out[7] = (
        h1 * abs(X2)
        + h2 * (abs(X1 * A0) + abs(Z1 * A1))
        + h3 * (abs(Y2) * B0 + 2.0 * abs(Y1 * B1) + B2)
    )
    out[7] += h4 * (abs(Y2) * A0 * A0 + 2.0 * abs(Y1 * A0 * A1) + A1 * A1)
    if with_gradient:
        derivatives(q, work, math.exp(ek1), math.exp(eb1), G1, G2)
        slope = work[10]  # of I in X2 X1 Z1 Y0 Y1 Y2 A0 A1 B0 B1 B2 log f0
        slope[0], slope[1], slope[2], slope[3] = h1, h2 * A0, -h2 * A1, h3 * B2 + h4 * A1 * A1
        slope[4], slope[5] = -2.0 * (h3 * B1 + h4 * A0 * A1), h3 * B0 + h4 * A0 * A0
        slope[6], slope[7] = (
            h2 * X1 + 2.0 * h4 * (Y2 * A0 - Y1 * A1),
            2.0 * h4 * (A1 - Y1 * A0) - h2 * Z1,
        )
        slope[8], slope[9], slope[10] = h3 * Y2, -2.0 * h3 * Y1, h3
        slope[11] = n1 * t1 + (n1 - 1.0) * (t2 + t3) + (n1 - 2.0) * t4
        for i in range(6):
            out[1 + i] = (work[4 + i] * slope).sum()
    return top + scale


@njit(cache=True, error_model="numpy")
def derivatives(
    q: Setting,
    work: Array,
    K1: float,
    f0_slope: float,
    G1: float,
    G2: float,
) -> None:
    """work[4:10]: d/d(kap, eta, the, nu, rho, lam) of X2 X1 Z1 Y0 Y1 Y2 A0 A1 B0 B1 B2 log f0
    (columns).

    Yn is scaled by f1 and K1 is the scale of k1 beside f1, f0_slope that of b1 beside f0.
    """
    kap, eta, _, _, rho, lam, gam, s, _ = q
    x2, x1, z1, y2, y1 = weights(q)
    (al, be, _), (sc, ge, _) = z1, y1
    k1 = work[0]
    k2 = work[1]
    b1 = work[2]
    b2 = work[3]
    d = work[4:10]
    mean = s * kap
    shift = lam * s
    d[:] = 0.0
    # kap moves the informative score by s: K_p -> lam s K_p', and K_0' = -K_1
    d[0, 0], d[0, 1], d[0, 2] = (
        shift * poly(k2, 4, x2),
        shift * poly(k1, 4, x1),
        shift * poly(k1, 4, z1),
    )
    d[0, 3], d[0, 4] = -shift * K1 * k1[0], -shift * K1 * poly(k1, 0, y1)
    d[0, 5] = -shift * K1 * poly(k1, 0, y2)
    # eta, the, nu, rho enter the weights only
    d[1, 0] = 2.0 * gam * poly(k2, 0, (-be, al, be))
    d[1, 1] = gam * poly(k1, 0, (-gam * (2.0 * eta - rho), sc + al, ge + be))
    d[1, 2], d[1, 4], d[1, 5] = gam * k1[1], gam * G1, 2.0 * gam * (sc * G1 + ge * G2)
    d[2, 0], d[2, 1], d[2, 2] = -2.0 * s * poly(k2, 0, z1), -s * poly(k1, 0, y1), -s * k1[0]
    d[3, 0], d[3, 1] = -2.0 * gam * gam * k2[0], -gam * gam * k1[0]
    d[4, 0], d[4, 1], d[4, 2] = -d[1, 0], gam * poly(k1, 0, (ge, -sc, -ge)), -gam * k1[1]
    d[4, 7], d[4, 9], d[4, 10] = b1[1], b2[1], 2.0 * rho * (b2[2] - b2[0])
    # lam: K_p -> u K_p', with u = mean + gam g for the informative token and u = g in the
    # background
    d[5, 0] = mean * poly(k2, 4, x2) + gam * poly(k2, 5, x2)
    d[5, 1] = mean * poly(k1, 4, x1) + gam * poly(k1, 5, x1)
    d[5, 2] = mean * poly(k1, 4, z1) + gam * poly(k1, 5, z1)
    d[5, 3] = -K1 * (mean * k1[0] + gam * k1[1])
    d[5, 4] = -K1 * (mean * poly(k1, 0, y1) + gam * poly(k1, 1, y1))
    d[5, 5] = -K1 * (mean * poly(k1, 0, y2) + gam * poly(k1, 1, y2))
    d[5, 6], d[5, 7], d[5, 8], d[5, 9] = b1[5], rho * b1[6], b2[5], rho * b2[6]
    d[5, 10], d[5, 11] = rho * rho * b2[7] + (1.0 - rho * rho) * b2[5], -f0_slope * b1[1]
