"""The integrand behind the softmax risk and its gradient, from Gaussian averages over one token.

With a_m the softmax weights, Y - T = sum_m a_m (Y - w_m) and 1/S^2 = int t e^{-tS} dt, t = e^tau,
give

    R = int I(tau) dtau,  I = E[(sum_m e^{y_m} (Y - w_m))^2 exp(-sum_m e^{y_m})] >= 0,
        y_m = tau + lam u_m,

and the tokens are independent, so I is a polynomial in averages over one token (kernels K_p below;
index 1 the informative token, 0 a background token; P = f1 f0^{L-1}):

    I/P = X2 + 2(L-1)(X1 A0 - Z1 A1) + (L-1)(Y2 B0 - 2 Y1 B1 + B2)
        + (L-1)(L-2)(Y2 A0^2 - 2 Y1 A0 A1 + A1^2)
    X2 = E1[(Y-w)^2 K2]/f1, X1 = E1[(Y-w)Y K1]/f1, Z1 = E1[(Y-w) K1]/f1, Yn = E1[Y^n K0]/f1, f1
        = E1[K0],
    A0 = E0[K1]/f0, A1 = E0[w K1]/f0, B0 = E0[K2]/f0, B1 = E0[w K2]/f0, B2 = E0[w^2 K2]/f0, f0
        = E0[K0].

The first, third and fourth term are averages of squares, and the second is at most twice the root
of the first times the other two: a tiny risk is a sum of tiny positive numbers, not a difference of
large ones. Each term has its own exponent. The gradient differentiates the averages: in kap and lam
through K_p', else in the weights.

One token. Its log weight is y = yc + width g with g standard normal, and the kernels are
K_p(y) = e^{py} exp(-e^y). For p = 1, 2 and n <= 3, trapezoid sums give

    E[g^n K_p(y)],   E[g^n K_p'(y)] with K_p' = (p - e^y) K_p,   and   log E[K_0(y)].

K_p times the normal density is log-concave with mode g* = width (p - a), a = e^{y*}, and a step of
r from the mode costs exactly r^2/2 + a (e^{width r} - 1 - width r) nats: every sum runs over a
window around its own mode and carries its own log scale, so averages far below the smallest float
keep their relative accuracy. The trapezoid rule on such entire, decaying functions converges
exponentially; shifting the contour by i eta, eta = 1.4/width (|Im y| < pi/2), gives the step that
leaves exp(-nats). The average of K_0 is taken directly for narrow scores; for wide ones by parts,
E[K_0] = int K_1(y) P(yc + width g < y) dy, whose window stays about 40 wide however large the
inverse temperature is.

numba keeps compiled copies of these functions inside those of softmax_risk.py, softmax_panels.py
and softmax_profile.py: after an edit here, touch those files.

notation: kap eta the nu rho the overlaps, lam inverse temperature, gam, s signal, c alignment; u =
x.k, w = x.v, g = (u - E u)/sd; q the tuple (kap, eta, the, nu, rho, lam, gam, s, c). Of one token:
yc centre and `width` standard deviation of y; a = e^y at the mode; M the Mills ratio.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = [
    "CRUDE_NATS",
    "FINE_NATS",
    "NEGLIGIBLE_NATS",
    "PROFILE_INTEGRALS",
    "Array",
    "Setting",
    "Sums",
    "integrand",
    "log_survival",
    "profile_integrand",
    "tilted_moments",
    "token_averages",
]

Array = np.ndarray
Quadratic = tuple[float, float, float]  # coefficients of 1, g, g^2
Setting = tuple[float, ...]  # q of the notation
Sums = tuple[Array, Array, Array, float, float]  # sums, sums of |.|, change, log scale, step

# nats of aliasing error and of truncation in a token average: below 1e-13 together
FINE_NATS = (37.0, 41.0)
CRUDE_NATS = (7.0, 9.0)  # the same for locating the integrand: a few per mille
# nats below the largest at which a part of the gradient is not resolved for itself
NEGLIGIBLE_NATS = 500.0
# Standard deviation of y above which E[K_0] goes by parts: the direct window has 9 width/0.25 nodes
# at two exponentials each, the other one about 180 at an error function each; they cost the same
# near 10.
BY_PARTS_WIDTH = 10.0
# log of the ratio of e^y at neighbouring nodes beyond which products under- or overflow
STEEPEST_LOG_RATIO = 300.0
# nodes between fresh exponentials e^y; products in between lose at most 64 roundings
NODES_BETWEEN_EXPONENTIALS = 64
PROFILE_INTEGRALS = 15  # of softmax_profile.py


# -- averages over one token ------------------------------------------------------------------------


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
    ratio = math.exp(min(width * step, STEEPEST_LOG_RATIO))
    fresh = NODES_BETWEEN_EXPONENTIALS if width * step < STEEPEST_LOG_RATIO else 1
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
    if width > BY_PARTS_WIDTH:
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
            e = math.exp(yc + width * x) if i % NODES_BETWEEN_EXPONENTIALS == 0 else e * ratio
            total += math.exp(-e - 0.5 * x * x - peak)
        return peak + math.log(total * step / math.sqrt(2.0 * math.pi))
    g, a = mode(1.0, yc, width)  # K_1 <= 1 - K_0 <= min(1, e^y) bounds both ends
    lo = g - window(yc + width * g, width, drop)[0]
    excess = max(0.0, yc + 0.5 * width * width - log_k1)
    hi = min(math.sqrt(2.0 * (drop - log_k1)), width + math.sqrt(2.0 * (drop + excess)))
    for i in range(int((hi - lo) / step) + 2):
        x = lo + i * step
        e = math.exp(yc + width * x) if i % NODES_BETWEEN_EXPONENTIALS == 0 else e * ratio
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


# -- the integrand ---------------------------------------------------------------------------------


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


@njit(cache=True, error_model="numpy")
def profile_integrand(
    tau: float, q: Setting, length: float, work: Array, out: Array
) -> float:
    """The integrands of softmax_profile.py in `out`, times e^{-scale}; returns scale."""
    width = q[5] * q[6]
    n1 = length - 1.0
    n2 = (length - 1.0) * (length - 2.0)
    log_f1, log_f0, ek1, ek2, eb1, eb2 = token_averages(tau, q, FINE_NATS, work)
    k1, k2, b1, b2 = work[0], work[1], work[2], work[3]
    G1 = -width * math.exp(ek1) * k1[0]
    G2 = -width * math.exp(ek1) * k1[1]
    scale = max(max(ek2, ek1 + eb1), max(eb2, 2.0 * eb1))
    h1 = math.exp(ek2 - scale)
    h2 = 2.0 * n1 * math.exp(ek1 + eb1 - scale)
    h3 = n1 * math.exp(eb2 - scale)
    h4 = n2 * math.exp(2.0 * eb1 - scale)
    w = h3 * b2[0] + h4 * b1[0] * b1[0]
    u = h3 * b2[1] + h4 * b1[0] * b1[1]
    for i in range(3):
        out[i] = h1 * k2[i]
        out[3 + i] = h2 * k1[i] * b1[0]
    out[6] = h2 * k1[0] * b1[1]
    out[7] = h2 * k1[1] * b1[1]
    out[8] = w
    out[9] = w * G1
    out[10] = w * G2
    out[11] = u
    out[12] = u * G1
    out[13] = h3 * (b2[2] - b2[0]) + h4 * b1[1] * b1[1]
    out[14] = h3 * b2[0]
    return log_f1 + n1 * log_f0 + scale
