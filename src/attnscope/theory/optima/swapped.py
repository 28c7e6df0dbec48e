"""The role-swapped stationary point of the erf predictor (landscape.py derives it).

notation: lam = inverse temperature, s = signal, V0 = Var erf(lam gam G), A = lam gam^2/sqrt(1 + 2
lam^2 gam^2).

    k = v*,   v = the k* + rest,   the = min(1, A erf'(0)/(s V0)).
"""

from __future__ import annotations

import math

from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risks.erf_risk import erf_variance

__all__ = ["swapped_overlaps"]


def swapped_overlaps(task: SingleLocation, inverse_temperature: float) -> Overlaps:
    """Overlaps of the role-swapped stationary point of the erf predictor."""
    lam = inverse_temperature
    gam2 = task.gamma**2
    s = task.signal
    S = math.sqrt(1 + 2 * lam**2 * gam2)
    q = math.sqrt(1 + 4 * lam**2 * gam2)
    pull = lam * gam2 / S * 2 / math.sqrt(math.pi)
    against = s * float(erf_variance(0.0, q, lam**2 * gam2))
    # quadratic in lambda against linear: below all floats the pull wins as just above them
    theta = min(1.0, pull / against) if against > 0 else 1.0
    return Overlaps(0.0, 1.0, theta, 0.0, 0.0)
