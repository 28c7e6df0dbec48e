"""Exact risk of T(X) = sum_l sigma(lam X_l.k) X_l.v for any sigma, by one-dimensional quadrature.

notation: G standard normal, s1 = sigma(lam (s kap + gam G)), s0 = sigma(lam G), mw = s the + gam
rho G, c = k*.v*.

Given the score of the informative token, Y and its value X_J.v are jointly Gaussian: E[Y|G] = s c +
gam eta G, E[X_J.v|G] = mw, and their residuals have variances gam^2 (1-eta^2), gam^2 (1-rho^2) and
covariance gam^2 (nu - rho eta). Background tokens add independent terms of mean m0 = rho E[s0 G]
and variance q0 - m0^2. Hence

    R = E[(s c + gam eta G - s1 mw - (L-1) m0)^2] + gam^2 E|v*_perp - s1 v_perp|^2
        + (L-1) [(1-rho^2) E s0^2 + rho^2 Var(s0 G)],
    |v*_perp - s1 v_perp|^2 = D + 2 t E + C t^2,   t = 1 - s1,
    D = 2 (1-nu) - (eta-rho)^2,   E = rho (rho-eta) - (1-nu),   C = 1 - rho^2,

or the same with the signs of nu, eta and s1 turned, whichever has nu - rho eta >= 0: near (k*, v*)
only t is left, so that tiny risks keep their relative accuracy. Exact up to the panels of
numerics.integrals.refined_panels, which bound their own error, and to rounding, which is followed
from sigma and the overlaps to R: where terms of size S cancel, the error says S eps.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attnscope.numerics.integrals.refined_panels import EPS, ScoreLaw, resolve
from attnscope.predictors.attention import Componentwise
from attnscope.theory.law import Law

__all__ = ["background", "componentwise_excess"]


class _Setting(NamedTuple):
    """What the integrand of the informative token needs; drift = (L-1) m0 and its error."""

    overlaps: tuple[float, ...]
    law: Law
    drift: float
    drift_error: float


class Background(NamedTuple):
    """E s0 G, E s0^2 and Var(s0 G) of a background token, with their errors."""

    mean: float
    second: float
    around: float
    mean_error: float
    second_error: float
    around_error: float


def background(predictor: Componentwise, lam: float) -> Background:
    """It depends on sigma and the inverse temperature only: one for all overlaps of a call."""
    zero = resolve(predictor, ScoreLaw(lam, 0.0, 1.0), _background_moments)
    mean = float(zero.value[0])
    around = float(np.sum(zero.weight * (zero.s * zero.g - mean) ** 2))
    mean_error, second_error, square_error = map(float, zero.error)
    around_error = square_error + 2 * abs(mean) * mean_error
    second = float(zero.value[1])
    return Background(mean, second, around, mean_error, second_error, around_error)


def componentwise_excess(
    predictor: Componentwise,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
    outside: Background | None = None,
) -> tuple[float, float]:
    """(excess, error) at scalar overlaps and inverse temperature.

    Args:
        outside: `background(predictor, lam)`, if it is known.
    """
    kap = overlaps[0]
    rho = overlaps[4]
    others = float(law.length - 1)
    spread = spread_error = drift = drift_error = 0.0
    if others:
        zero = background(predictor, lam) if outside is None else outside
        C = (1 - rho) * (1 + rho)
        spread = C * zero.second + rho**2 * zero.around
        spread_error = C * zero.second_error + rho**2 * zero.around_error
        drift = others * rho * zero.mean
        drift_error = others * abs(rho) * zero.mean_error + 2 * EPS * abs(drift)
    setting = _Setting(overlaps, law, drift, drift_error)
    score = ScoreLaw(lam, law.signal * kap, law.gamma)
    one = resolve(predictor, score, partial(_informative_loss, setting))
    excess = float(one.value[0]) + others * spread
    error = (
        float(one.error[0])
        + others * spread_error
        + 8 * EPS * (abs(excess) + others * spread)
    )
    return excess, float(error)


def _background_moments(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    """s0 G, s0^2, (s0 G)^2."""
    values = np.empty((3, *s.shape))
    np.multiply(s, g, out=values[0])
    np.multiply(s, s, out=values[1])
    np.multiply(values[0], values[0], out=values[2])
    if ds is None:
        return values, None
    errors = np.empty((3, *s.shape))
    np.abs(g, out=errors[0])
    np.abs(s, out=errors[1])
    errors[1] *= 2
    errors[1] += ds
    np.multiply(errors[1], g * g, out=errors[2])
    errors *= ds
    return values, errors


def _informative_loss(
    setting: _Setting, g: np.ndarray, s: np.ndarray, ds: Any
) -> tuple[np.ndarray, Any]:
    """E[(Y - sigma X_J.v - drift)^2 | G = g] and its rounding."""
    _, eta, the, nu, rho = setting.overlaps
    gam, signal, _, c = setting.law
    sign = 1.0 if nu - rho * eta >= 0 else -1.0
    apart = eta * sign - rho
    less = 1 - sign * nu
    C = (1 - rho) * (1 + rho)
    D = max(2 * less - apart**2, 0.0)
    E = -rho * apart - less
    value = signal * the + gam * rho * g
    bias = signal * c - setting.drift + gam * eta * g - s * value
    square = bias * bias
    t = 1 - sign * s
    q = square + gam**2 * (D + t * (2 * E + C * t))
    if ds is None:
        return q[None], None
    # absolute values of what was added, times eps: the rounding of every step is at most half of
    # that
    far = np.abs(t)
    size_g = np.abs(g)
    value_size = abs(signal * the) + abs(gam * rho) * size_g
    sizes = abs(signal * c) + abs(setting.drift) + abs(gam * eta) * size_g
    sizes += np.abs(s) * value_size
    d_bias = np.abs(value) * ds + 2 * EPS * sizes + setting.drift_error
    dt = ds + EPS * far
    d_rest = (2 * abs(E) + C * (2 * far + dt)) * dt
    # of the coefficients D and E, and 4 eps of D + far (2 |E| + C far)
    d_D = EPS * (2 * less + 3 * apart**2 + 4 * D)
    d_E = 4 * EPS * (abs(rho * apart) + less + 2 * abs(E))
    d_rest += d_D + far * (d_E + 4 * EPS * C * far)
    dq = (2 * np.abs(bias) + d_bias) * d_bias + 4 * EPS * square + gam**2 * d_rest
    return q[None], dq[None]
