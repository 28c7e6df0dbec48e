"""Plain data as the one JSON text, and text as a hash.

Canonical JSON: sorted names, no spaces, floats by repr (which round-trips), so 1, 1.0, true and "1"
are four values.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from attnscope.errors import bad, is_traced, masked, traced

__all__ = ["canonical", "digest", "is_array_scalar", "plain", "refuse_stripped"]


def canonical(value: Any) -> str:
    """The one JSON text of plain data.

    >>> canonical({"b": 0.1, "a": [1, True]})
    '{"a":[1,true],"b":0.1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(text: str) -> str:
    """sha256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: Any, name: str) -> Any:
    """`value` as JSON data: None, bool, int, float, str, lists and dicts of these;
    refuses anything else.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # not str(): it would give an enum's name
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _number(float(value), name)
    if isinstance(value, list | tuple):
        return [plain(item, name) for item in value]
    refuse_stripped(value, name)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item, name) for key, item in value.items()}
    if is_array_scalar(value):
        return plain(value.item(), name)
    hint = "a name or a number that the function turns into the object"
    raise bad(
        f"parameter {name!r}",
        "sweep",
        "a bool, number, string, or lists or dicts of these",
        value,
        hint,
    )


def refuse_stripped(value: Any, name: str) -> None:
    """Raise if `.item()` or `.tolist()` would drop a derivative or a mask; NumPy is not imported."""
    what = f"parameter {name!r}"
    if is_traced(value):
        raise traced(what, "sweep")
    mask: Any = getattr(value, "mask", None) if hasattr(value, "count") else None
    if getattr(mask, "any", lambda: False)():
        raise masked(what, "sweep", int(mask.sum()))


def is_array_scalar(value: Any) -> bool:
    """Whether this is a NumPy or JAX scalar, without importing either;
    a longdouble has no plain form.
    """
    scalar = getattr(value, "shape", None) == () and hasattr(value, "item")
    return scalar and isinstance(value.item(), bool | int | float | str)


def _number(value: float, name: str) -> float:
    if value != value:
        raise bad(f"parameter {name!r}", "sweep", "a number", value, "leaving the cell out")
    return value
