"""When the erf oracle (k*, v*) stops being a minimum: the determinant of its Hessian, free of false
signs.

notation: n = L - 1, D = s, S^2 = 1 + 2 lam^2 gam^2, q^2 = 1 + 4 lam^2 gam^2, a = lam D/S,
          A = lam gam^2/S, al = 1/q, e = erf(a), e1 = erf'(a), E = erfc(a al),
          C = 2 lam/sqrt(pi (1 + 2 lam^2)), r = 2/sqrt(1 + 4 lam^2), V = Var erf(lam (D + gam G)).

The oracle's Hessian couples only k towards v* and v towards k*: rho = eta + theta to first order.
In the coordinates eta and theta - eta this plane's 2 x 2 block is [[x, z], [z, y]] with

    x = f + 2 n C^2 (n - 1 + r) + 4 n C A e1,
        f = e1 E (8 A^2 a + 2 A D) + (16/pi) A^2 al exp(-a^2 (1 + al^2)),
    y = 2 D^2 e^2 + t,                          t = 2 D^2 V + 2 gam^2 e + A D e1 (4 + 2 E),
    z = 2 D e n C + b,                          b = 2 A D e1 (1/S^2 - 3 E).

Multiplied out, the products of size n^2 D^2 cancel by hand, and one term is left that can turn the
sign:

    det = x y - z^2 = 4 D^2 e^2 n C^2 (r - 1) + [2 D^2 e^2 f + t x
        + 8 D^2 e n C A e1 (e - 1/S^2 + 3 E) - b^2].

The bracket is positive. e - 1/S^2 + 3 E >= 2 (1 - e) >= 0, for E >= 1 - e. And f y > b^2: divided
by 4 A^2 D^2 e1^2, with w = A^2/gam^2 = (1 - 1/S^2)/2 < 1/2, it is implied by

    E (1 + 4 w) (e/(a e1) + D^2 e^2/(gam^2 a e1) + 2 + E)  >=  (1 - 2 w - 3 E)^2.

  3 E >= 1 - 2 w: e >= a e1 leaves E (1 + 4 w) (3 + E)
      - (1 - 2 w - 3 E)^2, concave in w and >= 0 at both ends;
  3 E <  1 - 2 w: D^2/gam^2 = a^2/w > 2 a^2 and E >= erfc(a) >= e1/(a + sqrt(a^2 + 2)) leave
                  e^2 + 2 (1 - e) >= 1 on the left.

So the oracle is a minimum at every lam where n (1 - r) <= 0: always at L = 1, and up to
sqrt(3)/2 at every length, which is also the limit of the critical inverse temperature as D -> inf.
Above, the sum is evaluated with a bound on its roundoff, and a saddle is one whose determinant lies
below zero by more than that.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import erf, erfc

from attnscope.tasks.base import checked_law, perpendicular
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.erf_risk import erf_variance

__all__ = ["critical_inverse_temperature"]

SMALLEST_SADDLE_LAMBDA = math.sqrt(3) / 2  # no saddle at or below (module docstring)
# lam min(1, gam), at which the limit lam -> inf is reached to 1e-6
LARGEST_SEARCHED_LAMBDA = 1e6
LAMBDA_GRID_POINTS = 600  # at least 40 per decade: det is smooth in log lam
# a has 3 roundings and a^2 sits in every exponent; the products have up to 12 factors, V a sum of
# 32
DETERMINANT_ROUNDINGS = 64
EPS = float(np.finfo(np.float64).eps)


class Determinant(NamedTuple):
    """The determinant over x y, and a bound on its roundoff."""

    value: np.ndarray
    error: np.ndarray


def critical_inverse_temperature(task: SingleLocation) -> float:
    """Inverse temperature up to which the erf oracle (k*, v*) is a minimum and above which it is a
    saddle; inf if there is none.

    Right to about 1e-15. No saddle at length 1 nor below sqrt(3)/2, ever. For signals of about
    twice gamma and few tokens the oracle may turn into a minimum again far above; the first
    inverse temperature is given.

    Args:
        task: a SingleLocation.

    >>> round(critical_inverse_temperature(SingleLocation(dim=400, length=10)), 4)
    0.8924
    """
    of = "critical_inverse_temperature"
    checked_law(task, SingleLocation, of, "SingleLocation(dim=400, length=10)")
    perpendicular(task, of)
    if task.length == 1 or task.signal == 0:
        return math.inf
    grid = np.geomspace(
        SMALLEST_SADDLE_LAMBDA,
        LARGEST_SEARCHED_LAMBDA / min(1.0, task.gamma),
        LAMBDA_GRID_POINTS,
    )
    det = oracle_determinant(task, grid)
    saddles = np.flatnonzero(det.value < -det.error)
    if saddles.size == 0:
        return math.inf
    # never the first point: nothing is negative at SMALLEST_SADDLE_LAMBDA
    low = grid[saddles[0] - 1]
    high = grid[saddles[0]]
    value = lambda lam: float(oracle_determinant(task, np.array(lam)).value)
    if (
        value(low) <= 0
    ):  # a determinant within its roundoff: the root is SMALLEST_SADDLE_LAMBDA to all digits
        return float(low)
    return float(brentq(value, low, high, xtol=1e-15, rtol=1e-15))


def oracle_determinant(task: SingleLocation, lam: np.ndarray) -> Determinant:
    """det/(x y) in [-1, 1], for lengths >= 2 and a positive signal (module docstring)."""
    gam2 = task.gamma**2
    D = task.signal
    n = task.length - 1.0
    S2 = 1 + 2 * lam**2 * gam2
    q = np.sqrt(1 + 4 * lam**2 * gam2)
    a = lam * D / np.sqrt(S2)
    A = lam * gam2 / np.sqrt(S2)
    e = erf(a)
    e1 = 2 / math.sqrt(math.pi) * np.exp(-a * a)
    E = erfc(a / q)
    C = 2 * lam / np.sqrt(math.pi * (1 + 2 * lam**2))
    r = 2 / np.sqrt(1 + 4 * lam**2)
    V = erf_variance(a, q, lam**2 * gam2)
    both = np.exp(-a * a * (1 + 1 / q**2))
    f = e1 * E * (8 * A**2 * a + 2 * A * D) + 16 / math.pi * A**2 * both / q
    x = f + 2 * n * C**2 * (n - 1 + r) + 4 * n * C * A * e1
    t = 2 * D**2 * V + 2 * gam2 * e + A * D * e1 * (4 + 2 * E)
    y = 2 * (D * e) ** 2 + t
    outer = 4 * (D * e) ** 2 * n * C**2
    mixed = 8 * D**2 * e * n * C * A * e1
    b = 2 * A * D * e1
    value = (
        outer * (r - 1)
        + 2 * (D * e) ** 2 * f
        + t * x
        + mixed * (e - 1 / S2 + 3 * E)
        - (b * (1 / S2 - 3 * E)) ** 2
    )
    size = (
        outer
        + 2 * (D * e) ** 2 * f
        + t * x
        + mixed * (e + 1 / S2 + 3 * E)
        + (b * (1 / S2 + 3 * E)) ** 2
    )
    # exponents lose a^2 units, but where a^2 > 40 what they multiply is below every other term
    error = DETERMINANT_ROUNDINGS * EPS * (1 + np.minimum(a * a, 40.0)) * size
    return Determinant(value / (x * y), error / (x * y))
