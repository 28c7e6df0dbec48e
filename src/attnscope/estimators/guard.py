"""A fit ends in a model with finite answers, or in one sentence: what linear algebra cannot do is
said in the caller's terms.

Matrices are floored where they are made (`fit.em.whitening`), so this is the last resort: sizes
that differ by more than float64 holds, weights that leave nothing. notation: `of` names the method
that was called.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from attnscope.errors import AttnscopeError, bad

__all__ = ["NotFittedYet", "check_finite", "guarded", "warn_of_extremes"]

CANNOT = (np.linalg.LinAlgError, ZeroDivisionError, FloatingPointError, OverflowError)
EXTREME = 1e5  # sizes so far apart leave the ordinary tokens five digits less to differ in
ENOUGH = 10_000  # tokens, evenly taken, that show where the middle is
NOT_FINITE = "infs or NaNs"  # in the ValueError of SciPy's checks


class NotFittedYet(NotFittedError, AttnscopeError):
    """Asked before fit."""


@contextmanager
def guarded(tokens: np.ndarray, of: str) -> Iterator[None]:
    """Run a fit on these tokens (N, d) without warnings of rounding;
    turn a failure of arithmetic into a sentence.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except AttnscopeError:
        raise
    except CANNOT:
        raise _refusal(tokens, of) from None
    except ValueError as error:
        if NOT_FINITE not in str(error):
            raise
        raise _refusal(tokens, of) from None


def check_finite(tokens: np.ndarray, of: str, *answers: Any) -> None:
    """Refuse a model whose answers on its own bags are not finite."""
    if not all(np.isfinite(answer).all() for answer in answers):
        raise _refusal(tokens, of)


def warn_of_extremes(tokens: np.ndarray, of: str) -> None:
    """Say so where a few of the tokens (N, d)
    are so far out that all others look alike in units of a feature's spread.
    """
    some = tokens[:: 1 + len(tokens) // ENOUGH]
    centre = np.median(some, axis=0)  # the mean is drawn out with the extremes
    middle = np.median(np.abs(some - centre), axis=0)
    farthest = np.maximum(tokens.max(axis=0) - centre, centre - tokens.min(axis=0))
    ratio = float(np.max(farthest[middle > 0] / middle[middle > 0], initial=0.0))
    if ratio > EXTREME:
        warnings.warn(
            f"{of}: in one feature the farthest token is {ratio:.0e} times as far out as the "
            "middle one, so that the others "
            "look alike and the fit rests on few of them; try to drop or clip the extreme tokens.",
            stacklevel=5,
        )


def _refusal(tokens: np.ndarray, of: str) -> AttnscopeError:
    size = np.abs(tokens).max(axis=1)
    got = f"tokens of size {np.median(size):.3g} in the middle and {size.max():.3g} at most"
    must = "tokens, labels and weights of sizes that float64 can hold side by side"
    return bad("bags", of, must, got, "to drop or clip the extreme ones")
