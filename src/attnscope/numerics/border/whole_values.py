"""Values that NumPy would convert by dropping a part of them, refused before the conversion.

    traced    a value inside jax.grad, jit or vmap: `.item()` and `float` return its number without
              its derivative, so a gradient through them is 0.0 without a warning
    masked    a numpy.ma array with a masked entry: `numpy.asarray` returns the number under the mask
    missing   None, NaN, pandas.NA or NaT among labels and names: as text they would be a class 'None'

Every conversion at the public border passes through here. JAX and pandas are not imported: a
tracer is known by the names of its classes (`errors.is_traced`), a missing value by being None or
by not being equal to itself, pandas.NA by its type's name, because comparing it gives NA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad, is_traced, masked, traced

__all__ = [
    "array_of",
    "is_missing",
    "missing_rows",
    "refuse_lost",
    "refuse_masked",
    "refuse_missing",
    "whole_numbers",
]

SEARCH_DEPTH = 3  # lists in lists: bags (n, L, d) written as lists


def refuse_lost(x: object, what: str, of: str) -> None:
    """Raise if a conversion of `x` to NumPy would drop a derivative or a mask."""
    _search(x, what, of, SEARCH_DEPTH)


def refuse_masked(x: object, what: str, of: str) -> None:
    """Raise if `x` has masked entries or is None; for functions that JAX may trace."""
    if x is None:
        raise bad(what, of, "a number or an array", x)
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise masked(what, of, int(np.ma.count_masked(x)))


def array_of(x: Any, what: str, of: str, must: str, hint: str = "") -> np.ndarray:
    """`x` as a NumPy array, or one sentence where that is impossible or would drop something."""
    refuse_lost(x, what, of)
    try:
        a = np.asarray(x)
    except Exception:
        raise bad(what, of, must, f"an object of type {type(x).__name__}", hint) from None
    if a.dtype == object and a.ndim:
        count = len(missing_rows(a.ravel()))
        if count:
            raise AttnscopeError(
                f"{what} of {of} has {count} missing {'entry' if count == 1 else 'entries'} (None "
                "or NaN); remove the rows or fill the values first."
            )
    return a


def whole_numbers(
    x: Any, what: str, of: str, below: int, shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """Integers from 0 to below - 1, of this shape where one is given."""
    must = f"integers from 0 to {below - 1}" + ("" if shape is None else f", shape {shape}")
    a = array_of(x, what, of, must)
    if a.dtype.kind not in "iu" or (shape is not None and a.shape != shape):
        raise bad(what, of, must, f"dtype {a.dtype}, shape {a.shape}")
    if a.size and not 0 <= a.min() <= a.max() < below:
        raise bad(what, of, must, f"entries from {a.min()} to {a.max()}")
    return a


def _search(x: object, what: str, of: str, depth: int) -> None:
    if type(x) in PLAIN_TYPES:
        return
    if is_traced(x):
        raise traced(what, of)
    refuse_masked(x, what, of)
    if depth and isinstance(x, (list, tuple)):
        for entry in x:
            if type(entry) not in PLAIN_TYPES:
                _search(entry, what, of, depth - 1)
    elif depth and isinstance(x, np.ndarray) and x.dtype == object:
        for entry in x.ravel().tolist():
            _search(entry, what, of, depth - 1)


# types that carry neither a derivative nor a mask
PLAIN_TYPES = frozenset((float, int, bool, str, bytes, complex, type(None), np.float64))


def is_missing(x: object) -> bool:
    """Whether `x` is None, NaN, NaT or pandas.NA.

    >>> [is_missing(x) for x in (None, float("nan"), np.datetime64("NaT"), "None", 0)]
    [True, True, True, False, False]
    """
    if x is None or type(x).__name__ == "NAType":
        return True
    if is_traced(x):
        return False
    try:
        return bool(x != x)
    except Exception:  # an array, or an object that cannot be compared
        return False


def missing_rows(values: Iterable[Any]) -> list[int]:
    """Numbers of the rows whose value is missing."""
    if not isinstance(values, np.ndarray) or values.dtype == object:
        return [i for i, x in enumerate(values) if is_missing(x)]
    find = {"m": np.isnat, "M": np.isnat, "f": np.isnan, "c": np.isnan}.get(values.dtype.kind)
    return [] if find is None else np.flatnonzero(find(values)).tolist()


def refuse_missing(values: Any, what: str, of: str, todo: str, each: str = "bag") -> None:
    """Raise if some values, one for each bag (or row), are traced, masked or missing: how many, the
    first of them, and what to do. Lists are searched before NumPy turns NaN among words into 'nan'.
    """
    if isinstance(values, Mapping):
        values = list(values.values())
    refuse_lost(values, what, of)
    given = values if isinstance(values, (list, tuple)) else np.atleast_1d(np.asarray(values))
    rows = missing_rows(given)
    if rows:
        raise AttnscopeError(
            f"{what} of {of} must not be missing, got {len(rows)} missing of {len(given)}, the "
            f"first for {each} {rows[0]}; {todo}."
        )
