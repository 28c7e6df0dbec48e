"""The reference risks of a task, side by side: what `attnscope risk` prints and what studies
tabulate.

Nothing new is computed here; rows come from the closed forms, quadratures and samplers of this
package and of the task. What a task knows of itself (null, linear, Bayes, ...) is found by the
names of its methods (BASELINES, BAYES, WITHOUT_POSITIONS_AND_ERRORS); heads stand at the teachers themselves:

    one head       k = k_1*, v = v_1*                      every planted task with a key and a value
    a head each    k_f = k_f*, v_f = v_f*, f = 1 .. F        where there are F > 1 pairs of teachers

A row that does not exist for a task (no swapped minimum without signal, no optimal sigma when key
and value are not orthogonal) is left out. The table prints on the command line (`risk_cells`) and
renders in a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from attnscope.deprecated import old_names
from attnscope.errors import AttnscopeError, bad
from attnscope.html_tables import NotebookList, card, paragraph, table
from attnscope.numerics.border.estimate import Estimate
from attnscope.predictors.attention import Erf, Predictor, Softmax
from attnscope.predictors.heads import MultiHead
from attnscope.registry import word_of
from attnscope.tasks.base import is_planted
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.landscape import (
    known_landscape,
    orthogonal_task,
    swapped_overlaps,
)
from attnscope.theory.optima.optimal_sigma import optimal_sigma
from attnscope.theory.optima.optimum import optimal_inverse_temperature
from attnscope.theory.optima.oracle_saddle import critical_inverse_temperature
from attnscope.theory.overlaps import Overlaps, alignment_of, as_arrays, checked_overlaps
from attnscope.theory.risk import checked_task, risk, unchecked_risk
from attnscope.theory.risks.multi_head_risk import heads_risk
from attnscope.theory.route import checked_predictor

__all__ = [
    "ReferenceRow",
    "References",
    "RiskTable",
    "critical",
    "excess_text",
    "has_head",
    "known_values",
    "reference_risks",
    "risk_cells",
    "swapped_optimum",
    "swapped_risk",
    "task_risks",
]


LOG_TEN = math.log(10)
ERF = Erf(1.0)  # only its kind matters: the inverse temperature is passed beside it
# best inverse temperatures are of the order of 1/signal, and are squared on the way
FAINTEST_SIGNAL = 1e-140


@old_names
class ReferenceRow(NamedTuple):
    """One line of the table; inverse temperature None where the predictor has none."""

    name: str
    inverse_temperature: float | None
    risk: Estimate


class RiskTable(NotebookList[ReferenceRow]):
    """A list of rows, a table in a notebook."""

    def _repr_html_(self) -> str:
        return card(html_table(self))


class References(NamedTuple):
    """Rows of a table, and the sentences of those that this setting has not."""

    rows: list[ReferenceRow]
    refused: list[str]

    def _repr_html_(self) -> str:
        return card(
            html_table(self.rows), *(paragraph(f"left out: {x}") for x in self.refused)
        )


def reference_risks(
    task: SingleLocation, predictor: Predictor, family: Callable[[float], Predictor]
) -> RiskTable:
    """Null, best linear, the predictor at the oracle and at its best inverse temperature, swapped
    minima (Erf), optimal sigma, softmax, Bayes: a list of rows, a table in a notebook.

    Args:
        task: a SingleLocation.
        predictor: one head, at an inverse temperature.
        family: from inverse temperature to predictor, as the class `Erf`.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=400, length=10)
    >>> for row in at.reference_risks(task, at.Erf(0.1), at.Erf)[:3]:
    ...     print(f"{row.name:24s} {row.risk.value:.4f}")
    null: predict the mean   0.5000
    best linear predictor    0.4737
    erf oracle (k*, v*)      0.1135
    """
    of = "reference_risks"
    checked_task(task, of)
    checked_predictor(predictor, of)
    if not callable(family):
        raise bad(
            "family",
            of,
            "a predictor class, or a function of the inverse temperature",
            family,
        )
    oracle = Overlaps.oracle(task.alignment)
    name = predictor_word(predictor)
    lam: float = predictor.inverse_temperature  # type: ignore[assignment]
    rows = RiskTable()
    rows += [
        ReferenceRow("null: predict the mean", None, task.null_risk()),
        ReferenceRow("best linear predictor", None, task.linear_risk()),
        ReferenceRow(f"{name} oracle (k*, v*)", lam, risk(task, predictor, oracle)),
    ]

    def swapped() -> ReferenceRow:
        there = swapped_overlaps(task, lam)
        return ReferenceRow("erf swapped minimum", lam, risk(task, predictor, there))

    def swapped_best() -> ReferenceRow:
        return ReferenceRow(
            "erf swapped minimum, best inverse temperature", *swapped_optimum(task)
        )

    def sigma_best() -> ReferenceRow:
        return ReferenceRow(
            "optimal sigma oracle", None, risk(task, optimal_sigma(task), oracle)
        )

    optional: list[Callable[[], ReferenceRow]] = [
        lambda: best_inverse_temperature_row(task, name, family)
    ]
    if name == "erf" and task.alignment == 0 and task.signal > 0 and lam > 0:
        optional += [swapped, swapped_best]
    if task.alignment == 0:
        optional.append(sigma_best)
    if name != "softmax":
        optional.append(lambda: best_inverse_temperature_row(task, "softmax", Softmax))
    optional.append(lambda: ReferenceRow("Bayes: E[Y | X]", None, task.bayes_risk()))
    for row in optional:
        try:
            rows.append(row())
        except AttnscopeError:  # no finite best inverse temperature (length 1), or outside a quadrature's range: the row does not exist
            continue
    return rows


class Known(NamedTuple):
    """A method of tasks that returns an Estimate, its name in a table and in a study,
    and a switch it is called with.
    """

    method: str
    label: str
    key: str
    switch: str = ""  # an argument that is set to False


BASELINES = (
    Known("null_risk", "null: predict the mean", "null"),
    Known("linear_risk", "best linear predictor", "linear"),
    Known("linear_attention_risk", "best linear attention", "linear_attention"),
    Known("linear_error", "linear test on the sum", "linear_error"),
    Known("max_test_error", "threshold on the largest score", "max_test_error"),
)
BAYES = (
    Known("bayes_risk", "Bayes: E[Y | X]", "bayes"),
    Known("bayes_error", "Bayes: likelihood ratio", "bayes_error"),
)
WITHOUT_POSITIONS_AND_ERRORS = (
    Known("bayes_risk", "Bayes without positions", "bayes_without_positions", "positions"),
    Known("topic_error", "wrong topics: 1 - E P(z | X)", "topic_error"),
    Known("row_error", "wrong rows: 1 - E P(I | X)", "row_error"),
    Known("column_error", "wrong columns: 1 - E P(K | X)", "column_error"),
)


def task_risks(
    task: Any,
    family: Callable[[float], Predictor],
    inverse_temperature: float,
    length: int = 10,
) -> References:
    """What is known of any task: its own risks and errors, and those of heads at the teachers.

    Args:
        length: of the contexts, for exchangeable tasks.

    >>> from attnscope.tasks.planted.max_location import MaxLocation
    >>> rows, refused = task_risks(MaxLocation(dim=20, length=5), Softmax, 5.0)
    >>> [(row.name, round(row.risk.value, 4)) for row in rows][-2:], refused
    ([('softmax oracle (k*, v*)', 0.2245), ('Bayes: E[Y | X]', 0.2245)], [])
    """
    if known_landscape(task):
        errors, refused = _known_rows(task, WITHOUT_POSITIONS_AND_ERRORS, length)
        rows = reference_risks(task, family(inverse_temperature), family) + errors
        return References(rows, refused)
    rows, refused = _known_rows(task, BASELINES, length)
    if has_head(task):
        rows += head_rows(task, family(inverse_temperature), inverse_temperature)
    for group in (BAYES, WITHOUT_POSITIONS_AND_ERRORS):
        more, why = _known_rows(task, group, length)
        rows += more
        refused += why
    if not rows:
        raise AttnscopeError(refused[0])
    return References(rows, refused)


def known_values(task: Any, length: int = 10) -> dict[str, Estimate]:
    """What the task knows of itself, by its key in studies;
    what this setting has not is left out.
    """
    found: dict[str, Estimate] = {}
    for known in (*BASELINES, *BAYES, *WITHOUT_POSITIONS_AND_ERRORS):
        if has_method(task, known):
            try:
                found[known.key] = known_value(task, known, length)
            except AttnscopeError:
                continue
    return found


def has_head(task: Any) -> bool:
    """Whether a head has something to be compared with: a planted task with a key and a value."""
    return is_planted(task) and len(task.teacher_gram) > 1


def _known_rows(
    task: Any, group: tuple[Known, ...], length: int
) -> tuple[list[ReferenceRow], list[str]]:
    rows: list[ReferenceRow] = []
    refused: list[str] = []
    for known in group:
        if has_method(task, known):
            try:
                rows.append(ReferenceRow(known.label, None, known_value(task, known, length)))
            except AttnscopeError as reason:
                refused.append(str(reason))
    return rows, refused


def has_method(task: Any, known: Known) -> bool:
    function = getattr(task, known.method, None)
    return callable(function) and (
        not known.switch or known.switch in signature(function).parameters
    )


def known_value(task: Any, known: Known, length: int) -> Estimate:
    """The method's value; exchangeable tasks are asked at a length."""
    function = getattr(task, known.method)
    at_length = {"length": length} if "length" in signature(function).parameters else {}
    return function(**at_length, **({known.switch: False} if known.switch else {}))


def head_rows(task: Any, predictor: Predictor, lam: float) -> list[ReferenceRow]:
    name = predictor_word(predictor)
    oracle = Overlaps.oracle(alignment_of(task))
    T = task.teacher_gram
    if len(T) == 2:
        return [ReferenceRow(f"{name} oracle (k*, v*)", lam, risk(task, predictor, oracle))]
    each = heads_risk(task, MultiHead(predictor, len(T) // 2), np.block([[T, T], [T, T]]))
    return [
        ReferenceRow(f"{name} head at (k_1*, v_1*)", lam, risk(task, predictor, oracle)),
        ReferenceRow(f"{name}, a head per direction", lam, each),
    ]


def predictor_word(predictor: Predictor) -> str:
    return word_of(predictor) or type(predictor).__name__.lower()


def best_inverse_temperature_row(
    task: SingleLocation, name: str, family: Callable[[float], Predictor]
) -> ReferenceRow:
    return ReferenceRow(
        f"{name} oracle, best inverse temperature", *optimal_inverse_temperature(task, family)
    )


def swapped_optimum(task: SingleLocation) -> tuple[float, Estimate]:
    """(inverse temperature, risk) of the best role-swapped minimum of the erf predictor.

    >>> best, at_best = swapped_optimum(SingleLocation(dim=400, length=10))
    >>> round(best, 5), round(at_best.value, 5)
    (0.05749, 0.04221)
    """
    orthogonal_task(task, "swapped_optimum")
    if task.signal < FAINTEST_SIGNAL:
        must = f"at least {FAINTEST_SIGNAL:g}, for the square of its best inverse temperature to be a number"
        raise bad("signal", "swapped_optimum", must, task.signal)
    value = lambda x: swapped_risk(task, math.exp(x)).value
    # the optimum is near sqrt(pi)/(2 s), where theta reaches 1; a factor of e^5 either side holds
    # it for every gamma and length
    centre = math.log(math.sqrt(math.pi) / (2 * task.signal))
    found = minimize_scalar(
        value, bounds=(centre - 5, centre + 2), method="bounded", options={"xatol": 1e-9}
    )
    lam = math.exp(found.x)
    return lam, swapped_risk(task, lam)


def swapped_risk(task: SingleLocation, lam: float) -> Estimate:
    """Risk at the role-swapped point of Erf(lam), lam > 0 and k* perp v*,
    neither of them checked here.
    """
    o = as_arrays(swapped_overlaps(task, lam))
    if task.dim < 3:  # no third direction for v: the point may not exist
        o = checked_overlaps(o, task, "swapped_risk")
    return unchecked_risk(task, ERF, o, lam)


def critical(task: SingleLocation) -> float | None:
    """The critical inverse temperature where it is defined (k* perp v*), else None."""
    return (
        critical_inverse_temperature(task)
        if task.alignment == 0 and task.signal > 0
        else None
    )


# -- how rows are printed and rendered --------------------------------------------------------------


def risk_cells(
    rows: Iterable[ReferenceRow], form: str = ".5g"
) -> tuple[list[str], list[list[str]]]:
    """Head and cells; risks are formatted by `form`.

    >>> risk = Estimate(0.25, 1e-9, "closed form", 0.25, math.log(0.25))
    >>> risk_cells([ReferenceRow("erf", 0.1, risk)])[1]
    [['erf', '0.10000', '0.25', '0.25', '1e-09', 'closed form']]
    """
    lines = []
    for name, inverse_temperature, found in rows:
        lam = "" if inverse_temperature is None else f"{inverse_temperature:.5f}"
        value = f"{found.value:{form}}"
        lines.append(
            [name, lam, value, excess_text(found), f"{found.error:.0e}", found.method]
        )
    named = (
        ["predictor", "lambda", "risk"]
        if any(line[1] for line in lines)
        else ["", "", "value"]
    )
    return [*named, "excess", "error", "method"], lines


def excess_text(risk: Estimate) -> str:
    """The excess, also where it underflows: exp(log_excess) as a power of ten."""
    if risk.excess > 0 or risk.log_excess == -float("inf"):
        return f"{risk.excess:.5g}"
    return f"10^{risk.log_excess / LOG_TEN:.1f}"


def html_table(rows: Iterable[ReferenceRow]) -> str:
    return table("reference risks", *risk_cells(rows))
