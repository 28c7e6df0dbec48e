"""Checks at the public border: shape, dtype, finiteness and range, one sentence each, before any
work.

Every function returns the checked value in the form the rest of the library computes with (float,
int, float64 array) or raises `AttnscopeError`. Magnitudes are limited to 1e50: products of four
such factors still fit in float64, so no formula downstream can overflow silently. Ordinary numbers
(PLAIN_NUMBERS) within their range are accepted at once; everything else goes through all checks.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.whole_values import array_of, refuse_lost

__all__ = [
    "LARGEST",
    "PLAIN_NUMBERS",
    "array",
    "fits_in_memory",
    "float_dtype",
    "integer",
    "mask_array",
    "probabilities",
    "real",
    "seed_value",
    "tokens_array",
    "unit_vector",
]

LARGEST = 1e50  # see the module docstring
LARGEST_INTEGER = 2**53  # integers up to here are exact in float64
LARGEST_WRITTEN_LIMIT = 10**20  # a larger limit is not written into a sentence
UNIT_NORM_TOLERANCE = 1e-6  # a float32 unit vector of length 10^8 is unit to about 1e-7
PROBABILITY_SUM_TOLERANCE = 1e-9  # roundoff of a million float64 terms stays below this
FINITE_BLOCK_ENTRIES = 1 << 22  # entries looked at together for NaN and infinity
# types that carry no mask and no derivative and compare with floats without rounding
PLAIN_NUMBERS = frozenset((float, int, np.float64))


def real(
    x: object,
    what: str,
    of: str,
    low: float = -LARGEST,
    high: float = LARGEST,
    strict: bool = False,
    hint: str = "",
) -> float:
    """A finite number in [low, high], or in (low, high] if `strict`, as a float."""
    # where the limit itself is refused, the quick answer keeps a safe distance from it
    least = 2 * max(low, 1 / LARGEST) if strict else low
    if type(x) in PLAIN_NUMBERS and least <= x <= high < math.inf:  # type: ignore[operator]
        return float(x)  # type: ignore[arg-type]
    bound = "" if low == -LARGEST else f" {'>' if strict else '>='} {low:g}"
    must = f"a finite number{bound}" + ("" if high == LARGEST else f" and <= {high:g}")
    low = max(low, 1 / LARGEST) if strict and low == 0 else low
    refuse_lost(x, what, of)
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.kind in "iuf":
        x = x.item()
    elif (
        not isinstance(x, (numbers.Real, np.ndarray, str, bytes))
        and getattr(x, "shape", None) == ()
        and hasattr(x, "item")
    ):
        x = x.item()  # a JAX scalar
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, numbers.Real):
        raise bad(what, of, must, x, hint)
    try:
        value = float(x)
    except OverflowError:
        raise bad(what, of, must, "an integer too large for float64", hint) from None
    inside = value > low if strict and low else value >= low
    if not (math.isfinite(value) and inside and value <= high):
        extreme = math.isfinite(value) and (
            abs(value) > LARGEST or 0 < abs(value) < 1 / LARGEST
        )
        raise bad(
            what,
            of,
            f"{must} of size {1 / LARGEST:g} to {LARGEST:g}" if extreme else must,
            x,
            hint,
        )
    return value


def integer(
    x: Any, what: str, of: str, low: int, high: int = LARGEST_INTEGER, hint: str = ""
) -> int:
    """A whole number in [low, high], as an int. Floats with a whole value are refused:
    a count is not a measurement.
    """
    if type(x) is int and low <= x <= high:
        return x
    refuse_lost(x, what, of)
    if (
        not isinstance(x, numbers.Integral)
        or isinstance(x, (bool, np.bool_))
        or not low <= int(x) <= high
    ):
        limit = (
            ""
            if high == LARGEST_INTEGER or high > LARGEST_WRITTEN_LIMIT
            else f" and <= {high}"
        )
        raise bad(what, of, f"an integer >= {low}{limit}", x, hint)
    return int(x)


def seed_value(x: object, of: str) -> int:
    """A seed: a whole number from 0 to 2**63 - 1."""
    return integer(x, "seed", of, 0, 2**63 - 1, hint="seed=0")


def float_dtype(x: Any, of: str) -> np.dtype:
    """float64 or float32."""
    try:
        kind = np.dtype(x)
    except TypeError:
        kind = None
    if x is None or kind not in (np.float32, np.float64):
        raise bad("dtype", of, "'float64' or 'float32'", x)
    return kind


def array(
    x: object,
    what: str,
    of: str,
    shape: Sequence[int | None],
    hint: str = "",
    finite: bool = True,
) -> np.ndarray:
    """A numeric array of the given shape (None: any size >= 1);
    float32 and float64 are kept, integers become float64.
    """
    wanted = (
        "("
        + ", ".join("*" if n is None else str(n) for n in shape)
        + ("," if len(shape) == 1 else "")
        + ")"
    )
    must = f"a real array of shape {wanted}"
    a = array_of(x, what, of, must, hint)
    if a.dtype.kind not in "iuf" or a.dtype == np.float16 or a.dtype.itemsize > 8:
        allowed = "float64, float32 or integer dtype"
        raise bad(
            what,
            of,
            f"{must} and {allowed}",
            f"dtype {a.dtype}",
            hint or "numpy.asarray(x, dtype='float64')",
        )
    if a.ndim != len(shape) or any(n is not None and n != m for n, m in zip(shape, a.shape)):
        raise bad(what, of, must, f"shape {a.shape}", hint)
    if a.size == 0:
        raise bad(what, of, f"{must} with at least one entry", f"shape {a.shape}", hint)
    if a.dtype.kind != "f":
        a = a.astype(np.float64)
    if finite and not _all_finite(a):
        raise bad(what, of, "finite", "NaN or infinity among its entries", hint)
    if finite and max(-float(a.min()), float(a.max())) > LARGEST:
        raise bad(
            what,
            of,
            f"of size <= {LARGEST:g}",
            f"an entry of size {np.max(np.abs(a)):.3g}",
            hint,
        )
    return a


def float_array(
    x: object, what: str, of: str, shape: Sequence[int | None], hint: str = ""
) -> np.ndarray:
    """A finite float64 copy of a real array of this shape."""
    return array(x, what, of, shape, hint).astype(np.float64)


def _all_finite(a: np.ndarray) -> bool:
    """Whether every entry is finite, by blocks:
    a boolean copy of a large array would cost an eighth of its memory.
    """
    flat = a.reshape(-1) if a.flags.c_contiguous else a.ravel()
    block = FINITE_BLOCK_ENTRIES
    return all(
        bool(np.isfinite(flat[i : i + block]).all()) for i in range(0, flat.size, block)
    )


def unit_vector(x: object, what: str, of: str, dim: int) -> np.ndarray:
    """A finite vector of length one, normalised to roundoff, as float64."""
    v = float_array(x, what, of, (dim,))
    norm = float(np.linalg.norm(v))
    if not abs(norm - 1) <= UNIT_NORM_TOLERANCE:
        raise bad(
            what,
            of,
            "a unit vector",
            f"norm {norm:.6g}",
            f"{what} / numpy.linalg.norm({what})",
        )
    return v / norm


def probabilities(x: object, what: str, of: str, length: int) -> np.ndarray:
    """A probability vector of the given length:
    entries >= 0 that sum to 1 (to 1e-9, then made exact).
    """
    p = float_array(x, what, of, (length,))
    total = float(p.sum())
    if (p < 0).any():
        raise bad(what, of, "non-negative", f"smallest entry {p.min():.6g}")
    if not abs(total - 1) <= PROBABILITY_SUM_TOLERANCE:
        raise bad(
            what,
            of,
            "probabilities that sum to 1",
            f"sum {total:.9g}",
            f"{what} / {what}.sum()",
        )
    return p / total


def tokens_array(
    x: object, of: str, length: int | None = None, dim: int | None = None, mask: object = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Tokens (n, L, d), finite wherever the mask (n, L) says they are real,
    and the checked mask.
    """
    tokens = array(
        x, "tokens", of, (None, length, dim), finite=mask is None, hint="an array (n, L, d)"
    )
    if mask is None:
        return tokens, None
    real_token = mask_array(mask, of, tokens.shape[:2])
    if not np.isfinite(tokens[real_token]).all():
        raise bad(
            "tokens", of, "finite where the mask is True", "NaN or infinity among its entries"
        )
    return np.where(real_token[:, :, None], tokens, 0), real_token


def mask_array(x: object, of: str, shape: tuple[int, ...]) -> np.ndarray:
    """A boolean mask (n, L), True = real token, with at least one real token in every row."""
    mask = array_of(x, "mask", of, f"a bool array of shape {shape}")
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise bad(
            "mask",
            of,
            f"a bool array of shape {shape}",
            f"dtype {mask.dtype}, shape {mask.shape}",
        )
    if not mask.any(axis=1).all():
        raise bad(
            "mask",
            of,
            "True for at least one token of every sequence",
            f"no token in sequence {int(np.argmin(mask.any(axis=1)))}",
        )
    return mask


def fits_in_memory(entries: int, itemsize: int, what: str, of: str, hint: str) -> None:
    """Refuse an array larger than the machine's physical memory before the system starts to swap or
    kill.
    """
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return  # unknown platform: let the allocation decide
    if entries * itemsize > physical:
        size = entries * itemsize / 1e9
        room = physical / 1e9
        raise AttnscopeError(
            f"{what} of {of} must fit in memory ({room:.0f} GB), got {size:.3g} GB; try {hint}."
        )
