"""Positional or semantic attention over two tokens: loss, landscape, phases and basins.

In reading order: `table` (the one coefficient table behind everything), `loss` (with gradient and
Hessian), `skeleton` (where minima can be), `minima`, `phases` (the diagram), `basins` (the gradient
flow).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
