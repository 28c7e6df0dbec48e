"""Files of fitted models.

In reading order: `write` (a model to a file), `read` (a file to a model), `members` (which arrays a
file may hold), `v1` (files of 0.1.0).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
