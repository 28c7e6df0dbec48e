"""Exact risk of T(X) = sum_l sigma(lam X_l.k) X_l.v for any sigma, by one-dimensional quadrature.

notation: G standard normal, s1 = sigma(lam (s kap + gam G)), s0 = sigma(lam G), mw = s the + gam rho G, c = k*.v*.

Given the score of the informative token, Y and its value X_J.v are jointly Gaussian: E[Y|G] = s c + gam eta G,
E[X_J.v|G] = mw, and their residuals have variances gam^2 (1-eta^2), gam^2 (1-rho^2) and covariance gam^2 (nu - rho eta).
Background tokens add independent terms of mean m0 = rho E[s0 G] and variance q0 - m0^2. Hence

    R = E[(s c + gam eta G - s1 mw - (L-1) m0)^2] + gam^2 E|v*_perp - s1 v_perp|^2
        + (L-1) [(1-rho^2) E s0^2 + rho^2 Var(s0 G)],
    |v*_perp - s1 v_perp|^2 = D + 2 t E + C t^2,   t = 1 - s1,
    D = 2 (1-nu) - (eta-rho)^2,   E = rho (rho-eta) - (1-nu),   C = 1 - rho^2,

or the same with the signs of nu, eta and s1 turned, whichever has nu - rho eta >= 0: near (k*, v*) only t is left, so
that tiny risks keep their relative accuracy. Exact up to the panels of numerics.resolved, which bound their own error,
and to rounding, which is followed from sigma and the overlaps to R: where terms of size S cancel, the error says S eps.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attnscope.numerics.resolved import EPS, ScoreLaw, resolve
from attnscope.predictors.attention import Componentwise
from attnscope.theory.law import Law

__all__ = ["componentwise_excess"]


class _Setting(NamedTuple):
    """What the integrand of the informative token needs; drift = (L-1) m0 and its error."""

    overlaps: tuple[float, ...]
    law: Law
    drift: float
    drift_error: float


def componentwise_excess(
    predictor: Componentwise,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
) -> tuple[float, float]:
    """(excess, error) at scalar overlaps and temperature."""
    kap, rho, others = overlaps[0], overlaps[4], float(law.length - 1)
    spread = spread_error = drift = drift_error = 0.0
    if others:
        zero = resolve(predictor, ScoreLaw(lam, 0.0, 1.0), _background)
        mean = float(zero.value[0])
        around = float(np.sum(zero.weight * (zero.s * zero.g - mean) ** 2))
        C = (1 - rho) * (1 + rho)
        spread = C * float(zero.value[1]) + rho**2 * around
        spread_error = C * zero.error[1] + rho**2 * (zero.error[2] + 2 * abs(mean) * zero.error[0])
        drift = others * rho * mean
        drift_error = others * abs(rho) * zero.error[0] + 2 * EPS * abs(drift)
    setting = _Setting(overlaps, law, drift, drift_error)
    one = resolve(predictor, ScoreLaw(lam, law.signal * kap, law.gamma), partial(_informative, setting))
    excess = float(one.value[0]) + others * spread
    error = float(one.error[0]) + others * spread_error + 8 * EPS * (abs(excess) + others * spread)
    return excess, float(error)


def _background(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    """s0 G, s0^2, (s0 G)^2."""
    sg = s * g
    values = np.stack([sg, s * s, sg * sg])
    if ds is None:
        return values, None
    twice = 2 * np.abs(s) + ds
    return values, np.stack([np.abs(g), twice, twice * g * g]) * ds


def _informative(setting: _Setting, g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    """E[(Y - sigma X_J.v - drift)^2 | G = g] and its rounding."""
    _, eta, the, nu, rho = setting.overlaps
    gam, signal, _, c = setting.law
    sign = 1.0 if nu - rho * eta >= 0 else -1.0
    apart, less, C = eta * sign - rho, 1 - sign * nu, (1 - rho) * (1 + rho)
    D = max(2 * less - apart**2, 0.0)
    E = -rho * apart - less
    value = signal * the + gam * rho * g
    bias = signal * c - setting.drift + gam * eta * g - s * value
    t = 1 - sign * s
    q = bias * bias + gam**2 * (D + t * (2 * E + C * t))
    if ds is None:
        return q[None], None
    # absolute values of what was added, times eps: the rounding of every step is at most half of that
    sizes = abs(signal * c) + abs(setting.drift) + abs(gam * eta) * np.abs(g)
    value_size = abs(signal * the) + abs(gam * rho) * np.abs(g)
    d_bias = np.abs(value) * ds + 2 * EPS * (sizes + np.abs(s) * value_size) + setting.drift_error
    dt = ds + EPS * np.abs(t)
    far = np.abs(t)
    d_rest = (2 * abs(E) + (2 * far + dt) * C) * dt
    overlaps = EPS * (2 * less + 3 * apart**2) + 4 * EPS * far * (abs(rho * apart) + less)
    dq = (2 * np.abs(bias) + d_bias) * d_bias + gam**2 * (d_rest + overlaps)
    sizes_q = bias * bias + gam**2 * (D + far * (2 * abs(E) + C * far))
    return q[None], (dq + 4 * EPS * sizes_q)[None]
