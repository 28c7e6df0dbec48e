"""What is known of a predictor on a task: one table, from which risks, gradients, engines and
refusals are made.

This is the documented import path: the table of routes/table.py, filled with the rows of
routes/shipped.py.
"""

from __future__ import annotations

from attnscope.theory.routes import shipped as shipped  # fills the table
from attnscope.theory.routes import table
from attnscope.theory.routes.table import *  # noqa: F403 - the same names

__all__ = table.__all__
