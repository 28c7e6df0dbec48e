"""Exact gradient of the normalised risk (normalised_risk.py) in the five overlaps and the
inverse temperature.

notation: as in normalised_risk.py; P a polynomial in g, u = m + sd g a score, ' the derivative in
g.

The integrand I is a polynomial in the averages A = E[P(g) K_p(tau + log h(lam u))]. The overlaps
eta, the, nu, rho enter the polynomials P; kap and lam enter the scores, and Stein's identity
E[f'(g)] = E[g f(g)] differentiates these without the derivative of h:

    dA/dm = E[K_p (g P - P')]/sd,      dA/dlam = E[K_p (g u P - (u P)')]/(lam sd),

so that moments E[g^n K_p], n <= 4, of both kinds of tokens give everything. Exact up to the
quadrature of normalised_risk.py. At lam = 0 the weights are constant to first order in lam: K_p(tau
+ log h(0) + lam u (log h)'(0) + ...), with (log h)'(0) by a central difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import polynomial as poly

from attnscope.predictors.attention import Normalised
from attnscope.theory.law import Law
from attnscope.theory.risks.normalised_risk import (
    LARGEST_EXPONENT,
    TAU_STEP,
    Kernels,
    kernels,
    laws_of,
    power,
    rules_for,
    tau_range,
)

__all__ = ["normalised_gradient"]

# step for (log h)'(0), needed at inverse temperature 0 only: error 1e-10 for a smooth h
LOG_SLOPE_STEP = 1e-5
Poly = Any  # coefficients in 1, g, g^2, ...

INFORMATIVE_AVERAGES = ("x2", "x1", "z1", "y2", "y1", "y0")
KERNEL_ORDER = {
    "x2": 2,
    "x1": 1,
    "z1": 1,
    "y2": 0,
    "y1": 0,
    "y0": 0,
    "a0": 1,
    "a1": 1,
    "b0": 2,
    "b1": 2,
    "b2": 2,
    "f0": 0,
}  # p of K_p


def normalised_gradient(
    predictor: Normalised,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
) -> np.ndarray:
    """(6,): d R / d (kappa, eta, theta, nu, rho, inverse temperature) at scalar overlaps."""
    L = float(law.length)
    laws = laws_of(lam, overlaps[0] * law.signal, law.gamma)
    tau = tau_range(predictor, lam, laws, 1.0, L - 1.0)
    tables = [_kernel_moments(predictor, lam, mean, sd, tau) for mean, sd in laws]
    average = lambda name, P: _average(tables[name not in INFORMATIVE_AVERAGES], name, P)
    P = _average_polynomials(overlaps, law)
    values = {name: average(name, p) for name, p in P.items()}
    slopes = _integrand_slopes(values, _sink_term(predictor, tau), L, tables[1])

    def total(changes: dict) -> float:
        return (
            float(sum(slopes[name] @ average(name, p) for name, p in changes.items()))
            * TAU_STEP
        )

    by_overlap = [total(changes) for changes in _polynomial_slopes(overlaps, law)]
    kappa = total(
        {
            name: law.signal / law.gamma * _stein_polynomial(P[name])
            for name in INFORMATIVE_AVERAGES
        }
    )
    if lam > 0:
        moved = {
            name: _scaled_stein_polynomial(P[name], *laws[name not in INFORMATIVE_AVERAGES])
            / lam
            for name in P
        }
        return np.array([kappa, *by_overlap, total(moved)])
    slope = float(
        np.diff(predictor.log_activation(np.array([-LOG_SLOPE_STEP, LOG_SLOPE_STEP])))[0]
    ) / (2 * LOG_SLOPE_STEP)
    first = {
        name: slope
        * _average_slope_at_zero(
            predictor,
            tau,
            KERNEL_ORDER[name],
            P[name],
            *laws[name not in INFORMATIVE_AVERAGES],
        )
        for name in P
    }
    return np.array(
        [
            kappa,
            *by_overlap,
            float(sum(slopes[name] @ x for name, x in first.items())) * TAU_STEP,
        ]
    )


def _kernel_moments(
    predictor: Normalised, lam: float, mean: float, sd: float, tau: np.ndarray
) -> Kernels:
    """E[g^n K_p], n = 0..4, at every tau."""
    g, weight = rules_for(lam * sd)[0]
    return kernels(
        predictor, lam, mean, sd, g, weight[:, None] * g[:, None] ** np.arange(5), tau
    )


def _average(table: Kernels, name: str, P: Poly) -> np.ndarray:
    return (table.k0, table.k1, table.k2)[KERNEL_ORDER[name]][:, : len(P)] @ np.asarray(P)


def _average_polynomials(o: tuple[float, ...], law: Law) -> dict[str, Poly]:
    """P of every average: x, z, y of the informative token, a, b, f of a background one."""
    _, eta, the, nu, rho = o
    gam, s, _, c = law
    my = np.array([s * c, gam * eta])
    apart = np.array([s * (c - the), gam * (eta - rho)])
    one = np.array([1.0])
    along = np.array([0.0, rho])
    return {
        "x2": poly.polyadd(
            poly.polymul(apart, apart), [gam**2 * (2 - 2 * nu - (eta - rho) ** 2)]
        ),
        "x1": poly.polyadd(poly.polymul(apart, my), [gam**2 * (1 - nu - eta * (eta - rho))]),
        "z1": apart,
        "y2": poly.polyadd(poly.polymul(my, my), [gam**2 * (1 - eta**2)]),
        "y1": my,
        "y0": one,
        "a0": one,
        "a1": along,
        "b0": one,
        "b1": along,
        "b2": np.array([1 - rho**2, 0.0, rho**2]),
        "f0": one,
    }


def _polynomial_slopes(o: tuple[float, ...], law: Law) -> list[dict[str, Poly]]:
    """Derivatives of the polynomials in eta, theta, nu, rho."""
    _, eta, the, _, rho = o
    gam, s, _, c = law
    my = np.array([s * c, gam * eta])
    apart = np.array([s * (c - the), gam * (eta - rho)])
    g = np.array([0.0, gam])
    g2 = gam**2
    by_eta = {
        "x2": poly.polyadd(2 * poly.polymul(apart, g), [-2 * g2 * (eta - rho)]),
        "x1": poly.polyadd(poly.polymul(poly.polyadd(my, apart), g), [-g2 * (2 * eta - rho)]),
        "z1": g,
        "y2": poly.polyadd(2 * poly.polymul(my, g), [-2 * g2 * eta]),
        "y1": g,
    }
    by_the = {"x2": -2 * s * apart, "x1": -s * my, "z1": np.array([-s])}
    by_nu = {"x2": np.array([-2 * g2]), "x1": np.array([-g2])}
    by_rho = {
        "x2": poly.polyadd(-2 * poly.polymul(apart, g), [2 * g2 * (eta - rho)]),
        "x1": poly.polyadd(-poly.polymul(my, g), [g2 * eta]),
        "z1": -g,
        "a1": np.array([0.0, 1.0]),
        "b1": np.array([0.0, 1.0]),
        "b2": 2 * rho * np.array([-1.0, 0.0, 1.0]),
    }
    return [by_eta, by_the, by_nu, by_rho]


def _stein_polynomial(P: Poly) -> Poly:
    """g P - P'."""
    return poly.polysub(poly.polymulx(P), poly.polyder(P))


def _scaled_stein_polynomial(P: Poly, mean: float, sd: float) -> Poly:
    """(g u P - (u P)')/sd, u = mean + sd g."""
    return _stein_polynomial(poly.polymul([mean, sd], P)) / sd


def _average_slope_at_zero(
    predictor: Normalised, tau: np.ndarray, p: int, P: Poly, mean: float, sd: float
) -> np.ndarray:
    """E[u P] K_p'(tau + log h(0)): the derivative of an average in lam (log h)'(0) at lam = 0."""
    y = np.minimum(tau + float(predictor.log_activation(np.zeros(1))[0]), LARGEST_EXPONENT)
    e = np.exp(y)
    gauss = np.array([1.0, 0.0, 1.0, 0.0, 3.0])  # E g^n
    uP = poly.polymul([mean, sd], P)
    return float(gauss[: len(uP)] @ uP) * (p - e) * np.exp(p * y - e)


def _sink_term(predictor: Normalised, tau: np.ndarray) -> np.ndarray:
    return predictor.sink * np.exp(np.minimum(tau, LARGEST_EXPONENT))


def _integrand_slopes(
    v: dict[str, np.ndarray], t: np.ndarray, L: float, background: Kernels
) -> dict[str, np.ndarray]:
    """dI/dA for every average A, times e^{-t};
    f0 enters through F_j = f0^{L-j}, dF_j/df0 = (L-j) F_{j+1}.
    """
    F1, F2, F3, F4 = (power(background, max(L - j, 0)) for j in (1, 2, 3, 4))
    n1 = L - 1
    n2 = (L - 1) * (L - 2)
    n3 = (L - 1) * (L - 2) * (L - 3)
    x2, x1, z1, y2, y1, y0, a0, a1, b0, b1, b2 = (
        v[k] for k in ("x2", "x1", "z1", "y2", "y1", "y0", "a0", "a1", "b0", "b1", "b2")
    )
    single = x2 + t * t * y2 + 2 * t * x1
    double = (
        2 * (x1 * a0 - z1 * a1)
        + y2 * b0
        - 2 * y1 * b1
        + y0 * b2
        + 2 * t * (y2 * a0 - y1 * a1)
    )
    triple = y2 * a0**2 - 2 * y1 * a0 * a1 + y0 * a1**2
    slopes = {
        "x2": F1,
        "x1": 2 * n1 * a0 * F2 + 2 * t * F1,
        "z1": -2 * n1 * a1 * F2,
        "y2": n1 * (b0 + 2 * t * a0) * F2 + n2 * a0**2 * F3 + t * t * F1,
        "y1": -2 * n1 * (b1 + t * a1) * F2 - 2 * n2 * a0 * a1 * F3,
        "y0": n1 * b2 * F2 + n2 * a1**2 * F3,
        "a0": 2 * n1 * (x1 + t * y2) * F2 + 2 * n2 * (y2 * a0 - y1 * a1) * F3,
        "a1": -2 * n1 * (z1 + t * y1) * F2 + 2 * n2 * (y0 * a1 - y1 * a0) * F3,
        "b0": n1 * y2 * F2,
        "b1": -2 * n1 * y1 * F2,
        "b2": n1 * y0 * F2,
        "f0": n1 * single * F2 + n2 * double * F3 + n3 * triple * F4,
    }
    return {name: x * np.exp(-t) for name, x in slopes.items()}
