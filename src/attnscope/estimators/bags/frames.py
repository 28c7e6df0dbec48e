""".csv and .parquet files as data frames, with every number exact to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.file_sizes import refuse_large_table, refuse_long_names
from attnscope.numerics.border.array_files import parser_words
from attnscope.optional import needs

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["plain_column", "read_frame"]


def read_frame(
    path: Path,
    rows: int | None = None,
    text: tuple[str, ...] = (),
    columns: list[str] | None = None,
) -> pd.DataFrame:
    """A .csv or .parquet file as a frame: all rows, or with rows=0 the header; these columns,
    those of `text` as they are written (001 is not 1).
    """
    import pandas as pd

    try:
        if path.suffix == ".csv":
            exact = _exact_float_option(pd.__version__)
            kinds = dict.fromkeys(text, str)
            return pd.read_csv(path, nrows=rows, usecols=columns, dtype=kinds, **exact)
        needs("pyarrow", str(path))
        if rows == 0:
            import pyarrow.parquet as pq

            return pd.DataFrame(columns=pq.read_schema(path).names)
        refuse_large_table(path, columns)
        return pd.read_parquet(path, columns=columns)
    except AttnscopeError:
        raise
    except (
        Exception
    ) as error:  # parsers raise what they like; what they cannot read is bad input
        must = "a table with one header line and rows of one width"
        raise AttnscopeError(f"{path} must be {must}, got: {parser_words(error)}.") from None


def _exact_float_option(version: str) -> dict[str, Any]:
    """Numbers read to the last bit: the default since pandas 3.1,
    which warns about the option that older versions need.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    return {} if (major, minor) >= (3, 1) else {"float_precision": "round_trip"}


def plain_column(column: pd.Series) -> np.ndarray:
    """A column as numbers, booleans or text."""
    kind = np.asarray(column).dtype.kind
    if kind in "iufb":
        return np.asarray(column)
    texts = column.astype(str)
    refuse_long_names(len(texts), int(texts.str.len().max()), str(column.name), "the table")
    return np.asarray(texts, dtype=str)
