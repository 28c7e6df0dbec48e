"""What the commands on bags read: a table, or files with a label table; and what is asked of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnscope.errors import AttnscopeError

__all__ = ["bag_table", "coordinates", "fit_stream", "groups_of", "is_file", "token_size"]


def bag_table(
    data: Path,
    columns: Any,
    given: tuple[Path | None, str | None, str | None, str | None],
    skip: bool,
    need_target: bool = True,
) -> Any:
    """Bags with labels: a table, or files with a label table and the columns `given` for it."""
    from attnscope.estimators.bags.file_formats import PICKLE_SUFFIXES
    from attnscope.estimators.bags.open_bags import FORMAT_READERS, open_bags
    from attnscope.estimators.bags.table_columns import Table
    from attnscope.estimators.bags.tables import TABLE_SUFFIXES, read_table

    labels, bag, target, weight = given
    ours = {*FORMAT_READERS, *PICKLE_SUFFIXES} - {*TABLE_SUFFIXES}  # what no table ends in
    if labels is None and not data.is_dir() and data.suffix.lower() not in ours:
        return read_table(data, columns, need_target=need_target)
    if labels is None and need_target:
        raise AttnscopeError(
            f"--labels must be a table of names and labels for the bags of {data}, got none; "
            "try --labels table.csv."
        )
    bags = open_bags(
        data,
        labels,
        bag=bag,
        target=target,
        weight=weight,
        on_error="skip" if skip else "stop",
    )
    return Table(bags, bags.names, bags.labels, bags.weight, (), (), bags.lengths[:0])  # type: ignore[arg-type]


def is_file(groups: str | None) -> bool:
    """Are groups in a file of their own, rather than in a column?"""
    return groups is not None and Path(groups).suffix in (".csv", ".parquet")


def groups_of(table: Any, groups: str | None, labels: Path | None, bag: str | None) -> Any:
    """The group of each bag: from a file of names and groups, from a column of the label table, or
    what the table of bags has brought; None where none is asked for.
    """
    from attnscope.estimators.bags.label_table import read_labels

    if groups is None or (table.groups is not None and not is_file(groups)):
        return table.groups
    names = [str(name) for name in table.names]
    if is_file(groups):
        return read_labels(
            groups, names, skip=False, target=_group_column(Path(groups))
        ).labels
    # rows of bags that were left out are met again here
    return read_labels(labels, names, skip=True, bag=bag, target=groups).labels


def _group_column(path: Path) -> str | None:
    """The column "group" where there is one; None: the one beside the names."""
    from attnscope.estimators.bags.frames import read_frame

    if not path.is_file():
        raise AttnscopeError(f"the table of groups {path} must exist, got no such file.")
    return "group" if "group" in map(str, read_frame(path, rows=0).columns) else None


def token_size(table: Any) -> tuple[int, int]:
    """How many tokens, of how many features."""
    if hasattr(table.bags, "tokens"):
        return table.bags.tokens.shape
    return int(table.bags.lengths.sum()), table.bags.width


def fit_stream(model: Any, table: Any) -> None:
    if hasattr(table.bags, "tokens"):  # in memory already: one batch
        model.fit_batches([(table.bags, table.target, table.weight)])
    else:
        model.fit_batches(table.bags, table.target, sample_weight=table.weight)


def coordinates(bags: Any, where: Any, suffix: str) -> dict[str, Any]:
    """Where the deciding tokens were, for files that say so: columns x, y, ..."""
    import numpy as np

    if not hasattr(bags, "coords"):
        return {}
    found = [bags.coords(i) for i in range(len(bags))]
    if any(coords is None for coords in found):
        return {}
    rows = np.array([coords[i] for coords, i in zip(found, where)])
    return {f"{axis}{suffix}": column for axis, column in zip("xyz", rows.T)}
