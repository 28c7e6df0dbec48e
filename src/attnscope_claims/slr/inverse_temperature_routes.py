"""Second routes of slr-14 to the best and the critical inverse temperature of the erf oracle: a
search over integrated values, a law, and differences of gradients (its module docstring has them).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erf

from attnscope.predictors.attention import Componentwise
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk_gradient

__all__ = ["best_by_values", "critical_by_gradient", "critical_law"]


def best_by_values(dim: int, length: int) -> tuple[float, float]:
    """(inverse temperature, excess risk) by bounded search over values of the definition,
    integrated by QUADPACK.
    """
    gam, s = 0.5**0.5, math.sqrt(dim / 2)

    def value(x: float) -> float:
        lam = math.exp(x)
        informative = _normal_mean(lambda g: math.erfc(lam * (s + gam * g)) ** 2)
        background = _normal_mean(lambda g: math.erf(lam * g) ** 2)
        return gam**2 * informative + (length - 1) * background

    ends = (math.log(0.01 / s), math.log(10 / s))
    found = minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-8})
    return math.exp(found.x), float(found.fun)


def _normal_mean(f: Callable[[float], float]) -> float:
    density = lambda g: math.exp(-g * g / 2) / math.sqrt(2 * math.pi)
    weighted = lambda g: f(g) * density(g)
    return quad(weighted, -12, 12, epsabs=0, epsrel=1e-13, limit=200)[0]


def critical_law(task: SingleLocation) -> float:
    """Of the oracle with erf saturated; infinite where it is a minimum at every inverse
    temperature.
    """
    share = task.gamma**2 * (task.length - 1) / (task.signal**2 + task.gamma**2)
    return math.sqrt(4 / (1 - share) ** 2 - 1) / 2 if share < 1 else math.inf


def critical_by_gradient(task: SingleLocation, h: float = 1e-3) -> float:
    """The inverse temperature at which the Hessian in (phi, psi), by differences of gradients,
    has determinant 0.
    """

    def slope(lam: float, phi: float, psi: float) -> np.ndarray:
        o = Overlaps(
            math.cos(phi), math.sin(phi), math.sin(psi), math.cos(psi), math.sin(phi + psi)
        )
        R = risk_gradient(task, Componentwise(erf, lam), o)
        cross = R.rho * math.cos(phi + psi)
        return np.array(
            [
                R.eta * o.kappa - R.kappa * o.eta + cross,
                R.theta * o.nu - R.nu * o.theta + cross,
            ]
        )

    def determinant(lam: float) -> float:
        central = lambda f: (8 * (f(h) - f(-h)) - f(2 * h) + f(-2 * h)) / (12 * h)
        a, b = central(lambda x: slope(lam, x, 0.0)), central(lambda x: slope(lam, 0.0, x))
        return float((a[0] * b[1] - a[1] * b[0]) / (abs(a[0] * b[1]) + abs(a[1] * b[0])))

    return float(brentq(determinant, 0.5, 5, xtol=1e-10))
