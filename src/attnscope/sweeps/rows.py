"""What a swept function may return, as rows; and rows as one tidy frame.

A function returns a flat dict of scalars or a list of such dicts. Rows are plain data (float, int,
str, bool, None), so that a row read from the store equals the row that was computed. NaN is kept as
None, shown as a missing value in the frame and counted for the report; infinities are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attnscope.errors import AttnscopeError, bad
from attnscope.sweeps.key import Cell, is_found_by_name, name_of, unbound
from attnscope.sweeps.source import Fingerprint
from attnscope.sweeps.text import is_array_scalar, plain

if TYPE_CHECKING:
    import pandas

__all__ = ["Row", "checked_call", "count_undefined", "flat_rows", "to_frame"]

Row = dict[str, Any]


# functions whose code was found to be that of a key
_verified: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
NAMED_DIFFERENCES = 3  # differing parts named in the refusal: enough to know which file


def checked_call(
    function: Callable[..., Any], code: Fingerprint, /, **call: Any
) -> list[Row]:
    """What runs for a cell, wherever it runs: the code that the key names, with flat rows as a
    result.
    """
    inner = unbound(function)
    if _verified.get(inner) != code.hash:
        _verify(inner, code)
        _verified[inner] = code.hash
    return flat_rows(function(**call), call)


def _verify(function: Any, code: Fingerprint) -> None:
    """Refuse to compute with other code than the key names;
    looked at once, before the first call.
    """
    others = code.differences(function, is_found_by_name(function))
    if others:
        names = ", ".join(others[:NAMED_DIFFERENCES]) + (
            ", ..." if len(others) > NAMED_DIFFERENCES else ""
        )
        raise AttnscopeError(
            f"the worker must have the same code of {name_of(function)} as the sweep, got other "
            f"code or versions of {names}; try new workers, with the files and packages of this "
            "process."
        )


def flat_rows(value: Any, call: Row) -> list[Row]:
    """The returned dict, or list of dicts, as rows of plain scalars (NaN as None);
    refuses anything else.
    """
    rows = value if isinstance(value, list) else [value]
    if not all(isinstance(row, dict) for row in rows) or not rows:
        raise bad(
            "the result",
            "the function given to sweep",
            "a flat dict or a non-empty list of flat dicts",
            value,
        )
    return [
        {_name(name): _scalar(name, item, call) for name, item in row.items()} for row in rows
    ]


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise bad("a result's name", "the function given to sweep", "a string", name)
    return str(name)


def _scalar(name: str, value: Any, call: Row) -> Any:
    if is_array_scalar(value):
        value = value.item()
    if not (value is None or isinstance(value, bool | int | float | str)):
        raise bad(
            f"result {name!r}",
            "the function given to sweep",
            "a number, string or bool",
            value,
        )
    if name in call and value != call[name]:
        raise bad(
            f"result {name!r}",
            "the function given to sweep",
            "named unlike its parameters",
            value,
        )
    return None if value != value else plain(value, name)


def to_frame(cells: list[Cell], rows: dict[str, list[Row]]) -> pandas.DataFrame:
    """One line per row of every cell that has rows, in the order of `cells`:
    parameters, then results.
    """
    import pandas

    table = []
    for cell in cells:
        for row in rows.get(cell.key, ()):
            filled = {
                name: float("nan") if value is None else value for name, value in row.items()
            }
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
