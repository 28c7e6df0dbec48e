"""Elementary functions of jets: the interval of values, and the recurrence of the coefficients.

notation: u the argument, y the value, ' along the cell; Series and `chain` as in intervals.py.

    exp     y' = y u'                       tanh    y' = (1 - y^2) u'
    sin     y' = cos(u) u'                  expit   y' = y (1 - y) u'
    erf     y' = 2 pi^-1/2 e^{-u^2} u'      arctan  y' = u'/(1 + u^2)       log  y' = u'/u

Values of monotone functions are those at the ends, widened by LIBRARY_FUNCTION_ERROR units: NumPy's
and SciPy's elementary functions round by less. sin and cos use |sin(m + r) - sin m| <= |cos m| r +
r^2/2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from attnscope.theory.labels.intervals import (
    TAYLOR_ORDER,
    Growing,
    Series,
    added,
    chain,
    constant,
    convolved,
    from_ends,
    inverse,
    multiplied,
    scaled,
    weighted,
)

__all__ = ["JET_FUNCTIONS", "exponential", "logarithm", "power", "square_root"]

# relative error of a library function: they state 4 units or less
LIBRARY_FUNCTION_ERROR = 8 * 2.0**-52
ONE = constant(np.array(1.0))
Ends = tuple[np.ndarray, np.ndarray]


def increasing(function: Callable[[Any], Any], u: Series) -> Ends:
    """Values of an increasing function."""
    with np.errstate(all="ignore"):
        low, high = function(u.low), function(u.high)
        return from_ends(
            low - LIBRARY_FUNCTION_ERROR * np.abs(low),
            high + LIBRARY_FUNCTION_ERROR * np.abs(high),
        )


def even_decreasing(function: Callable[[Any], Any], u: Series) -> Ends:
    """Values of an even function that falls with |u|, from function(0) at most."""
    size = np.maximum(np.abs(u.low), np.abs(u.high))
    inside = (u.low <= 0) & (u.high >= 0)
    least = np.where(inside, 0.0, np.minimum(np.abs(u.low), np.abs(u.high)))
    with np.errstate(all="ignore"):
        high, low = function(least), function(size)
        return from_ends(
            low * (1 - LIBRARY_FUNCTION_ERROR), high * (1 + LIBRARY_FUNCTION_ERROR)
        )


def exponential(u: Series) -> Series:
    return chain(u, increasing(np.exp, u))


def logarithm(u: Series) -> Series:
    positive = u.low > 0
    if not positive.all():  # the whole line where the argument leaves the domain
        u = Series(np.where(positive, u.mid, 0.0), np.where(positive, u.rad, np.inf))
    return chain(u, increasing(np.log, u), inverse(u).longer(TAYLOR_ORDER + 1))


def square_root(u: Series) -> Series:
    """s^2 = u; a square root that touches 0 has values only, no derivatives."""
    positive = u.low > 0
    with np.errstate(all="ignore"):
        low = np.sqrt(np.maximum(u.low, 0.0))
        value = from_ends(
            low * (1 - LIBRARY_FUNCTION_ERROR), np.sqrt(u.high) * (1 + LIBRARY_FUNCTION_ERROR)
        )
    out = Growing(value)
    half = scaled(inverse(Series(value[0][None], value[1][None])), 0.5)
    long = u.longer(TAYLOR_ORDER + 1)
    for k in range(1, TAYLOR_ORDER + 1):
        mid, rad = convolved(out.series, out, k, 1, k - 1)
        rest = Series((long.mid[k] - mid)[None], (long.rad[k] + rad)[None])
        part = multiplied(half, rest)
        out.set(k, (part.mid[0], np.where(positive, part.rad[0], np.inf)))
    return out.series


def power(u: Series, exponent: float) -> Series:
    """u**p: products for a whole p, else e^{p log u}."""
    if float(exponent).is_integer() and abs(exponent) <= 64:
        n = int(abs(exponent))
        out: Series | None = None
        base = u
        while n:
            if n & 1:
                out = base if out is None else multiplied(out, base)
            n >>= 1
            if n:
                base = multiplied(base, base)
        if out is None:
            return constant(np.ones(u.mid.shape[1:]))
        return out if exponent > 0 else inverse(out)
    if exponent == 0.5:
        return square_root(u)
    return exponential(scaled(logarithm(u), exponent))


def _sin_cos(u: Series) -> tuple[Series, Series]:
    mid, rad = u.mid[0], u.rad[0]
    s, c = np.sin(mid), np.cos(mid)
    # an argument of this size is known to rounding only, and its sine to as much
    rad = rad + 2.0**-52 * np.abs(mid)

    def about(value: np.ndarray, slope: np.ndarray) -> Ends:
        with np.errstate(all="ignore"):
            away = (
                np.minimum(np.abs(slope) * rad + rad * rad / 2, 2.0) + LIBRARY_FUNCTION_ERROR
            )
        return from_ends(np.maximum(value - away, -1.0), np.minimum(value + away, 1.0))

    sine, cosine = Growing(about(s, c)), Growing(about(c, s))
    moved = weighted(u)
    for k in range(1, TAYLOR_ORDER + 1):
        first = convolved(moved, cosine, k, 1, k)
        second = convolved(moved, sine, k, 1, k)
        sine.set(k, (first[0] / k, first[1] / k))
        cosine.set(k, (-second[0] / k, second[1] / k))
    return sine.series, cosine.series


def _sinh_cosh(u: Series) -> tuple[Series, Series]:
    up, down = exponential(u), exponential(scaled(u, -1.0))
    return scaled(added(up, down, -1.0), 0.5), scaled(added(up, down), 0.5)


def _tanh(u: Series) -> Series:
    """y and v = 1 - y^2 together: v_k = -sum y_i y_{k-i}."""
    out = Growing(increasing(np.tanh, u))
    slope = Growing(even_decreasing(_sech_square, u))
    moved = weighted(u)
    for k in range(1, TAYLOR_ORDER + 1):
        mid, rad = convolved(moved, slope, k, 1, k)
        out.set(k, (mid / k, rad / k))
        mid, rad = convolved(out.series, out, k, 0, k)
        slope.set(k, (-mid, rad))
    return out.series


def _sech_square(x: np.ndarray) -> np.ndarray:
    e = np.exp(-2 * np.abs(x))
    return 4 * e / (1 + e) ** 2


def _expit(u: Series) -> Series:
    return added(scaled(_tanh(scaled(u, 0.5)), 0.5), constant(np.array(0.5)))


def _gaussian(u: Series) -> Series:
    """e^{-u^2}, with the values of an even function."""
    found = exponential(scaled(multiplied(u, u), -1.0))
    return _with_values(found, even_decreasing(lambda x: np.exp(-x * x), u), True)


def _erf(u: Series) -> Series:
    slope = scaled(_gaussian(u), 2 / np.sqrt(np.pi))
    return chain(u, increasing(special.erf, u), slope)


def _ndtr(u: Series) -> Series:
    slope = scaled(_gaussian(scaled(u, np.sqrt(0.5))), 1 / np.sqrt(2 * np.pi))
    return chain(u, increasing(special.ndtr, u), slope)


def _arctan(u: Series) -> Series:
    slope = inverse(added(multiplied(u, u), ONE))
    return chain(u, increasing(np.arctan, u), slope.longer(TAYLOR_ORDER + 1))


def _arcsinh(u: Series) -> Series:
    slope = inverse(square_root(added(multiplied(u, u), ONE)))
    return chain(u, increasing(np.arcsinh, u), slope.longer(TAYLOR_ORDER + 1))


def _log1p(u: Series) -> Series:
    found = logarithm(added(u, ONE))
    return _with_values(found, increasing(np.log1p, u), u.low > -1)


def _with_values(found: Series, value: Ends, good: Any) -> Series:
    mid, rad = found.mid.copy(), found.rad.copy()
    mid[0] = np.where(good, value[0], mid[0])
    rad[0] = np.where(good, value[1], rad[0])
    return Series(mid, rad)


def _softplus(u: Series) -> Series:
    """log(1 + e^u), with the slope 1/(1 + e^-u)."""
    value = increasing(lambda x: np.logaddexp(0.0, x), u)
    return chain(u, value, inverse(added(exponential(scaled(u, -1.0)), ONE)))


JET_FUNCTIONS: dict[str, Callable[[Series], Series]] = {
    "exp": exponential,
    "exp2": lambda u: exponential(scaled(u, np.log(2.0))),
    "expm1": lambda u: _with_values(exponential(u), increasing(np.expm1, u), True),
    "log": logarithm,
    "log2": lambda u: scaled(logarithm(u), 1 / np.log(2.0)),
    "log10": lambda u: scaled(logarithm(u), 1 / np.log(10.0)),
    "log1p": _log1p,
    "sqrt": square_root,
    "square": lambda u: multiplied(u, u),
    "reciprocal": inverse,
    "sin": lambda u: _sin_cos(u)[0],
    "cos": lambda u: _sin_cos(u)[1],
    "tan": lambda u: multiplied(_sin_cos(u)[0], inverse(_sin_cos(u)[1])),
    "sinh": lambda u: _sinh_cosh(u)[0],
    "cosh": lambda u: _sinh_cosh(u)[1],
    "tanh": _tanh,
    "arctan": _arctan,
    "arcsinh": _arcsinh,
    "expit": _expit,
    "log_expit": lambda u: scaled(_softplus(scaled(u, -1.0)), -1.0),
    "softplus": _softplus,
    "erf": _erf,
    "erfc": lambda u: added(ONE, _erf(u), -1.0),
    "ndtr": _ndtr,
    "deg2rad": lambda u: scaled(u, np.pi / 180),
    "rad2deg": lambda u: scaled(u, 180 / np.pi),
}
