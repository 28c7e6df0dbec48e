"""The numbers that steps state, from the library: each is a function without arguments.

`shown("landscape", "seed=1")` has the names that the lines under that view compute, so a number read
off a view is computed by the very lines that the page runs. A test evaluates all of them; the page
never does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["count", "knob", "of_point", "shown", "swapped_and_oracle_cross"]


@cache
def shown(view: str, query: str) -> dict[str, Any]:
    """The names that the view's lines compute."""
    from attnscope.explorer.python_lines import computed
    from attnscope.explorer.state import from_query
    from attnscope.explorer.views import bags, landscape, posterior, risk, samples

    state, _ = from_query(view, query)
    if view == "bags":
        return computed(bags.lines(state, None))
    lines = {"landscape": landscape, "posterior": posterior, "risk": risk, "samples": samples}
    return computed(lines[view].lines(state))


def count(query: str, outcome: str) -> Callable[[], float]:
    """How many of a landscape's paths end so."""
    return lambda: float((shown("landscape", query)["outcome"] == outcome).sum())


def of_point(query: str, name: str, what: str) -> Callable[[], float]:
    """The risk or an overlap of a landscape's stationary point."""

    def value() -> float:
        points = {p.name: p for p in shown("landscape", query)["points"]}
        point = points[name]
        return float(point.risk.value if what == "risk" else getattr(point.overlaps, what))

    return value


def knob(view: str, query: str, name: str) -> Callable[[], float]:
    """The value of a knob in another step."""

    def value() -> float:
        from attnscope.explorer.state import from_query

        return float(getattr(from_query(view, query)[0], name))

    return value


def swapped_and_oracle_cross() -> float:
    """The temperature at which both minima have one risk, at d = 400 and L = 10."""
    from scipy.optimize import brentq

    import attnscope as at

    task = at.SingleLocation(dim=400, length=10)

    def gap(temperature: float) -> float:
        points = at.stationary_points(task, at.Erf(temperature))
        risks = {p.name: p.risk.value for p in points}
        return float(np.subtract(risks["oracle"], risks["swapped"]))

    return float(brentq(gap, 0.05, 0.15, xtol=1e-10))
