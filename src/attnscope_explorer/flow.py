"""The direction of gradient descent on the two unit spheres, seen in the overlaps.

notation: R_i = partial derivative of the risk in overlap i.

d/dt of the overlaps is `velocity` of dynamics/gradient_flow, as exact as the gradient is.
"""

from __future__ import annotations

import numpy as np

from attnscope.dynamics.gradient_flow import velocity
from attnscope.predictors.attention import Predictor
from attnscope.predictors.inverse_temperature import constant_inverse_temperature
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk_gradient
from attnscope.theory.route import prepared_gradient

__all__ = ["descent"]


def descent(task: SingleLocation, predictor: Predictor, overlaps: Overlaps) -> Overlaps:
    """Time derivatives of the five overlaps under the gradient flow of the risk."""
    at = np.array(overlaps)
    prepared = prepared_gradient(
        task, predictor, constant_inverse_temperature(predictor, "descent")
    )
    if prepared is None:
        partial = np.array(risk_gradient(task, predictor, overlaps)[:5])
    else:
        partial = prepared(at.reshape(5, -1)).reshape(at.shape)
    return Overlaps(*velocity(at, partial, task.alignment))
