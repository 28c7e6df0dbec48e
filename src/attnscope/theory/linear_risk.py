"""Exact risk of linear attention T(X) = sum_l (o + lam X_l.k) X_l.v, in closed form.

notation: o = offset, al = o + lam s kap, be = s the.

Expanding the informative token's term in its Gaussian noise gives a constant, a linear and a quadratic part, uncorrelated:

    R = gam^2 |v* - al v - lam be k|^2 + lam^2 gam^4 (1 + rho^2) + (L-1) [o^2 + lam^2 (1 + rho^2)] + M^2,
    |v* - al v - lam be k|^2 = (1-al)^2 + 2 al (1-nu) + (lam be)^2 - 2 lam be eta + 2 al lam be rho,
    M = al be + lam gam^2 rho + (L-1) lam rho - s c.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["linear_excess", "linear_excess_gradient"]


def linear_excess(
    overlaps: Any, lam: Any, offset: float, *, gamma: float, signal: float, length: int, alignment: float
) -> Any:
    """Excess risk, broadcast over overlaps and lam; works for NumPy and JAX arrays alike."""
    kap, eta, the, nu, rho = overlaps
    g2, s, L = gamma**2, signal, float(length)
    al, be = offset + lam * s * kap, s * the
    residual = (1 - al) ** 2 + 2 * al * (1 - nu) + (lam * be) ** 2 - 2 * lam * be * eta + 2 * al * lam * be * rho
    M = al * be + lam * g2 * rho + (L - 1) * lam * rho - s * alignment
    return g2 * residual + lam**2 * g2**2 * (1 + rho**2) + (L - 1) * (offset**2 + lam**2 * (1 + rho**2)) + M * M


def linear_excess_gradient(
    overlaps: Any, lam: Any, offset: float, *, gamma: float, signal: float, length: int, alignment: float
) -> tuple[np.ndarray, ...]:
    """d R / d (kappa, eta, theta, nu, rho, temperature)."""
    kap, eta, the, nu, rho = overlaps
    g2, s, L = gamma**2, signal, float(length)
    al, be = offset + lam * s * kap, s * the
    M = al * be + lam * g2 * rho + (L - 1) * lam * rho - s * alignment
    R_al = 2 * g2 * (al - nu + lam * be * rho) + 2 * M * be
    R_be = 2 * g2 * lam * (lam * be - eta + al * rho) + 2 * M * al
    R_rho = 2 * g2 * al * lam * be + 2 * lam**2 * rho * (g2**2 + L - 1) + 2 * M * lam * (g2 + L - 1)
    R_lam = (
        2 * g2 * be * (lam * be - eta + al * rho)
        + 2 * lam * (1 + rho**2) * (g2**2 + L - 1)
        + 2 * M * rho * (g2 + L - 1)
    )
    R_lam = R_lam + R_al * s * kap
    return tuple(np.broadcast_arrays(R_al * lam * s, -2 * g2 * lam * be, R_be * s, -2 * g2 * al, R_rho, R_lam))
