"""Interval arithmetic on Taylor coefficients, as midpoints and radii, rounded outward.

notation: a jet is u = sum_k u_k s^k, |s| <= 1, each u_k an interval m_k +- r_k; u_k encloses
f^(k)/k! (in units of the cell's half width) at *every* point of the cell.

    product     (u v)_k = sum_i u_i v_{k-i},     |m_u| r_v + r_u (|m_v| + r_v) for the radii
    y' = d u'   k y_k = sum_{j=1..k} j u_j d_{k-j}      (exp, erf, tanh, log, ... : jet_functions.py)

Every operation adds SUM_ROUNDING of the absolute values it has summed to the radius, more than the
rounding of its k + 2 products. A number that is not finite becomes the whole line: m = 0, r = inf.
Arrays are (orders, ...): only orders up to the highest that can differ from 0 are stored, at most
TAYLOR_ORDER + 1 of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = [
    "SUM_ROUNDING",
    "TAYLOR_ORDER",
    "Series",
    "added",
    "chain",
    "constant",
    "from_ends",
    "inverse",
    "multiplied",
    "scaled",
]

# highest Taylor coefficient: a cell then holds 1.8 rad of an oscillation at 1e-14
TAYLOR_ORDER = 16
# relative rounding charged for a sum of up to TAYLOR_ORDER + 1 products, in their absolute values:
# each product and each addition rounds by 2^-53
SUM_ROUNDING = (TAYLOR_ORDER + 4) * 2.0**-53
UNDERFLOW_LOSS = 1e-320  # absolute: the most that underflow can lose


class Series(NamedTuple):
    """mid, rad: (orders, ...) with 1 <= orders <= TAYLOR_ORDER + 1."""

    mid: np.ndarray
    rad: np.ndarray

    @property
    def low(self) -> np.ndarray:
        """Lower ends of the values."""
        return np.nextafter(self.mid[0] - self.rad[0], -np.inf)

    @property
    def high(self) -> np.ndarray:
        """Upper ends of the values."""
        return np.nextafter(self.mid[0] + self.rad[0], np.inf)

    @property
    def largest(self) -> np.ndarray:
        """(orders, ...) the largest absolute value in each interval."""
        return np.abs(self.mid) + self.rad

    def longer(self, orders: int) -> Series:
        """With zeros for the orders up to `orders`."""
        missing = orders - len(self.mid)
        if missing <= 0:
            return self
        zeros = np.zeros((missing, *self.mid.shape[1:]))
        return Series(np.concatenate([self.mid, zeros]), np.concatenate([self.rad, zeros]))


def tidy(mid: np.ndarray, rad: np.ndarray) -> Series:
    """The whole line in place of what is not finite."""
    lost = ~np.isfinite(mid) | ~np.isfinite(rad)
    if lost.any():
        mid = np.where(lost, 0.0, mid)
        rad = np.where(lost, np.inf, rad)
    return Series(mid, rad)


def constant(x: np.ndarray) -> Series:
    """Numbers, exactly."""
    return tidy(np.asarray(x, dtype=np.float64)[None], np.zeros((1, *np.shape(x))))


def from_ends(low: np.ndarray, high: np.ndarray) -> Series:
    """Midpoint and radius of [low, high]; rounding of both ends by a few units is included."""
    with np.errstate(all="ignore"):
        mid = low / 2 + high / 2
        rad = np.maximum(high - mid, mid - low) + SUM_ROUNDING * np.maximum(
            np.abs(low), np.abs(high)
        )
    return tidy(mid, rad + UNDERFLOW_LOSS)


def added(a: Series, b: Series, sign: float = 1.0) -> Series:
    """a + sign b, of one shape after broadcasting."""
    orders = max(len(a.mid), len(b.mid))
    shape = np.broadcast_shapes(a.mid.shape[1:], b.mid.shape[1:])
    mid = np.zeros((orders, *shape))
    rad = np.zeros((orders, *shape))
    mid[: len(a.mid)] += _with_broadcast_axes(a.mid, shape)
    rad[: len(a.rad)] += _with_broadcast_axes(a.rad, shape)
    mid[: len(b.mid)] += sign * _with_broadcast_axes(b.mid, shape)
    rad[: len(b.rad)] += _with_broadcast_axes(b.rad, shape)
    rad += 2.0**-52 * np.abs(mid)
    return tidy(mid, rad)


def _with_broadcast_axes(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """(orders, ...) with axes of size 1 put after the orders, so that it broadcasts to `shape`."""
    return x.reshape(len(x), *(1,) * (len(shape) - x.ndim + 1), *x.shape[1:])


def scaled(a: Series, factor: np.ndarray | float) -> Series:
    """a times exact numbers."""
    factor = np.asarray(factor, dtype=np.float64)
    shape = np.broadcast_shapes(a.mid.shape[1:], factor.shape)
    with np.errstate(all="ignore"):
        mid = _with_broadcast_axes(a.mid, shape) * factor
        rad = _with_broadcast_axes(a.rad, shape) * np.abs(factor) + 2.0**-52 * np.abs(mid)
    # 0 times a number that may be infinite is 0 only if the number is finite
    return tidy(mid, rad + UNDERFLOW_LOSS * (mid != 0))


def multiplied(a: Series, b: Series) -> Series:
    """The product; the shorter factor is the outer loop."""
    if len(a.mid) > len(b.mid):
        a, b = b, a
    orders = min(len(a.mid) + len(b.mid) - 1, TAYLOR_ORDER + 1)
    shape = np.broadcast_shapes(a.mid.shape[1:], b.mid.shape[1:])
    mid = np.zeros((orders, *shape))
    rad = np.zeros((orders, *shape))
    a = Series(_with_broadcast_axes(a.mid, shape), _with_broadcast_axes(a.rad, shape))
    b = Series(_with_broadcast_axes(b.mid, shape), _with_broadcast_axes(b.rad, shape))
    size_b = np.abs(b.mid)
    with np.errstate(all="ignore"):
        for i in range(min(len(a.mid), orders)):
            n = min(len(b.mid), orders - i)
            size = np.abs(a.mid[i])
            mid[i : i + n] += a.mid[i] * b.mid[:n]
            rad[i : i + n] += (size + a.rad[i]) * b.rad[:n]
            rad[i : i + n] += (a.rad[i] + SUM_ROUNDING * size) * size_b[:n]
        rad += UNDERFLOW_LOSS * (rad > 0)
    return tidy(mid, rad)


def weighted(u: Series) -> Series:
    """j u_j."""
    j = np.arange(len(u.mid)).reshape(-1, *(1,) * (u.mid.ndim - 1))
    return Series(j * u.mid, j * u.rad)


class Growing:
    """A series found order by order from order 0."""

    def __init__(self, value: tuple[np.ndarray, np.ndarray]) -> None:
        shape = np.shape(value[0])
        self.mid = np.zeros((TAYLOR_ORDER + 1, *shape))
        self.rad = np.zeros((TAYLOR_ORDER + 1, *shape))
        self.set(0, value)

    def set(self, k: int, value: tuple[np.ndarray, np.ndarray]) -> None:
        self.mid[k], self.rad[k] = tidy(*value)

    @property
    def series(self) -> Series:
        return Series(self.mid, self.rad)


def convolved(
    a: Series, b: Growing | Series, k: int, low: int, high: int
) -> tuple[np.ndarray, np.ndarray]:
    """sum_{j=low..high} a_j b_{k-j}, a_j = 0 beyond its orders."""
    high = min(high, len(a.mid) - 1)
    shape = a.mid.shape[1:]
    if high < low:
        return np.zeros(shape), np.zeros(shape)
    am, ar = a.mid[low : high + 1], a.rad[low : high + 1]
    bm, br = (x[k - high : k - low + 1][::-1] for x in (b.mid, b.rad))
    size_a, size_b = np.abs(am), np.abs(bm)
    with np.errstate(all="ignore"):
        mid = (am * bm).sum(0)
        rad = ((size_a + ar) * br + (ar + SUM_ROUNDING * size_a) * size_b).sum(0)
    return mid, rad


def chain(
    u: Series, value: tuple[np.ndarray, np.ndarray], slope: Series | None = None
) -> Series:
    """y with y_0 = value and y' = slope u'; slope has all orders, and is y itself where it is not
    given.
    """
    out = Growing(value)
    d = out if slope is None else slope
    moved = weighted(u)
    for k in range(1, TAYLOR_ORDER + 1):
        mid, rad = convolved(moved, d, k, 1, k)
        out.set(k, (mid / k, rad / k))
    return out.series


def inverse(u: Series) -> Series:
    """1/u; the whole line where u may be 0."""
    low, high = u.low, u.high
    safe = (low > 0) | (high < 0)
    with np.errstate(all="ignore"):
        ends = 1 / np.where(safe, low, 1.0), 1 / np.where(safe, high, 1.0)
        mid, rad = from_ends(np.minimum(*ends), np.maximum(*ends))
    first = np.where(safe, mid, 0.0), np.where(safe, rad, np.inf)
    if len(u.mid) == 1:
        return Series(first[0][None], first[1][None])
    out = Growing(first)
    head = Series(first[0][None], first[1][None])
    for k in range(1, TAYLOR_ORDER + 1):
        mid, rad = convolved(u, out, k, 1, k)
        part = multiplied(head, Series(-mid[None], rad[None]))
        out.set(k, (part.mid[0], part.rad[0]))
    return out.series
