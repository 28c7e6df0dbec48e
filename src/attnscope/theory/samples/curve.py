"""A learning curve: the risk reached from n = alpha d bags, with the overlaps behind it.

notation: alpha = n/d at d -> inf with the length fixed, k* and v* the hidden key and value.

    key_overlap = k.k*,   value_overlap = v.v*

of the k and v that are learnt; for the Bayes-optimal estimator these are the posterior means, whose
squared lengths are the same numbers. All of the fields are numbers where alpha is one, and arrays
of its shape where it is an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnscope.figures.figure import Figure, Line, Panel
from attnscope.html_tables import card, table
from attnscope.numerics.border.estimate import Estimate

__all__ = ["LearningCurve"]

LEARNING_CURVE_NAME = "learning_curve"  # the public function, in error messages
EXCESS_LABEL = "excess risk"
FEWEST_FIGURE_POINTS = 3  # a curve with fewer points is not drawn
Number = Any  # a float where alpha is one number, an array (n,) where it is a list


@dataclass(frozen=True)
class LearningCurve:
    """The risk at each alpha, with the overlaps that it is made of.

    Attributes:
        alpha: bags per dimension.
        risk: of a fresh bag, with its error; risk.excess is without the label noise.
        key_overlap, value_overlap: k.k* and v.v*.
        branch: which solution of the equations: "reached", "informed" or "best" for the
            Bayes-optimal estimator, "ridge" where a predictor is fitted or where the location is
            known to begin with.
        overlap_error: bounds the error of both overlaps.
        fixed_points: how many solutions there are at this alpha (Bayes only).
        norms: (|k|^2, |v|^2) (fits only, as all that follow).
        training_error: mean squared residual on the n bags.
        stability: below 1 where replica symmetry is consistent.
        two_minima: share of bags at which it is not.

    >>> import attnscope as at
    >>> task = at.SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.1**0.5)
    >>> curve = at.learning_curve(task, alpha=2.0)
    >>> round(curve.risk.excess, 4), round(curve.key_overlap, 4), curve.branch
    (0.2567, 0.9006, 'reached')
    """

    alpha: Number
    risk: Estimate
    key_overlap: Number
    value_overlap: Number
    branch: str
    overlap_error: Number = 0.0
    fixed_points: Number | None = None
    norms: tuple[Number, Number] | None = None
    training_error: Number | None = None
    stability: Number | None = None
    two_minima: Number | None = None

    def figure(self) -> Figure:
        """Excess risk over alpha, as plain data to draw."""
        order = np.argsort(np.atleast_1d(self.alpha))
        x, y = (np.atleast_1d(part)[order] for part in (self.alpha, self.risk.excess))
        line = Line(x, y, self.branch)
        log_y = bool((y > 0).all())
        panel = Panel(
            EXCESS_LABEL, "bags per dimension, n/d", EXCESS_LABEL, (line,), True, log_y
        )
        return Figure("learning curve", (panel,))

    def _repr_html_(self) -> str:
        """A row for each alpha; the curve beside them where there are several."""
        columns = {
            "alpha": (self.alpha, ".4g"),
            "risk": (self.risk.value, ".5g"),
            "excess": (self.risk.excess, ".5g"),
            "error": (self.risk.error, ".0e"),
            "k.k*": (self.key_overlap, ".4f"),
            "v.v*": (self.value_overlap, ".4f"),
            "solutions": (self.fixed_points, "d"),
            "training error": (self.training_error, ".4g"),
            "stability": (self.stability, ".4g"),
        }
        count = np.size(self.alpha)
        cells = {
            name: [f"{v:{form}}" for v in np.broadcast_to(x, count).tolist()]
            for name, (x, form) in columns.items()
            if x is not None
        }
        rows = table(f"learning curve, {self.branch}", list(cells), zip(*cells.values()))
        if count < FEWEST_FIGURE_POINTS:
            return card(rows)
        from attnscope.figures.inline_svg import pictures

        return card(rows, pictures(self.figure(), [EXCESS_LABEL]))
