"""The witness law's loss and slopes from given scores, bag by bag in one loop.

    o_l = u_l + a + c t,   S = log(1 + e^b) + sum_l log(1 + e^{o_l}),
    loss = S where the bag is negative, -log(1 - e^-S) where it is positive,
    dloss/du_l = logistic(o_l) dloss/dS,   dloss/dS = 1, or -1/(e^S - 1)

notation: estimators/fit/witness_law.py. Exact up to rounding.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import REASSOCIATING_FLAGS

__all__ = ["SMALLEST_EVIDENCE", "witness_pass"]

Array = np.ndarray

SMALLEST_EVIDENCE = 1e-300  # smallest S, whose logarithm stays finite
LARGEST_EVIDENCE = 700.0  # e^S overflows beyond this, where 1/(e^S - 1) is 0


@njit(**REASSOCIATING_FLAGS)
def witness_pass(
    u: Array,
    offsets: Array,
    labels: Array,
    weight: Array,
    at: Array,
    background: float,
    each: Array,
    per_bag: Array,
) -> float:
    """Weighted loss; `each` (N,) takes its slopes in u, `per_bag` (n, 2) those in a + c t and in S.

    at (n,): a + c t of each bag.
    """
    quiet = max(background, 0.0) + math.log1p(math.exp(-abs(background)))
    total = 0.0
    for i in range(offsets.shape[0] - 1):
        evidence = quiet
        for l in range(offsets[i], offsets[i + 1]):
            o = u[l] + at[i]
            small = math.exp(-abs(o))
            evidence += max(o, 0.0) + math.log1p(small)
            each[l] = (1.0 if o > 0 else small) / (1.0 + small)
        evidence = max(evidence, SMALLEST_EVIDENCE)
        if labels[i] == 1:
            total -= weight[i] * math.log(-math.expm1(-evidence))
            raised = -weight[i] / math.expm1(min(evidence, LARGEST_EVIDENCE))
        else:
            total += weight[i] * evidence
            raised = weight[i]
        rate = 0.0
        for l in range(offsets[i], offsets[i + 1]):
            each[l] *= raised
            rate += each[l]
        per_bag[i, 0] = rate
        per_bag[i, 1] = raised
    return total
