"""A fit ends in a model with finite answers, or in an error that names the cause in the caller's terms.

Matrices are regularised where they are made (`fit.em.whitening`), so this is the last resort, for
sizes that differ by more than float64 holds and weights that leave nothing. notation: `of` names
the method that was called.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from attnscope.errors import AttnscopeError, bad

__all__ = ["NotFittedYet", "check_finite", "finite_arithmetic", "warn_of_extremes"]

ARITHMETIC_ERRORS = (
    np.linalg.LinAlgError,
    ZeroDivisionError,
    FloatingPointError,
    OverflowError,
)
# at this ratio the ordinary tokens lose five digits of precision
EXTREME_SIZE_RATIO = 1e5
SAMPLED_TOKEN_COUNT = 10_000  # evenly spaced tokens for the median
NOT_FINITE_TEXT = "infs or NaNs"  # in the ValueError of SciPy's checks


class NotFittedYet(NotFittedError, AttnscopeError):
    """A method was called before fit."""


@contextmanager
def finite_arithmetic(tokens: np.ndarray, of: str) -> Iterator[None]:
    """Run a fit on these tokens (N, d) without floating-point warnings; turn a failure of arithmetic
    into an `AttnscopeError`.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except AttnscopeError:
        raise
    except ARITHMETIC_ERRORS:
        raise _size_error(tokens, of) from None
    except ValueError as error:
        if NOT_FINITE_TEXT not in str(error):
            raise
        raise _size_error(tokens, of) from None


def check_finite(tokens: np.ndarray, of: str, *answers: Any) -> None:
    """Refuse a model whose answers on its own bags are not finite."""
    if not all(np.isfinite(answer).all() for answer in answers):
        raise _size_error(tokens, of)


def warn_of_extremes(tokens: np.ndarray, of: str) -> None:
    """Warn if a few of the tokens (N, d) are so extreme that all others look equal in units of a
    feature's spread.
    """
    some = tokens[:: 1 + len(tokens) // SAMPLED_TOKEN_COUNT]
    centre = np.median(some, axis=0)  # extreme tokens would shift the mean
    middle = np.median(np.abs(some - centre), axis=0)
    farthest = np.maximum(tokens.max(axis=0) - centre, centre - tokens.min(axis=0))
    ratio = float(np.max(farthest[middle > 0] / middle[middle > 0], initial=0.0))
    if ratio > EXTREME_SIZE_RATIO:
        warnings.warn(
            f"{of}: in one feature the farthest token is {ratio:.0e} times as far out as the "
            "middle one, so that the others "
            "look equal and the fit depends on few of them; try to drop or clip the extreme tokens.",
            stacklevel=5,
        )


def _size_error(tokens: np.ndarray, of: str) -> AttnscopeError:
    size = np.abs(tokens).max(axis=1)
    got = f"tokens of size {np.median(size):.3g} in the middle and {size.max():.3g} at most"
    must = "tokens, labels and weights of sizes that float64 can hold side by side"
    return bad("bags", of, must, got, "to drop or clip the extreme ones")
