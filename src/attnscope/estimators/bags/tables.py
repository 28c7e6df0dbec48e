"""Bags in files: npz, CSV and parquet.

Two layouts. An .npz file holds arrays: `bags` (n, L, d), with `mask` (n, L) if they are padded; or
`tokens` (N, d) with `offsets` (n+1,) or with `bag` (N,), the name of each token's bag; labels,
weights and groups are further arrays of n entries. A .csv or .parquet file holds one token per row:
a column names the bag, the label, the weight and the group are columns that are constant within a
bag, and every other column of numbers is a feature. Tokens of one bag need not be neighbours; bags
keep the order in which they first appear. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import AttnscopeError, bad, listed
from attnscope.estimators.bags.bags import Bags, read_bags
from attnscope.estimators.bags.forms import are_offsets, group_rows
from attnscope.estimators.bags.frames import plain_column, read_frame
from attnscope.estimators.bags.table_columns import (
    Columns,
    Table,
    checked_bags,
    present,
)
from attnscope.numerics.border.array_files import Unreadable, read_arrays

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLE_SUFFIXES", "Columns", "Table", "is_classes", "read_table"]

TABLE_SUFFIXES = (".npz", ".csv", ".parquet")


def read_table(
    path: str | os.PathLike[str], columns: Columns, need_target: bool = True
) -> Table:
    """Bags with labels from a file. The target is not read if it is None, or if it is absent and not
    needed.
    """
    path = Path(path)
    if path.suffix not in TABLE_SUFFIXES:
        raise bad("the data file", "read_table", "an .npz, .csv or .parquet file", str(path))
    if not path.is_file():
        raise AttnscopeError(f"the data file {path} must exist, got no such file.")
    found: Any = _read_npz(path) if path.suffix == ".npz" else read_frame(path)
    if not need_target and columns.target not in found:
        columns = replace(columns, target=None)
    return (
        _from_arrays(found, columns, path)
        if path.suffix == ".npz"
        else _from_frame(found, columns, path)
    )


def is_classes(target: np.ndarray) -> bool:
    """Words, booleans, or exactly two whole numbers are classes; any other numbers are numbers."""
    if target.dtype.kind not in "iuf":
        return True
    values = np.unique(target)
    return len(values) == 2 and bool(np.all(values == np.round(values)))


# -- npz -------------------------------------------------------------------------------------------


def _from_arrays(arrays: dict[str, np.ndarray], columns: Columns, path: Path) -> Table:
    names = np.arange(0)
    if "bags" in arrays:
        mask = arrays.get("mask")
        bags = read_bags(
            arrays["bags"] if mask is None else (arrays["bags"], _check_mask(mask, path)),
            str(path),
        )
        rows = np.arange(len(bags.tokens))
    elif "tokens" in arrays:
        bags, names, rows = _flat_bags(arrays, columns.bag, path)
    else:
        got = f"arrays {listed(sorted(arrays))}"
        raise AttnscopeError(
            f"{path} must hold an array bags (n, L, d), or tokens (N, d) with offsets or "
            f"{columns.bag}, got {got}."
        )
    names = names if len(names) else np.arange(len(bags))
    target, weight, groups = (
        _per_bag(arrays, name, len(bags), path)
        for name in (columns.target, columns.weight, columns.groups)
    )
    return Table(bags, names, target, weight, (), (), rows, groups)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_arrays(path)
    except (OSError, Unreadable) as error:
        raise AttnscopeError(
            f"{path} must be an .npz file of plain arrays, got {error}."
        ) from None


def _check_mask(mask: np.ndarray, path: Path) -> np.ndarray:
    if mask.ndim != 2 or not np.isin(mask, (0, 1)).all():
        raise AttnscopeError(
            f"mask of {path} must be (n, L) true or false, got shape {mask.shape} of {mask.dtype}."
        )
    return mask.astype(bool)


def _flat_bags(
    arrays: dict[str, np.ndarray], bag: str, path: Path
) -> tuple[Bags, np.ndarray, np.ndarray]:
    tokens = arrays["tokens"]
    if tokens.ndim != 2 or tokens.dtype.kind not in "fiub":
        raise AttnscopeError(
            f"tokens of {path} must be numbers (N, d), got shape {tokens.shape} of {tokens.dtype}."
        )
    if bag in arrays and arrays[bag].shape == (len(tokens),):
        names, offsets, rows = group_rows(arrays[bag])
        return checked_bags(tokens[rows], offsets, path), names, rows
    offsets = arrays.get("offsets", np.empty(0))
    if not are_offsets(offsets, len(tokens)):
        must = (
            f"increasing whole numbers from 0 to {len(tokens)}, or {bag} one name per token"
        )
        raise AttnscopeError(
            f"offsets of {path} must be {must}, got shape {offsets.shape} of {offsets.dtype}."
        )
    return checked_bags(tokens, offsets, path), np.arange(0), np.arange(len(tokens))


def _per_bag(
    arrays: dict[str, np.ndarray], name: str | None, n: int, path: Path
) -> np.ndarray | None:
    if name is None:
        return None
    if name not in arrays:
        raise AttnscopeError(
            f"{path} must hold an array {name}, got {listed(sorted(arrays))}."
        )
    if arrays[name].shape != (n,):
        raise AttnscopeError(
            f"{name} of {path} must hold one entry per bag, ({n},), got shape {arrays[name].shape}."
        )
    return present(arrays[name], name, path)


# -- tables ----------------------------------------------------------------------------------------


def _from_frame(frame: pd.DataFrame, columns: Columns, path: Path) -> Table:
    asked = (columns.bag, columns.target, columns.weight, columns.groups)
    named = [name for name in asked if name is not None]
    for name in [*named, *(columns.features or ())]:
        if name not in frame.columns:
            have = listed(frame.columns)
            raise AttnscopeError(f"{path} must have a column {name}, got columns {have}.")
    if len(frame) == 0:
        raise AttnscopeError(f"{path} must have at least one row, got none.")
    if frame[columns.bag].isna().any():
        raise AttnscopeError(
            f"column {columns.bag} of {path} must name the bag in every row, got an empty cell in "
            f"row {_first_true(frame[columns.bag].isna())}."
        )
    names, offsets, rows = group_rows(plain_column(frame[columns.bag]))
    features, ignored = _feature_columns(frame, columns, named)
    if not features:
        raise AttnscopeError(
            f"{path} must have at least one column of numbers beside {', '.join(named)}, got none."
        )
    tokens = _feature_matrix(frame, features, path)[rows]
    bag_of = np.repeat(np.arange(len(names)), np.diff(offsets))

    def label(name: str | None) -> np.ndarray | None:
        if name is None:
            return None
        return _value_per_bag(frame, name, rows, offsets, names, bag_of, path)

    return Table(
        checked_bags(tokens, offsets, path),
        names,
        label(columns.target),
        label(columns.weight),
        features,
        ignored,
        rows,
        label(columns.groups),
    )


def _feature_columns(
    frame: pd.DataFrame, columns: Columns, named: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # one pass with sets: a table of genes has 10^5 columns
    kinds = {
        str(name): _dtype_kind(frame, name, dtype)
        for name, dtype in zip(frame.columns, frame.dtypes, strict=True)
        if name not in named
    }
    if columns.features is not None:
        chosen = set(columns.features)
        return columns.features, tuple(name for name in kinds if name not in chosen)
    numeric = tuple(name for name, kind in kinds.items() if kind in "iufb")
    return numeric, tuple(name for name, kind in kinds.items() if kind not in "iufb")


def _dtype_kind(frame: pd.DataFrame, name: Any, dtype: Any) -> str:
    """NumPy's letter for the dtype of a column; columns with pandas' own dtypes are converted."""
    return dtype.kind if isinstance(dtype, np.dtype) else np.asarray(frame[name]).dtype.kind


def _feature_matrix(frame: pd.DataFrame, features: tuple[str, ...], path: Path) -> np.ndarray:
    part = frame[list(features)]
    if all(isinstance(dtype, np.dtype) and dtype.kind in "iufb" for dtype in part.dtypes):
        found = part.to_numpy(dtype=np.float64)
        if np.isfinite(found).all():
            return found
    for name in features:
        values = np.asarray(frame[name])
        wrong = (
            ~np.isfinite(values)
            if values.dtype.kind == "f"
            else np.full(len(values), values.dtype.kind not in "iub")
        )
        if wrong.any():
            where = _first_true(wrong)
            raise AttnscopeError(
                f"column {name} of {path} must hold finite numbers, got {values[where]!s} in row "
                f"{where}; try dropping that token."
            )
    return part.to_numpy(dtype=np.float64)


def _first_true(true: Any) -> int:
    return int(np.argmax(np.asarray(true)))


def _value_per_bag(
    frame: pd.DataFrame,
    name: str,
    rows: np.ndarray,
    offsets: np.ndarray,
    names: np.ndarray,
    bag_of: np.ndarray,
    path: Path,
) -> np.ndarray:
    """The value of a column in each bag, refused if it is not constant within a bag."""
    if frame[name].isna().any():
        raise AttnscopeError(
            f"column {name} of {path} must have a value in every row, got none in row "
            f"{_first_true(frame[name].isna())}."
        )
    values = plain_column(frame[name])[rows]
    per_bag = values[offsets[:-1]]
    other = values != per_bag[bag_of]
    if other.any():
        bag = names[bag_of[_first_true(other)]]
        where = _first_true(other)
        got = f"{per_bag[bag_of[where]]!s} and {values[where]!s} in bag {bag!s}"
        raise AttnscopeError(
            f"column {name} of {path} must be constant within a bag, got {got}."
        )
    return present(per_bag, name, path)
