"""What the commands on bags read: a table, or files with a label table; and what is asked of both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnscope.errors import AttnscopeError

__all__ = ["bag_table", "coordinates", "fit_stream", "token_size"]


def bag_table(
    data: Path,
    columns: Any,
    given: tuple[Path | None, str | None, str | None, str | None],
    skip: bool,
    need_target: bool = True,
) -> Any:
    """Bags with labels: a table, or files with a label table and the columns `given` for it."""
    from attnscope.estimators.bags.file_formats import PICKLES
    from attnscope.estimators.bags.open_bags import FORMATS, open_bags
    from attnscope.estimators.bags.table_columns import Table
    from attnscope.estimators.bags.tables import SUFFIXES, read_table

    labels, bag, target, weight = given
    ours = {*FORMATS, *PICKLES} - {*SUFFIXES}  # what no table ends in
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
