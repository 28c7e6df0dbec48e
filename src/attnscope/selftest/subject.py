"""What the adversary asks of one public function, and how an answer is judged.

    ratio = |value - truth| / (error + error of the truth),
        must be <= 1, or <= 5 where the answer is sampled

A relation needs no truth: `left <= right` is judged by (left - right) / slack with the same rule. A
deterministic error bounds, so no deterministic setting may ever break its rule; a sampled error is
one standard error, and five are exceeded with probability 5.7e-7 for a normal mean: FALSE_ALARM
times the number of sampled settings is the false-alarm rate of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "FALSE_ALARM",
    "RULE",
    "Answer",
    "Relation",
    "Setting",
    "Subject",
    "Truth",
    "at_most",
    "ratio",
    "same",
]

Setting = dict[str, Any]  # plain data: printed as it is when a setting fails
RULE = {False: 1.0, True: 5.0}  # largest ratio, by whether the answer is sampled
FALSE_ALARM = 5.7e-7  # P(|N(0, 1)| > 5)


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


@dataclass(frozen=True)
class Subject:
    """One row of the adversary's table.

    name: as it is printed; covers: the public names it attacks ("risk",
    "SingleLocation.bayes_risk"). draw: a setting over the documented range and its corners. call:
    the project's answer to a setting. truth: the reference, or None where it does not reach; asked
    in a share `truths` of the settings. relations: what must hold between this answer and others.
    may_refuse: the reason why a sentence instead of a number is right for a setting, or "".
    weight: its share of the settings, relative to the other subjects.
    """

    name: str
    covers: tuple[str, ...]
    draw: Callable[[np.random.Generator], Setting]
    call: Callable[[Setting], Answer]
    truth: Callable[[Setting], Truth | None] = field(default=lambda setting: None)
    relations: Callable[[Setting, Answer], Iterable[Relation]] = field(
        default=lambda setting, answer: ()
    )
    may_refuse: Callable[[Setting], str] = field(default=lambda setting: "")
    truths: float = 1.0
    weight: float = 1.0


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
