"""Bags from a table in memory with one token per row, in a form that scikit-learn can split.

`fit` accepts a table with a column `bag` directly. `bags_from_frame` lets the caller name the
columns, and makes one array per bag, which `cross_val_score` and searches split like a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.estimators.bags.bags import check_labels, check_weights, read_bags
from attnscope.estimators.bags.forms import BAG_COLUMN, frame_rows, is_frame, per_bag

__all__ = ["FrameBags", "bags_from_frame"]


class FrameBags(NamedTuple):
    """The bags of a table; what `bags_from_frame` returns.

    Attributes:
        bags: n arrays (L_i, d) float64, in the order in which they first appear.
        label, weight: (n,), or None.
        names: (n,), of the bags.
        features: the d columns.
        rows: n arrays (L_i,): the rows of the tokens in the table, from 0.

    >>> import attnscope as at
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"bag": ["b", "b", "a"], "u": [1.0, 2.0, 3.0]})
    >>> found = at.bags_from_frame(frame)
    >>> found.names.tolist(), found.features, [rows.tolist() for rows in found.rows]
    (['b', 'a'], ('u',), [[0, 1], [2]])
    """

    bags: list[np.ndarray]
    label: np.ndarray | None
    weight: np.ndarray | None
    names: np.ndarray
    features: tuple[str, ...]
    rows: list[np.ndarray]


def bags_from_frame(
    frame: Any,
    bag: str = BAG_COLUMN,
    target: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
) -> FrameBags:
    """Bags of a table with one token per row.

    Args:
        frame: a pandas or polars table.
        bag: the column, or the level of a pandas index, of the bags' names.
        target, weight: columns that are constant within a bag; None: none.
        features: columns of numbers; None: every other one.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"slide": ["b", "b", "a"], "u": [1.0, 2.0, 3.0], "sick": [1, 1, 0]})
    >>> found = bags_from_frame(frame, bag="slide", target="sick")
    >>> found.names.tolist(), found.label.tolist(), [len(tokens) for tokens in found.bags]
    (['b', 'a'], [1, 0], [2, 1])
    """
    of = "bags_from_frame"
    if not is_frame(frame):
        raise bad("frame", of, "a pandas or polars table", type(frame).__name__)
    for name, value in {"bag": bag, "target": target, "weight": weight}.items():
        if not isinstance(value, str) and (name == "bag" or value is not None):
            raise bad(name, of, "the name of a column", value)
    if isinstance(features, str):
        features = [features]
    leave = tuple(name for name in (target, weight) if name is not None)
    rows = frame_rows(frame, of, bag, features, leave)
    n = len(rows.names)
    bags = np.split(rows.tokens, rows.offsets[1:-1])
    read_bags(bags, of)  # checks sizes
    return FrameBags(
        bags,
        None if target is None else check_labels(per_bag(target, rows, of), n, of),
        None if weight is None else check_weights(per_bag(weight, rows, of), n, of),
        rows.names,
        rows.features or (),
        np.split(rows.row, rows.offsets[1:-1]),
    )
