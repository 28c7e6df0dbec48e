"""A function over a grid, resumable: `run` (start here), `progress_lines`, `grid`, `key`, `source`,
`definitions`, `edited_files`, `text` (what names a result), `store`, `rows`, `execute`,
`cell_result`, `cell_locks`, `processes`, `cluster` (who computes it).

Imports nothing of the project but `errors` and `progress`; imported by `studies` and
`reproduction`.
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
