"""Attention maps of bags whose tokens are tiles on a grid.

In reading order: `spatial_context` (which neighbours matter), `grid` (who is a neighbour), `maps`
(what is given, and in which blocks errors are taken), `likelihood` (rho).
"""

from attnscope.doors import door

__getattr__, __dir__ = door(__name__)
