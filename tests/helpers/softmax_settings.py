"""The softmax risk with every number by its name, at settings drawn at random."""

from __future__ import annotations

import math

import numpy as np

from attnscope.theory.law import Law
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risks import softmax_risk

__all__ = [
    "ORACLE",
    "by_numbers",
    "random_overlaps",
    "random_setting",
    "softmax_excess",
    "softmax_excess_gradient",
    "softmax_excess_with_gradient",
]
ORACLE = (1.0, 0.0, 0.0, 1.0, 0.0)


def by_numbers(function):
    """function(overlaps, inverse_temperature, Law) with every number by its name,
    as the settings of the tests are kept.
    """

    def called(*overlaps, inverse_temperature, **numbers):
        point = overlaps or [numbers.pop(name) for name in Overlaps._fields]
        return function(point, inverse_temperature, Law(**numbers))

    return called


softmax_excess = by_numbers(softmax_risk.softmax_excess)
softmax_excess_gradient = by_numbers(softmax_risk.softmax_excess_gradient)


def softmax_excess_with_gradient(*overlaps, **numbers):
    """Both."""
    return softmax_excess(*overlaps, **numbers), softmax_excess_gradient(*overlaps, **numbers)


def random_overlaps(rng, dim=4, c=0.0):
    """Overlaps of two random unit vectors with k* = e1 and v* = c e1 + sqrt(1 - c^2) e2."""
    k, v = rng.standard_normal((2, dim))
    k = k / np.linalg.norm(k)
    v = v / np.linalg.norm(v)
    key = np.eye(dim)[0]
    value = c * np.eye(dim)[0] + math.sqrt(1 - c * c) * np.eye(dim)[1]
    return tuple(float(x) for x in (k @ key, k @ value, v @ key, v @ value, k @ v))


def random_setting(rng, lam_max=5.0, lengths=(2, 3, 10, 100)):
    c = float(rng.choice([0.0, 0.0, 0.6, -0.3]))
    o = random_overlaps(rng, int(rng.choice([4, 20])), c)
    return o, {
        "inverse_temperature": float(rng.uniform(0.05, lam_max)),
        "gamma": float(rng.uniform(0.4, 1.4)),
        "signal": float(rng.uniform(0.0, 8.0)),
        "length": int(rng.choice(lengths)),
        "alignment": c,
    }
