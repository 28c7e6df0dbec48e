"""A table of bags after reading: names of its columns, bags, labels, weights.

Tokens of one bag need not be neighbours; bags keep the order of their first appearance. A model
fitted from a table keeps the names of its columns (`remember`, `recall`), so that it finds them in
other tables.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, shown
from attnscope.estimators.bags.bags import Bags, read_bags
from attnscope.numerics.border.array_files import Unreadable, read_arrays

__all__ = ["Columns", "Table", "checked_bags", "present", "recall", "remember"]

# the member of a model file with the names of its columns; load_model ignores it
COLUMNS_MEMBER = "table.columns.npy"


@dataclass(frozen=True)
class Columns:
    """Names of a table's columns. features=None: every other column of numbers. For .npz files these
    are names of arrays.
    """

    bag: str = "bag"
    target: str | None = None
    weight: str | None = None
    features: tuple[str, ...] | None = None
    groups: str | None = None


@dataclass(frozen=True)
class Table:
    """bags; names (n,) of the bags; target (n,) and weight (n,) where asked for; features, ignored:
    columns of a table, () for .npz.

    rows: (N,) the row of the file, from 0, that holds each token of `bags`; groups (n,) where asked
    for.
    """

    bags: Bags
    names: np.ndarray
    target: np.ndarray | None
    weight: np.ndarray | None
    features: tuple[str, ...]
    ignored: tuple[str, ...]
    rows: np.ndarray
    groups: np.ndarray | None = None


def checked_bags(tokens: np.ndarray, offsets: np.ndarray, path: Path) -> Bags:
    held = Bags(
        np.ascontiguousarray(tokens, dtype=np.float64),
        np.asarray(offsets, dtype=np.int64),
        "list",
    )
    return read_bags(held, str(path))


def present(values: np.ndarray, name: str, path: Path) -> np.ndarray:
    missing = (
        ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    )
    if missing.any():
        raise AttnscopeError(
            f"{name} of {path} must be finite, got {values[missing][0]} in bag number "
            f"{int(np.argmax(missing))}."
        )
    return values


def remember(model_path: str | os.PathLike[str], columns: Columns) -> None:
    """Add the columns' names to a saved model."""
    text = json.dumps(
        {"bag": columns.bag, "target": columns.target, "features": columns.features}
    )
    with zipfile.ZipFile(model_path, "a") as file, file.open(COLUMNS_MEMBER, "w") as member:
        np.lib.format.write_array(member, np.array(text))


def recall(model_path: str | os.PathLike[str]) -> Columns:
    """The columns' names that `remember` added, or the usual ones."""
    try:
        facts = json.loads(str(read_arrays(model_path)[COLUMNS_MEMBER.removesuffix(".npy")]))
    except (KeyError, ValueError, OSError, Unreadable):
        return Columns()
    if not _are_columns(facts):
        raise AttnscopeError(
            f"the columns' names in {model_path} must be words, got {shown(facts)}; try "
            "attnscope fit again."
        )
    features = facts["features"]
    return Columns(
        facts["bag"], facts["target"], None, None if features is None else tuple(features)
    )


def _are_columns(facts: Any) -> bool:
    if not isinstance(facts, dict):
        return False
    features = facts.get("features")
    listed = features is None or isinstance(features, list)
    words = [facts.get("bag"), facts.get("target") or "", *(features or [] if listed else [])]
    return listed and all(isinstance(word, str) for word in words)
