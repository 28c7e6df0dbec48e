"""Interval Taylor jets of an author's NumPy code.

Run a label on arrays of jets over cells, and out come enclosures of its values and of its Taylor
coefficients over each whole cell. Nothing can hide between sample points: where a coefficient of
order k is at most B (in units of the cell's half width), the label differs from its Taylor
polynomial of degree k - 1 by at most B on the whole cell.

Comparisons have three values (`Truth`): where a cell lies on both sides, `where`, `sign`, `floor`
give the hull of both values and no bound on any derivative; `abs`, `maximum` and `minimum` are
continuous, and keep a bound on the first. Exact up to outward rounding (intervals.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnscope.theory.labels.carriers import Carrier, Unsupported
from attnscope.theory.labels.intervals import (
    TAYLOR_ORDER,
    Series,
    added,
    constant,
    from_ends,
    inverse,
    multiplied,
    scaled,
    tidy,
)
from attnscope.theory.labels.jet_functions import JET_FUNCTIONS, exponential, logarithm, power

__all__ = ["Jet", "Truth", "variable"]


class Followed(Carrier):
    """What jets and comparisons of jets have in common."""

    def ufunc(self, ufunc: np.ufunc, inputs: list[Any]) -> Any:
        return ufunc_result(ufunc, inputs)

    def chosen(self, condition: Any, a: Any, b: Any) -> Jet:
        return chosen(_truth(condition), _jet(a), _jet(b))

    def contracted(self, function: Callable[..., Any], inputs: list[Any]) -> Jet:
        return _linear_image(function, inputs)


class Jet(Followed):
    """An array of jets: `series` (orders, *shape)."""

    def __init__(self, series: Series) -> None:
        self.series = series
        self.shape = series.mid.shape[1:]

    def gather(self, places: np.ndarray) -> Jet:
        pick = lambda x: x.reshape(len(x), -1)[:, places]
        return Jet(Series(pick(self.series.mid), pick(self.series.rad)))

    def joined(self, parts: list[Any]) -> Jet:
        each = [x.series if isinstance(x, Jet) else _jet(x).series for x in parts]
        orders = max(len(x.mid) for x in each)
        each = [x.longer(orders) for x in each]
        flat = lambda x: x.reshape(orders, -1)
        return Jet(
            Series(
                np.concatenate([flat(x.mid) for x in each], axis=1),
                np.concatenate([flat(x.rad) for x in each], axis=1),
            )
        )

    def lifted(self, plain: Any) -> Jet:
        return _jet(plain)

    def reduce_one(self, ufunc: np.ufunc, axis: int) -> Any:
        if ufunc is not np.add:
            return super().reduce_one(ufunc, axis)
        mid = self.series.mid.sum(axis + 1)
        size = np.abs(self.series.mid).sum(axis + 1)
        rad = self.series.rad.sum(axis + 1) + self.shape[axis] * 2.0**-52 * size
        return Jet(tidy(mid, rad))

    def assign(self, key: Any, value: Any) -> None:
        if isinstance(key, Truth):
            if np.ndim(value) or key.shape != self.shape:
                raise Unsupported("assignment of several values where a comparison holds")
            found = chosen(key, _jet(value), self)
        else:
            places = self.places()[key]
            new = np.broadcast_to(
                self.size + np.arange(np.size(places)).reshape(places.shape), places.shape
            )
            filled = _jet(value)
            spread = filled.gather(np.broadcast_to(filled.places(), places.shape))
            order = self.places().ravel()
            order[places.ravel()] = new.ravel()
            found = self.joined([self, spread]).gather(order.reshape(self.shape))
        self.series = found.series


class Truth(Followed):
    """Comparisons of jets: `can` be true, and `must` be true, somewhere and everywhere on a cell."""

    def __init__(self, can: np.ndarray, must: np.ndarray) -> None:
        self.can = can
        self.must = must
        self.shape = can.shape

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(bool)

    def gather(self, places: np.ndarray) -> Truth:
        return Truth(self.can.ravel()[places], self.must.ravel()[places])

    def joined(self, parts: list[Any]) -> Any:
        if not all(isinstance(x, Truth) for x in parts):
            return _jet(self).joined(parts)
        return Truth(
            *(np.concatenate([getattr(x, k).ravel() for x in parts]) for k in ("can", "must"))
        )

    def lifted(self, plain: Any) -> Any:
        return _truth(plain) if np.asarray(plain).dtype == bool else _jet(plain)

    def astype(self, dtype: Any, **_: Any) -> Any:
        return self if np.dtype(dtype) == bool else _jet(self)

    def reduce_one(self, ufunc: np.ufunc, axis: int) -> Any:
        if ufunc is np.logical_or:
            return Truth(np.asarray(self.can.any(axis)), np.asarray(self.must.any(axis)))
        if ufunc is np.logical_and:
            return Truth(np.asarray(self.can.all(axis)), np.asarray(self.must.all(axis)))
        return _jet(self).reduce_one(ufunc, axis)


def variable(centre: np.ndarray, half: np.ndarray) -> Jet:
    """The cells centre +- half, as the variable itself: derivative `half` in units of half."""
    mid = np.stack([centre, half])
    rad = np.stack([half * (1 + 2.0**-50) + 2.0**-51 * np.abs(centre), 0 * half])
    return Jet(Series(mid, rad))


# -- conversions -----------------------------------------------------------------------------------


def _jet(x: Any) -> Jet:
    if isinstance(x, Jet):
        return x
    if isinstance(x, Truth):
        decided = x.can == x.must
        mid = np.where(decided, x.must * 1.0, 0.5)
        return Jet(undecided(mid, np.where(decided, 0.0, 0.5), decided))
    plain = np.asarray(x)
    if plain.dtype.kind not in "biuf":
        raise Unsupported(f"values of type {plain.dtype}")
    return Jet(constant(plain))


def _truth(x: Any) -> Truth:
    if isinstance(x, Truth):
        return x
    if isinstance(x, Jet):
        low, high = x.series.low, x.series.high
        zero = (x.series.mid[0] == 0) & (x.series.rad[0] == 0)
        return Truth(~zero, (low > 0) | (high < 0))
    plain = np.asarray(x).astype(bool)
    return Truth(plain, plain)


def undecided(mid: np.ndarray, rad: np.ndarray, decided: np.ndarray) -> Series:
    """Constants where decided; elsewhere values without any bound on derivatives."""
    if decided.all():
        return Series(mid[None], rad[None])
    mids = np.zeros((TAYLOR_ORDER + 1, *mid.shape))
    rads = np.zeros((TAYLOR_ORDER + 1, *mid.shape))
    mids[0], rads[0] = mid, rad
    rads[1:] = np.where(decided, 0.0, np.inf)
    return Series(mids, rads)


def steps(function: Callable[[Any], Any], u: Series) -> Series:
    """An increasing function that is constant between jumps: floor, sign, ..."""
    low, high = function(u.low), function(u.high)
    decided = low == high
    mid, rad = from_ends(low, high)
    return undecided(np.where(decided, low, mid), np.where(decided, 0.0, rad), decided)


# -- choices ---------------------------------------------------------------------------------------


def chosen(condition: Truth, a: Jet, b: Jet, continuous: bool = False) -> Jet:
    """np.where; continuous: a = b where the condition changes."""
    shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
    full = lambda x: np.broadcast_to(x, shape)
    can, must = full(condition.can), full(condition.must)
    each = [x.gather(np.broadcast_to(x.places(), shape)).series for x in (a, b)]
    orders = max(len(x.mid) for x in each)
    if (can & ~must).any():
        orders = TAYLOR_ORDER + 1
    first, second = (x.longer(orders) for x in each)
    mid = np.where(must, first.mid, second.mid)
    rad = np.where(must, first.rad, second.rad)
    open_ = can & ~must
    if open_.any():
        with np.errstate(all="ignore"):
            low = np.minimum(first.mid - first.rad, second.mid - second.rad)
            high = np.maximum(first.mid + first.rad, second.mid + second.rad)
            hull = from_ends(low, high)
        known = 2 if continuous else 1
        for k in range(orders):
            mid[k] = np.where(open_, hull[0][k] if k < known else 0.0, mid[k])
            rad[k] = np.where(open_, hull[1][k] if k < known else np.inf, rad[k])
    return Jet(Series(mid, rad))


def _maximum(a: Jet, b: Jet) -> Jet:
    return chosen(_is_above(a, b, strict=False), a, b, continuous=True)


def _minimum(a: Jet, b: Jet) -> Jet:
    return chosen(_is_above(a, b, strict=False), b, a, continuous=True)


def _is_above(a: Jet, b: Jet, strict: bool) -> Truth:
    """a > b, or a >= b."""
    one, other = a.series, b.series
    if strict:
        return Truth(one.high > other.low, one.low > other.high)
    exact = (one.rad[0] == 0) & (other.rad[0] == 0) & (one.mid[0] == other.mid[0])
    return Truth((one.high >= other.low) | exact, (one.low >= other.high) | exact)


def _is_equal(a: Jet, b: Jet) -> Truth:
    one, other = a.series, b.series
    exact = (one.rad[0] == 0) & (other.rad[0] == 0)
    same = exact & (one.mid[0] == other.mid[0])
    apart = (one.low > other.high) | (one.high < other.low) | (exact & ~same)
    return Truth(~apart, same)


def _negation(x: Truth) -> Truth:
    return Truth(~x.must, ~x.can)


# -- dispatch --------------------------------------------------------------------------------------


def _quotient(a: Jet, b: Jet) -> Jet:
    if len(b.series.mid) == 1 and not b.series.rad.any() and (b.series.mid != 0).all():
        plain = b.series.mid[0]
        found = scaled(a.series, 1 / plain)
        return Jet(Series(found.mid, found.rad + 2.0**-52 * np.abs(found.mid)))
    return Jet(multiplied(a.series, inverse(b.series)))


def _power(a: Any, b: Any) -> Jet:
    """a**b, one of them plain."""
    if isinstance(b, np.ndarray) and b.size == 1:
        return Jet(power(_jet(a).series, float(b.ravel()[0])))
    if not isinstance(a, Carrier):
        base = np.asarray(a, dtype=np.float64)
        if (base <= 0).any():
            raise Unsupported("a power of a number that is not positive")
        return Jet(exponential(scaled(_jet(b).series, np.log(base))))
    return Jet(exponential(multiplied(logarithm(_jet(a).series), _jet(b).series)))


def _remainder(a: Jet, b: Jet) -> Jet:
    quotient = Jet(steps(np.floor, _quotient(a, b).series))
    return a - quotient * b


BINARY_FUNCTIONS: dict[np.ufunc, Callable[[Jet, Jet], Any]] = {
    np.add: lambda a, b: Jet(added(a.series, b.series)),
    np.subtract: lambda a, b: Jet(added(a.series, b.series, -1.0)),
    np.divide: _quotient,
    np.maximum: _maximum,
    np.fmax: _maximum,
    np.minimum: _minimum,
    np.fmin: _minimum,
    np.greater: lambda a, b: _is_above(a, b, True),
    np.greater_equal: lambda a, b: _is_above(a, b, False),
    np.less: lambda a, b: _is_above(b, a, True),
    np.less_equal: lambda a, b: _is_above(b, a, False),
    np.equal: _is_equal,
    np.not_equal: lambda a, b: _negation(_is_equal(a, b)),
    np.floor_divide: lambda a, b: Jet(steps(np.floor, _quotient(a, b).series)),
    np.remainder: _remainder,
    np.hypot: lambda a, b: np.sqrt(a * a + b * b),
    np.logaddexp: lambda a, b: b + Jet(JET_FUNCTIONS["softplus"]((a - b).series)),
    np.copysign: lambda a, b: abs(a) * chosen(_is_above(b, _jet(0.0), False), _jet(1.0), _jet(-1.0)),
    np.heaviside: lambda a, b: chosen(
        _is_equal(a, _jet(0.0)), b, Jet(steps(lambda x: (x > 0) * 1.0, a.series))
    ),
}  # fmt: skip
LOGIC_FUNCTIONS: dict[np.ufunc, Callable[[Truth, Truth], Truth]] = {
    np.logical_and: lambda a, b: Truth(a.can & b.can, a.must & b.must),
    np.logical_or: lambda a, b: Truth(a.can | b.can, a.must | b.must),
    np.logical_xor: lambda a, b: Truth(
        (a.can & ~b.must) | (b.can & ~a.must), (a.must & ~b.can) | (b.must & ~a.can)
    ),
}
LOGICAL_OF_BITWISE = {
    np.bitwise_and: np.logical_and,
    np.bitwise_or: np.logical_or,
    np.bitwise_xor: np.logical_xor,
}
STEP_FUNCTIONS: dict[np.ufunc, Callable[[Any], Any]] = {
    np.floor: np.floor,
    np.ceil: np.ceil,
    np.rint: np.rint,
    np.trunc: np.trunc,
    np.sign: np.sign,
}


def ufunc_result(ufunc: np.ufunc, inputs: list[Any]) -> Any:
    """An elementwise function of jets, comparisons and plain arrays."""
    if ufunc in LOGICAL_OF_BITWISE:
        if not all(isinstance(x, Truth) or np.asarray(x).dtype == bool for x in inputs):
            raise Unsupported(ufunc.__name__)
        ufunc = LOGICAL_OF_BITWISE[ufunc]
    if ufunc in LOGIC_FUNCTIONS:
        return LOGIC_FUNCTIONS[ufunc](*(_truth(x) for x in inputs))
    if ufunc in (np.logical_not, np.invert):
        return _negation(_truth(inputs[0]))
    if ufunc in (np.isnan, np.isinf):
        shape = inputs[0].shape
        return Truth(np.zeros(shape, bool), np.zeros(shape, bool))
    if ufunc is np.isfinite:
        shape = inputs[0].shape
        return Truth(np.ones(shape, bool), np.ones(shape, bool))
    if ufunc is np.multiply:
        return _product(*inputs)
    if ufunc in (np.power, np.float_power):
        return _power(*inputs)
    jets = [_jet(x) for x in inputs]
    if ufunc in BINARY_FUNCTIONS:
        return BINARY_FUNCTIONS[ufunc](*jets)
    (u,) = (x.series for x in jets) if len(jets) == 1 else (None,)
    if u is None:
        raise Unsupported(ufunc.__name__)
    if ufunc in (np.absolute, np.fabs):
        return _maximum(jets[0], Jet(scaled(u, -1.0)))
    if ufunc in (np.negative, np.positive):
        return Jet(Series(-u.mid, u.rad)) if ufunc is np.negative else jets[0]
    if ufunc in STEP_FUNCTIONS:
        return Jet(steps(STEP_FUNCTIONS[ufunc], u))
    if ufunc.__name__ in JET_FUNCTIONS:
        return Jet(JET_FUNCTIONS[ufunc.__name__](u))
    raise Unsupported(ufunc.__name__)


def _product(a: Any, b: Any) -> Jet:
    if not isinstance(a, Carrier):
        a, b = b, a
    if isinstance(b, Carrier):
        return Jet(multiplied(_jet(a).series, _jet(b).series))
    return Jet(scaled(_jet(a).series, b))


def _linear_image(function: Callable[..., Any], inputs: list[Any]) -> Jet:
    """A function that is linear in its one jet."""
    at = [i for i, x in enumerate(inputs) if isinstance(x, Carrier)]
    if len(at) != 1:
        raise Unsupported("a sum of products of two values")
    u = _jet(inputs[at[0]]).series
    plain = [None if i in at else np.asarray(x, np.float64) for i, x in enumerate(inputs)]
    sizes = [None if x is None else np.abs(x) for x in plain]
    terms = max((x.size for x in plain if x is not None), default=1) + u.mid[0].size

    def each(rows: np.ndarray, others: list[Any]) -> np.ndarray:
        return np.stack(
            [function(*(row if x is None else x for x in others)) for row in rows]
        )

    with np.errstate(all="ignore"):
        mid = each(u.mid, plain)
        rad = each(u.rad, sizes) + terms * 2.0**-52 * each(np.abs(u.mid), sizes)
    return Jet(tidy(mid, rad))
