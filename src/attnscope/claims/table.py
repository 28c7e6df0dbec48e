"""A small table that a check found worth showing: a title, names of columns, rows.

Plain data, as figures are: cells are words or numbers, and `digits` says how many significant ones
of a number that is no integer are shown; verdicts.json has all of them.

>>> Table("risks", ("model", "risk"), (("linear", 0.4871), ("softmax", 0.0042))).record()["rows"]
[['linear', 0.4871], ['softmax', 0.0042]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.errors import bad

__all__ = ["Cell", "Table"]

Cell = str | int | float


@dataclass(frozen=True)
class Table:
    """`rows` have one cell a column; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]  # of Cell, checked
    digits: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(self._row(row) for row in self.rows))
        if not self.title or not self.columns or not self.rows:
            raise bad("Table", "Evidence", "a title, columns and at least one row", "none")

    def _row(self, row: Sequence[Any]) -> tuple[Cell, ...]:
        """Plain Python's words and finite numbers."""
        cells = tuple(x.item() if isinstance(x, np.generic) else x for x in row)
        if len(cells) != len(self.columns):
            must = f"{len(self.columns)} cells a row, one a column"
            raise bad("rows", f"Table {self.title!r}", must, f"{len(cells)}")
        for cell in cells:
            if not isinstance(cell, str) and not math.isfinite(cell):
                raise bad("rows", f"Table {self.title!r}", "words and finite numbers", cell)
        return cells

    def record(self) -> dict[str, Any]:
        """For verdicts.json."""
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "digits": self.digits,
        }
