"""Bags in parquet files whose tokens are lists.

    a row is a bag      column `features` of lists of lists (L_i, d), `coords` in the same form, names in
        column `bag` if there is one
    a row is a token    column `features` of lists (d,), `coords` in the same form; column `bag` names
        the bag, whose rows are neighbours; without it the file is one bag

One row group is read at a time, and lists are read as Arrow's flat arrays. tables.py reads tables
with one token per row and one number per column.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from attnscope.errors import AttnscopeError, listed
from attnscope.estimators.bags.file_formats import Entry, Held, Keys, Place, cached_array
from attnscope.estimators.bags.file_sizes import (
    refuse_large_groups,
    refuse_large_table,
    refuse_long_names,
)

__all__ = ["parquet_entries", "parquet_part"]


def parquet_entries(path: Path, keys: Keys) -> list[Entry]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        depth = _list_depth(schema, keys.features)
        if depth == 0:
            raise AttnscopeError(
                f"{path} must have a column {keys.features} of lists, got columns "
                f"{listed(schema.names)}; try features= with its name, or, for "
                "a number per column, attnscope.estimators.bags.tables.read_table."
            )
        if file.metadata.num_rows == 0:
            raise AttnscopeError(f"{path} must have at least one row, got none.")
        coords = keys.coords if _list_depth(schema, keys.coords) == depth else ""
        place = Place(keys.features, coords)
        bags = file.metadata.num_rows if depth == 2 else 1
        refuse_large_groups(
            path, file, [name for name in (keys.features, coords) if name], bags
        )
        names = _text_column(file, keys.bag, path) if keys.bag in schema.names else None
        make = _bag_rows if depth == 2 else _token_rows
        return make(path, file, place, names)


def _list_depth(schema: Any, name: str) -> int:
    """0: no column of lists; 1: lists of numbers; 2: lists of lists."""
    import pyarrow as pa

    depth = 0
    kind = schema.field(name).type if name in schema.names else None
    while kind is not None and (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
    ):
        depth += 1
        kind = kind.value_type
    return depth


def _text_column(file: Any, name: str, path: Path) -> np.ndarray:
    refuse_large_table(path, [name])
    values = [str(value) for value in file.read(columns=[name]).column(0).to_pylist()]
    refuse_long_names(len(values), max(map(len, values), default=0), name, path)
    return np.array(values)


def _bag_rows(path: Path, file: Any, place: Place, names: Any) -> list[Entry]:
    """One bag per row: lengths from the lists' offsets, a row group at a time."""
    found = []
    total = file.metadata.num_rows
    row = 0
    for group in range(file.num_row_groups):
        column = file.read_row_group(group, columns=[place.tokens]).column(0)
        for chunk in column.chunks:
            bags, width, dtype = _bag_offsets(chunk, path, place.tokens)
            for length in np.diff(bags):
                name = path.stem if total == 1 else f"{path.stem}:{row}"
                found.append(
                    Entry(
                        name if names is None else str(names[row]),
                        path,
                        place._replace(number=row),
                        (int(length), width),
                        dtype,
                    )
                )
                row += 1
    return found


def _token_rows(path: Path, file: Any, place: Place, names: Any) -> list[Entry]:
    """One token per row."""
    first = next(file.iter_batches(batch_size=1, columns=[place.tokens])).column(0)
    tokens = _token_matrix(first, path, place.tokens)
    rows = file.metadata.num_rows
    if names is None:
        edges = np.array([0, rows])
        labels = np.array([path.stem])
    else:
        edges = np.concatenate([[0], 1 + np.flatnonzero(names[1:] != names[:-1]), [rows]])
        labels = names[edges[:-1]]
        twice = np.flatnonzero(np.bincount(np.unique(labels, return_inverse=True)[1]) > 1)
        if len(twice):
            raise AttnscopeError(
                f"{path} must hold the tokens of a bag in neighbouring rows, got "
                f"{np.unique(labels)[twice[0]]!s} in several places; try sorting the rows by bag."
            )
    return [
        Entry(
            str(name),
            path,
            place._replace(start=int(start), stop=int(stop)),
            (int(stop - start), tokens.shape[1]),
            tokens.dtype,
        )
        for name, start, stop in zip(labels, edges[:-1], edges[1:])
    ]


def parquet_part(path: Path, name: str, place: Place, held: Held) -> np.ndarray:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        edges = np.concatenate([[0], np.cumsum(sizes)])
        if place.number < 0:
            return _read_token_rows(path, name, file, edges, place.start, place.stop)
        group = int(np.searchsorted(edges, place.number, side="right")) - 1

        def read(path: Path, name: str) -> np.ndarray:
            column = file.read_row_group(group, columns=[name.partition("\0")[0]]).column(0)
            bags = np.empty(len(column), dtype=object)
            for i, scalar in enumerate(column):
                bags[i] = _token_matrix(scalar.values, path, name.partition("\0")[0])
            return bags

        bags = cached_array(held, path, f"{name}\0{group}", read)
        return bags[place.number - edges[group]]


def _read_token_rows(
    path: Path, name: str, file: Any, edges: np.ndarray, start: int, stop: int
) -> np.ndarray:
    """Tokens start:stop of a file of one token per row, from the row groups that hold them."""
    first = int(np.searchsorted(edges, start, side="right")) - 1
    last = int(np.searchsorted(edges, stop, side="left"))
    column = file.read_row_groups(list(range(first, last)), columns=[name]).column(0)
    part = column.slice(start - int(edges[first]), stop - start)
    return np.concatenate([_token_matrix(chunk, path, name) for chunk in part.chunks])


def _bag_offsets(chunk: Any, path: Path, name: str) -> tuple[np.ndarray, int, np.dtype]:
    """Offsets (n+1,) of the bags in a chunk of lists of lists, d, and the dtype of the numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if chunk.null_count or not len(chunk):
        raise AttnscopeError(f"{name} of {path} must hold a list in every row, got none.")
    if pa.types.is_fixed_size_list(chunk.type):
        lengths = np.full(len(chunk), chunk.type.list_size)
    else:
        lengths = np.asarray(pc.list_value_length(chunk))
    tokens = _token_matrix(chunk.flatten(), path, name)
    if not lengths.all():
        raise AttnscopeError(
            f"{name} of {path} must hold at least one token in every row, got none in row "
            f"{int(np.argmin(lengths))}."
        )
    return np.concatenate([[0], np.cumsum(lengths)]), tokens.shape[1], tokens.dtype


def _token_matrix(tokens: Any, path: Path, name: str) -> np.ndarray:
    """An Arrow array of lists (d,) as an array (N, d)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if tokens.null_count or not len(tokens):
        raise AttnscopeError(f"{name} of {path} must hold a list for every token, got none.")
    if pa.types.is_fixed_size_list(tokens.type):
        width = tokens.type.list_size
    else:
        widths = np.unique(np.asarray(pc.list_value_length(tokens)))
        if len(widths) > 1:
            raise AttnscopeError(
                f"{name} of {path} must hold tokens of one width, got {widths[0]} and {widths[-1]} "
                "features."
            )
        width = int(widths[0])
    flat = tokens.flatten()
    if flat.null_count:
        raise AttnscopeError(f"{name} of {path} must hold numbers, got an empty cell.")
    numbers = flat.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "fiub" or width == 0:
        raise AttnscopeError(f"{name} of {path} must hold numbers, got {flat.type}.")
    return numbers.reshape(len(tokens), width)
