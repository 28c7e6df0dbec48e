"""Exact risk of the erf predictor T(X) = sum_l erf(lam X_l.k) X_l.v in the five overlaps, in closed
form.

notation: D = s, S^2 = 1 + 2 lam^2 gam^2, q^2 = 1 + 4 lam^2 gam^2, a = lam D kap/S, al = 1/q, A =
lam gam^2/S,
          C = 2 lam/sqrt(pi (1 + 2 lam^2)), e = erf(a), e1 = erf'(a), b = erf(a al), P
              = exp(-a^2 (1 + al^2)).

Write m1 = E[T_J] = D the e + A rho e1 for the informative token's part of T, m0 = C rho for a
background token's, and M = m1 + (L-1) m0 - D c for the bias. Then the risk over the label noise is

    R = gam^2 [(1 - e)^2 + V + 2 e (1 - nu)] + D^2 the^2 V - 2 A D eta the e1 + 4 A^2 eta rho a e1
        + 2 A D the rho e1 (2b - e) + A^2 rho^2 [(8/pi) P al - 4 a b e1 - e1^2]
        + (L-1) [zeta0 + rho^2 lam^2/(pi (1 + 2 lam^2)) (8/sqrt(1 + 4 lam^2) - 4)] + M^2

    V = Var erf(lam (D kap + gam G)) = (4/pi) int_al^1 exp(-a^2 (1 + x^2))/(1 + x^2) dx
        = 8 [T(sqrt2 a, 1) - T(sqrt2 a, al)]
    zeta0 = E erf(lam G)^2 = (2/pi) atan(2 lam^2/sqrt(1 + 4 lam^2))

(T is Owen's function). This regroups the paper's formula (Marion et al., eq. for R, E[erf^2]
through Owen's T) so that variances and squared biases stand alone: no difference of nearly equal
numbers is left when lam is tiny, d is huge, or L = 1. For e < 0 the first bracket uses (1 + e)^2 -
2 e (1 + nu), the same polynomial. key.value = c enters only through the bias M.

Exact up to roundoff: V by 32-point Gauss-Legendre on [al, min(1, sqrt(al^2 + 40/a^2))], where a
smooth, positive integrand falls by at most e^-40, to a relative error of roundoff (1 + a^2). The
error is the roundoff of every product before products are added, those with exp(-a^2) in them times
1 + a^2, as a relative error of a enters the exponent; a risk is not negative, so a sum below zero
by rounding is returned as zero. One source serves NumPy and JAX: `special` is (array namespace, its
erf and erfc).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from attnscope.numerics.integrals.quadrature import legendre
from attnscope.theory.law import Law

__all__ = ["erf_excess", "erf_excess_and_error", "erf_excess_gradient", "erf_excess_jax"]

VARIANCE_NODES = 32  # Gauss-Legendre nodes of V (module docstring)
# 45 units in the last place per product: a has 5 roundings, so exp(-a^2 (1 + al^2)) has 20 a^2, and
# V sums 32 terms
PRODUCT_ROUNDOFF = 1e-14
# change of the exponent over the range of V's integral: e^-40 is below roundoff, and 32 nodes
# resolve it to 1e-25
EXPONENT_RANGE = 40.0
SMALLEST_PRODUCT = 1e-300  # smaller products have lost digits by underflow


class Backend(NamedTuple):
    """The array functions a formula needs, from NumPy + SciPy or from JAX."""

    xp: Any
    erf: Any
    erfc: Any


NUMPY_BACKEND = Backend(np, special.erf, special.erfc)


def erf_excess(overlaps: Any, lam: Any, law: Law, backend: Backend = NUMPY_BACKEND) -> Any:
    """Excess risk R, broadcast over overlaps and lam."""
    terms = _risk_products(overlaps, lam, law, backend)
    return sum(terms.plain) + sum(terms.steep) + (sum(terms.bias) + terms.steep_bias) ** 2


def erf_excess_and_error(overlaps: Any, lam: Any, law: Law) -> tuple[Any, Any]:
    """R >= 0 and a bound on its roundoff (module docstring)."""
    terms = _risk_products(overlaps, lam, law, NUMPY_BACKEND)
    growth = 1 + terms.exponent
    bias = sum(terms.bias) + terms.steep_bias
    size = sum(np.abs(b) for b in terms.bias) + growth * np.abs(terms.steep_bias)
    products = sum(np.abs(t) for t in terms.plain) + growth * sum(
        np.abs(t) for t in terms.steep
    )
    error = (
        PRODUCT_ROUNDOFF * (products + 2 * np.abs(bias) * size + PRODUCT_ROUNDOFF * size**2)
        + SMALLEST_PRODUCT
    )
    return np.maximum(sum(terms.plain) + sum(terms.steep) + bias**2, 0.0), error


class Terms(NamedTuple):
    """Products whose sum is R without its squared bias, and those of the bias M;
    steep ones contain exp(-a^2).
    """

    plain: list[Any]
    steep: list[Any]
    bias: list[Any]
    steep_bias: Any
    exponent: Any  # a^2


def _risk_products(overlaps: Any, lam: Any, law: Law, backend: Backend) -> Terms:
    """The products of R and M (module docstring, in its order), none of them a difference."""
    gam2 = law.gamma**2
    D = law.signal
    L = float(law.length)
    c = law.alignment
    xp = backend.xp
    pi = np.pi
    kap, eta, the, nu, rho = overlaps
    S = xp.sqrt(1 + 2 * lam**2 * gam2)
    q = xp.sqrt(1 + 4 * lam**2 * gam2)
    a = lam * D * kap / S
    A = lam * gam2 / S
    al = 1 / q
    e = backend.erf(a)
    e1 = 2 / np.sqrt(pi) * xp.exp(-a * a)
    b = backend.erf(a * al)
    P = xp.exp(-a * a * (1 + al * al))
    V = erf_variance(a, q, lam**2 * gam2, xp)
    C = 2 * lam / xp.sqrt(pi * (1 + 2 * lam**2))
    # an arcsin near 1 loses half the digits
    zeta0 = 2 / pi * xp.arctan2(2 * lam**2, xp.sqrt(1 + 4 * lam**2))
    short = xp.where(a >= 0, backend.erfc(a), backend.erfc(-a)) ** 2
    turned = xp.where(a >= 0, 2 * e * (1 - nu), -2 * e * (1 + nu))
    plain = [
        gam2 * turned,
        (L - 1) * zeta0,
        (L - 1) * (rho * C) ** 2 * 2 / xp.sqrt(1 + 4 * lam**2),
        -(L - 1) * (rho * C) ** 2,
    ]
    steep = [
        gam2 * short,
        (gam2 + (D * the) ** 2) * V,
        -2 * A * D * eta * the * e1,
        4 * A**2 * eta * rho * a * e1,
        4 * A * D * the * rho * e1 * b,
        -2 * A * D * the * rho * e1 * e,
        (A * rho) ** 2 * 8 / pi * P * al,
        -((A * rho) ** 2) * 4 * a * b * e1,
        -((A * rho * e1) ** 2),
    ]
    return Terms(plain, steep, [D * the * e, (L - 1) * C * rho, -D * c], A * rho * e1, a * a)


def erf_variance(a: Any, q: Any, g2: Any, xp: Any = np) -> Any:
    """V = Var erf(lam (D kap + gam G)), from a, q and g2 = lam^2 gam^2 (1 - 1/q = 4 g2/(q (q+1))
    without cancellation).
    """
    al = 1 / q
    width = 4 * g2 / (q * (q + 1))
    # EXPONENT_RANGE/a^2 where it matters; a constant in derivatives
    reach = EXPONENT_RANGE / xp.maximum(xp.real(a * a), 1.0)
    width = xp.minimum(width, reach / (al + xp.sqrt(al * al + reach)))
    nodes, weights = legendre(VARIANCE_NODES)
    if xp is np:  # one node at a time: a map of 500 x 500 points stays in memory
        total = 0.0
        for x, w in zip(nodes, weights):
            y = 1 + (al + width * x) ** 2
            total = total + w * np.exp(-a * a * y) / y
    else:  # all nodes at once: a short program to compile
        y = 1 + (al + width * nodes.reshape(-1, *(1,) * xp.ndim(a * width))) ** 2
        total = xp.tensordot(weights, xp.exp(-a * a * y) / y, 1)
    return 4 / np.pi * width * total


def erf_excess_gradient(overlaps: Any, lam: Any, law: Law) -> tuple[np.ndarray, ...]:
    """d R / d (kappa, eta, theta, nu, rho, inverse temperature), analytic, broadcast."""
    kap, eta, the, nu, rho = overlaps
    gam2 = law.gamma**2
    D = law.signal
    L = float(law.length)
    pi = np.pi
    S2 = 1 + 2 * lam**2 * gam2
    q2 = 1 + 4 * lam**2 * gam2
    S = np.sqrt(S2)
    q = np.sqrt(q2)
    a = lam * D * kap / S
    A = lam * gam2 / S
    al = 1 / q
    e = special.erf(a)
    e1 = 2 / np.sqrt(pi) * np.exp(-a * a)
    b = special.erf(a * al)
    b1 = 2 / np.sqrt(pi) * np.exp(-((a * al) ** 2))
    P = np.exp(-a * a * (1 + al * al))
    V = erf_variance(a, q, lam**2 * gam2)
    C = 2 * lam / np.sqrt(pi * (1 + 2 * lam**2))
    spread = 2 / np.sqrt(1 + 4 * lam**2) - 1
    M = D * the * e + A * rho * e1 + (L - 1) * C * rho - D * law.alignment
    W = 8 / pi * P * al - 4 * a * b * e1 - e1 * e1
    # partial derivatives in the intermediate variables a, al, A, C (e1' = -2 a e1; V_a = 2 e1 (b -
    # e); b_a = al b1)
    V_a = 2 * e1 * (b - e)
    V_al = -4 / pi * P / (1 + al * al)
    W_a = (
        -16 / pi * P * al * a * (1 + al * al)
        - 4 * b * e1
        - 4 * a * al * b1 * e1
        + 8 * a * a * b * e1
        + 4 * a * e1 * e1
    )
    W_al = 8 / pi * P * (1 - 2 * (a * al) ** 2) - 4 * a * a * b1 * e1
    weight = gam2 + (D * the) ** 2
    R_a = (
        gam2 * 2 * e1 * (e - nu)
        + weight * V_a
        + 4 * A * D * eta * the * a * e1
        + 4 * A**2 * eta * rho * e1 * (1 - 2 * a * a)
    )
    R_a = (
        R_a
        + 2 * A * D * the * rho * e1 * (-2 * a * (2 * b - e) + 2 * al * b1 - e1)
        + (A * rho) ** 2 * W_a
    )
    R_a = R_a + 2 * M * (D * the * e1 - 2 * a * A * rho * e1)
    R_al = weight * V_al + 4 * A * D * the * rho * e1 * a * b1 + (A * rho) ** 2 * W_al
    R_A = (
        -2 * D * eta * the * e1
        + 8 * A * eta * rho * a * e1
        + 2 * D * the * rho * e1 * (2 * b - e)
        + 2 * A * rho**2 * W
        + 2 * M * rho * e1
    )
    R_C = 2 * (L - 1) * rho**2 * C * spread + 2 * M * (L - 1) * rho
    R_lam = (
        R_a * D * kap / (S2 * S)
        - R_al * 4 * lam * gam2 / (q2 * q)
        + R_A * gam2 / (S2 * S)
        + R_C * 2 / np.sqrt(pi) / (1 + 2 * lam**2) ** 1.5
    )
    root = np.sqrt(1 + 4 * lam**2)
    R_lam = R_lam + (L - 1) * (
        8 * lam / (pi * (1 + 2 * lam**2) * root) - rho**2 * C * C * 8 * lam / root**3
    )
    R_eta = -2 * A * D * the * e1 + 4 * A**2 * rho * a * e1
    R_the = (
        2 * D * D * the * V
        - 2 * A * D * eta * e1
        + 2 * A * D * rho * e1 * (2 * b - e)
        + 2 * M * D * e
    )
    R_nu = -2 * gam2 * e
    R_rho = 4 * A**2 * eta * a * e1 + 2 * A * D * the * e1 * (2 * b - e) + 2 * A**2 * rho * W
    R_rho = R_rho + 2 * (L - 1) * rho * C * C * spread + 2 * M * (A * e1 + (L - 1) * C)
    return tuple(np.broadcast_arrays(R_a * lam * D / S, R_eta, R_the, R_nu, R_rho, R_lam))


def erf_excess_jax(overlaps: Any, lam: Any, law: Law) -> Any:
    """The same formula, traceable by JAX."""
    import jax.numpy as jnp
    from jax.scipy import special as jax_special

    backend = Backend(jnp, jax_special.erf, jax_special.erfc)
    return erf_excess(overlaps, lam, law, backend)
