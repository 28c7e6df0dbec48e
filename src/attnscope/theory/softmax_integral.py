"""The one-dimensional integral behind the softmax risk: its integrand, its gradient, and the trapezoid sum over it.

With a_m the softmax weights, Y - T = sum_m a_m (Y - w_m) and 1/S^2 = int t e^{-tS} dt, t = e^tau, turn the risk into

    R = int I(tau) dtau,   I = E[(sum_m e^{y_m} (Y - w_m))^2 exp(-sum_m e^{y_m})] >= 0,   y_m = tau + lam u_m,

and the tokens are independent, so I is a polynomial in averages over one token (P = f1 f0^{L-1}, kernels K_p of
softmax_moments.py, index 1 informative, 0 background):

    I = P { X2 + 2(L-1)(X1 A0 - Z1 A1) + (L-1)(Y2 B0 - 2 Y1 B1 + B2) + (L-1)(L-2)(Y2 A0^2 - 2 Y1 A0 A1 + A1^2) }
    X2 = E1[(Y-w)^2 K2]/f1,  X1 = E1[(Y-w)Y K1]/f1,  Z1 = E1[(Y-w) K1]/f1,  Yn = E1[Y^n K0]/f1,  f1 = E1[K0],
    A0 = E0[K1]/f0,  A1 = E0[w K1]/f0,  B0 = E0[K2]/f0,  B1 = E0[w K2]/f0,  B2 = E0[w^2 K2]/f0,  f0 = E0[K0].

The first, third and fourth term are averages of squares, and the second is at most twice the root of the first times the
other two: a tiny risk is a sum of tiny positive numbers, not a difference of large ones. Each term is carried with its
own exponent. The gradient differentiates the averages: in kappa and lam through K_p', elsewhere through the weights.

notation: kap eta the nu rho the overlaps, lam temperature, gam, s signal, c alignment; u = x.k, w = x.v, g = (u - E u)/sd.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.theory.softmax_moments import log_survival, tilted_moments

__all__ = ["integrate"]

FINE = (37.0, 41.0)  # nats of aliasing error and of truncation in a token average: below 1e-13 together
CRUDE = (7.0, 9.0)  # the same for locating the integrand: a few per mille
REACH = 43.0  # nats below its maximum at which the outer integrand is dropped: 2e-19
NEGLIGIBLE = 500.0  # nats below the largest at which a component of the gradient is no longer resolved for itself
SCAN = 20  # points per round of the search for the range
MAX_NODES = 20_000  # of the outer sum; a few hundred are typical
COARSEST = 1.0  # outer step in units of the sharpest scale, from which on a small change is believed
FINEST = 0.27  # outer step at which |I(t e^{i th})| <= I(t cos th) already bounds the relative error by 1e-12


@njit(cache=True, error_model="numpy")
def poly(k, first, a0, a1, a2):
    """E[(a0 + a1 g + a2 g^2) .] from the moments k[first], k[first + 1], k[first + 2]."""
    return a0 * k[first] + a1 * k[first + 1] + a2 * k[first + 2]


@njit(cache=True, error_model="numpy")
def integrand(tau, q, length, quality, with_gradient, work, out, logs):
    """I(tau) in out[0], its gradient in out[1:7], the sum of all |products| in out[7], all times e^{-scale}; returns scale.

    logs[0:4] receives the logs of positive envelopes of the four terms (squares without their cross products), log-concave
    up to polynomial weights. For the gradient the first two drop weights that may vanish where their derivatives do not.
    """
    kap, eta, the, nu, rho, lam, gam, s, c = q
    nats, drop = quality
    n1, n2 = length - 1.0, (length - 1.0) * (length - 2.0)
    k1, k2, b1, b2, d = work[0], work[1], work[2], work[3], work[4:10]

    # token averages: k informative, b background, with K1 and K2; their exponents relative to f1 and f0
    yc, width = tau + lam * s * kap, lam * gam
    ek1, ek2 = tilted_moments(1.0, yc, width, nats, drop, k1), tilted_moments(2.0, yc, width, nats, drop, k2)
    eb1, eb2 = tilted_moments(1.0, tau, lam, nats, drop, b1), tilted_moments(2.0, tau, lam, nats, drop, b2)
    log_f1 = log_survival(yc, width, ek1 + math.log(k1[0]), nats, drop)
    log_f0 = log_survival(tau, lam, eb1 + math.log(b1[0]), nats, drop)
    top = log_f1 + n1 * log_f0
    ek1, ek2, eb1, eb2 = ek1 - log_f1, ek2 - log_f1, eb1 - log_f0, eb2 - log_f0

    # given g: Y - w has mean al + be g and variance V, Y mean sc + ge g and variance Vy, their covariance is W
    al, be, sc, ge, g2 = s * (c - the), gam * (eta - rho), s * c, gam * eta, gam * gam
    V = max(0.0, g2 * (2.0 - 2.0 * nu - (eta - rho) ** 2))  # negative only by rounding of the overlaps
    W, Vy = g2 * (1.0 - nu - eta * (eta - rho)), g2 * (1.0 - eta * eta)
    x2 = (al * al + V, 2.0 * al * be, be * be)
    x1 = (al * sc + W, al * ge + be * sc, be * ge)
    y2 = (sc * sc + Vy, 2.0 * sc * ge, ge * ge)
    X2, X1, Z1 = poly(k2, 0, *x2), poly(k1, 0, *x1), poly(k1, 0, al, be, 0.0)
    K1 = math.exp(ek1)  # Stein: G1 = E1[g K0]/f1 = -width E1[K1]/f1 and G2 = E1[g^2 K0]/f1 - 1 = -width E1[g K1]/f1
    G1, G2 = -width * K1 * k1[0], -width * K1 * k1[1]
    Y1, Y2 = sc + ge * G1, y2[0] + y2[2] + y2[1] * G1 + y2[2] * G2
    A0, A1, B0, B1 = b1[0], rho * b1[1], b2[0], rho * b2[1]
    B2 = rho * rho * b2[2] + (1.0 - rho * rho) * b2[0]

    t1, t2 = X2, 2.0 * n1 * (X1 * A0 - Z1 * A1)
    t3, t4 = n1 * (Y2 * B0 - 2.0 * Y1 * B1 + B2), n2 * (Y2 * A0 * A0 - 2.0 * Y1 * A0 * A1 + A1 * A1)
    logs[0] = ek2 + math.log(k2[0] if with_gradient else x2[0] * k2[0] + x2[2] * k2[2])
    logs[1] = ek1 + eb1 + math.log(2.0 * n1 * k1[0] * A0 if with_gradient else 0.0)
    Ye = max(max(Y2, Y1 * Y1), 1e-9 * g2)  # a crude Y2 may be negative
    logs[2], logs[3] = eb2 + math.log(n1 * (Ye * B0 + B2)), 2.0 * eb1 + math.log(n2 * (Ye * A0 * A0 + A1 * A1))
    scale = max(max(logs[0], logs[1]), max(logs[2], logs[3]))
    logs += top
    # a vanishing term has no say in the scale: the cap keeps its exponential finite
    h1, h2 = math.exp(min(ek2 - scale, 600.0)), math.exp(min(ek1 + eb1 - scale, 600.0))
    h3, h4 = math.exp(eb2 - scale), math.exp(2.0 * eb1 - scale)
    t1, t2, t3, t4 = h1 * t1, h2 * t2, h3 * t3, h4 * t4
    out[0] = t1 + t2 + t3 + t4
    out[7] = abs(t1) + 2.0 * n1 * h2 * (abs(X1 * A0) + abs(Z1 * A1)) + n1 * h3 * (Y2 * B0 + 2.0 * abs(Y1 * B1) + B2)
    out[7] += n2 * h4 * (Y2 * A0 * A0 + 2.0 * abs(Y1 * A0 * A1) + A1 * A1)
    if not with_gradient:
        return top + scale

    # derivatives of the averages (columns X2 X1 Z1 Y0 Y1 Y2 A0 A1 B0 B1 B2 log f0), then of I in them
    d[:] = 0.0
    mean, shift = s * kap, lam * s
    d[0, 0], d[0, 1], d[0, 2] = (
        shift * poly(k2, 4, *x2),
        shift * poly(k1, 4, *x1),
        shift * poly(k1, 4, al, be, 0.0),
    )
    d[0, 3], d[0, 4] = -shift * K1 * k1[0], -shift * K1 * poly(k1, 0, sc, ge, 0.0)
    d[0, 5] = -shift * K1 * poly(k1, 0, *y2)
    d[1, 0] = 2.0 * gam * poly(k2, 0, -be, al, be)
    d[1, 1] = gam * poly(k1, 0, -gam * (2.0 * eta - rho), sc + al, ge + be)
    d[1, 2], d[1, 4], d[1, 5] = gam * k1[1], gam * G1, 2.0 * gam * (sc * G1 + ge * G2)
    d[2, 0], d[2, 1] = -2.0 * s * poly(k2, 0, al, be, 0.0), -s * poly(k1, 0, sc, ge, 0.0)
    d[2, 2] = -s * k1[0]
    d[3, 0], d[3, 1] = -2.0 * g2 * k2[0], -g2 * k1[0]
    d[4, 0], d[4, 1] = -d[1, 0], gam * poly(k1, 0, ge, -sc, -ge)
    d[4, 2], d[4, 7], d[4, 9], d[4, 10] = -gam * k1[1], b1[1], b2[1], 2.0 * rho * (b2[2] - b2[0])
    d[5, 0] = mean * poly(k2, 4, *x2) + gam * poly(k2, 5, *x2)
    d[5, 1] = mean * poly(k1, 4, *x1) + gam * poly(k1, 5, *x1)
    d[5, 2] = mean * poly(k1, 4, al, be, 0.0) + gam * poly(k1, 5, al, be, 0.0)
    d[5, 3] = -K1 * (mean * k1[0] + gam * k1[1])
    d[5, 4] = -K1 * (mean * poly(k1, 0, sc, ge, 0.0) + gam * poly(k1, 1, sc, ge, 0.0))
    d[5, 5] = -K1 * (mean * poly(k1, 0, *y2) + gam * poly(k1, 1, *y2))
    d[5, 6], d[5, 7], d[5, 8], d[5, 9] = b1[5], rho * b1[6], b2[5], rho * b2[6]
    d[5, 10] = rho * rho * b2[7] + (1.0 - rho * rho) * b2[5]
    d[5, 11] = -math.exp(eb1) * b1[1]
    h2, h3, h4 = 2.0 * n1 * h2, n1 * h3, n2 * h4
    slope = (
        h1, h2 * A0, -h2 * A1, h3 * B2 + h4 * A1 * A1, -2.0 * (h3 * B1 + h4 * A0 * A1), h3 * B0 + h4 * A0 * A0,
        h2 * X1 + 2.0 * h4 * (Y2 * A0 - Y1 * A1), -h2 * Z1 + 2.0 * h4 * (A1 - Y1 * A0),
        h3 * Y2, -2.0 * h3 * Y1, h3, n1 * t1 + (n1 - 1.0) * (t2 + t3) + (n1 - 2.0) * t4,
    )  # fmt: skip
    for i in range(6):
        out[1 + i] = 0.0
        for j in range(12):
            out[1 + i] += d[i, j] * slope[j]
    return top + scale


@njit(cache=True, error_model="numpy")
def reachable(peak, best, with_gradient):
    """Level down to which a term of this peak matters: a derivative may live on one small term alone, the value does not."""
    return max(peak, best - NEGLIGIBLE) - REACH if with_gradient else best - REACH


@njit(cache=True, error_model="numpy")
def locate(q, length, with_gradient, work, out):
    """(lo, hi, step): the range of tau that holds all terms within REACH nats of the largest, and a first step.

    Each term is log-concave in tau up to polynomial weights. Strides doubling from a guess bracket every term, then
    rounds of SCAN crude values shrink the bracket to the cells that can hold the integrand.
    """
    kap, lam, gam, s = q[0], q[5], q[6], q[7]
    terms, best = np.empty((SCAN, 4)), np.full(4, -math.inf)
    unit = max(1.0, lam * max(1.0, gam))
    ends = np.full(2, -lam * max(s * kap, 0.0))
    for side in range(2):  # walk until every term falls in this direction and is out of reach
        integrand(ends[side], q, length, CRUDE, with_gradient, work, out, terms[0])
        stride, walking = unit, True
        while walking:
            terms[1], best = terms[0], np.maximum(best, terms[0])
            ends[side] += stride if side == 1 else -stride
            stride *= 1.5
            integrand(ends[side], q, length, CRUDE, with_gradient, work, out, terms[0])
            walking = False
            for j in range(4):
                reach = reachable(best[j], best.max(), with_gradient)
                walking = walking or (best[j] > -math.inf and not terms[0, j] < min(terms[1, j], reach))
    lo, hi = ends
    step = unit
    for _ in range(12):
        cell = (hi - lo) / (SCAN - 1)
        for i in range(SCAN):
            integrand(lo + i * cell, q, length, CRUDE, with_gradient, work, out, terms[i])
        first, final, step = SCAN - 1, 0, hi - lo
        for j in range(4):
            top = terms[:, j].argmax()
            left, right = max(top - 1, 0), min(top + 1, SCAN - 1)
            rise = terms[top, j] - min(terms[left, j], terms[right, j])  # a log-concave peak is at most this far above
            reach = reachable(terms[top, j], terms.max(), with_gradient)
            if not terms[top, j] + rise >= reach:
                continue
            while left > 0 and terms[left, j] >= reach:
                left -= 1
            while right < SCAN - 1 and terms[right, j] >= reach:
                right += 1
            first, final = min(first, left), max(final, right)
            sd = (right - left) * cell / (2.0 * math.sqrt(2.0 * max(terms[top, j] - reach, 2.0)))
            step = min(step, sd)
        lo, hi = lo + first * cell, lo + final * cell
        if final - first > 0.6 * (SCAN - 1):
            break
    return lo, hi, step


@njit(cache=True, error_model="numpy")
def integrate(q, length, with_gradient, tolerance):
    """Trapezoid sums of the eight outputs of `integrand`: (sums, sums of |.|, change at the last halving, log scale, nodes).

    The step is halved until every output changes by less than tolerance times its sum of |.|, or until the change has
    stopped falling (rounding), or the step is FINEST, or MAX_NODES are spent; the caller judges the change it is given.
    """
    work, out, logs = np.zeros((10, 12)), np.zeros(8), np.zeros(4)
    lo, hi, step = locate(q, length, with_gradient, work, out)
    # token averages vary on the scale of their spread (or 1), the power f0^length faster by the usual factor of maxima;
    # a first change measured at coarser steps than these may miss a sharp edge of the integrand
    step = min(step, 2.0 * COARSEST * max(1.0, q[5] * min(1.0, q[6])) / math.sqrt(1.0 + 2.0 * math.log(length)))
    sums, magnitude, change, before = np.zeros(8), np.zeros(8), np.zeros(8), np.zeros(8)
    count = int((hi - lo) / step) + 1
    step = (hi - lo) / count
    scale, nodes, first, stride, worst = -math.inf, 0, lo, step, math.inf
    while True:
        new = count + 1 if nodes == 0 else count  # the midpoints of the nodes so far
        for i in range(new):
            e = integrand(first + i * stride, q, length, FINE, with_gradient, work, out, logs)
            if e > scale:
                shrink, scale = math.exp(scale - e), e
                sums, magnitude, before = sums * shrink, magnitude * shrink, before * shrink
            sums += out * math.exp(e - scale)
            magnitude += np.abs(out) * math.exp(e - scale)
        if nodes > 0:
            change = np.abs(sums - 2.0 * before)
            last, worst, floor = worst, 0.0, math.exp(-NEGLIGIBLE) * magnitude.max()
            for j in range(7):
                if magnitude[j] > floor:
                    worst = max(worst, change[j] / magnitude[j])
            stuck = worst > 0.3 * last and worst < 1e-6  # rounding: resolved sums converge faster than geometrically
            if not worst > tolerance or stuck or step <= FINEST or nodes > MAX_NODES:
                break
            count *= 2
        before, nodes = sums.copy(), nodes + new
        first, stride, step = lo + 0.5 * step, step, 0.5 * step
    return sums * step, magnitude * step, change * step, scale, nodes + new
