"""Positional or semantic attention over two tokens: loss, landscape, phases and basins.

In reading order: `table` (the one coefficient table behind everything), `loss` (with gradient and
Hessian), `skeleton` (where minima can be), `minima`, `phases` (the diagram), `basins` (the gradient
flow).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
