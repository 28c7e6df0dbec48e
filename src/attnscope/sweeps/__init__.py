"""A function over a grid, resumable: `run` (the door), `accounts`, `grid`, `key`, `reach`,
`contents`, `loaded`, `package`, `text` (what names a result), `store`, `rows`, `execute`,
`outcome`, `claims`, `processes`, `cluster` (who computes it).

Imports nothing of the project but `errors` and `progress`; imported by `studies` and
`reproduction`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
