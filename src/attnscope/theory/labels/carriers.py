"""Arrays that carry something other than numbers through an author's NumPy code.

A label is NumPy code on an array. NumPy hands every call on an array of another type to that type
(`__array_ufunc__`, `__array_function__`), so the same code can be run on Taylor jets
(taylor_jets.py) or on sets of what was read (provenance_tags.py). This file is what both have in
common: calls that only move entries (indexing, reshape, stack, ...) are made on an array of entry
numbers instead, and the entries follow. A call that neither this file nor the type knows raises
`Unsupported`, so that no result is ever guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Carrier", "Handle", "Unsupported", "handled"]

# calls that move entries and compute nothing; all take the array first
MOVING_FUNCTIONS: set[Callable[..., Any]] = {
    np.reshape, np.ravel, np.transpose, np.squeeze, np.expand_dims, np.moveaxis, np.swapaxes,
    np.broadcast_to, np.take, np.take_along_axis, np.repeat, np.tile, np.roll, np.flip,
    np.diagonal, np.atleast_1d, np.atleast_2d, np.copy, np.rollaxis, np.fliplr, np.flipud,
    np.compress,
}  # fmt: skip
JOINING_FUNCTIONS: set[Callable[..., Any]] = {
    np.concatenate,
    np.stack,
    np.hstack,
    np.vstack,
    np.column_stack,
}


class Unsupported(TypeError):
    """The label uses an operation that this type does not support."""


class Handle:
    """Entry `place` of a carrier, inside an object array: `np.asarray` of a carrier returns these,
    and `handled` puts them together again. They do not compute.
    """

    __slots__ = ("owner", "place")

    def __init__(self, owner: Carrier, place: int) -> None:
        self.owner = owner
        self.place = place


def _reduction(ufunc: np.ufunc) -> Callable[..., Any]:
    """The method of arrays that reduces by `ufunc`."""

    def method(self: Any, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
        return self.reduced(ufunc, self, axis, keepdims)

    return method


class Carrier(np.lib.mixins.NDArrayOperatorsMixin):
    """Base of arrays of jets and of tags.

    A subclass has `shape`, `gather(places)`, `joined(parts)`, `lifted(plain)` (a plain array as
    this type), `ufunc(ufunc, inputs)`, `chosen(condition, a, b)` and `contracted(function, inputs)`.
    """

    __array_priority__ = 1000.0
    shape: tuple[int, ...]
    # whether nothing else sees these entries: NumPy's views follow an assignment, carriers do not,
    # so that only an array that was just computed may be assigned to
    owned = False

    # -- what a subclass writes --------------------------------------------------------------------

    def gather(self, places: np.ndarray) -> Any:
        """The entries with these numbers, in row-major order."""
        raise NotImplementedError

    def joined(self, parts: list[Any]) -> Any:
        """One flat array of all entries of carriers of this type."""
        raise NotImplementedError

    def lifted(self, plain: Any) -> Any:
        """A plain array as one of this type."""
        raise NotImplementedError

    def ufunc(self, ufunc: np.ufunc, inputs: list[Any]) -> Any:
        """An elementwise function; inputs are carriers or plain arrays."""
        raise NotImplementedError

    def chosen(self, condition: Any, a: Any, b: Any) -> Any:
        """np.where."""
        raise NotImplementedError

    def contracted(self, function: Callable[..., Any], inputs: list[Any]) -> Any:
        """A sum of products of the inputs."""
        raise NotImplementedError

    def function(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Any other NumPy function."""
        raise Unsupported(function.__name__)

    # -- what follows ------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float64)

    @property
    def T(self) -> Any:
        return np.transpose(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        raise Unsupported("a decision of Python on a value")

    def __float__(self) -> float:
        raise Unsupported("float()")

    def __int__(self) -> int:
        raise Unsupported("int()")

    def __index__(self) -> int:
        raise Unsupported("a value as an index")

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != np.dtype(object):
            raise Unsupported("np.array")
        out = np.empty(self.size, dtype=object)
        for i in range(self.size):
            out[i] = Handle(self, i)
        return out.reshape(self.shape)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        if kwargs.pop("out", None) is not None or kwargs.pop("where", True) is not True:
            raise Unsupported(f"{ufunc.__name__} with out= or where=")
        kwargs.pop("dtype", None)
        if method == "reduce":
            return self.reduced(
                ufunc, inputs[0], kwargs.get("axis", 0), kwargs.get("keepdims")
            )
        if method != "__call__":
            raise Unsupported(f"{ufunc.__name__}.{method}")
        given = [_plain_or_carrier(x) for x in inputs]
        if ufunc is np.matmul:
            out = self.contracted(np.matmul, given)
        else:
            out = self.ufunc(ufunc, given)
        out.owned = all(out is not x for x in inputs)
        return out

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in MOVING_FUNCTIONS:
            source, *rest = args
            if isinstance(source, Carrier) and not _contains_carrier((rest, kwargs)):
                return source.gather(function(source.places(), *rest, **kwargs))
        if function in JOINING_FUNCTIONS:
            parts = [x if isinstance(x, Carrier) else self.lifted(x) for x in args[0]]
            starts = np.cumsum([0, *(x.size for x in parts)])
            numbers = [x.places() + n for x, n in zip(parts, starts)]
            return self.joined(parts).gather(function(numbers, *args[1:], **kwargs))
        if function in REDUCTION_UFUNCS:
            return self.reduced(
                REDUCTION_UFUNCS[function], args[0], *_axis_and_keepdims(args[1:], kwargs)
            )
        if function in (np.zeros_like, np.ones_like, np.empty_like, np.full_like):
            fill = {np.ones_like: 1.0, np.full_like: args[1] if len(args) > 1 else 0.0}
            out = self.lifted(np.full(np.shape(args[0]), fill.get(function, 0.0)))
            out.owned = True
            return out
        if function in COMPOSED_FUNCTIONS:
            return COMPOSED_FUNCTIONS[function](*args, **kwargs)
        if function is np.where and len(args) == 3:
            return self.chosen(*args)
        if function in (np.dot, np.inner, np.tensordot):
            product = lambda *x: function(*x, *args[2:], **kwargs)
            return self.contracted(product, [_plain_or_carrier(x) for x in args[:2]])
        if function is np.einsum:
            product = lambda *x: np.einsum(args[0], *x)
            return self.contracted(product, [_plain_or_carrier(x) for x in args[1:]])
        if function in (np.shape, np.ndim, np.size):
            return getattr(args[0], function.__name__)
        return self.function(function, args, kwargs)

    def places(self) -> np.ndarray:
        """Entry numbers, in this shape; who asks may keep a view."""
        self.owned = False
        return np.arange(self.size).reshape(self.shape)

    def reduced(self, ufunc: np.ufunc, x: Any, axis: Any, keepdims: Any = False) -> Any:
        """A reduction along one axis, several or all."""
        axes = range(x.ndim) if axis is None else np.atleast_1d(axis)
        order = sorted((int(a) % x.ndim for a in axes), reverse=True)
        out = x
        for a in order:
            out = out.reduce_one(ufunc, a)
        if keepdims:
            kept = tuple(1 if a in order else n for a, n in enumerate(x.shape))
            out = out.reshape(kept)
        return out

    def reduce_one(self, ufunc: np.ufunc, axis: int) -> Any:
        """Along one axis, pair by pair: halves until one is left."""
        at = lambda part: (slice(None),) * axis + (part,)
        out = self
        while out.shape[axis] > 1:
            n = out.shape[axis]
            half = n // 2
            first, second = out[at(slice(0, half))], out[at(slice(half, 2 * half))]
            paired = out.ufunc(ufunc, [first, second])
            if n % 2:
                paired = np.concatenate([paired, out[at(slice(n - 1, n))]], axis=axis)
            out = paired
        if out.shape[axis] == 0:
            raise Unsupported("a reduction of nothing")
        return out[at(0)]

    def __getitem__(self, key: Any) -> Any:
        if _contains_carrier(key):
            raise Unsupported("an index that depends on a value")
        return self.gather(self.places()[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        if not self.owned:
            raise Unsupported("assignment to a part of another array")
        self.assign(key, value)
        self.owned = True

    def assign(self, key: Any, value: Any) -> None:
        """self[key] = value."""
        raise Unsupported("assignment")

    # -- methods of arrays -------------------------------------------------------------------------

    def astype(self, dtype: Any, **_: Any) -> Any:
        if np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize >= 8:
            return self
        raise Unsupported(f"astype({np.dtype(dtype).name})")

    def reshape(self, *shape: Any) -> Any:
        return self.gather(self.places().reshape(*shape))

    def transpose(self, *axes: Any) -> Any:
        return self.gather(self.places().transpose(*axes))

    def ravel(self) -> Any:
        return self.reshape(-1)

    flatten = ravel

    def copy(self) -> Any:
        owned = self.owned
        out = self.gather(self.places())
        self.owned, out.owned = owned, True
        return out

    def squeeze(self, axis: Any = None) -> Any:
        return self.gather(self.places().squeeze(axis))

    def swapaxes(self, a: int, b: int) -> Any:
        return self.gather(self.places().swapaxes(a, b))

    def take(self, indices: Any, axis: Any = None) -> Any:
        return np.take(self, indices, axis=axis)

    sum = _reduction(np.add)
    prod = _reduction(np.multiply)
    max = _reduction(np.maximum)
    min = _reduction(np.minimum)
    any = _reduction(np.logical_or)
    all = _reduction(np.logical_and)

    def mean(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
        total = self.sum(axis, keepdims)
        return total / (self.size / max(total.size, 1))

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return _clip(self, low, high)

    def dot(self, other: Any) -> Any:
        return np.dot(self, other)


REDUCTION_UFUNCS: dict[Any, np.ufunc] = {
    np.sum: np.add,
    np.prod: np.multiply,
    np.max: np.maximum,
    np.amax: np.maximum,
    np.min: np.minimum,
    np.amin: np.minimum,
    np.any: np.logical_or,
    np.all: np.logical_and,
}


def _polynomial_value(p: Any, x: Any) -> Any:
    """np.polyval by Horner's rule."""
    out = 0.0 * x
    for c in np.asarray(p, dtype=np.float64):
        out = out * x + c
    return out


def _bin_numbers(x: Any, bins: Any, right: bool = False) -> Any:
    """np.digitize as a sum of comparisons."""
    edges = np.asarray(bins, dtype=np.float64)
    if (np.diff(edges) < 0).any():
        raise Unsupported("digitize with falling bins")
    return sum(((x > b) if right else (x >= b)) * 1.0 for b in edges) + 0.0 * x


def _sorted_positions(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """np.searchsorted in a plain array."""
    if isinstance(a, Carrier) or sorter is not None:
        raise Unsupported("searchsorted")
    return _bin_numbers(v, a, right=side == "left")


def _piecewise_constant(x: Any, conditions: Any, values: Any) -> Any:
    """np.piecewise of constants."""
    if any(callable(v) for v in values) or isinstance(conditions, Carrier):
        raise Unsupported("piecewise with functions")
    out = 0.0 * x + (values[len(conditions)] if len(values) > len(conditions) else 0.0)
    return _select(conditions[::-1], values[: len(conditions)][::-1], out)


def _select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    """np.select: the first condition that holds decides."""
    out = default
    for condition, choice in reversed(list(zip(conditions, choices))):
        out = np.where(condition, choice, out)
    return out


def _clip(x: Any, a_min: Any = None, a_max: Any = None) -> Any:
    """np.clip by maximum and minimum."""
    out = x if a_min is None else np.maximum(x, a_min)
    return out if a_max is None else np.minimum(out, a_max)


def _mean(x: Any, axis: Any = None, weights: Any = None, **kwargs: Any) -> Any:
    if weights is not None:
        raise Unsupported("a weighted average")
    return x.mean(axis, **kwargs)


def _round_off(x: Any, decimals: int = 0) -> Any:
    """np.round."""
    unit = 10.0**decimals
    return np.rint(x * unit) / unit


# functions that are made of others
COMPOSED_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.polyval: _polynomial_value,
    np.digitize: _bin_numbers,
    np.searchsorted: _sorted_positions,
    np.piecewise: _piecewise_constant,
    np.select: _select,
    np.clip: _clip,
    np.mean: _mean,
    np.average: _mean,
    np.round: _round_off,
    np.around: _round_off,
}


def handled(found: Any) -> Any:
    """The carrier behind an object array of handles; anything else is returned unchanged."""
    if not (isinstance(found, np.ndarray) and found.dtype == object and found.size):
        return found
    flat = found.ravel()
    if not all(isinstance(x, Handle) for x in flat):
        raise Unsupported("an array of objects")
    owners = list({id(x.owner): x.owner for x in flat}.values())
    starts = dict(zip(map(id, owners), np.cumsum([0, *(x.size for x in owners)])))
    places = np.array([starts[id(x.owner)] + x.place for x in flat], dtype=int)
    return owners[0].joined(owners).gather(places.reshape(found.shape))


def _axis_and_keepdims(rest: Any, kwargs: Any) -> tuple[Any, Any]:
    if kwargs.get("out") is not None or kwargs.get("where", True) is not True:
        raise Unsupported("a reduction with out= or where=")
    axis = rest[0] if rest else kwargs.get("axis")
    keepdims = kwargs.get("keepdims", False)
    return axis, keepdims if isinstance(keepdims, (bool, np.bool_)) else False


def _contains_carrier(x: Any) -> bool:
    if isinstance(x, (tuple, list)):
        return any(_contains_carrier(y) for y in x)
    if isinstance(x, dict):
        return any(_contains_carrier(y) for y in x.values())
    return isinstance(x, Carrier)


def _plain_or_carrier(x: Any) -> Any:
    if isinstance(x, Carrier):
        return x
    plain = np.asarray(x)
    return handled(plain) if plain.dtype == object else plain
