"""The exact reference risks of a task, side by side: what `attnscope risk` prints.

Nothing new is computed here; rows come from the closed forms and quadratures of this room and of the task. A row that does not exist
for a task (no swapped minimum without signal, no optimal sigma when key and value are not orthogonal) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import minimize_scalar

from attnscope.errors import AttnscopeError
from attnscope.numerics.estimate import Estimate
from attnscope.predictors.attention import Erf, Predictor, Softmax
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.landscape import swapped_overlaps
from attnscope.theory.optimal_sigma import optimal_sigma
from attnscope.theory.optimum import optimal_temperature
from attnscope.theory.oracle_saddle import critical_temperature
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

__all__ = ["ReferenceRow", "critical", "reference_risks", "swapped_optimum"]


class ReferenceRow(NamedTuple):
    """One line of the table; temperature None where the predictor has none."""

    name: str
    temperature: float | None
    risk: Estimate


def reference_risks(
    task: SingleLocation, predictor: Predictor, family: Callable[[float], Predictor]
) -> list[ReferenceRow]:
    """Null, best linear, the predictor at the oracle and at its best temperature, swapped minima (Erf), optimal sigma, softmax, Bayes."""
    oracle = Overlaps.oracle(task.alignment)
    name = type(predictor).__name__.lower()
    lam: float = predictor.temperature  # type: ignore[assignment]
    rows = [
        ReferenceRow("null: predict the mean", None, task.null_risk()),
        ReferenceRow("best linear predictor", None, task.linear_risk()),
        ReferenceRow(f"{name} oracle (k*, v*)", lam, risk(task, predictor, oracle)),
    ]
    optional: list[Callable[[], ReferenceRow]] = [lambda: _best(task, name, family)]
    if isinstance(predictor, Erf) and task.alignment == 0 and task.signal > 0 and lam > 0:
        optional += [
            lambda: ReferenceRow("erf swapped minimum", lam, risk(task, predictor, swapped_overlaps(task, lam))),
            lambda: ReferenceRow("erf swapped minimum, best temperature", *swapped_optimum(task)),
        ]
    if task.alignment == 0:
        optional.append(lambda: ReferenceRow("optimal sigma oracle", None, risk(task, optimal_sigma(task), oracle)))
    if not isinstance(predictor, Softmax):
        optional.append(lambda: _best(task, "softmax", Softmax))
    optional.append(lambda: ReferenceRow("Bayes: E[Y | X]", None, task.bayes_risk()))
    for row in optional:
        try:
            rows.append(row())
        except (
            AttnscopeError
        ):  # no finite best temperature (length 1), or outside a quadrature's range: the row does not exist
            continue
    return rows


def _best(task: SingleLocation, name: str, family: Callable[[float], Predictor]) -> ReferenceRow:
    return ReferenceRow(f"{name} oracle, best temperature", *optimal_temperature(task, family))


def swapped_optimum(task: SingleLocation) -> tuple[float, Estimate]:
    """(temperature, risk) of the best role-swapped minimum of the erf predictor.

    >>> best, at_best = swapped_optimum(SingleLocation(dim=400, length=10))
    >>> round(best, 5), round(at_best.value, 5)
    (0.05749, 0.04221)
    """
    value = lambda x: risk(task, Erf(math.exp(x)), swapped_overlaps(task, math.exp(x))).value
    # the optimum is near sqrt(pi)/(2 s), where theta reaches 1; a factor of e^5 either side holds it for every gamma and length
    centre = math.log(math.sqrt(math.pi) / (2 * task.signal))
    found = minimize_scalar(value, bounds=(centre - 5, centre + 2), method="bounded", options={"xatol": 1e-9})
    lam = math.exp(found.x)
    return lam, risk(task, Erf(lam), swapped_overlaps(task, lam))


def critical(task: SingleLocation) -> float | None:
    """The critical temperature where it is defined (k* perp v*), else None."""
    return critical_temperature(task) if task.alignment == 0 and task.signal > 0 else None
