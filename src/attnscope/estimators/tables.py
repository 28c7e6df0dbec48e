"""Bags in files, and answers in files: npz, CSV and parquet.

Two layouts. An .npz file holds arrays: `bags` (n, L, d), with `mask` (n, L) if they are padded; or `tokens` (N, d) with `offsets` (n+1,) or
with `bag` (N,), the name of each token's bag; labels and weights are further arrays of n numbers. A .csv or .parquet file holds one token
per row: a column names the bag, the label and the weight are columns that are constant within a bag, and every other column of numbers is
a feature. Tokens of one bag need not be neighbours; bags keep the order in which they first appear. Nothing is ever unpickled.

A model fitted from a table remembers the names of its columns (`remember`, `recall`), so that it finds them again in other tables.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.estimators.bags import Bags, read_bags
from attnscope.files import whole_file

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Columns", "Table", "check_output", "is_classes", "read_table", "recall", "remember", "write_columns"]

SUFFIXES = (".npz", ".csv", ".parquet")
MEMBER = "table.columns.npy"  # where a model file keeps the names of its columns; load_model passes over it
PYARROW = "pip install pyarrow"


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns; `features` is None where every remaining column of numbers is one. For .npz: names of arrays."""

    bag: str = "bag"
    target: str | None = None
    weight: str | None = None
    features: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Table:
    """bags; names (n,) of the bags; target (n,) and weight (n,) where asked for; features, ignored: columns of a table, () for .npz.

    rows: (N,) the row of the file, from 0, that holds each token of `bags`.
    """

    bags: Bags
    names: np.ndarray
    target: np.ndarray | None
    weight: np.ndarray | None
    features: tuple[str, ...]
    ignored: tuple[str, ...]
    rows: np.ndarray


def read_table(path: str | os.PathLike[str], columns: Columns, need_target: bool = True) -> Table:
    """Bags with labels from a file; a target that is None is not read, nor one that is absent and not needed."""
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise bad("the data file", "read_table", "an .npz, .csv or .parquet file", str(path))
    if not path.is_file():
        raise AttnscopeError(f"the data file {path} must exist, got no such file.")
    found: Any = _arrays(path) if path.suffix == ".npz" else _frame(path)
    if not need_target and columns.target not in found:
        columns = replace(columns, target=None)
    return _from_arrays(found, columns, path) if path.suffix == ".npz" else _from_frame(found, columns, path)


def is_classes(target: np.ndarray) -> bool:
    """Words, booleans, or exactly two whole numbers are classes; any other numbers are numbers."""
    if target.dtype.kind not in "iuf":
        return True
    values = np.unique(target)
    return len(values) == 2 and bool(np.all(values == np.round(values)))


# -- npz --------------------------------------------------------------------------------------------------------------


def _from_arrays(arrays: dict[str, np.ndarray], columns: Columns, path: Path) -> Table:
    names = np.arange(0)
    if "bags" in arrays:
        mask = arrays.get("mask")
        bags = read_bags(arrays["bags"] if mask is None else (arrays["bags"], _mask(mask, path)), str(path))
        rows = np.arange(len(bags.tokens))
    elif "tokens" in arrays:
        bags, names, rows = _flat_bags(arrays, columns.bag, path)
    else:
        got = f"arrays {', '.join(sorted(arrays)) or '(none)'}"
        raise AttnscopeError(
            f"{path} must hold an array bags (n, L, d), or tokens (N, d) with offsets or {columns.bag}, got {got}."
        )
    names = names if len(names) else np.arange(len(bags))
    target, weight = (_per_bag(arrays, name, len(bags), path) for name in (columns.target, columns.weight))
    return Table(bags, names, target, weight, (), (), rows)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        words = "arrays of Python objects" if "pickle" in str(error) else "unreadable contents"
        raise AttnscopeError(f"{path} must be an .npz file of plain arrays, got {words}.") from None


def _mask(mask: np.ndarray, path: Path) -> np.ndarray:
    if mask.ndim != 2 or not np.isin(mask, (0, 1)).all():
        raise AttnscopeError(f"mask of {path} must be (n, L) true or false, got shape {mask.shape} of {mask.dtype}.")
    return mask.astype(bool)


def _flat_bags(arrays: dict[str, np.ndarray], bag: str, path: Path) -> tuple[Bags, np.ndarray, np.ndarray]:
    tokens = arrays["tokens"]
    if tokens.ndim != 2 or tokens.dtype.kind not in "fiub":
        raise AttnscopeError(f"tokens of {path} must be numbers (N, d), got shape {tokens.shape} of {tokens.dtype}.")
    if bag in arrays and arrays[bag].shape == (len(tokens),):
        names, offsets, rows = _grouped(arrays[bag])
        return _checked(tokens[rows], offsets, path), names, rows
    offsets = arrays.get("offsets", np.empty(0))
    whole = offsets.ndim == 1 and offsets.dtype.kind in "iu" and len(offsets) >= 2
    if not (whole and offsets[0] == 0 and offsets[-1] == len(tokens) and (np.diff(offsets) > 0).all()):
        must = f"increasing whole numbers from 0 to {len(tokens)}, or {bag} one name per token"
        raise AttnscopeError(f"offsets of {path} must be {must}, got shape {offsets.shape} of {offsets.dtype}.")
    return _checked(tokens, offsets, path), np.arange(0), np.arange(len(tokens))


def _grouped(names: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names in order of first appearance, offsets, and the stable order that brings each bag's rows together."""
    unique, first, code = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first)  # bags by first appearance
    rank = np.empty(len(unique), int)
    rank[order] = np.arange(len(unique))
    rows = np.argsort(rank[code], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rank[code]))])
    return unique[order], offsets, rows


def _checked(tokens: np.ndarray, offsets: np.ndarray, path: Path) -> Bags:
    held = Bags(np.ascontiguousarray(tokens, dtype=np.float64), np.asarray(offsets, dtype=np.int64), "list")
    return read_bags(held, str(path))


def _per_bag(arrays: dict[str, np.ndarray], name: str | None, n: int, path: Path) -> np.ndarray | None:
    if name is None:
        return None
    if name not in arrays:
        raise AttnscopeError(f"{path} must hold an array {name}, got {', '.join(sorted(arrays))}.")
    if arrays[name].shape != (n,):
        raise AttnscopeError(f"{name} of {path} must hold one entry per bag, ({n},), got shape {arrays[name].shape}.")
    return _present(arrays[name], name, path)


def _present(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    missing = ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    if missing.any():
        raise AttnscopeError(
            f"{name} of {path} must be finite, got {values[missing][0]} in bag number {int(np.argmax(missing))}."
        )
    return values


# -- tables -----------------------------------------------------------------------------------------------------------


def _frame(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        if path.suffix == ".csv":
            return pd.read_csv(path, **_exact(pd.__version__))
        with _pyarrow(path):
            return pd.read_parquet(path)
    except AttnscopeError:
        raise
    except (
        Exception
    ) as error:  # parsers raise what they like; a file that cannot be read is bad input, whatever the reason
        words = " ".join(str(error).split())[:120]
        raise AttnscopeError(
            f"{path} must be a table with one header line and rows of one width, got: {words}."
        ) from None


def _exact(version: str) -> dict[str, Any]:
    """Numbers read to the last bit: the default since pandas 3.1, which warns about the option that older versions need."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


@contextlib.contextmanager
def _pyarrow(path: Path) -> Iterator[None]:
    try:
        yield
    except ImportError:
        raise AttnscopeError(f"parquet file {path} needs pyarrow, which is not installed; try {PYARROW}.") from None


def _from_frame(frame: pd.DataFrame, columns: Columns, path: Path) -> Table:
    named = [name for name in (columns.bag, columns.target, columns.weight) if name is not None]
    for name in [*named, *(columns.features or ())]:
        if name not in frame.columns:
            have = ", ".join(map(str, frame.columns[:8])) + (", ..." if len(frame.columns) > 8 else "")
            raise AttnscopeError(f"{path} must have a column {name}, got columns {have}.")
    if len(frame) == 0:
        raise AttnscopeError(f"{path} must have at least one row, got none.")
    if frame[columns.bag].isna().any():
        raise AttnscopeError(
            f"column {columns.bag} of {path} must name the bag in every row, got an empty cell in row {_first(frame[columns.bag].isna())}."
        )
    names, offsets, rows = _grouped(_plain(frame[columns.bag]))
    features, ignored = _features(frame, columns, named)
    if not features:
        raise AttnscopeError(f"{path} must have at least one column of numbers beside {', '.join(named)}, got none.")
    tokens = _numbers(frame, features, path)[rows]
    bag_of = np.repeat(np.arange(len(names)), np.diff(offsets))
    label = lambda name: None if name is None else _constant(frame, name, rows, offsets, names, bag_of, path)
    return Table(
        _checked(tokens, offsets, path), names, label(columns.target), label(columns.weight), features, ignored, rows
    )


def _plain(column: pd.Series) -> np.ndarray:
    """A column as numbers, booleans or text."""
    kind = np.asarray(column).dtype.kind
    return np.asarray(column) if kind in "iufb" else np.asarray(column.astype(str), dtype=str)


def _features(frame: pd.DataFrame, columns: Columns, named: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    rest = [str(name) for name in frame.columns if name not in named]
    if columns.features is not None:
        return columns.features, tuple(name for name in rest if name not in columns.features)
    numeric = tuple(name for name in rest if np.asarray(frame[name]).dtype.kind in "iufb")
    return numeric, tuple(name for name in rest if name not in numeric)


def _numbers(frame: pd.DataFrame, features: tuple[str, ...], path: Path) -> np.ndarray:
    for name in features:
        values = np.asarray(frame[name])
        wrong = (
            ~np.isfinite(values) if values.dtype.kind == "f" else np.full(len(values), values.dtype.kind not in "iub")
        )
        if wrong.any():
            where = _first(wrong)
            raise AttnscopeError(
                f"column {name} of {path} must hold finite numbers, got {values[where]!s} in row {where}; try dropping that token."
            )
    return frame[list(features)].to_numpy(dtype=np.float64)


def _first(true: Any) -> int:
    return int(np.argmax(np.asarray(true)))


def _constant(
    frame: pd.DataFrame,
    name: str,
    rows: np.ndarray,
    offsets: np.ndarray,
    names: np.ndarray,
    bag_of: np.ndarray,
    path: Path,
) -> np.ndarray:
    """A column's one value per bag, checked to be one."""
    if frame[name].isna().any():
        raise AttnscopeError(
            f"column {name} of {path} must have a value in every row, got none in row {_first(frame[name].isna())}."
        )
    values = _plain(frame[name])[rows]
    per_bag = values[offsets[:-1]]
    other = values != per_bag[bag_of]
    if other.any():
        bag, where = names[bag_of[_first(other)]], _first(other)
        got = f"{per_bag[bag_of[where]]!s} and {values[where]!s} in bag {bag!s}"
        raise AttnscopeError(f"column {name} of {path} must be constant within a bag, got {got}.")
    return _present(per_bag, name, path)


# -- answers ----------------------------------------------------------------------------------------------------------


def check_output(
    path: str | os.PathLike[str], suffixes: tuple[str, ...] = SUFFIXES, keep: tuple[Any, ...] = ()
) -> None:
    """Refuse, before any work, a path that could not be written afterwards, or that would replace one of the inputs `keep`."""
    path = Path(path)
    if path.suffix not in suffixes:
        raise AttnscopeError(f"the output file must end in {' or '.join(suffixes)}, got {path}.")
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise AttnscopeError(f"the output file {path} must be a file in an existing folder; try another path.")
    if any(path.exists() and other is not None and Path(other).exists() and path.samefile(other) for other in keep):
        raise AttnscopeError(f"the output file must be another than the input {path}; try another name.")
    if not os.access(path.resolve().parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise AttnscopeError(
            f"the output file {path} must be writable, got a file or folder that is not; try another path."
        )
    if path.suffix == ".parquet":
        with _pyarrow(path):
            import_module("pyarrow")


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, np.ndarray]) -> None:
    """Write columns of equal length as .npz, .csv or .parquet; the file appears whole or not at all."""
    path = Path(path)
    with whole_file(path, "write_columns") as part:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = dict(columns)
            with open(part, "wb") as file:
                np.savez(file, **arrays)
            return
        import pandas as pd

        frame = pd.DataFrame(dict(columns))
        if path.suffix == ".csv":
            frame.to_csv(part, index=False)
        else:
            frame.to_parquet(part, index=False)


def remember(model_path: str | os.PathLike[str], columns: Columns) -> None:
    """Add the columns' names to a saved model."""
    text = json.dumps({"bag": columns.bag, "target": columns.target, "features": columns.features})
    with zipfile.ZipFile(model_path, "a") as file, file.open(MEMBER, "w") as member:
        np.lib.format.write_array(member, np.array(text))


def recall(model_path: str | os.PathLike[str]) -> Columns:
    """The columns' names that `remember` added, or the usual ones."""
    try:
        with np.load(model_path, allow_pickle=False) as file:
            facts = json.loads(str(file[MEMBER.removesuffix(".npy")]))
    except (KeyError, ValueError, OSError, zipfile.BadZipFile):
        return Columns()
    features = facts["features"]
    return Columns(facts["bag"], facts["target"], None, None if features is None else tuple(features))
