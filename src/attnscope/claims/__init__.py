"""Claims: one file each, found by its name in the folder of its family.

`claim`, `provenance`, `verdict` and `registry` are the mechanism, `compare`, `panels`, `pages` and
the other files here are what several claims share; `papers/` what the papers say; `slr/`, `exch/`,
`beyond/`, `samples/`, `around/` hold the claims.

Imports `estimators` and below; imported by `report` and `reproduction`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
