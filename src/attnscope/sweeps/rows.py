"""What a swept function may return, as rows; and rows as one tidy frame.

A function returns a flat dict of scalars or a list of such dicts. Rows are plain data (float, int, str,
bool, None), so that a row read from the store equals the row that was computed. NaN is kept as None, shown
as a missing value in the frame and counted for the report; infinities are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from attnscope.errors import AttnscopeError, bad
from attnscope.sweeps.key import Cell, is_array_scalar, name_of, plain, source_hash

if TYPE_CHECKING:
    import pandas

__all__ = ["Row", "checked_call", "count_undefined", "flat_rows", "to_frame"]

Row = dict[str, Any]


def checked_call(function: Callable[..., Any], source: str, /, **call: Any) -> list[Row]:
    """What runs for a cell, wherever it runs: the same code as the key says, and flat rows as a result."""
    name = name_of(function)
    if not name.startswith("__main__.") and source_hash(function) != source:  # Dask sends __main__ by value
        raise AttnscopeError(
            f"the worker must have the same source of {name} as the sweep, got another; try restarting the workers."
        )
    return flat_rows(function(**call), call)


def flat_rows(value: Any, call: Row) -> list[Row]:
    """The returned dict, or list of dicts, as rows of plain scalars (NaN as None); refuses anything else."""
    rows = value if isinstance(value, list) else [value]
    if not all(isinstance(row, dict) for row in rows) or not rows:
        raise bad(
            "the result",
            "the function given to sweep",
            "a flat dict or a non-empty list of flat dicts",
            value,
        )
    return [{_name(name): _scalar(name, item, call) for name, item in row.items()} for row in rows]


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise bad("a result's name", "the function given to sweep", "a string", name)
    return str(name)


def _scalar(name: str, value: Any, call: Row) -> Any:
    if is_array_scalar(value):
        value = value.item()
    if not (value is None or isinstance(value, bool | int | float | str)):
        raise bad(f"result {name!r}", "the function given to sweep", "a number, string or bool", value)
    if name in call and value != call[name]:
        raise bad(f"result {name!r}", "the function given to sweep", "named unlike its parameters", value)
    return None if value != value else plain(value, name)


def to_frame(cells: list[Cell], rows: dict[str, list[Row]]) -> pandas.DataFrame:
    """One line per row of every cell that has rows, in the order of `cells`: parameters, then results."""
    import pandas

    table = []
    for cell in cells:
        for row in rows.get(cell.key, ()):
            filled = {name: float("nan") if value is None else value for name, value in row.items()}
            table.append({**cell.parameters, **filled})
    return pandas.DataFrame(table)


def count_undefined(all_rows: Iterable[list[Row]]) -> dict[str, int]:
    """How many rows lack each result that was NaN (or None)."""
    counts: dict[str, int] = {}
    for rows in all_rows:
        for row in rows:
            for name, value in row.items():
                if value is None:
                    counts[name] = counts.get(name, 0) + 1
    return counts
