"""The gradient of the moment route (moment_risk.py), on the same weights of the label.

    dR/dG = sum_z p_z dR_z/dG,      G the Gram matrix of (k, v, teachers),

block by block in the variables of label_slopes.py (componentwise_slopes.py, normalised_slopes.py).
Nothing is sampled and E y^2 drops out. Errors: the label's bound on E[y dg], the interpolation of
dg, and for moments without a bound of their own a share of the absolute values of all terms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnscope.predictors.attention import is_componentwise
from attnscope.theory.labels.componentwise_slopes import componentwise_slopes
from attnscope.theory.labels.label_blocks import LabelLaw
from attnscope.theory.labels.label_slopes import gram_slopes
from attnscope.theory.labels.normalised_slopes import normalised_slopes
from attnscope.theory.labels.token_kinds import kinds_of

__all__ = ["MomentGradient", "moment_gradient"]

MOMENT_GRADIENT_ROUNDING = 1e-14  # relative: of sums that cancel


class MomentGradient(NamedTuple):
    """value; gram (2, V), the derivative in k.v in both rows; inverse temperature; errors."""

    value: float
    gram: np.ndarray
    inverse_temperature: float
    gram_error: np.ndarray
    inverse_temperature_error: float


def moment_gradient(
    law: LabelLaw, predictor: Any, G: np.ndarray, lam: float
) -> MomentGradient | None:
    """The gradient at one Gram matrix; None where the moments have no usable derivative."""
    assert law.blocks is not None
    predictor = getattr(predictor, "head", predictor)
    slopes_of = componentwise_slopes if is_componentwise(predictor) else normalised_slopes
    value = warm = warm_error = 0.0
    gram = np.zeros((2, len(G)))
    gram_error = np.zeros((2, len(G)))
    for block in law.blocks:
        found = slopes_of(predictor, block, G, lam)
        if found is None:
            return None
        p = block.probability
        kinds = kinds_of(block)
        value += p * (block.weights.square + found.value)
        warm += p * float(found.kinds[:, 5].sum() + found.read[6])
        warm_error += p * float(found.kinds_error[:, 5].sum() + found.read_error[6])
        gram += p * gram_slopes(G, block, kinds, found.kinds, found.read)
        gram_error += p * gram_slopes(
            G, block, kinds, found.kinds_error, found.read_error, absolute=True
        )
        # where terms of a symmetric problem cancel to the bit, their rounding is left
        size = 2 * block.weights.square + abs(found.value)
        tallest = 1 + float(np.abs(block.means).max()) + float(block.scales.max())
        floor = p * MOMENT_GRADIENT_ROUNDING * size * tallest**2 * max(1.0, lam)
        gram_error += floor
        warm_error += floor
    return MomentGradient(value, gram, warm, gram_error, warm_error)
