"""What is known of a predictor on a task: one table, from which risks, gradients, engines and
refusals are made.

The rows of route_rows.py, filled with those of routes.py: who looks something up imports this file;
who adds a row may import either.
"""

from __future__ import annotations

from attnscope.theory import route_rows
from attnscope.theory import routes as routes  # fills the table
from attnscope.theory.route_rows import *  # noqa: F403 - this file is that one, filled

__all__ = route_rows.__all__
