"""Exact risk of linear attention T(X) = sum_l (o + lam X_l.k) X_l.v, in closed form.

notation: o = offset, al = o + lam s kap, be = s the.

Expanding the informative token's term in its Gaussian noise gives a constant, a linear and a
quadratic part, uncorrelated:

    R = gam^2 |v* - al v - lam be k|^2 + lam^2 gam^4 (1 + rho^2) + (L-1) [o^2 + lam^2 (1 + rho^2)]
        + M^2,
    |v* - al v - lam be k|^2 = (1-al)^2 + 2 al (1-nu) + (lam be)^2 - 2 lam be eta + 2 al lam be rho,
    M = al be + lam gam^2 rho + (L-1) lam rho - s c.

For al < 0 the norm's first two terms are (1+al)^2 - 2 al (1+nu), the same polynomial: near v = +-v*
nothing is lost. What can still cancel are al itself (offset against lam s kap), 1 - |al|, the last
three terms of the norm and those of M. The error bounds this: u = roundoff of a few dozen
operations times the sum of the absolute values before they cancel, carried through the squares as
|x^2 - y^2| <= 2 |x| d + d^2 for |x - y| <= d. A risk is not negative, so a sum that falls below
zero by rounding is returned as zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.theory.law import Law

__all__ = ["linear_excess", "linear_excess_and_error", "linear_excess_gradient"]

# no term here takes more than 16 roundings, sums included
TERM_ROUNDOFF = 16 * float(np.finfo(np.float64).eps)


def linear_excess(overlaps: Any, lam: Any, offset: float, law: Law, xp: Any = np) -> Any:
    """Excess risk, broadcast over overlaps and lam; `xp` is numpy or jax.numpy."""
    _, eta, _, nu, rho = overlaps
    g2, others, al, be, M = _coefficients(overlaps, lam, offset, law)
    miss = xp.where(
        al >= 0, (1 - al) ** 2 + 2 * al * (1 - nu), (1 + al) ** 2 - 2 * al * (1 + nu)
    )
    norm = miss + (lam * be) ** 2 - 2 * lam * be * eta + 2 * al * lam * be * rho
    spread = lam**2 * (1 + rho**2)
    return g2 * norm + g2**2 * spread + others * (offset**2 + spread) + M * M


def _coefficients(overlaps: Any, lam: Any, offset: float, law: Law) -> tuple[Any, ...]:
    """gam^2, L - 1, al, be and M. L - 1 comes first: gam^2 + L - 1 loses a small gam^2 at L = 1."""
    kap, _, the, _, rho = overlaps
    g2 = law.gamma**2
    s = law.signal
    others = float(law.length) - 1
    al = offset + lam * s * kap
    be = s * the
    return g2, others, al, be, al * be + lam * rho * (g2 + others) - s * law.alignment


def linear_excess_and_error(
    overlaps: Any,
    lam: Any,
    offset: float,
    law: Law,
) -> tuple[np.ndarray, np.ndarray]:
    """Excess risk, >= 0, and a bound on its roundoff (module docstring)."""
    excess = linear_excess(overlaps, lam, offset, law)
    kap, eta, the, nu, rho = overlaps
    s = law.signal
    g2, others, al, _, M = _coefficients(overlaps, lam, offset, law)
    size = np.abs(offset) + np.abs(lam * s * kap)  # of al before it cancels
    be = np.abs(lam * s * the)
    off = TERM_ROUNDOFF * (1 + size)
    far = np.where(al >= 0, 1 - nu, 1 + nu)
    miss = 2 * np.abs(1 - np.abs(al)) * off + off**2 + 4 * off * far
    norm = miss + TERM_ROUNDOFF * (be**2 + 2 * be * np.abs(eta) + 2 * size * be * np.abs(rho))
    parts = (
        size * s * np.abs(the) + np.abs(lam * rho) * (g2 + others) + np.abs(s * law.alignment)
    )
    bias = 2 * np.abs(M) * TERM_ROUNDOFF * parts + (TERM_ROUNDOFF * parts) ** 2
    spread = lam**2 * (1 + rho**2)
    positive = g2**2 * spread + others * (offset**2 + spread)
    return np.maximum(excess, 0.0), g2 * norm + bias + TERM_ROUNDOFF * (
        positive + np.abs(excess)
    )


def linear_excess_gradient(
    overlaps: Any,
    lam: Any,
    offset: float,
    law: Law,
) -> tuple[np.ndarray, ...]:
    """d R / d (kappa, eta, theta, nu, rho, inverse temperature)."""
    kap, eta, _, nu, rho = overlaps
    s = law.signal
    g2, others, al, be, M = _coefficients(overlaps, lam, offset, law)
    R_al = 2 * g2 * (al - nu + lam * be * rho) + 2 * M * be
    R_be = 2 * g2 * lam * (lam * be - eta + al * rho) + 2 * M * al
    R_rho = (
        2 * g2 * al * lam * be
        + 2 * lam**2 * rho * (g2**2 + others)
        + 2 * M * lam * (g2 + others)
    )
    R_lam = (
        2 * g2 * be * (lam * be - eta + al * rho)
        + 2 * lam * (1 + rho**2) * (g2**2 + others)
        + 2 * M * rho * (g2 + others)
    )
    R_lam = R_lam + R_al * s * kap
    return tuple(
        np.broadcast_arrays(
            R_al * lam * s, -2 * g2 * lam * be, R_be * s, -2 * g2 * al, R_rho, R_lam
        )
    )
