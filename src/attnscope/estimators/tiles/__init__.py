"""Attention maps of bags whose tokens are tiles on a grid.

In reading order: `spatial_context` (which neighbours matter), `grid` (neighbours), `maps` (input, and
the blocks for errors), `likelihood` (rho).
"""

from attnscope.lazy_namespace import lazy_namespace

__getattr__, __dir__ = lazy_namespace(__name__)
