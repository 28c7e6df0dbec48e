"""What a learning curve is: the risk that n = alpha d bags buy, and how it comes about.

notation: alpha = n/d at d -> inf with the length fixed, k* and v* the hidden key and value.

    key_overlap = k.k*,   value_overlap = v.v*

of the k and v that are learnt; for the Bayes-optimal estimator these are the posterior means, whose
squared lengths are the same numbers. All of the fields are numbers where alpha is one, and arrays
of its shape where it is an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnscope.numerics.border.estimate import Estimate

__all__ = ["LearningCurve"]

Number = Any  # a float where alpha is one number, an array (n,) where it is a list


@dataclass(frozen=True)
class LearningCurve:
    """The risk at each alpha, with the overlaps that it is made of.

    alpha: bags per dimension.
    risk: of a fresh bag, with its error; risk.excess is without the label noise.
    key_overlap, value_overlap: k.k* and v.v*, each within overlap_error.
    branch: which solution of the equations: "reached", "informed" or "best" for the Bayes-optimal
    estimator, "ridge" where a predictor is fitted or where the location is known to begin with.
    fixed_points: how many solutions there are at this alpha (Bayes only).
    norms: (|k|^2, |v|^2), training_error: mean squared residual on the n bags, stability: below 1
    where replica symmetry is consistent, two_minima: share of bags at which it is not (fits only).
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
