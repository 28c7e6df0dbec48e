"""Labels in a table of names and labels, matched to the bags by name.

The labels may be a .csv or .parquet file with a column of names and one of labels (and a third one
of weights), a mapping, or one label per bag in the order of the names. A name may include the
suffix of its file. Names that only one side has are an error, or are left out on request; a name
that occurs twice must have the same label twice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, listed
from attnscope.estimators.bags.forms import LABEL_COLUMNS, MISSING_LABELS
from attnscope.estimators.bags.frames import plain_column, read_frame
from attnscope.numerics.border.whole_values import refuse_missing

__all__ = ["Labels", "read_labels"]

# default columns of names, in this order; slide_id is usual in sets of slides
NAME_COLUMNS = ("bag", "name", "slide_id", "file")
SHOWN_NAMES = 3  # in an error


class Labels(NamedTuple):
    """Of the bags `kept` (m,), by number: labels (m,) and weights (m,) or None."""

    kept: np.ndarray
    labels: np.ndarray
    weight: np.ndarray | None


def read_labels(
    labels: Any,
    names: list[str],
    skip: bool,
    bag: str | None = None,
    target: str | None = None,
    weight: str | None = None,
) -> Labels:
    """The labels of the bags with these names; `skip`: leave out bags and rows without a partner."""
    if isinstance(labels, (str, os.PathLike)):
        path = Path(labels)
        rows = _read_table(path, bag, target, weight)
        return _match_labels(rows, names, skip, str(path))
    if isinstance(labels, Mapping):
        refuse_missing(labels, "labels", "open_bags", MISSING_LABELS)
        given = np.array([str(name) for name in labels])
        rows = (given, np.array(list(labels.values())), None)
        return _match_labels(rows, names, skip, "labels")
    refuse_missing(labels, "labels", "open_bags", MISSING_LABELS)
    values = np.asarray(labels)
    if values.shape != (len(names),):
        raise AttnscopeError(
            f"labels of open_bags must be a table, a mapping or one label per bag ({len(names)},), "
            f"got shape {values.shape}."
        )
    return Labels(np.arange(len(names)), values, None)


def _read_table(
    path: Path, bag: str | None, target: str | None, weight: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Names, labels and weights of all rows."""
    if path.suffix not in (".csv", ".parquet"):
        raise AttnscopeError(
            f"labels of open_bags must be a .csv or .parquet file, got {path}."
        )
    if not path.is_file():
        raise AttnscopeError(f"the label table {path} must exist, got no such file.")
    have = [str(name) for name in read_frame(path, rows=0).columns]
    name = _find_column(
        bag, NAME_COLUMNS, have, have[0] if len(have) == 2 else None, "names", path
    )
    rest = [column for column in have if column != name]
    label = _find_column(
        target, LABEL_COLUMNS, rest, rest[0] if len(rest) == 1 else None, "labels", path
    )
    columns = [name, label] if weight is None else [name, label, weight]
    if weight is not None and weight not in have:
        raise AttnscopeError(
            f"{path} must have a column {weight}, got columns {listed(have)}."
        )
    frame = read_frame(path, text=(name,), columns=columns)
    for column in columns:
        if frame[column].isna().any():
            row = int(np.argmax(np.asarray(frame[column].isna())))
            raise AttnscopeError(
                f"column {column} of {path} must have a value in every row, got none in row {row}."
            )
    given = np.array([str(text) for text in frame[name]])
    weights = None if weight is None else np.asarray(frame[weight], dtype=np.float64)
    return given, plain_column(frame[label]), weights


def _find_column(
    asked: str | None,
    usual: tuple[str, ...],
    have: list[str],
    only: str | None,
    what: str,
    path: Path,
) -> str:
    if asked is not None:
        if asked not in have:
            raise AttnscopeError(
                f"{path} must have a column {asked}, got columns {listed(have)}."
            )
        return asked
    found = next((name for name in usual if name in have), only)
    if found is None:
        which = "bag" if what == "names" else "target"
        raise AttnscopeError(
            f"{path} must have a column of {what}, {', '.join(usual[:-1])} or {usual[-1]}, got "
            f"columns {listed(have)}; try {which}= with its name."
        )
    return found


def _match_labels(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    names: list[str],
    skip: bool,
    of: str,
) -> Labels:
    given, labels, weight = rows
    row_of: dict[str, int] = {}
    for row, name in enumerate(given):
        first = row_of.setdefault(str(name), row)
        if labels[first] != labels[row]:
            raise AttnscopeError(
                f"{of} must have one label for each name, got {labels[first]} and {labels[row]} "
                f"for {name}."
            )
    # a row matches a bag by its name, or by its name with a suffix, as in a.h5 or a.svs
    bare = {Path(name).stem: name for name in row_of} | {name: name for name in row_of}
    met = [bare.get(name) for name in names]
    missing = [name for name, found in zip(names, met) if found is None]
    extra = [name for name in row_of if name not in set(met)]
    if len(missing) == len(names):
        raise AttnscopeError(
            f"{of} must name the bags, got {_first_names(list(row_of))} for bags {_first_names(names)}; try "
            "names without folder and ending, or bag= for another column."
        )
    if missing and not skip:
        raise AttnscopeError(
            f"{of} must have a label for every bag, got none for {_first_names(missing)}; try "
            'on_error="skip" to leave those bags out.'
        )
    if extra and not skip:
        raise AttnscopeError(
            f"{of} must name only bags that are there, got {_first_names(extra)} as well; try "
            'on_error="skip" to leave those rows out.'
        )
    kept = np.array([i for i, found in enumerate(met) if found is not None])
    at = np.array([row_of[found] for found in met if found is not None])
    return Labels(kept, labels[at], None if weight is None else weight[at])


def _first_names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more
