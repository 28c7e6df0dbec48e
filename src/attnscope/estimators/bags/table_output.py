"""Write columns of equal length as .npz, .csv or .parquet; a file is written completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.tables import TABLE_SUFFIXES
from attnscope.files import check_file, check_place, whole_file, write_csv
from attnscope.optional import needs

__all__ = ["check_output", "write_columns"]

# -- answers ---------------------------------------------------------------------------------------


def check_output(
    path: str | os.PathLike[str],
    suffixes: tuple[str, ...] = TABLE_SUFFIXES,
    keep: tuple[Any, ...] = (),
) -> None:
    """Refuse, before any work, a path that could not be written afterwards,
    or that would replace one of the inputs `keep`.
    """
    path = Path(path)
    if path.suffix not in suffixes:
        raise AttnscopeError(
            f"the output file must end in {' or '.join(suffixes)}, got {path}."
        )
    check = check_place if path.suffix == ".csv" else check_file
    check(path, "the command", "the output file")
    if any(
        path.exists() and other is not None and Path(other).exists() and path.samefile(other)
        for other in keep
    ):
        raise AttnscopeError(
            f"the output file must be another than the input {path}; try another name."
        )
    if not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        raise AttnscopeError(
            f"the output file {path} must be writable, got a file or folder that is not; try "
            "another path."
        )
    if path.suffix == ".parquet":
        needs("pyarrow", str(path))


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, np.ndarray]) -> None:
    """Write columns of equal length as .npz, .csv or .parquet, completely or not at all."""
    path = Path(path)
    with whole_file(path, "write_columns") as part:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = dict(columns)
            with open(part, "wb") as file:
                np.savez(file, **arrays)
            return
        import pandas as pd

        frame = pd.DataFrame({name: _storable_column(x) for name, x in columns.items()})
        if path.suffix == ".csv":
            write_csv(frame, part)
        else:
            frame.to_parquet(part, index=False)


def _storable_column(column: np.ndarray) -> np.ndarray:
    """A column that .csv and .parquet can hold: complex numbers and bytes as text, long doubles as
    float64 if that is exact and as text otherwise.
    """
    kind = column.dtype.kind
    if kind == "f" and column.dtype.itemsize > 8:
        short = column.astype(np.float64)
        return short if np.array_equal(short, column) else column.astype(str)
    if kind == "c":
        return np.array([str(x).strip("()") for x in column.tolist()])
    if kind == "S":
        return np.array([x.decode("utf-8", "backslashreplace") for x in column.tolist()])
    return column
