"""Comparisons of whole arrays: the entry that strains its tolerance most stands for all of them.

Sampled means are compared in standard errors, Z = 5 of them: a true statement fails with
probability 6e-7 if its mean is normal. Squared errors are skewed, and a mean over its own standard
error then errs low more often, by exp(skew Z^3/(3 sqrt n)): a factor of at most 10 or so at the
sizes and settings used (rare errors are avoided for this reason). So a claim of a hundred such
entries raises a false alarm for less than one seed in a thousand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.claims.claim import Comparison

__all__ = ["BAND", "STANDARD_ERRORS", "Z", "mean_and_error", "sampled", "wilson", "worst"]

Z = 5.0
BAND = 1.96  # standard errors of the 95 % bars in figures
STANDARD_ERRORS = "5 standard errors; a true statement fails for 6e-7 of the seeds an entry"


def worst(
    what: str, predicted: Any, measured: Any, tolerance: Any, why: str = ""
) -> Comparison:
    """The comparison of the entry with the largest |measured - predicted|/tolerance;
    it holds iff all entries agree. `why` is the reason of the tolerance.
    """
    p, m, t = (
        np.ravel(x)
        for x in np.broadcast_arrays(
            *(np.asarray(x, dtype=float) for x in (predicted, measured, tolerance))
        )
    )
    i = int(np.argmax(np.abs(m - p) / t))
    return Comparison(what, predicted=p[i], measured=m[i], tolerance=t[i], why=why)


def sampled(what: str, predicted: Any, mean: Any, error: Any) -> Comparison:
    """`worst` with a tolerance of Z standard errors."""
    tolerance = Z * np.asarray(error, dtype=float)
    return worst(what, predicted, mean, tolerance, why=STANDARD_ERRORS)


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
