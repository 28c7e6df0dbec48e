"""Predicted and measured values of one quantity, said once: compared, drawn and tabulated.

A series holds one quantity at several places x, by two routes. It is compared by its entry nearest
to breaking (`comparison`), drawn as a line for the prediction with points for the measurement
(`marks`), and listed as rows of a table (`rows`).

>>> risk = Series("risk", "risk by length", [2, 4], [0.5, 0.25], [0.51, 0.26], 0.05, why="5 standard errors")
>>> risk.comparison.measured, risk.comparison.holds
(0.51, True)
>>> risk.rows()
((2.0, 0.5, 0.51), (4.0, 0.25, 0.26))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.claims.claim import Comparison
from attnscope.claims.compare import BAND, STANDARD_ERRORS, Z, worst
from attnscope.errors import bad
from attnscope.figures.figure import Line, Points

__all__ = ["Series"]


@dataclass(frozen=True, eq=False)
class Series:
    """One quantity over x, by two routes.

    Args:
        key: of its comparison (`Comparison.key`).
        what: the quantity in words, as the report shows it.
        x: where it is taken, (n,); values that are no numbers are counted 0, 1, 2, ...
        predicted: (n,) or one number, by the first route.
        measured: (n,) or one number, by the second.
        tolerance: (n,) or one number, absolute; None: Z standard errors of `error`.
        error: standard errors of the measured values, drawn as 95 % bars; None without any.
        rule, why, routes, scale, coarse: as of `Comparison`.
    """

    key: str
    what: str
    x: Any
    predicted: Any
    measured: Any
    tolerance: Any = None
    rule: str = "equal"
    why: str = ""
    error: Any = None
    routes: tuple[str, str] | None = None
    scale: float | None = None
    coarse: str = ""

    def __post_init__(self) -> None:
        x = np.ravel(np.asarray(self.x))
        if not np.issubdtype(x.dtype, np.number):
            x = np.arange(len(x))
        tolerance, why = self.tolerance, self.why
        if tolerance is None:
            if self.error is None:
                raise bad("tolerance", f"Series {self.key!r}", "given, or error", "neither")
            tolerance, why = Z * np.asarray(self.error, dtype=float), why or STANDARD_ERRORS
        object.__setattr__(self, "x", x.astype(float))
        object.__setattr__(self, "why", why)
        for name, value in (
            ("predicted", self.predicted),
            ("measured", self.measured),
            ("tolerance", tolerance),
            ("error", self.error),
        ):
            if value is not None:
                full = np.broadcast_to(np.ravel(np.asarray(value, dtype=float)), x.shape)
                object.__setattr__(self, name, full)

    @property
    def comparison(self) -> Comparison:
        """The entry nearest to breaking: it holds if and only if all entries do."""
        return worst(
            self.what,
            self.predicted,
            self.measured,
            self.tolerance,
            self.why,
            key=self.key,
            rule=self.rule,
            routes=self.routes,
            scale=self.scale,
            coarse=self.coarse,
        )

    def marks(
        self,
        label: str = "",
        color: int = 0,
        curve: tuple[Any, Any] | None = None,
        dashed: bool = False,
        named: bool = True,
    ) -> tuple[Line, Points]:
        """The prediction as a line and the measurement as points with 95 % bars.

        curve: (x, y) of the prediction on a finer grid; the entries themselves without it.
        named: whether the points carry the label too; a legend shows a label once.
        """
        x, y = (self.x, self.predicted) if curve is None else curve
        bars = None if self.error is None else BAND * self.error
        return (
            Line(x, y, label, color, dashed),
            Points(self.x, self.measured, label if named else "", color, bars),
        )

    def rows(self, *names: Any) -> tuple[tuple[Any, ...], ...]:
        """(x, predicted, measured) of each entry; `names`: columns to show instead of x."""
        first = zip(*names) if names else ((float(x),) for x in self.x)
        return tuple(
            (*head, float(p), float(m))
            for head, p, m in zip(first, self.predicted, self.measured)
        )
