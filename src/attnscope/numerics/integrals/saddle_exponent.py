"""The exponent of a Mellin-Barnes integral on the real axis, and its saddles.

Of the transforms of `mellin` (notation there): f(c) = log|Gamma(c)| - c y + K(c) is convex on (lo,
0) and on (0, hi), one saddle on each. With eps = 1 - g^2 and p(c) = p0 - eps c, where p0 = 1, b = 1
   for E_1 and p0 = g^2, b = -1 for E_0,

    K(c) = -(d/2) log(p(c)/p0) + (s^2/2) c (c - b) / p(c),
        with three derivatives of f in closed form.

A saddle is found in a table and by Newton steps confined to the table's cell. Exact: the formulas.
Approximate: a saddle's place, on which the integrals through it do not depend.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, psi, zeta

__all__ = ["Saddle", "SaddleExponent", "saddle_logit"]

Array = np.ndarray

LARGEST_SADDLE = (
    1e6  # saddles beyond this belong to phi < exp(-1e6), which no integral here reaches
)
# logit of the saddle's place in its interval: starts for Newton, so not critical
SADDLE_LOGITS = np.linspace(-32.0, 32.0, 385)


class Saddle(NamedTuple):
    """Where a row's contour crosses the real axis:
    left of 0 (it gives 1 - phi) or right of 0 (phi).
    """

    y: Array
    c: Array
    p: Array
    f: Array
    curvature: Array
    size: Array  # sum of the moduli of the terms of f, for rounding


class SaddleExponent:
    """f of one hypothesis: `relevant` chooses E_1 (p0 = 1, b = 1) or E_0 (p0 = g^2, b = -1)."""

    def __init__(self, dim: int, gamma: float, signal: float, relevant: bool):
        self.dim, self.gamma2, self.signal, self.signal2 = (
            float(dim),
            gamma * gamma,
            float(signal),
            signal * signal,
        )
        self.eps = (1.0 - gamma) * (1.0 + gamma)
        self.relevant = relevant
        self.p0, self.b = (1.0, 1.0) if relevant else (self.gamma2, -1.0)
        edge = self.p0 / self.eps if self.eps else np.inf  # the zero of p
        self.hi = edge if edge > 0 else np.inf
        self.lo = max(-1.0, edge) if edge < 0 else -1.0

    def saddlepoint_logit(self, y: Array) -> Array:
        """q to about 20 %: enough to find where an integrand lives."""
        saddle = self._saddle(np.asarray(y, dtype=np.float64), newton=0)
        return saddle_logit(saddle, saddle.f - 0.5 * np.log(2 * np.pi * saddle.curvature))

    @cached_property
    def places(self) -> Array:
        """Arguments y spread over every scale on which phi varies."""
        return np.concatenate([y[::4] for y, _ in self._saddle_tables])

    def where_logit(self, q: float) -> float:
        """The y with about logit(1 - phi) = q."""
        y = np.sort(self.places)
        return float(np.interp(q, np.maximum.accumulate(self.saddlepoint_logit(y)), y))

    # ---- the exponent f and its derivatives on the real axis
    # -----------------------------------------------

    def _tilt(self, c: Array, p: Array) -> Array:
        """Derivative of (s^2/2) c (c - b) / p."""
        return (
            0.5 * self.signal2 * ((2 * c - self.b) * p + self.eps * c * (c - self.b)) / p**2
        )

    def _slope(self, c: Array, p: Array) -> Array:
        """f'(c) + y."""
        return psi(1 + c) - 1 / c + 0.5 * self.dim * self.eps / p + self._tilt(c, p)

    def _curvature(self, c: Array, p: Array) -> Array:
        return (
            _trigamma(1 + c)
            + 1 / c**2
            + 0.5 * self.dim * (self.eps / p) ** 2
            + self.signal2 * self.gamma2 / p**3
        )

    def _third_derivative(self, c: Array, p: Array) -> Array:
        r = self.eps / p
        return (
            -2 * (zeta(3, 1 + c) + 1 / c**3)
            + self.dim * r**3
            + 3 * r * self.signal2 * self.gamma2 / p**3
        )

    def _value_and_modulus(self, c: Array, p: Array, y: Array) -> tuple[Array, Array]:
        """f(c), and the sum of the moduli of its terms."""
        log_gamma = gammaln(1 + c) - np.log(np.abs(c))
        gauss = -0.5 * self.dim * np.log1p(-self.eps * c / self.p0)
        shift = 0.5 * self.signal2 * c * (c - self.b) / p
        return log_gamma - c * y + gauss + shift, np.abs(log_gamma) + np.abs(c * y) + np.abs(
            gauss
        ) + np.abs(shift)

    # ---- saddles
    # -------------------------------------------------------------------------------------------

    @cached_property
    def _saddle_tables(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """For the left and the right interval: increasing y and the saddle c there."""
        left = self.lo * expit(-SADDLE_LOGITS)
        right = (
            self.hi * expit(SADDLE_LOGITS)
            if self.hi < LARGEST_SADDLE
            else np.geomspace(1e-14, LARGEST_SADDLE, SADDLE_LOGITS.size)
        )
        tables = []
        for c in (left, right):
            p = np.maximum(self.p0 - self.eps * c, 1e-15 * self.p0)
            tables.append((np.maximum.accumulate(self._slope(c, p)), c))
        return tables[0], tables[1]

    def _saddle(self, y: Array, newton: int) -> Saddle:
        """The lower of the two saddles of every row."""
        left, right = (self._saddle_of(y, table, newton) for table in self._saddle_tables)
        return Saddle(
            *(np.where(right.f <= left.f, b, a) for a, b in zip(left, right, strict=True))
        )

    def _saddle_of(self, y: Array, table: tuple[Array, Array], newton: int) -> Saddle:
        """Table, then Newton steps confined to the table's cell, where f' is monotone."""
        cell = np.clip(np.searchsorted(table[0], y), 1, table[0].size - 1)
        low = table[1][cell - 1]
        high = table[1][cell]
        c = np.interp(y, *table)
        for _ in range(newton):
            p = self.p0 - self.eps * c
            c = np.clip(c - (self._slope(c, p) - y) / self._curvature(c, p), low, high)
        p = np.maximum(self.p0 - self.eps * c, 1e-15 * self.p0)
        f, size = self._value_and_modulus(c, p, y)
        return Saddle(y, c, p, f, self._curvature(c, p), size)


def saddle_logit(at: Saddle, log_value: Array) -> Array:
    """q from log phi (right rows) or log(1 - phi) (left rows)."""
    log_value = np.minimum(log_value, -1e-16)
    other = np.log(-np.expm1(log_value))
    return np.where(at.c < 0, log_value - other, other - log_value)


def _trigamma(x: Array) -> Array:
    """psi'(x), x > 0, to 3e-10 (it steers Newton and the contour, no digit of the result): ten
    times faster than scipy's zeta(2, x).
    """
    up = x + 6
    r = 1 / (up * up)
    series = (1 + r * (1 / 6 - r * (1 / 30 - r * (1 / 42 - r / 30)))) / up + 0.5 * r
    return series + sum((x + k) ** -2.0 for k in range(6))
