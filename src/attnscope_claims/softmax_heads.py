"""What the claims on several informative tokens share: the best inverse temperature of one softmax
head.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.multi_location import MultiLocation
from attnscope.theory.risks.several_tokens_risk import head_risk

__all__ = ["best_softmax"]

LOWEST_INVERSE_TEMPERATURE = 0.05  # at which the head is nearly mean pooling


def best_softmax(task: MultiLocation) -> tuple[float, float]:
    """(inverse temperature, risk) of the best softmax head at (k*, v*) and gain 1;
    the risk has one minimum, below 1 + signal.
    """
    value = lambda x: head_risk(task, Softmax(math.exp(x))).value
    bounds = (math.log(LOWEST_INVERSE_TEMPERATURE), math.log(1 + task.signal))
    found = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return math.exp(found.x), float(found.fun)
