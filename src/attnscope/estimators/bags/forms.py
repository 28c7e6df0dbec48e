"""Bags in the forms of other libraries, converted to NumPy.

    tensors   anything with `detach`: out of its graph, to this machine, to NumPy
    bfloat16   and the 8-bit floats, with which NumPy cannot compute: as float32, exactly
    rows   one token per row with the name of its bag: a table with a column `bag` (pandas, polars),
        or a pair (tokens (N, d), ids (N,))

Rows of one bag need not be neighbours; bags keep the order of their first appearance. Labels and
weights of rows may be one per bag in that order, one per row (constant within a bag), a mapping or
a pandas Series by the bags' names, or the name of a column of the table. No library is imported
here: its objects are recognised by their methods.

notation: N rows, n bags, d features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border.whole_values import (
    missing_rows,
    refuse_lost,
    refuse_missing,
)

__all__ = [
    "MISSING_LABELS",
    "Rows",
    "frame_rows",
    "group_rows",
    "id_rows",
    "is_frame",
    "per_bag",
    "to_numpy",
]

BAG_COLUMN = "bag"  # the column with the name of the bag, as in files (tables.py)
# columns that look like labels: they are features only where the caller names them
LABEL_COLUMNS = ("label", "y", "target")
NUMBER_KINDS = "iufb"  # NumPy's kinds of real numbers
MAX_TOKEN_SIZE = 1e50  # sums of squares of larger numbers would overflow
SHOWN_COLUMNS = 8  # in an error
# advice for missing labels
MISSING_LABELS = "drop those bags"


class Rows(NamedTuple):
    """tokens (N, d) bag by bag, offsets (n+1,); row (N,) of each token in the input; names (n,) of the
    bags; features: names of the columns, and their table (None: the input is no table).
    """

    tokens: np.ndarray
    offsets: np.ndarray
    row: np.ndarray
    names: np.ndarray
    features: tuple[str, ...] | None = None
    frame: Any = None

    def as_given(self, per_token: np.ndarray) -> np.ndarray:
        """(N,) numbers in the order of the rows."""
        out = np.empty(len(per_token))
        out[self.row] = per_token
        return out


def are_offsets(offsets: np.ndarray, tokens: int) -> bool:
    """Whether these are whole numbers that increase from 0 to the number of tokens."""
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        return False
    # compared, not subtracted: differences of unsigned numbers wrap
    increasing = (offsets[1:] > offsets[:-1]).all()
    return bool(offsets[0] == 0 and offsets[-1] == tokens and increasing)


def to_numpy(x: Any) -> Any:
    """A tensor, or an array of bfloat16, as an array of NumPy's own dtypes; anything else unchanged."""
    if hasattr(x, "detach") and hasattr(x, "numpy"):
        x = x.detach()
        x = x.cpu() if hasattr(x, "cpu") else x
        try:
            x = x.numpy()
        except TypeError:  # torch has dtypes that NumPy lacks, such as bfloat16
            x = x.float().numpy()
    kind = getattr(x, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind == "V" and "float" in kind.name:
        x = np.asarray(x).astype(np.float32)
    return x


def is_frame(x: Any) -> bool:
    return all(hasattr(x, name) for name in ("columns", "shape", "to_numpy", "__getitem__"))


def group_rows(names: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names in order of first appearance, offsets, and the stable order that joins each bag's rows.

    >>> group_rows(np.array(["b", "a", "b"]))
    (array(['b', 'a'], dtype='<U1'), array([0, 2, 3]), array([0, 2, 1]))
    """
    unique, first, code = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first)  # bags by first appearance
    rank = np.empty(len(unique), int)
    rank[order] = np.arange(len(unique))
    rows = np.argsort(rank[code], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rank[code]))])
    return unique[order], offsets, rows


def id_rows(tokens: Any, ids: Any, of: str) -> Rows:
    """Rows (N, d) with the names of their bags (N,)."""
    refuse_lost(tokens, "bags", of)
    tokens, ids = np.asarray(to_numpy(tokens)), to_numpy(ids)
    refuse_missing(ids, "ids", of, "name the bag of every row", each="row")
    names = _sortable_names(ids)
    if (
        tokens.ndim != 2
        or tokens.dtype.kind not in NUMBER_KINDS
        or names.shape != (len(tokens),)
    ):
        raise bad(
            "bags",
            of,
            "numbers (N, d) with an id for each row (N,) where a pair has a second part (N,)",
            f"shapes {tokens.shape} and {names.shape}",
        )
    if len(tokens) == 0:
        raise bad("bags", of, "at least one row", "none")
    if names.dtype.kind == "f" and not np.isfinite(names).all():
        raise bad("ids", of, "the name of a bag in every row", "NaN or infinity")
    found, offsets, row = group_rows(names)
    return Rows(tokens[row].astype(np.float64), offsets, row, found)


# -- tables ----------------------------------------------------------------------------------------


def frame_rows(
    frame: Any,
    of: str,
    bag: str = BAG_COLUMN,
    features: Any = None,
    leave: tuple[str, ...] = (),
) -> Rows:
    """The rows of a table. `features` names its feature columns (None: every column of numbers except
    the bag's and those in `leave`).
    """
    columns = [str(name) for name in frame.columns]
    if len(set(columns)) < len(columns):
        raise bad("bags", of, "a table whose columns have different names", "one name twice")
    for name in (*leave, *(() if features is None else features)):
        _check_column(frame, name, columns, of)
    names = _bag_names(frame, bag, columns, of)
    if features is None:
        rest = [name for name in columns if name not in (bag, *leave)]
        features = [name for name in rest if _is_number(frame[name])]
        labels = [name for name in features if name in LABEL_COLUMNS]
        if labels:
            raise bad(
                "bags",
                of,
                "a table without a column of labels among its features",
                f"a column {labels[0]}",
                f'"{labels[0]}" as y (or target), or a table without it',
            )
    if not len(features):
        raise bad("bags", of, f"a table with a column of numbers beside {bag}", "none")
    table = [_number_column(frame, name, of) for name in features]
    if not len(table[0]):
        raise bad("bags", of, "at least one row", "none")
    found, offsets, row = group_rows(names)
    tokens = np.column_stack(table)[row]
    return Rows(tokens, offsets, row, found, tuple(map(str, features)), frame)


def _check_column(frame: Any, name: str, columns: list[str], of: str) -> None:
    if name not in columns:
        have = ", ".join(columns[:SHOWN_COLUMNS]) + (
            ", ..." if len(columns) > SHOWN_COLUMNS else ""
        )
        raise bad("bags", of, f"a table with a column {name}", f"columns {have}")


def _bag_names(frame: Any, bag: str, columns: list[str], of: str) -> np.ndarray:
    """The name of each row's bag: a column, or a level of a pandas index."""
    index = getattr(frame, "index", None)
    if bag not in columns and bag in (getattr(index, "names", None) or ()):
        names = np.asarray(frame.index.get_level_values(bag))
    else:
        if bag not in columns:
            have = ", ".join(columns[:SHOWN_COLUMNS]) + (
                ", ..." if len(columns) > SHOWN_COLUMNS else ""
            )
            raise bad(
                "bags",
                of,
                f"a table with a column {bag} that names each row's bag",
                f"columns {have}",
                'at.bags_from_frame(frame, bag="...") with its name',
            )
        names = np.asarray(frame[bag])
    missing = missing_rows(names)
    if missing:
        must = "the name of the bag in every row"
        got = f"none in {len(missing)} of {len(names)} rows, the first row {missing[0]}"
        raise bad(f"column {bag}", of, must, got)
    return _sortable_names(names)


def _sortable_names(names: Any) -> np.ndarray:
    """Names that can be sorted: numbers unchanged, anything else as text."""
    a = np.asarray(names)
    return a if a.dtype.kind in NUMBER_KINDS + "U" else a.astype(str)


def _is_number(column: Any) -> bool:
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    return (kind or np.asarray(column).dtype.kind) in NUMBER_KINDS


def _number_column(frame: Any, name: str, of: str) -> np.ndarray:
    """Numbers (N,); a missing value is NaN and is refused with its row."""
    try:
        values = np.asarray(frame[name], dtype=np.float64)
    except (TypeError, ValueError):
        raise bad(f"column {name}", of, "numbers", "something else in it") from None
    wrong = ~np.isfinite(values)
    if wrong.any():
        where = int(np.argmax(wrong))
        got = f"{values[where]} in row {where}"
        raise bad(f"column {name}", of, "finite numbers", got, "dropping that token")
    return values


# -- what is said of each bag ----------------------------------------------------------------------


def per_bag(values: Any, rows: Rows | None, of: str, what: str = "y") -> Any:
    """One value per bag, if `values` are given by row, name or column; otherwise `values` unchanged."""
    refuse_lost(values, what, of)
    values = to_numpy(values)
    if rows is None:
        return values
    n = len(rows.names)
    if isinstance(values, str):
        if rows.frame is None or values not in [str(name) for name in rows.frame.columns]:
            raise bad(what, of, "a column of the table, or one value per bag", values)
        return _value_per_bag(np.asarray(rows.frame[values]), rows, of, f"column {values}")
    if isinstance(values, Mapping) or (_has_own_index(values) and len(values) == n):
        return _by_name(values, rows, of, what)
    if np.shape(values) == (len(rows.row),) and len(rows.row) != n:
        return _value_per_bag(np.asarray(values), rows, of, what)
    return values


def _has_own_index(values: Any) -> bool:
    """Is this a pandas Series with an index other than 0, 1, 2, ...?"""
    index = getattr(values, "index", None)
    if index is None or not hasattr(values, "to_numpy"):
        return False
    return not np.array_equal(np.asarray(index), np.arange(len(index)))


def _by_name(values: Any, rows: Rows, of: str, what: str) -> np.ndarray:
    given = dict(values.items())
    refuse_lost(list(given.values()), what, of)
    table = {str(name): value for name, value in given.items()}
    missing = [str(name) for name in rows.names if str(name) not in table]
    if missing:
        got = f"none for bag {missing[0]}"
        raise bad(what, of, "by the bags' names where it has names of its own", got)
    ordered = [table[str(name)] for name in rows.names]
    refuse_missing(ordered, what, of, MISSING_LABELS)
    return np.asarray(ordered)


def _value_per_bag(values: np.ndarray, rows: Rows, of: str, what: str) -> np.ndarray:
    """(N,) values, which must agree within each bag, as (n,)."""
    refuse_lost(values, what, of)
    missing = missing_rows(values)
    if missing:
        got = f"none in {len(missing)} of {len(values)} rows, the first row {missing[0]}"
        raise bad(what, of, "a value in every row", got, MISSING_LABELS)
    held = values[rows.row]
    first = held[rows.offsets[:-1]]
    other = held != np.repeat(first, np.diff(rows.offsets))
    if np.any(other):
        where = int(np.argmax(other))
        bag = int(np.searchsorted(rows.offsets, where, "right")) - 1
        raise AttnscopeError(
            f"{what} of {of} must be constant within a bag, got {first[bag]!s} and "
            f"{held[where]!s} in bag {rows.names[bag]!s}."
        )
    return first
