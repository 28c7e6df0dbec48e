"""How large the contents of a file of bags are, known from its header before they are read.

What would be in memory at once (a table, an array that cannot be read in part, a row group, a bag) may
take an eighth of the machine's memory; a file with more is refused in one sentence. A small file
can hold much: equal rows of a parquet file, or an HDF5 dataset that was never written.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from attnscope.errors import AttnscopeError
from attnscope.numerics.border import array_files

__all__ = [
    "ENTRY_BYTES",
    "refuse_large",
    "refuse_large_bags",
    "refuse_large_groups",
    "refuse_large_table",
    "refuse_long_names",
]

ENTRY_BYTES = 600  # what `open_bags` keeps for each bag that it has not read
NUMBER_BYTES = 8  # of a number or of a text's place, whatever the file's type
LETTER_BYTES = 4  # of a letter in an array of names
TEXT_ROWS = 4096  # rows of text that are measured at once


def refuse_large(size: float, what: str, path: Path | str) -> None:
    """Refuse what would take more than an eighth of the memory."""
    limit = array_files.memory() / array_files.MEMORY_DIVISOR
    if size > limit:
        raise AttnscopeError(
            f"{what} of {path} must take at most {_gib(limit)} (an eighth of this machine's memory), "
            f"got {_gib(size)}; try several files, or .npy or .h5 files of one bag each."
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


def refuse_large_bags(shape: tuple[int, ...], itemsize: int, what: str, path: Path) -> None:
    """Refuse bags (N, d) or (n, L, d) of which one, or the list of all, is too large."""
    refuse_large(math.prod(shape[-2:]) * itemsize, what, path)
    if len(shape) == 3:
        refuse_large(shape[0] * ENTRY_BYTES, f"the list of all bags in {what}", path)


def refuse_large_table(path: Path, columns: list[str] | None = None) -> None:
    """Refuse a parquet file whose columns (None: all) are too large together."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        sizes = _group_sizes(file.metadata, columns)
        refuse_large(sum(sizes), "the table", path)
        text = _text_columns(file.schema_arrow, columns)
    if text:
        refuse_large(sum(sizes) + _text_bytes(path, text), "the text", path)


def refuse_large_groups(path: Path, file: Any, columns: list[str], bags: int) -> None:
    """Refuse an open parquet file of so many bags with a row group that is too large."""
    refuse_large(bags * ENTRY_BYTES, "the list of all bags", path)
    largest = max(_group_sizes(file.metadata, columns), default=0)
    refuse_large(largest, "a row group", path)


def _group_sizes(metadata: Any, columns: list[str] | None) -> list[int]:
    """Bytes of these columns in memory, for each row group."""
    sizes = []
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        parts = [group.column(j) for j in range(group.num_columns)]
        asked = [part for part in parts if _is_asked(part.path_in_schema, columns)]
        numbers = sum(max(part.num_values, group.num_rows) for part in asked) * NUMBER_BYTES
        sizes.append(max(numbers, sum(part.total_uncompressed_size for part in asked)))
    return sizes


def _is_asked(path_in_schema: str, columns: list[str] | None) -> bool:
    return columns is None or any(
        path_in_schema == name or path_in_schema.startswith(f"{name}.") for name in columns
    )


def _text_columns(schema: Any, columns: list[str] | None) -> list[str]:
    import pyarrow as pa

    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return [
        field.name
        for field in schema
        if (columns is None or field.name in columns) and any(t(field.type) for t in tests)
    ]


def _text_bytes(path: Path, columns: list[str]) -> int:
    """Bytes of the text in these columns, whose equal texts are read once."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    total = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(batch_size=TEXT_ROWS, columns=columns):
            for column in batch.columns:
                lengths = pc.binary_length(column.dictionary)
                total += pc.sum(pc.take(lengths, column.indices)).as_py() or 0
    return total


def refuse_long_names(count: int, longest: int, what: str, path: Path | str) -> None:
    """Refuse names of bags that would take too much as an array, all as wide as the longest."""
    refuse_large(count * longest * LETTER_BYTES, what, path)
