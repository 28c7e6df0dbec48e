"""Rows of reference risks, and how they are told: on the command line and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from attnscope.html_tables import Shown, card, paragraph, table
from attnscope.numerics.border.estimate import Estimate

__all__ = ["ReferenceRow", "References", "RiskTable", "excess_text", "risk_cells"]

LOG_TEN = math.log(10)


class ReferenceRow(NamedTuple):
    """One line of the table; temperature None where the predictor has none."""

    name: str
    temperature: float | None
    risk: Estimate


class RiskTable(Shown[ReferenceRow]):
    """A list of rows, a table in a notebook."""

    def _repr_html_(self) -> str:
        return card(_table(self))


class References(NamedTuple):
    """Rows of a table, and the sentences of those that this setting has not."""

    rows: list[ReferenceRow]
    refused: list[str]

    def _repr_html_(self) -> str:
        return card(_table(self.rows), *(paragraph(f"left out: {x}") for x in self.refused))


def risk_cells(
    rows: Iterable[ReferenceRow], form: str = ".5g"
) -> tuple[list[str], list[list[str]]]:
    """Head and cells; risks are told in this form.

    >>> risk = Estimate(0.25, 1e-9, "closed form", 0.25, math.log(0.25))
    >>> risk_cells([ReferenceRow("erf", 0.1, risk)])[1]
    [['erf', '0.10000', '0.25', '0.25', '1e-09', 'closed form']]
    """
    lines = []
    for name, temperature, risk in rows:
        lam = "" if temperature is None else f"{temperature:.5f}"
        value = f"{risk.value:{form}}"
        lines.append([name, lam, value, excess_text(risk), f"{risk.error:.0e}", risk.method])
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


def _table(rows: Iterable[ReferenceRow]) -> str:
    return table("reference risks", *risk_cells(rows))
