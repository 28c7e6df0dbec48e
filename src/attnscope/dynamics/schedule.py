"""The temperature of every step: a constant, or a schedule of the 0-based step, evaluated in blocks
and checked.

A schedule's values must be finite and > 0. They are checked before training starts, up to step
CHECKED_STEPS; beyond, as they are used (an InverseTime needs no check, its values are positive by
construction). No array of all steps is ever held.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.numerics.border import validation as check
from attnscope.predictors.temperature import InverseTime, Temperature

__all__ = ["check_schedule", "temperatures", "temperatures_at"]

CHECKED_STEPS = 10**7  # steps checked in advance: about 2 s for a Python function
BLOCK_STEPS = 1 << 16  # steps evaluated at once: 0.5 MB


def temperatures(temperature: Temperature, begin: int, end: int) -> np.ndarray:
    """Temperatures of the steps begin, ..., end - 1."""
    return temperatures_at(temperature, np.arange(begin, end))


def temperatures_at(temperature: Temperature, steps: np.ndarray) -> np.ndarray:
    """Temperatures of the given steps."""
    if not callable(temperature):
        return np.full(len(steps), float(temperature))
    if isinstance(temperature, InverseTime):
        return np.asarray(temperature(steps), dtype=np.float64)  # type: ignore[arg-type]  # elementwise, same bits
    values = [schedule_value(temperature, int(t)) for t in steps]
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.full(1, math.nan)
    if out.shape != steps.shape or not (np.isfinite(out).all() and (out > 0).all()):
        for t, value in zip(steps, values):
            check.real(value, f"temperature at step {int(t)}", "the schedule", 0, strict=True)
    return out


def check_schedule(temperature: Temperature, steps: int) -> None:
    """Evaluate a schedule at the steps 0, ..., `steps` (up to CHECKED_STEPS)
    and refuse the first bad value.
    """
    if callable(temperature) and not isinstance(temperature, InverseTime):
        last = min(steps, CHECKED_STEPS) + 1
        for begin in range(0, last, BLOCK_STEPS):
            temperatures(temperature, begin, min(begin + BLOCK_STEPS, last))


def schedule_value(schedule: Callable[[int], float], step: int) -> float:
    try:
        return schedule(step)
    except Exception as error:
        said = str(error).splitlines()[0][:80] if str(error) else ""
        raise AttnscopeError(
            f"temperature at step {step} of the schedule must be a number, got "
            f"{type(error).__name__}: {said}; "
            "try InverseTime(1.0, rate=1e-4)."
        ) from error
