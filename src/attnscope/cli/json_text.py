"""What every `--json` prints: one writer, for numbers and labels of any type.

    null       None, NaN, NaT, pandas.NA and infinity: JSON has no such numbers
    number     int and float of Python and NumPy; a long double that float64 holds exactly
    text       str; bytes as UTF-8, with \\xhh for a byte that is none; dates as ISO 8601, time spans
               as a number and a unit ("5 seconds"); complex numbers ("1+2j"), decimals, long doubles
               with more digits than float64 has, and all else by `str`
    lists      lists, tuples, sets and arrays; objects have text as keys

A number printed by Python or NumPy reads back to the same bits, a text by the type's own constructor:
complex("1+2j"), Decimal("0.10"), numpy.datetime64("2026-01-05").
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["json_text", "json_value", "print_json"]


def print_json(value: Any, indent: int | None = 1, ensure_ascii: bool = True) -> None:
    """Print `value` as JSON."""
    print(json_text(value, indent, ensure_ascii))


def json_text(value: Any, indent: int | None = 1, ensure_ascii: bool = True) -> str:
    """`value` as valid JSON.

    >>> json_text({"label": b"yes", "risk": float("inf"), 3: [1 + 2j]}, indent=None)
    '{"label": "yes", "risk": null, "3": ["1+2j"]}'
    """
    return json.dumps(
        json_value(value), indent=indent, ensure_ascii=ensure_ascii, allow_nan=False
    )


def json_value(value: Any) -> Any:
    """`value` in the types that JSON has."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, Mapping):
        return {_key_text(name): json_value(x) for name, x in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(x) for x in value]
    if isinstance(value, float) and not hasattr(value, "dtype"):
        return value if math.isfinite(value) else None
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _array_value(value)
    return _other_value(value)


def _key_text(name: Any) -> str:
    found = json_value(name)
    return found if isinstance(found, str) else json.dumps(found)


def _array_value(value: Any) -> Any:
    """Of a NumPy array or scalar, or what can be one."""
    import numpy as np

    a = np.asarray(value)
    if a.ndim:
        return [json_value(x) for x in a]
    x = a[()]
    if a.dtype.kind == "f" and a.dtype.itemsize > 8:
        if not np.isfinite(x):
            return None
        return float(x) if np.longdouble(float(x)) == x else str(x)
    if a.dtype.kind in "mM":
        return None if np.isnat(x) else str(x)
    return json_value(x.item() if isinstance(x, np.generic) else x)


def _other_value(value: Any) -> Any:
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, bool | int | str):  # subclasses of them
        return json_value(int(value) if isinstance(value, int) else str.__str__(value))
    if isinstance(value, complex):
        return str(value).strip("()")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)
