"""What is known of a predictor on a task: one table, from which risks, gradients, engines and
refusals are made.

The rows of route_rows.py, filled with those of routes.py: who looks something up imports this file;
who adds a row may import either.
"""

from __future__ import annotations

from attnscope.theory import routes as routes  # fills the table
from attnscope.theory.route_rows import (
    Excess,
    Route,
    add_route,
    all_routes,
    checked_planted,
    checked_predictor,
    closed_form,
    find_route,
    gradient_row,
    has_gradient,
    needed,
    pointwise,
    prepared_gradient,
    rows_of,
)

__all__ = [
    "Excess",
    "Route",
    "add_route",
    "all_routes",
    "checked_planted",
    "checked_predictor",
    "closed_form",
    "find_route",
    "gradient_row",
    "has_gradient",
    "needed",
    "pointwise",
    "prepared_gradient",
    "rows_of",
]
