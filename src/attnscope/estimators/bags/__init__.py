"""The accepted forms of bags.

In reading order: `forms` (of other libraries), `bags` (in memory), `groups` (of bags),
`known_locations`, `frame_bags` (tables in memory), `tables` with `frames`, `table_columns` and
`table_output` (files with one token per row), `open_bags` with `file_formats`, `h5_files`,
`parquet_lists` and `label_table` (folders, read on access), `file_sizes` (known before files are
read), `pieces` (bags that are not in memory, a piece at a time),
`dask_bags` (in blocks, or one file per partition).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
