"""What the stress tests ask of one public function; judged.py says how an answer is judged.

A deterministic error bounds, so no deterministic setting may ever break its rule; a sampled error
is one standard error, and five are exceeded with probability 5.7e-7 for a normal mean: FALSE_ALARM
times the number of sampled settings is the false-alarm rate of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stress.judged import Answer, Relation, Truth

__all__ = ["FALSE_ALARM", "RULE", "Setting", "Subject"]

Setting = dict[str, Any]  # plain data: printed as it is when a setting fails
RULE = {False: 1.0, True: 5.0}  # largest ratio, by whether the answer is sampled
FALSE_ALARM = 5.7e-7  # P(|N(0, 1)| > 5)


@dataclass(frozen=True)
class Subject:
    """One row of the table of stress tests.

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
