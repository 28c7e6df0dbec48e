"""Inverse temperature: the papers' lambda. It MULTIPLIES the scores; a number >= 0, or a schedule.

A schedule is a callable of the 0-based step with values > 0. Training evaluates it step by step;
risk and predict need a number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import refuse_lost

__all__ = [
    "InverseTemperature",
    "InverseTime",
    "checked_inverse_temperature",
    "constant_inverse_temperature",
]

InverseTemperature = float | Callable[[int], float]


@dataclass(frozen=True)
class InverseTime:
    """Schedule start/(1 + rate t) of the 0-based step t.

    Args:
        start: > 0, the first inverse temperature.
        rate: >= 0 per step.

    >>> InverseTime(1.0, rate=1e-4)(10_000)
    0.5
    """

    start: float
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "start", check.real(self.start, "start", "InverseTime", 0, strict=True)
        )
        object.__setattr__(self, "rate", check.real(self.rate, "rate", "InverseTime", 0))

    def __call__(self, step: int) -> float:
        if type(step) is not int and type(step) is not np.ndarray:
            refuse_lost(step, "step", "InverseTime")
        try:
            return self.start / (1 + self.rate * step)
        except TypeError:
            raise bad("step", "InverseTime", "a number of steps", step) from None


def checked_inverse_temperature(inverse_temperature: object, of: str) -> InverseTemperature:
    """A number >= 0 as a float, or a callable unchanged."""
    if callable(inverse_temperature):
        return inverse_temperature
    return check.real(
        inverse_temperature,
        "inverse_temperature",
        of,
        0,
        hint="inverse_temperature=0.1, or a schedule such as InverseTime(1.0, rate=1e-4)",
    )


def constant_inverse_temperature(predictor: object, of: str) -> float:
    """The predictor's inverse temperature where a number is needed."""
    inverse_temperature = getattr(predictor, "inverse_temperature", None)
    if callable(inverse_temperature):
        name = type(predictor).__name__
        raise bad(
            "inverse_temperature",
            of,
            "a number",
            f"the schedule {inverse_temperature!r}",
            f"{name}(schedule(step)) for the step you mean",
        )
    return inverse_temperature  # type: ignore[return-value]
