"""The inverse temperature of every step: a constant, or a schedule of the 0-based step, evaluated
in blocks and checked.

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
from attnscope.predictors.inverse_temperature import InverseTemperature, InverseTime

__all__ = ["check_schedule", "inverse_temperatures", "inverse_temperatures_at"]

CHECKED_STEPS = 10**7  # steps checked in advance: about 2 s for a Python function
BLOCK_STEPS = 1 << 16  # steps evaluated at once: 0.5 MB


def inverse_temperatures(
    inverse_temperature: InverseTemperature, begin: int, end: int
) -> np.ndarray:
    """Inverse temperatures of the steps begin, ..., end - 1."""
    return inverse_temperatures_at(inverse_temperature, np.arange(begin, end))


def inverse_temperatures_at(
    inverse_temperature: InverseTemperature, steps: np.ndarray
) -> np.ndarray:
    """Inverse temperatures of the given steps."""
    if not callable(inverse_temperature):
        return np.full(len(steps), float(inverse_temperature))
    if isinstance(inverse_temperature, InverseTime):
        return np.asarray(inverse_temperature(steps), dtype=np.float64)  # type: ignore[arg-type]  # elementwise, same bits
    values = [schedule_value(inverse_temperature, int(t)) for t in steps]
    try:
        out = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.full(1, math.nan)
    if out.shape != steps.shape or not (np.isfinite(out).all() and (out > 0).all()):
        for t, value in zip(steps, values):
            check.real(
                value, f"inverse temperature at step {int(t)}", "the schedule", 0, strict=True
            )
    return out


def check_schedule(inverse_temperature: InverseTemperature, steps: int) -> None:
    """Evaluate a schedule at the steps 0, ..., `steps` (up to CHECKED_STEPS)
    and refuse the first bad value.
    """
    if callable(inverse_temperature) and not isinstance(inverse_temperature, InverseTime):
        last = min(steps, CHECKED_STEPS) + 1
        for begin in range(0, last, BLOCK_STEPS):
            inverse_temperatures(inverse_temperature, begin, min(begin + BLOCK_STEPS, last))


def schedule_value(schedule: Callable[[int], float], step: int) -> float:
    try:
        return schedule(step)
    except Exception as error:
        said = str(error).splitlines()[0][:80] if str(error) else ""
        raise AttnscopeError(
            f"inverse temperature at step {step} of the schedule must be a number, got "
            f"{type(error).__name__}: {said}; "
            "try InverseTime(1.0, rate=1e-4)."
        ) from error
