"""Checks of arrays with any leading axes, whose context axis may be empty.

`validation.array` fixes the number of axes and rejects empty arrays; tasks and operators on contexts
allow any number of leading axes and a context without tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.validation import LARGEST
from attnscope.numerics.border.whole_values import array_of

__all__ = ["context_array", "token_numbers"]


def context_array(
    x: Any, what: str, of: str, tail: Sequence[int | None], hint: str = ""
) -> np.ndarray:
    """A finite real array (..., *tail) as float64;
    None in `tail` stands for any size, 0 included.
    """
    wanted = "(..., " + ", ".join("*" if n is None else str(n) for n in tail) + ")"
    must = f"a real array of shape {wanted}"
    a = array_of(x, what, of, must, hint)
    if a.dtype.kind not in "iuf":
        raise bad(
            what, of, must, f"dtype {a.dtype}", hint or "numpy.asarray(x, dtype='float64')"
        )
    sizes = a.shape[a.ndim - len(tail) :] if a.ndim >= len(tail) else ()
    if len(sizes) < len(tail) or any(n is not None and n != m for n, m in zip(tail, sizes)):
        raise bad(what, of, must, f"shape {a.shape}", hint)
    a = a.astype(np.float64)
    if a.size and not np.abs(a).max() <= LARGEST:  # NaN fails the comparison too
        raise bad(
            what,
            of,
            f"finite and of size <= {LARGEST:g}",
            "NaN, infinity or a larger entry",
            hint,
        )
    return a


def token_numbers(x: Any, what: str, of: str, vocabulary: int) -> np.ndarray:
    """Integer tokens (..., L) in 0 .. vocabulary - 1."""
    must = f"an integer array of shape (..., L) with entries 0 to {vocabulary - 1}"
    a = array_of(x, what, of, must)
    if a.ndim < 1 or (a.size and a.dtype.kind not in "iu"):
        raise bad(what, of, must, f"dtype {a.dtype}, shape {a.shape}", "tokens.astype(int)")
    if a.size and not 0 <= int(a.min()) <= int(a.max()) < vocabulary:
        raise bad(what, of, must, f"entries from {a.min()} to {a.max()}")
    return a.astype(np.int64)
