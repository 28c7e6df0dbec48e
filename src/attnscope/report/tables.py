"""The small tables of a claim as text of 80 columns: numbers to the right, words to the left.

Where the columns are too wide together the widest one is broken over lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from attnscope.claims.numbers import number
from attnscope.claims.table import Cell

__all__ = ["row_lines", "shown_cell", "table_lines"]

COLUMN_GAP = 2  # columns of the terminal between those of a table
LEAST_WIDTH = 6  # to which the widest column may shrink


def shown_cell(cell: Cell, digits: int) -> str:
    """Words as they are, integers in full, other numbers to `digits` significant digits.

    >>> shown_cell("oracle", 3), shown_cell(12, 3), shown_cell(0.98765, 3), shown_cell(0.5, 3)
    ('oracle', '12', '0.988', '0.500')
    """
    if isinstance(cell, str):
        return cell
    return str(cell) if isinstance(cell, int) else number(cell, most=digits)


def table_lines(table: Mapping[str, Any], width: int, indent: str = "  ") -> list[str]:
    """Title, names of columns and rows of a record of `Table`, within `width` columns.

    >>> rows = [["linear", 0.4871], ["softmax", 0.0042]]
    >>> record = {"title": "risks", "columns": ["model", "risk"], "rows": rows, "digits": 2}
    >>> print("\\n".join(table_lines(record, 80, "")))
    risks
    model      risk
    linear     0.49
    softmax  0.0042
    """
    digits = table.get("digits", 3)
    rows = [[shown_cell(cell, digits) for cell in row] for row in table["rows"]]
    numeric = [
        all(not isinstance(row[i], str) for row in table["rows"])
        for i in range(len(table["columns"]))
    ]
    widths = _widths([table["columns"], *rows], width - len(indent))
    lines = textwrap.wrap(table["title"], width - len(indent))
    for row in (table["columns"], *rows):
        lines += row_lines(row, widths, numeric)
    return [(indent + line).rstrip() for line in lines]


def _widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Of each column: its longest cell, the widest made narrower until all fit."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    while sum(widths) + COLUMN_GAP * (len(widths) - 1) > room and max(widths) > LEAST_WIDTH:
        widths[widths.index(max(widths))] -= 1
    return widths


def row_lines(
    row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool] = ()
) -> list[str]:
    """One row, as many lines as its longest cell needs; `numeric` columns to the right."""
    cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths)]
    lines = []
    for i in range(max(map(len, cells))):
        parts = [cell[i] if i < len(cell) else "" for cell in cells]
        padded = [
            part.rjust(width) if right else part.ljust(width)
            for part, width, right in zip_longest(parts, widths, numeric)
        ]
        lines.append((" " * COLUMN_GAP).join(padded).rstrip())
    return lines
