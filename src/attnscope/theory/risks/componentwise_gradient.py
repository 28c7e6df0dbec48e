"""Exact gradient of the componentwise risk (componentwise_risk.py) in the five overlaps and the
inverse temperature.

notation: as there; M_h[p, n] = E[s_h^p G^n], h = 1 informative, 0 background, (mean, sd) = (s kap,
gam) or (0, 1).

R is a polynomial in the moments M, and Stein's identity E[f'(G) g(G)] = E[f (G g - g')]
differentiates these without sigma':

    dM_1[p,n]/dkap = (s/gam) (M[p,n+1] - n M[p,n-1]),
    dM_h[p,n]/dlam = (1/(lam sd)) [mean (M[p,n+1] - n M[p,n-1]) + sd (M[p,n+2] - (n+1) M[p,n])].

So kinks and jumps of sigma cost nothing but a split of the integral. Both right sides vanish for a
constant s^p, so sigma(lam mean)^p is taken off first: what is left is small with lam sd, and its
rounding is that of sigma, divided by lam sd. Exact up to that and to the panels of
numerics.integrals.refined_panels.

At inverse temperature 0 the derivative in lam is the one from the right (inverse temperatures are
>= 0): s_h = sigma(0) + lam a u + ..., with a = sigma'(0+) where u = mean + sd G > 0 and sigma'(0-)
where u < 0, so

    dM_h[p,n]/dlam = p sigma(0)^(p-1) (sigma'(0-) E[u G^n] + (sigma'(0+) - sigma'(0-)) E[max(u, 0)
        G^n]).

The slopes are one-sided differences of fourth order at the step that agrees best with its half. A
sigma that jumps at 0, or is as steep there as sqrt, has an infinite derivative and is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.refined_panels import EPS, ScoreLaw, resolve
from attnscope.predictors.attention import Componentwise
from attnscope.theory.law import Law

__all__ = ["background_moments", "componentwise_gradient", "score_moments"]

Moments = tuple[np.ndarray, np.ndarray, np.ndarray]

# steps of the one-sided differences: from 1/8, enough for a smooth sigma, to 1e-9
DIFFERENCE_STEPS = 2.0 ** -np.arange(3, 31)
# f'(0) from f(0), f(h), ..., f(4h), to order h^4
DERIVATIVE_STENCIL = np.array([-25.0, 48.0, -36.0, 16.0, -3.0]) / 12
# relative, between two steps: beyond it sigma has no slope; smooth functions reach 1e-9
LARGEST_SLOPE_DISAGREEMENT = 1e-4


def componentwise_gradient(
    predictor: Componentwise,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
    outside: Moments | None = None,
) -> np.ndarray:
    """(6,): d R / d (kappa, eta, theta, nu, rho, inverse temperature) at scalar overlaps.

    At inverse temperature 0 the last is the one from the right.

    Args:
        outside: `background_moments(predictor, lam)`, if they are known.
    """
    kap, eta, the, nu, rho = overlaps
    gam = law.gamma
    s = law.signal
    L = float(law.length)
    M1, d_kap, d_lam1 = score_moments(predictor, ScoreLaw(lam, s * kap, gam))
    M0, _, d_lam0 = background_moments(predictor, lam) if outside is None else outside
    d_kap = d_kap * s
    m1 = s * the * M1[0, 0] + gam * rho * M1[0, 1]
    bias = m1 + (L - 1) * rho * M0[0, 1] - s * law.alignment
    # R = gam^2 - 2 c1 + q1 - m1^2 + (L-1)(q0 - m0^2) + bias^2, differentiated in the moments ...
    pull = 2 * (bias - m1)  # of bias^2 - m1^2 through m1
    R_M1 = np.zeros((2, 3))
    R_M1[0] = [
        -2 * gam**2 * (nu - rho * eta) + pull * s * the,
        -2 * gam * eta * s * the + pull * gam * rho,
        -2 * gam**2 * eta * rho,
    ]
    R_M1[1] = [
        (s * the) ** 2 + gam**2 * (1 - rho**2),
        2 * s * the * gam * rho,
        (gam * rho) ** 2,
    ]
    R_M0 = np.zeros((2, 3))
    R_M0[0, 1] = -2 * (L - 1) * rho**2 * M0[0, 1] + 2 * bias * (L - 1) * rho
    R_M0[1, 0] = (L - 1) * (1 - rho**2)
    R_M0[1, 2] = (L - 1) * rho**2
    # ... and in the overlaps that stand outside them
    R_eta = (
        -2 * gam * (s * the * M1[0, 1] + gam * rho * M1[0, 2]) + 2 * gam**2 * rho * M1[0, 0]
    )
    R_the = (
        -2 * gam * eta * s * M1[0, 1]
        + 2 * s * s * the * M1[1, 0]
        + 2 * s * gam * rho * M1[1, 1]
    )
    R_the += pull * s * M1[0, 0]
    R_nu = -2 * gam**2 * M1[0, 0]
    R_rho = -2 * gam**2 * eta * (M1[0, 2] - M1[0, 0]) + 2 * s * the * gam * M1[1, 1]
    R_rho += 2 * gam**2 * rho * (M1[1, 2] - M1[1, 0]) + pull * gam * M1[0, 1]
    R_rho += (
        2 * (L - 1) * rho * (M0[1, 2] - M0[1, 0] - M0[0, 1] ** 2)
        + 2 * bias * (L - 1) * M0[0, 1]
    )
    R_lam = np.sum(R_M1 * d_lam1) + np.sum(R_M0 * d_lam0)
    return np.array([np.sum(R_M1 * d_kap), R_eta, R_the, R_nu, R_rho, R_lam])


def background_moments(predictor: Componentwise, lam: float) -> Moments:
    """M_0 and its derivatives: one for all overlaps of a call."""
    return score_moments(predictor, ScoreLaw(lam, 0.0, 1.0))


def score_moments(predictor: Componentwise, law: ScoreLaw) -> Moments:
    """M[p-1, n] for p = 1, 2 and n = 0..2, with its derivatives in the mean and in lam (module
    docstring).
    """
    out = resolve(predictor, law, _probe_moments)
    centre = float(predictor.activation(law.score(np.zeros(1)))[0])
    square = out.g * out.g
    # (5, nodes)
    powers = np.stack([np.ones_like(square), out.g, square, square * out.g, square * square])
    off = out.weight * (out.s - centre)
    # (2, 5), less what a constant sigma has
    M = np.stack([off, off * (out.s + centre)]) @ powers.T
    n = np.arange(3)
    # M[p, n-1], any value at n = 0
    below = np.concatenate([np.zeros((2, 1)), M[:, :2]], axis=1)
    shifted = M[:, 1:4] - n * below
    d_mean = shifted / law.sd
    if law.lam > 0:
        d_lam = (law.mean * shifted + law.sd * (M[:, 2:5] - (n + 1) * M[:, :3])) / (
            law.lam * law.sd
        )
    else:
        d_lam = np.array([1.0, 2 * centre])[:, None] * _moment_slopes_at_zero(predictor, law)
    gauss = np.array([1.0, 0.0, 1.0])  # E G^n
    return M[:, :3] + np.array([centre, centre**2])[:, None] * gauss, d_mean, d_lam


def _probe_moments(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    """s and s^2 times 1 and g^4, between which the other powers of g lie."""
    high = (g * g) ** 2
    square = s * s
    values = np.stack([s, s * high, square, square * high])
    if ds is None:
        return values, None
    d_square = (2 * np.abs(s) + ds) * ds
    return values, np.stack([ds, high * ds, d_square, d_square * high])


def _moment_slopes_at_zero(predictor: Componentwise, law: ScoreLaw) -> np.ndarray:
    """d/dlam E[sigma(lam u) G^n] at lam = 0+, n = 0..2."""
    right = _one_sided_slope(predictor, 1.0)
    left = _one_sided_slope(predictor, -1.0)
    a = -law.mean / law.sd
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    tail = float(ndtr(-a))
    # E[G^n; G > a]
    above = np.array([tail, density, a * density + tail, (a * a + 2) * density])
    gauss = np.array([1.0, 0.0, 1.0, 0.0])
    positive = law.mean * above[:3] + law.sd * above[1:]
    whole = law.mean * gauss[:3] + law.sd * gauss[1:]
    return left * whole + (right - left) * positive


def _one_sided_slope(predictor: Componentwise, side: float) -> float:
    """sigma'(0+) for side 1, sigma'(0-) for side -1."""
    x = side * DIFFERENCE_STEPS[:, None] * np.arange(5.0)
    values = predictor.activation(x)
    slopes = side * (values @ DERIVATIVE_STENCIL) / DIFFERENCE_STEPS
    rounding = 16 * EPS * np.abs(values).max(axis=1) / DIFFERENCE_STEPS
    away = np.abs(np.diff(slopes))
    doubt = away + rounding[1:]
    best = int(np.argmin(doubt)) + 1
    size = max(abs(slopes[best]), float(np.ptp(values[best])), EPS)
    # rounding of a sigma that is flat at 0 does not count
    if away[best - 1] > LARGEST_SLOPE_DISAGREEMENT * size + rounding[best]:
        raise AttnscopeError(
            "inverse_temperature of risk_gradient must be > 0 for a sigma that jumps or is "
            "infinitely steep at 0, "
            "got 0, where the derivative is infinite; try inverse_temperature=1e-3."
        )
    return float(slopes[best])
