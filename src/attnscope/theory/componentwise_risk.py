"""Exact risk of T(X) = sum_l sigma(lam X_l.k) X_l.v for any sigma, by one-dimensional quadrature.

notation: G standard normal, s1 = sigma(lam (s kap + gam G)), s0 = sigma(lam G), mw = s the + gam rho G, c = k*.v*.

Given the score of the informative token, Y and its value X_J.v are jointly Gaussian: E[Y|G] = s c + gam eta G, E[X_J.v|G] = mw, and
their residuals have variances gam^2 (1-eta^2), gam^2 (1-rho^2) and covariance gam^2 (nu - rho eta). Background tokens add
independent terms of mean m0 = rho E[s0 G] and variance q0 - m0^2. Hence

    R = E[(s c + gam eta G - s1 mw - (L-1) m0)^2] + gam^2 E|v*_perp - s1 v_perp|^2 + (L-1) [(1-rho^2) E s0^2 + rho^2 Var(s0 G)],
    |v*_perp - s1 v_perp|^2 = (1-eta^2) - 2 s1 (nu - rho eta) + s1^2 (1-rho^2).

Every term is a mean of squares, so tiny risks keep their relative accuracy. For the gradient R is a polynomial in the moments
M_h[p, n] = E[s_h^p G^n] (h = 1, 0), and Stein's identity E[f'(G) g(G)] = E[f (G g - g')] differentiates these without sigma':

    dM_1[p,n]/dkap = (s/gam) (M[p,n+1] - n M[p,n-1]),
    dM_h[p,n]/dlam = (1/(lam sd)) [mean (M[p,n+1] - n M[p,n-1]) + sd (M[p,n+2] - (n+1) M[p,n])],  (mean, sd) = (s kap, gam) or (0, 1).

So kinks and jumps of sigma cost nothing but a split of the integral. Exact up to the panel rule of numerics.quadrature, whose error is
estimated by a coarser rule on the same panels.
"""

from __future__ import annotations

import numpy as np

from attnscope.numerics.quadrature import normal_panels
from attnscope.predictors.attention import Componentwise

__all__ = ["componentwise_excess", "componentwise_gradient"]

ROUNDOFF = 1e-14  # accumulated rounding of a few thousand positive summands and of exp(-g^2/2) at the nodes that matter
DIFFERENCE = 1e-5  # step for sigma'(0), needed only at temperature 0: error 1e-10 for a smooth sigma


def componentwise_excess(
    predictor: Componentwise,
    overlaps: tuple[float, ...],
    lam: float,
    *,
    gamma: float,
    signal: float,
    length: int,
    alignment: float,
) -> tuple[float, float]:
    """(excess, error) at scalar overlaps and temperature."""
    fine, coarse = (
        _excess(predictor, nodes, overlaps, lam, gamma, signal, float(length), alignment)
        for nodes in _nodes(predictor, overlaps[0], lam, gamma, signal)
    )
    last = (
        2.3e-16 * gamma
    )  # sigma near 1 is known to one unit in the last place only, and R contains gam^2 E(1 - sigma)^2
    return fine, abs(fine - coarse) + ROUNDOFF * fine + 2 * last * fine**0.5 + last**2


def _nodes(predictor: Componentwise, kap: float, lam: float, gam: float, s: float) -> list[tuple[np.ndarray, ...]]:
    """(g1, w1, g0, w0) of the fine rule and of the coarse one, refined where sigma turns."""
    rules = []
    for mean, sd in ((s * kap, gam), (0.0, 1.0)):
        steep = lam * sd
        centres = [] if steep == 0 else [((x / lam - mean) / sd, scale / steep) for x, scale in predictor.turns()]
        kinks = [] if steep == 0 else [(x / lam - mean) / sd for x in predictor.kinks]
        rules.append(normal_panels(centres, kinks))
    informative, background = rules
    return [(*a, *b) for a, b in zip(informative, background)]


def _excess(
    predictor: Componentwise,
    nodes: tuple[np.ndarray, ...],
    o: tuple[float, ...],
    lam: float,
    gam: float,
    s: float,
    L: float,
    c: float,
) -> float:
    kap, eta, the, nu, rho = o
    g1, w1, g0, w0 = nodes
    s1, s0 = predictor.activation(lam * (s * kap + gam * g1)), predictor.activation(lam * g0)
    mean0 = np.sum(w0 * s0 * g0)
    spread0 = (1 - rho**2) * np.sum(w0 * s0 * s0) + rho**2 * np.sum(w0 * (s0 * g0 - mean0) ** 2)
    bias = s * c + gam * eta * g1 - s1 * (s * the + gam * rho * g1) - (L - 1) * rho * mean0
    sign = (
        1.0 if nu - rho * eta >= 0 else -1.0
    )  # expand around s1 = +-1: at the oracle the residual is then exactly (1 - s1)^2
    A, B, C, t = 1 - eta**2, sign * (nu - rho * eta), 1 - rho**2, 1 - sign * s1
    residual = max(A - 2 * B + C, 0.0) + 2 * t * (B - C) + C * t * t
    return float(np.sum(w1 * (bias * bias + gam**2 * residual)) + (L - 1) * spread0)


def componentwise_gradient(
    predictor: Componentwise,
    overlaps: tuple[float, ...],
    lam: float,
    *,
    gamma: float,
    signal: float,
    length: int,
    alignment: float,
) -> np.ndarray:
    """(6,): d R / d (kappa, eta, theta, nu, rho, temperature) at scalar overlaps."""
    kap, eta, the, nu, rho = overlaps
    gam, s, L = gamma, signal, float(length)
    (g1, w1, g0, w0), _ = _nodes(predictor, kap, lam, gam, s)
    slope = 0.0 if lam else _slope_at_zero(predictor)
    M1, d_kap, d_lam1 = _moments(predictor, g1, w1, s * kap, gam, lam, slope)
    M0, _, d_lam0 = _moments(predictor, g0, w0, 0.0, 1.0, lam, slope)
    d_kap = d_kap * s
    m1 = s * the * M1[0, 0] + gam * rho * M1[0, 1]
    bias = m1 + (L - 1) * rho * M0[0, 1] - s * alignment
    # R = gam^2 - 2 c1 + q1 - m1^2 + (L-1)(q0 - m0^2) + bias^2, differentiated in the moments ...
    pull = 2 * (bias - m1)  # of bias^2 - m1^2 through m1
    R_M1 = np.zeros((2, 3))
    R_M1[0] = [
        -2 * gam**2 * (nu - rho * eta) + pull * s * the,
        -2 * gam * eta * s * the + pull * gam * rho,
        -2 * gam**2 * eta * rho,
    ]
    R_M1[1] = [(s * the) ** 2 + gam**2 * (1 - rho**2), 2 * s * the * gam * rho, (gam * rho) ** 2]
    R_M0 = np.zeros((2, 3))
    R_M0[0, 1] = -2 * (L - 1) * rho**2 * M0[0, 1] + 2 * bias * (L - 1) * rho
    R_M0[1, 0], R_M0[1, 2] = (L - 1) * (1 - rho**2), (L - 1) * rho**2
    # ... and in the overlaps that stand outside them
    R_eta = -2 * gam * (s * the * M1[0, 1] + gam * rho * M1[0, 2]) + 2 * gam**2 * rho * M1[0, 0]
    R_the = (
        -2 * gam * eta * s * M1[0, 1] + 2 * s * s * the * M1[1, 0] + 2 * s * gam * rho * M1[1, 1] + pull * s * M1[0, 0]
    )
    R_nu = -2 * gam**2 * M1[0, 0]
    R_rho = (
        -2 * gam**2 * eta * (M1[0, 2] - M1[0, 0])
        + 2 * s * the * gam * M1[1, 1]
        + 2 * gam**2 * rho * (M1[1, 2] - M1[1, 0])
    )
    R_rho += (
        pull * gam * M1[0, 1]
        + 2 * (L - 1) * rho * (M0[1, 2] - M0[1, 0] - M0[0, 1] ** 2)
        + 2 * bias * (L - 1) * M0[0, 1]
    )
    R_lam = np.sum(R_M1 * d_lam1) + np.sum(R_M0 * d_lam0)
    return np.array([np.sum(R_M1 * d_kap), R_eta, R_the, R_nu, R_rho, R_lam])


def _moments(
    predictor: Componentwise, g: np.ndarray, w: np.ndarray, mean: float, sd: float, lam: float, slope: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M[p-1, n] for p = 1, 2 and n = 0..2, with its derivatives in the mean and in lam (module docstring)."""
    values = predictor.activation(lam * (mean + sd * g))
    powers = np.array([g**n for n in range(5)])  # (5, nodes)
    M = np.array([powers @ (w * values), powers @ (w * values * values)])  # (2, 5)
    n = np.arange(3)
    below = np.concatenate([np.zeros((2, 1)), M[:, :2]], axis=1)  # M[p, n-1], any value at n = 0
    d_mean = (M[:, 1:4] - n * below) / sd
    if lam > 0:
        d_lam = (mean * (M[:, 1:4] - n * below) + sd * (M[:, 2:5] - (n + 1) * M[:, :3])) / (lam * sd)
    else:  # sigma(lam u) = sigma(0) + lam sigma'(0) u + ...
        gauss = np.array([1.0, 0.0, 1.0, 0.0])  # E G^n
        d_lam = np.array([slope, 2 * M[0, 0] * slope])[:, None] * (mean * gauss[:3] + sd * gauss[1:])
    return M[:, :3], d_mean, d_lam


def _slope_at_zero(predictor: Componentwise) -> float:
    up, down = predictor.activation(np.array([DIFFERENCE, -DIFFERENCE]))
    return float(up - down) / (2 * DIFFERENCE)
