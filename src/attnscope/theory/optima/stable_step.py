"""The largest step size with which gradient descent stays at the minima of a risk.

notation: alpha = step size, H = Riemannian Hessian at a minimum, mu its largest eigenvalue.

A step of projected gradient descent near a minimum maps a small displacement x to (I - alpha H) x
+ O(|x|^2), so x shrinks along every direction if and only if alpha mu < 2: the limit is 2/mu. It is
exact at the minima, as exact as their Hessians. Along the way it is a rule, not a theorem; over
erf and linear attention in d = 2 to 10^6 the risk never rose at half the limit and rose again and
again at 1.1 times it (tests/theory/test_stable_step.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnscope.theory.optima.stationary import StationaryPoint

__all__ = ["stable_step"]


def stable_step(points: Sequence[StationaryPoint]) -> float:
    """2/mu, the least over the minima among these points, or over all of them where none is one;
    infinite where nothing curves.

    >>> from attnscope.predictors.attention import Erf
    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> from attnscope.theory.optima.landscape import stationary_points
    >>> round(stable_step(stationary_points(SingleLocation(dim=400, length=10), Erf(0.1))), 5)
    0.00446
    """
    minima = [p for p in points if p.kind == "minimum"] or points
    mu = max((float(p.eigenvalues.max()) for p in minima), default=0.0)
    return 2 / mu if mu > 0 else math.inf
