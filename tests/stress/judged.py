"""How an answer of the project is judged: against a truth, or against another answer.

    ratio = |value - truth| / (error + error of the truth),
        must be <= 1, or <= 5 where the answer is sampled

A relation needs no truth: `left <= right` is judged by (left - right) / slack with the same rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["Answer", "Relation", "Truth", "at_most", "ratio", "same"]


class Answer(NamedTuple):
    """What the project says: value and its stated error, numbers or arrays of one shape."""

    value: Any
    error: Any
    sampled: bool = False


class Truth(NamedTuple):
    """What a reference says, with the error of the reference itself (its standard error where it is
    sampled).
    """

    value: Any
    error: Any = 0.0


class Relation(NamedTuple):
    """Something that must hold without a reference; `ratio` as in the module docstring."""

    name: str
    ratio: float
    sampled: bool = False


def ratio(answer: Answer, truth: Truth) -> float:
    """The largest |value - truth| over the errors;
    0 where both agree to the bit, infinite where an error of 0 is wrong.
    """
    value = np.asarray(answer.value, dtype=np.float64)
    other = np.asarray(truth.value, dtype=np.float64)
    allowed = np.asarray(answer.error, dtype=np.float64) + np.asarray(
        truth.error, dtype=np.float64
    )
    if value.shape != other.shape:
        return np.inf
    away = np.abs(value - other)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(away == 0, 0.0, away / allowed)
    return float(np.max(np.where(np.isnan(parts), np.inf, parts), initial=0.0))


def at_most(name: str, left: Any, right: Any, slack: Any, sampled: bool = False) -> Relation:
    """left <= right up to the slack (the sum of their stated errors)."""
    over = np.maximum(
        np.asarray(left, dtype=np.float64) - np.asarray(right, dtype=np.float64), 0.0
    )
    return Relation(name, ratio(Answer(over, slack), Truth(np.zeros_like(over))), sampled)


def same(name: str, left: Any, right: Any, slack: Any, sampled: bool = False) -> Relation:
    """left = right up to the slack; slack 0 asks for equal bits."""
    return Relation(name, ratio(Answer(left, slack), Truth(right)), sampled)
