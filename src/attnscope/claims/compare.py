"""Comparisons of whole arrays: the entry that strains its tolerance most stands for all of them.

Sampled means are compared in standard errors, Z = 5 of them: a true statement fails with
probability 6e-7 if its mean is normal. Squared errors are skewed, and a mean over its own standard
error then errs low more often, by exp(skew Z^3/(3 sqrt n)): a factor of at most 10 or so at the
sizes and settings used (rare errors are avoided for this reason). So a claim of a hundred such
entries raises a false alarm for less than one seed in a thousand.
"""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import numpy as np

from attnscope.claims.claim import Comparison

__all__ = [
    "BAND",
    "EXACT_COUNT",
    "HALF_COUNT",
    "STANDARD_ERRORS",
    "Z",
    "exact_count",
    "mean_and_error",
    "sampled",
    "stated",
    "wilson",
    "worst",
]

Z = 5.0
BAND = 1.96  # standard errors of the 95 % bars in figures
HALF_COUNT = 0.5  # tolerance of whole numbers: a difference of one breaks the comparison
EXACT_COUNT = "an exact count: a difference of one breaks it"
STANDARD_ERRORS = "5 standard errors; a true statement fails for 6e-7 of the seeds an entry"


class Details(TypedDict, total=False):
    """Arguments of `Comparison` that every function here takes by name and passes on."""

    rule: str
    routes: tuple[str, str] | None
    scale: float | None
    coarse: str


class KeyAndDetails(Details, total=False):
    key: str


def worst(
    what: str,
    predicted: Any,
    measured: Any,
    tolerance: Any,
    why: str = "",
    **details: Unpack[KeyAndDetails],
) -> Comparison:
    """The comparison of the entry that is nearest to breaking, in units of its tolerance; it holds
    if and only if all entries do. `details`: key, rule, routes, scale and coarse of `Comparison`.
    """
    p, m, t = (
        np.ravel(x)
        for x in np.broadcast_arrays(
            *(np.asarray(x, dtype=float) for x in (predicted, measured, tolerance))
        )
    )
    rule = details.get("rule", "equal")
    side = {"equal": np.abs(m - p), "at most": m - p, "at least": p - m}[rule]
    # of a tolerance of zero every difference is infinitely many
    strain = np.divide(side, t, out=np.where(side > 0, np.inf, -np.inf), where=t > 0)
    i = int(np.argmax(strain))
    return Comparison(what, p[i], m[i], t[i], why=why, **details)


def sampled(
    what: str,
    predicted: Any,
    mean: Any,
    error: Any = None,
    **details: Unpack[KeyAndDetails],
) -> Comparison:
    """`worst` with a tolerance of Z standard errors; without `error` the last axis of `mean` holds
    (mean, standard error).

    >>> sampled("risk", 0.5, [[0.51, 0.01], [0.46, 0.01]]).measured
    0.46
    """
    if error is None:
        mean, error = np.moveaxis(np.asarray(mean, dtype=float), -1, 0)
    tolerance = Z * np.asarray(error, dtype=float)
    return worst(
        what,
        predicted,
        mean,
        tolerance,
        STANDARD_ERRORS,
        **details,
    )


def stated(
    key: str,
    what: str,
    value: Any,
    measured: Any,
    digit: Any,
    error: Any = 0.0,
    *,
    by: str = "",
    **details: Unpack[Details],
) -> Comparison:
    """`worst` of numbers that the statement prints: half a unit of their last digit (`digit`), and Z
    standard errors where they were sampled.

    by: the route that measured them, where it is not the claim's.

    >>> stated("risk", "risk, as stated", 0.23, 0.2319, 0.01).holds
    True
    """
    drawn = bool(np.any(error))
    tolerance = digit / 2 + Z * np.asarray(error, dtype=float)
    why = f"half a printed digit{f'; {STANDARD_ERRORS}' if drawn else ''}"
    if by:
        details["routes"] = ("stated", by)
    return worst(
        what,
        value,
        measured,
        tolerance,
        why,
        key=key,
        **details,
    )


def exact_count(
    what: str,
    predicted: Any,
    measured: Any,
    why: str = EXACT_COUNT,
    **details: Unpack[KeyAndDetails],
) -> Comparison:
    """`worst` of whole numbers, which may differ by less than one.

    >>> exact_count("runs at the oracle", 30, 29).holds
    False
    """
    return worst(
        what,
        predicted,
        measured,
        HALF_COUNT,
        why,
        **details,
    )


def mean_and_error(x: np.ndarray) -> tuple[float, float]:
    """(mean, standard error) of independent samples (n,)."""
    return float(np.mean(x)), float(np.std(x, ddof=1) / np.sqrt(len(x)))


def wilson(count: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval of fractions (Wilson's score interval): within [0, 1], and around count/n.

    >>> [round(float(end), 3) for end in wilson(25, 32)]
    [0.612, 0.89]
    >>> [round(float(end), 3) for end in wilson(10, 10)]
    [0.722, 1.0]
    """
    p = np.asarray(count, dtype=float) / n
    z2 = BAND**2 / n
    half = np.sqrt(z2 * p * (1 - p) + z2**2 / 4)
    ends = [(p + z2 / 2 + sign * half) / (1 + z2) for sign in (-1, 1)]
    # rounding must not carry an end past the fraction itself, nor out of [0, 1]
    return np.clip(ends[0], 0, p), np.clip(ends[1], p, 1)
