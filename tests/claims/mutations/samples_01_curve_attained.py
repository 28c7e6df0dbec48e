"""What makes the sentences of samples-01 false."""

import numpy as np
from helpers.mutation import moved, replaced

from attnscope_claims.samples.drawn_bags import Fits

KEEP = ("fits", "_figure")


def found_times(*factors):
    """Message passing that ends at other overlaps and risks, by these factors."""
    return lambda fits: lambda *args: Fits(fits(*args).rows * factors)


MUTATIONS = (
    *replaced("key", "message passing reaches 0.8 of it", "fits", found_times(0.8, 1, 1)),
    *replaced("value", "message passing reaches 0.8 of it", "fits", found_times(1, 0.8, 1)),
    *replaced(
        "risk", "its predictor errs by 1.2 times as much", "fits", found_times(1, 1, 1.2)
    ),
    *replaced(
        "key",
        "the equations are those of twice as many bags",
        "_predicted_curves",
        lambda curve: lambda task, alpha: curve(task, 2 * np.asarray(alpha)),
    ),
    *replaced(
        "risk",
        "the location is known: risk 1 - q_v",
        "_predicted_curves",
        lambda curve: lambda *args: (lambda k, v, risk: (k, v, 1 - v))(*curve(*args)),
    ),
    *moved("stated", "RISKS", entry=0),
    *moved("stated", "RISKS", entry=2, by=0.2),
    *moved("stated", "RISKS", entry=3, by=0.2),
)
