"""Claims: one file each, found by its name; `claim`, `verdict` and `registry` are the mechanism, the other unnumbered files what several share.

Imports `estimators` and below; imported by `report` and `reproduction`.
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
