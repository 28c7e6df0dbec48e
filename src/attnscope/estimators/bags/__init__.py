"""What bags may be.

In reading order: `forms` (what other libraries hand over), `bags` (in memory), `groups` (which
belong together), `known_locations`, `frame_bags` (in tables in memory), `tables` with `frames`,
`table_columns` and `table_output` (in files of one token per row), `open_bags` with `file_formats`,
`parquet_lists` and `label_table` (in folders, read when they are needed), `pieces` (whatever is not
in memory, a piece at a time), `dask_bags` (in blocks, or a file a partition).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
