"""Plain data as the one JSON text, and text as a hash.

Canonical JSON: sorted names, no spaces, floats by repr (which round-trips), so 1, 1.0, true and "1"
are four values.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["canonical", "digest"]


def canonical(value: Any) -> str:
    """The one JSON text of plain data.

    >>> canonical({"b": 0.1, "a": [1, True]})
    '{"a":[1,true],"b":0.1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(text: str) -> str:
    """sha256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
