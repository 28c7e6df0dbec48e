"""What bags may be.

In reading order: `bags` (in memory), `tables` with `table_columns` and `table_output` (in files),
`dask_bags` (in blocks).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
